// The result of the what-if page in a few large numbers.

import { el } from "./dom.js";
import { show } from "./format.js";
import { tipOf } from "./tip.js";

const FIGURES = ["total_s", "slowdown", "compute_s", "io_s", "communication_s", "io_bytes", "hit_ratio", "energy_j"];

export function headline(view) {
  if (view.name !== "whatif") return null;
  const row = view.rows[0];
  return el("dl", { class: "figures" }, FIGURES.flatMap((name, i) => {
    const column = view.columns.find((each) => each.name === name);
    const value = row[name];
    const bounded = value === null && name in (row.at_least ?? {});
    const least = bounded ? row.at_least[name] : null;
    if ((value === null && !bounded) || (name === "communication_s" && row.hosts === 1)) return [];
    return el("div", { class: i < 2 ? "main" : null },
      el("dt", {}, column.label),
      el("dd", {}, el("span", {
        class: "figure", tabindex: "0", role: "note", "data-name": name, "data-value": value, "data-tip": tipOf(column.provenance ?? "input", column.source),
      }, bounded ? (least === null ? "unknown" : `at least ${show(least, column.unit)}`) : show(value, column.unit)), el("span", { class: `badge ${column.provenance ?? "input"}` }, column.provenance ?? "stated")));
  }));
}
