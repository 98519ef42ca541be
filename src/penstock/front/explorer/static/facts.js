// What two machines are made of, value by value, each with how far it can be trusted and its source.

import { el } from "./dom.js";
import { marksOf } from "./table.js";
import { tipOf } from "./tip.js";

function fact(found, first) {
  if (!found) return el("td", { class: "num" }, "–");
  return el("td", {
    class: `num ${found.provenance}`, tabindex: first ? "0" : "-1", "data-tip": tipOf(`${found.provenance} (${found.kind})`, found.source),
  }, found.text);
}

export function factsTable(view) {
  const names = view.rows.map((row) => row.machine);
  const rows = view.drawing.facts.map((each, i) => el("tr", {},
    el("th", { scope: "row" }, each.value), fact(each.side0, i === 0), fact(each.side1, i === 0 && !each.side0)));
  const grid = el("table", { role: "grid", class: "mixed", "aria-label": "Values of both machines" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "value"), names.map((name) => el("th", { scope: "col", class: "num" }, name)))),
    el("tbody", {}, rows));
  grid.addEventListener("keydown", (event) => {
    const at = event.target.closest("td");
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!at || !step) return;
    event.preventDefault();
    const row = at.parentElement.parentElement.children[at.parentElement.sectionRowIndex + step[0]];
    const next = row?.children[at.cellIndex + step[1]];
    if (!next?.hasAttribute("tabindex")) return;
    at.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  return el("section", { "aria-label": "What the machines are made of" }, el("h2", {}, "What the machines are made of"),
    marksOf(view.drawing.facts.flatMap((each) => [each.side0?.provenance, each.side1?.provenance])),
    el("div", { class: "scroll", role: "group", "aria-label": "Values of both machines, scrolls" }, grid));
}
