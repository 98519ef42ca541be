// What would help the point of the page most: a list that comes after the answer, each change with its gain.

import { el } from "./dom.js";
import { show } from "./format.js";
import * as state from "./state.js";
import { tipOf } from "./tip.js";

const MOST = 6;
const WAIT_MS = 200;
let asking = null;

const unit = (figure) => (figure.endsWith("_bytes") ? "B" : figure.endsWith("_s") ? "s" : "x");

function item(view, row, change) {
  const source = view.columns.find((each) => each.name === "gain").source;
  return el("li", {},
    el("span", { class: "gain simulated", tabindex: "0", role: "note", "data-name": "gain", "data-value": row.gain, "data-tip": tipOf(row.provenance, source) },
      show(row.gain, "x")),
    el("span", { class: "change" }, `${row.kind}: ${row.change}`, el("span", { class: "minor" }, `${show(row.before, unit(row.figure))} → ${show(row.after, unit(row.figure))}`),
      row.note ? el("span", { class: "minor" }, `(${row.note})`) : null),
    row.opens ? el("button", { type: "button", "aria-label": `Apply: ${row.change}`, onclick: () => change(row.opens) }, "Apply") : null,
    row.command ? el("details", {}, el("summary", {}, "Command"), el("code", { tabindex: "0" }, row.command)) : null);
}

// The list goes to the end of `place`, unless the page shows something else by then.
export function addAdvice(place, change) {
  window.clearTimeout(asking);
  const query = state.query({}, ["view"]);
  asking = window.setTimeout(async () => {
    const response = await fetch(`/api/advice?${query}`).catch(() => null);
    if (!response?.ok || state.viewName() !== "whatif" || state.query({}, ["view"]) !== query) return;
    const view = await response.json();
    if (view.error) return;
    const section = el("section", { id: "advice", "aria-label": view.title },
      el("h2", {}, view.title, el("span", { class: "badge simulated" }, " simulated")),
      view.rows.length
        ? el("ol", { class: "remedies" }, view.rows.slice(0, MOST).map((row) => item(view, row, change)))
        : view.notes.length ? null : el("p", { class: "note" }, "No change that was tried gains 1 %."),
      view.notes.map((note) => el("p", { class: "note" }, note)));
    place.querySelector("#advice")?.remove();
    const numbers = place.querySelector("#numbers");
    if (numbers) numbers.before(section);
    else place.append(section);
  }, WAIT_MS);
}
