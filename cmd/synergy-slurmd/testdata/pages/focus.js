// What has the focus: its number among all that can have it, and whether it is seen.
(() => {
  const all = [...document.querySelectorAll("a[href],button,input:not([type=hidden])")];
  const e = document.activeElement;
  return { Index: all.indexOf(e), Outline: getComputedStyle(e).outlineStyle, Class: e.className };
})()
