// The list of runs, each a link to itself.

import { el } from "./dom.js";
import * as state from "./state.js";
import { table } from "./table.js";

export function runsTable(view) {
  if (!view.rows.length) return el("p", { class: "note" }, "none yet");
  return table(view, {
    caption: "Runs",
    apart: false,
    first: (column, row) => {
      if (column.name === "started" && row.started) return el("td", { class: "text" }, row.started.slice(0, 16).replace("T", " "));
      if (column.name !== "run") return null;
      const links = [el("a", { href: state.address({ view: row.sort ?? "run", run: row.run, x: "", y: "", by: "", z: "", where: "", shape: "" }) }, row.run)];
      if (row.has_report) links.push(" ", el("a", { href: `/report/${encodeURIComponent(row.run)}`, class: "minor" }, "report"));
      return el("td", { class: "text" }, links);
    },
  });
}
