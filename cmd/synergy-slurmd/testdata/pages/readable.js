// What keeps a page from those who do not see it, or who have a small window; a list of sentences.
(() => {
  const wrong = [];
  const all = (s) => [...document.querySelectorAll(s)];
  if (!document.title.trim() || !document.documentElement.lang) wrong.push("no title or language");
  for (const one of ["h1", "main", "header", "footer"]) {
    if (all(one).length !== 1) wrong.push(`${one} is there ${all(one).length} times`);
  }
  let level = 0;
  for (const h of all("h1,h2,h3,h4")) {
    const n = Number(h.tagName[1]);
    if (n > level + 1) wrong.push("a gap before " + h.outerHTML.slice(0, 80));
    level = n;
  }
  for (const t of all("table")) {
    if (!t.caption || !t.caption.textContent.trim()) wrong.push("a table without caption");
    for (const th of t.querySelectorAll("th")) {
      if (!th.scope) wrong.push("a header without scope: " + th.textContent);
    }
    const columns = t.tHead.rows[0].cells.length;
    for (const row of t.tBodies[0].rows) {
      if (row.cells.length !== columns) wrong.push(`a row of ${row.cells.length} under ${columns}`);
    }
  }
  for (const i of all("input:not([type=hidden])")) if (!i.labels.length) wrong.push("a field without label");
  for (const n of all("nav")) if (!n.getAttribute("aria-label")) wrong.push("a nav without a name");
  const ids = all("[id]").map((e) => e.id);
  if (new Set(ids).size !== ids.length) wrong.push("an id is there twice");
  for (const e of all("[aria-labelledby]")) {
    if (!document.getElementById(e.getAttribute("aria-labelledby"))) wrong.push("labelled by nothing");
  }
  if (all("[style],style").length || all("script").length !== 1) wrong.push("styles or scripts of its own");
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) wrong.push(`${width} wide in a window of ${innerWidth}`);
  return wrong;
})()
