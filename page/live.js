// A round has been held: the page is fetched again and its content put in place. Without this script it reloads itself.
"use strict";
const shown = document.querySelector("main").dataset.round;
const heard = new EventSource("/page/events" + (shown ? "?after=" + encodeURIComponent(shown) : ""));
let fetching = false;
let late = false; // somebody writes into a field: what he wrote is not taken from him

async function renew() {
  if (fetching) return;
  late = document.activeElement instanceof HTMLInputElement;
  if (late) return;
  fetching = true;
  try {
    const answer = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" } });
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
document.addEventListener("focusout", () => { if (late) setTimeout(renew, 0); });
heard.addEventListener("error", () => {
  if (heard.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 60000);
});
