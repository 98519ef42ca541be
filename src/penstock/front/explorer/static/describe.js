// What a drawing shows, in words, for whoever does not see it: its extremes, and that the table below has every number.

import { show } from "./format.js";

// The column that a drawing is about, and the columns that say which row it is.
const ABOUT = {
  whatif: ["total_s", ["tier", "mode"]], slowdown: ["slowdown", ["tier", "hit_ratio"]], roofline: ["slowdown", ["mode"]],
  residency: ["loaded_bytes", ["key"]], hosts: ["total_s", ["hosts"]], drive: ["bus_busy", ["queue_depth"]],
  machines: ["total_s", ["machine"]], predict: ["predicted_s", ["operation", "limbs"]], suggest: ["predicted_s", ["ring_dim", "depth", "dnum"]],
  precision: ["precision_bits", ["ring_dim"]], tenants: ["tenant_slowdown", ["programs"]], levels: ["served_bytes", ["levels", "level"]], measured: ["error", ["kind", "limbs"]], validation: ["mean_abs_error", ["protocol", "application", "model"]],
  runs: ["wall_s", ["run"]], run: ["value", ["quantity", "kind"]], sweep: ["total_s", ["tier", "mode", "cache_bytes", "hosts"]], designs: ["query_s", ["drive", "lanes"]], bench: ["median_s", ["item", "where"]], compare: ["ratio", ["quantity", "kind"]],
};

export function describe(view) {
  const table = `The table “Numbers” below holds all of them: ${view.rows.length} row${view.rows.length === 1 ? "" : "s"}.`;
  const [name, keys] = ABOUT[view.name] ?? [];
  const column = view.columns.find((each) => each.name === name);
  const rows = view.rows.filter((row) => typeof row[name] === "number");
  if (!column || !rows.length) return table;
  const where = (row) => keys.filter((key) => row[key] !== null && row[key] !== undefined)
    .map((key) => show(row[key], view.columns.find((each) => each.name === key)?.unit)).join(", ");
  const said = (row) => `${show(row[name], column.unit === "row" ? null : column.unit)}${where(row) && ` (${where(row)})`}`;
  const ordered = [...rows].sort((a, b) => a[name] - b[name]);
  const [low, high] = [ordered[0], ordered[ordered.length - 1]];
  const range = said(low) === said(high) ? said(low) : `from ${said(low)} to ${said(high)}`;
  return `${column.label}: ${range}. ${table}`;
}
