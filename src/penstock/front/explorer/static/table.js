// Tables whose numbers each say what they are. One tab stop a table; the arrow keys go from number to number.

import { el } from "./dom.js";
import { show } from "./format.js";
import { tipOf } from "./tip.js";

const MOST_ROWS = 100;
const UNIT_OF = { B: "B", s: "s", J: "J", "B/s": "B/s", 1: "1" };

export function provenanceOf(column, row) {
  return column.provenance === "row" ? row.provenance : column.provenance;
}

function cell(column, row) {
  const value = row[column.name];
  const unit = column.unit === "row" ? UNIT_OF[row.unit] ?? "1" : column.unit;
  const text = show(value, unit);
  const empty = value === null || value === undefined;
  if (empty && !column.provenance) return el("td", {});
  if (typeof value !== "number" && column.unit) return el("td", { class: "num" }, text);
  if (typeof value !== "number") return el("td", { class: value && String(value).length > 60 ? "prose" : "text" }, text);
  const provenance = provenanceOf(column, row);
  const tip = provenance ? tipOf(provenance, column.source) : `input: ${column.label}`;
  return el("td", {
    class: `num ${provenance ?? "input"}`, tabindex: "-1", "data-tip": tip, "data-name": column.name, "data-value": value,
  }, text);
}

// Parts of a time that no row has are left out of the page; the downloads have every column.
const OPTIONAL = new Set(["decode_s", "communication_s"]);
const said = (value, column) => value !== null && value !== undefined && !(value === 0 && OPTIONAL.has(column.name));
// Results that answer the question stand before the others, so that a narrow window shows them.
const ANSWERS = ["total_s", "slowdown"];
const MARKS = { measured: "●", predicted: "◆", simulated: "▲", published: "■" };

const isInput = (column) => !column.provenance;

// Inputs that are the same in every row are said once above the table.
function parted(columns, rows) {
  const results = columns.some((column) => !isInput(column));
  const same = columns.filter((column, i) => (i > 0 || results) && isInput(column)
    && rows.every((row) => row[column.name] === rows[0][column.name]));
  const left = columns.filter((column) => !same.includes(column));
  const answers = ANSWERS.map((name) => left.find((column) => column.name === name && !isInput(column))).filter(Boolean);
  const inputs = left.filter(isInput);
  const others = left.filter((column) => !isInput(column) && !answers.includes(column));
  return { same, columns: answers.length ? [...inputs, ...answers, ...others] : left };
}

const mark = (provenance) => (MARKS[provenance] ? el("span", { class: `mark ${provenance}`, "aria-hidden": "true" }, MARKS[provenance]) : null);

// What the marks at the heads mean, of those that this table has.
function marks(columns, rows) {
  return marksOf(columns.flatMap((column) => rows.map((row) => provenanceOf(column, row))));
}

export function marksOf(provenances) {
  const known = new Set(provenances.filter((each) => MARKS[each]));
  return known.size ? el("ul", { class: "marks" }, Object.keys(MARKS).filter((each) => known.has(each)).map((each) => el("li", {}, mark(each), each))) : null;
}

export function table(view, { caption, first, open, rows = view.rows, apart = true } = {}) {
  const present = view.columns.filter((column) => rows.some((row) => said(row[column.name], column)));
  const drawn = rows.slice(0, MOST_ROWS);
  const { same, columns } = apart ? parted(present, rows) : { same: [], columns: present };
  const body = drawn.map((row) => el("tr", {}, columns.map((column) => (first?.(column, row)) ?? cell(column, row))));
  const head = columns.map((column) => el("th", { scope: "col", class: column.unit ? "num" : "text" },
    column.provenance && column.provenance !== "row" ? mark(column.provenance) : null, column.label));
  const mixed = columns.some((column) => column.provenance === "row");
  const drawnTable = el("table", {
    role: "grid", class: mixed ? "mixed" : null, "aria-label": caption, "aria-describedby": open ? "how" : null,
  }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  const start = drawnTable.querySelector("td.num") ?? drawnTable.querySelector("td");
  start?.setAttribute("tabindex", "0");
  drawnTable.addEventListener("keydown", (event) => {
    const at = event.target.closest("tbody tr");
    if (event.key === "Enter" && open && at) open(drawn[at.sectionRowIndex]);
    else move(event);
  });
  drawnTable.addEventListener("focusin", (event) => rove(drawnTable, event.target));
  const more = rows.length > MOST_ROWS
    ? el("p", { class: "note" }, `The first ${MOST_ROWS} of ${rows.length} rows; the downloads have all of them.`) : null;
  const everywhere = same.length && rows.length ? el("p", { class: "same" }, rows.length > 1 ? "In every row: " : "Settings: ",
    same.flatMap((column, i) => [i ? ", " : null, `${column.label} `, el("b", {}, show(rows[0][column.name], column.unit))])) : null;
  return el("div", {}, everywhere, marks(columns, drawn), el("div", { class: "scroll", role: "group", "aria-label": `${caption}, scrolls` }, drawnTable), more);
}

function rove(grid, target) {
  const cellOf = target.closest("td");
  if (!cellOf?.hasAttribute("tabindex")) return;
  for (const other of grid.querySelectorAll('td[tabindex="0"]')) other.setAttribute("tabindex", "-1");
  cellOf.setAttribute("tabindex", "0");
}

function move(event) {
  const at = event.target.closest("td");
  if (!at) return;
  const row = at.parentElement;
  const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  if (!step) return;
  event.preventDefault();
  let next = null;
  if (step[0]) {
    const other = step[0] > 0 ? row.nextElementSibling : row.previousElementSibling;
    next = other?.children[at.cellIndex];
    if (!next?.hasAttribute("tabindex")) next = other?.querySelector("td[tabindex]");
  } else {
    next = at;
    do next = step[1] > 0 ? next.nextElementSibling : next.previousElementSibling;
    while (next && !next.hasAttribute("tabindex"));
  }
  next?.focus();
}
