// The kinds of text that have less than 4.5 : 1 of contrast to what is behind them, large ones less than 3 : 1
// (WCAG 2.2, 1.4.3).
(() => {
  const parse = (c) => {
    const m = c.match(/[\d.]+/g).map(Number);
    return m.length < 4 ? [...m, 1] : m;
  };
  const linear = (v) => (v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
  const behind = (e) => {
    const c = parse(getComputedStyle(e).backgroundColor);
    return c[3] > .99 || !e.parentElement ? c : behind(e.parentElement);
  };
  const seen = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim();
    const e = walk.currentNode.parentElement, s = getComputedStyle(e);
    const unseen = ["SCRIPT", "NOSCRIPT"].includes(e.tagName.toUpperCase());
    const ink = parse(s.color);
    if (!text || unseen || ink[3] === 0) continue;
    const [low, high] = [light(ink), light(behind(e))].sort((a, b) => a - b);
    const ratio = (high + .05) / (low + .05), size = parseFloat(s.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(s.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) seen.set(`${e.tagName}.${e.getAttribute("class")} ${ratio.toFixed(2)}`, text);
  }
  return [...seen].slice(0, 10).map(([kind, text]) => `${kind}: ${text.slice(0, 30)}`);
})()
