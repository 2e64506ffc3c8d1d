// A round has been held: the page is fetched again and its content put in place. Without this script it reloads itself.
"use strict";
const heard = new EventSource("/page/events");
let fetching = false;

async function renew() {
  if (fetching) return;
  fetching = true;
  try {
    const answer = await fetch(location.pathname);
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    for (const part of ["header", "main"]) {
      document.querySelector(part).replaceWith(document.adoptNode(next.querySelector(part)));
    }
    if (focused) {
      const again = document.querySelector(`a[href="${CSS.escape(focused)}"]`);
      if (again) again.focus({ preventScroll: true });
    }
  } catch {
    // the next round tries again
  } finally {
    fetching = false;
  }
}

heard.addEventListener("round", renew);
heard.addEventListener("error", () => {
  if (heard.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 60000);
});
