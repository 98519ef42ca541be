// The views of a program before it runs: predictions, parameter sets, tenants, levels of memory.

import * as chart from "./chart.js";
import { bytes, digits, ratio, seconds, share } from "./format.js";

export const OWN_VIEWS = ["predict", "suggest", "precision", "tenants", "levels"];
// Views whose numbers depend on the program and the machine alone.
export const PREDICTED = ["predict", "suggest", "precision"];

function predict(view, place) {
  chart.bars(place, view.rows.map((row) => ({
    name: `${row.operation}${row.limbs ? `, ${row.limbs} limbs` : ""}`, value: row.predicted_s, mark: "c0",
    tip: `${row.operation}: ${digits(row.count)} times, ${seconds(row.predicted_s)} in all, ${share(row.share)}, predicted`,
  })), "Predicted time by operation and limbs", { show: seconds });
}

function suggest(view, place) {
  const rows = view.rows.filter((row) => row.predicted_s > 0);
  chart.bars(place, rows.map((row) => ({
    name: `2^${Math.log2(row.ring_dim)}, depth ${row.depth}, ${row.dnum} digits`, value: row.predicted_s, mark: "c0",
    tip: `${seconds(row.predicted_s)} (${seconds(row.low_s)} to ${seconds(row.high_s)}), ${bytes(row.key_bytes)} of keys, ${row.security_bits} bits, predicted`,
  })), "Predicted time of each parameter set", { show: seconds });
}

function precision(view, place) {
  const row = view.rows[0];
  chart.bars(place, [["least", "low_bits"], ["median", "precision_bits"], ["most", "high_bits"]].filter(([, name]) => row[name] !== null).map(([name, key]) => ({
    name, value: row[key], mark: "c0", tip: `${name}: ${digits(row[key])} bits of ${row.draws} draws, predicted`,
  })), "Bits behind the binary point", { show: (value) => digits(value) });
}

function tenants(view, place) {
  const rows = view.rows.filter((row) => row.tenant_slowdown > 0);
  chart.bars(place, rows.map((row) => ({
    name: row.programs === 1 ? "alone" : `${row.programs} tenants`, value: row.tenant_slowdown, mark: "c0",
    tip: `${row.programs}: worst slowdown ${ratio(row.tenant_slowdown)}, total ${seconds(row.total_s)}, ${bytes(row.io_bytes)} loaded, simulated`,
  })), "Slowdown of the tenant that is worst off", { show: ratio });
}

function levels(view, place) {
  const named = [...new Set(view.rows.map((row) => row.level))];  // a level has one colour
  chart.bars(place, view.rows.map((row) => ({
    name: `${row.level} of ${row.levels}`, value: row.served_bytes, mark: `c${named.indexOf(row.level) % 5}`,
    tip: `${row.level}: serves ${bytes(row.served_bytes)}, busy ${seconds(row.busy_s)}; total ${seconds(row.total_s)}, simulated`,
  })), "Bytes that each level serves", { show: bytes });
}

export const OWN_DRAWINGS = { predict, suggest, precision, tenants, levels };
