// The drawing of each view.

import * as chart from "./chart.js";
import { svg } from "./dom.js";
import { bytes, digits, ratio, seconds, share, show } from "./format.js";
import { drawBench } from "./bench.js";
import { OWN_DRAWINGS } from "./own.js";
import { drawResidency } from "./residency.js";
import { drawSpace } from "./space.js";

const PARTS = [["compute_s", "compute", "c0"], ["io_s", "I/O", "c1"], ["decode_s", "decode", "c3"], ["communication_s", "communication", "c2"]];

function timeRows(row, prefix = "", rows = [row]) {
  const parts = PARTS.filter(([name]) => rows.some((each) => each[name] > 0) || name === "compute_s" || name === "io_s");
  return [...parts, ["total_s", "total", "c6"]].map(([name, label, mark]) => ({
    name: `${prefix}${label}`, value: row[name], mark, tip: `${prefix}${label}: ${seconds(row[name])}, ${row.provenance}`,
  }));
}

function whatif(view, place) {
  chart.bars(place, timeRows(view.rows[0]), "Compute, I/O, communication and total time as bars", { show: seconds });
}

// Classes of the map: up to 80 % of the ideal, then in steps of the logarithm.
const STEPS = [1.25, 2, 5, 10, 30, 100];
const heat = (value) => STEPS.findIndex((step) => value <= step + 1e-9);

function slowdown(view, place, { change }) {
  const { tiers, hit_ratios: ratios, own } = view.drawing;
  const line = 28;
  const top = 34;
  const box = chart.sheet(place, top + tiers.length * line + 46, "Slowdown by tier and hit ratio, as a map");
  const narrow = box.width < 560;
  const left = narrow ? 84 : 190;
  const cell = (box.width - left) / ratios.length;
  const { drawing } = box;
  drawing.append(chart.text(left, 12, "hit ratio", { class: "label" }));
  ratios.forEach((value, i) => drawing.append(
    chart.text(left + (i + 0.5) * cell, top - 6, narrow ? digits(value).replace(/^0\./, ".") : share(value), { class: "tick", "text-anchor": "middle" })));
  tiers.forEach((tier, r) => {
    const y = top + r * line;
    const name = narrow ? tier.name : `${tier.name}  ${show(tier.bytes_per_s, "B/s")}`;
    drawing.append(chart.text(left - 8, y + 18, name, { class: tier.name === own ? "name own" : "name", "text-anchor": "end" }));
    ratios.forEach((hits, i) => {
      const row = view.rows.find((each) => each.tier === tier.name && each.hit_ratio === hits);
      if (!row || row.slowdown === null) return;
      const step = heat(row.slowdown);
      const mark = `h${step < 0 ? STEPS.length : step}`;
      drawing.append(svg("rect", {
        class: `cell ${mark}`, x: left + i * cell, y, width: cell - 2, height: line - 2,
        "data-tip": `${tier.name}, ${share(hits)} hits: ${ratio(row.slowdown)} (total ${seconds(row.total_s)}), simulated`,
        onclick: () => change({ view: "whatif", tier: tier.name, drive: "", hold: "ratio", hit_ratio: hits }),
      }));
      const long = digits(row.slowdown, row.slowdown < 10 ? 2 : 3);
      drawing.append(chart.text(left + (i + 0.5) * cell - 1, y + 18, narrow ? long : `${long}×`, { class: `in-cell ${mark}`, "text-anchor": "middle" }));
    });
  });
  const names = ["up to 1.25× (80 % of the ideal)", "2×", "5×", "10×", "30×", "100×", "more"];
  chart.legend(box, names.map((name, i) => ({ name, mark: `h${i}` })), 0, top + tiers.length * line + 20);
}

// Names beside points, moved down where they would lie on each other.
function names(drawing, wanted, foot) {
  const placed = [];
  for (const each of [...wanted].sort((a, b) => a.y - b.y)) {
    const long = each.name.length * 6.6;
    const taken = (y) => placed.some((other) => Math.abs(other.y - y) < 13 && each.x < other.x + other.long && other.x < each.x + long);
    let y = each.y;
    while (taken(y) && y < foot) y += 4;
    if (y >= foot) for (y = Math.min(each.y, foot - 4); taken(y); y -= 4); // no room below: above
    placed.push({ ...each, y, long });
    drawing.append(chart.text(each.x, y, each.name, { class: "tick" }));
  }
}

// Along each roof its name, where the roof before it leaves room; the tip has the others.
function roofNames(drawing, roofs) {
  const placed = [];
  for (const { name, ends: [x1, y1, x2, y2], own } of roofs) {
    const long = Math.hypot(x2 - x1, y2 - y1);
    const words = name.length * 6.4 + 12;
    if (long < words) continue;
    // Roofs are parallel: how far each is from the others is the distance of its foot on a line across them.
    const across = (x2 * (y1 - y2) + y2 * (x2 - x1)) / long;
    if (!own && placed.some((other) => Math.abs(other - across) < 16)) continue;
    placed.push(across);
    const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
    const back = words / long;
    const [x, y] = [x2 - (x2 - x1) * back, y2 - (y2 - y1) * back];
    drawing.append(chart.text(x, y - 4, name, { class: own ? "name own" : "tick", transform: `rotate(${angle} ${x} ${y})` }));
  }
}

function roofline(view, place) {
  const { drawing: facts } = view;
  const points = facts.points.filter((point) => point.s_per_byte && point.share);
  const kinds = facts.kinds.filter((kind) => kind.share > 0);
  const all = [...points, ...kinds];
  const ridge = 1 / facts.bytes_per_s;
  const xs = [...all.map((each) => each.s_per_byte), ridge];
  const x0 = Math.min(...xs) / 4;
  const x1 = Math.max(...xs) * 4;
  const y0 = Math.min(0.05, ...all.map((each) => each.share / 2), facts.communication ? facts.communication / 2 : 1);
  const height = 380;
  const pad = { left: 56, right: 16, top: 32, bottom: 64 };
  const box = chart.sheet(place, height, "Share of the ideal speed over compute time for each byte loaded, under the roofs of compute, I/O and communication");
  const at = chart.logarithmic([x0, x1], [pad.left, box.width - pad.right]);
  const up = chart.logarithmic([y0, 1.6], [height - pad.bottom, pad.top]);
  const perGb = (value) => `${seconds(value * 1e9)}`;
  chart.axes(box, { ...pad, bottom: pad.bottom - 0 }, { ticks: chart.decades(x0, x1, box.width < 560 ? 4 : 8), at, text: perGb },
    { ticks: [1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001].filter((value) => value >= y0), at: up, text: share },
    { x: "", y: "share of the ideal speed" });
  const { drawing } = box;
  drawing.append(chart.text((pad.left + box.width - pad.right) / 2, height - pad.bottom + 32, "ideal compute time for each GB loaded", { class: "label", "text-anchor": "middle" }));
  const named = [];
  const roof = (rate, mark, name) => {
    const from = Math.max(x0, y0 / rate);
    const to = Math.min(x1, 1 / rate);
    if (to <= from) return;
    const ends = [at(from), up(rate * from), at(to), up(rate * to)];
    drawing.append(svg("line", { class: mark, x1: ends[0], y1: ends[1], x2: ends[2], y2: ends[3], "data-tip": `${name}: ${show(rate, "B/s")}` }));
    named.push({ name, ends, own: mark !== "roof other" });
  };
  roof(facts.bytes_per_s, "roof io", facts.tier);
  for (const tier of facts.tiers) if (tier.name !== facts.tier) roof(tier.bytes_per_s, "roof other", tier.name);
  roofNames(drawing, named);
  drawing.append(svg("line", { class: "roof compute", x1: at(Math.max(x0, Math.min(x1, ridge))), x2: box.width - pad.right, y1: up(1), y2: up(1) }));
  if (facts.communication) {
    const level = Math.min(1.5, facts.communication);
    drawing.append(svg("line", { class: "roof net", x1: pad.left, x2: box.width - pad.right, y1: up(level), y2: up(level) }));
  }
  for (const kind of kinds) {
    drawing.append(svg("circle", {
      class: "kind", cx: at(kind.s_per_byte), cy: up(kind.share), r: 5,
      "data-tip": `${kind.kind}: ${digits(kind.count)} operations, ${seconds(kind.compute_s)} of compute, ${bytes(kind.io_bytes)} loaded, ${share(kind.share)} of the ideal in turn, simulated`,
    }));
  }
  names(drawing, kinds.map((kind) => ({ name: kind.kind, x: at(kind.s_per_byte) + 9, y: up(kind.share) + 12 })), height - pad.bottom);
  points.forEach((point) => {
    const own = point.mode === facts.own;
    drawing.append(svg("rect", {
      class: own ? "point own" : "point", x: at(point.s_per_byte) - 5, y: up(point.share) - 5, width: 10, height: 10,
      "data-tip": `the program, ${point.mode}: ${share(point.share)} of the ideal speed, simulated`,
    }));
  });
  const items = [{ name: "compute", mark: "c0" }, { name: `I/O, ${facts.tier}`, mark: "c1" }];
  if (facts.communication) items.push({ name: "communication", mark: "c2" });
  items.push({ name: "the program, by time mode", mark: "c6" });
  if (kinds.length) items.push({ name: "kinds of operations", mark: "c3" });
  chart.legend(box, items, pad.left, height - 8);
}

function hosts(view, place) {
  const height = 340;
  const pad = { left: 64, right: 8, top: 32, bottom: 66 };
  const box = chart.sheet(place, height, "Time by part on each number of hosts, as stacked bars");
  const { drawing } = box;
  const sum = (row) => PARTS.reduce((total, [name]) => total + row[name], 0);
  const top = Math.max(...view.rows.map((row) => Math.max(sum(row), row.total_s ?? 0)));
  const up = chart.linear([0, top], [height - pad.bottom, pad.top]);
  const step = (box.width - pad.left - pad.right) / view.rows.length;
  chart.axes(box, pad, { ticks: [], at: () => 0 }, { ticks: chart.ticks(0, top, 5), at: up, text: seconds }, { x: "", y: "time of the host that ends last" });
  view.rows.forEach((row, i) => {
    const x = pad.left + i * step + step * 0.18;
    const wide = step * 0.64;
    let base = 0;
    for (const [name, label, mark] of PARTS) {
      if (!(row[name] > 0)) continue;
      drawing.append(svg("rect", {
        class: mark, x, width: wide, y: up(base + row[name]), height: Math.max(0.5, up(base) - up(base + row[name])),
        "data-tip": `${row.hosts} host${row.hosts > 1 ? "s" : ""}, ${label}: ${seconds(row[name])}, simulated`,
      }));
      base += row[name];
    }
    if (row.total_s === null) drawing.append(chart.text(x + wide / 2, up(base) - 6, "unknown", { class: "tick", "text-anchor": "middle" }));
    else drawing.append(svg("line", { class: "total", x1: x - 4, x2: x + wide + 4, y1: up(row.total_s), y2: up(row.total_s) }));
    drawing.append(chart.text(x + wide / 2, height - pad.bottom + 16, String(row.hosts), { class: row.hosts === view.drawing.own ? "name own" : "name", "text-anchor": "middle" }));
    drawing.append(chart.text(x + wide / 2, height - pad.bottom + 31, row.speedup === null ? "–" : step < 60 ? `${digits(row.speedup, 2)}×` : ratio(row.speedup), { class: "tick", "text-anchor": "middle" }));
  });
  drawing.append(chart.text(4, height - pad.bottom + 16, "hosts", { class: "label" }));
  drawing.append(chart.text(4, height - pad.bottom + 31, "speed-up", { class: "label" }));
  chart.legend(box, [...PARTS.filter(([name]) => view.rows.some((row) => row[name] > 0)).map(([, name, mark]) => ({ name, mark })), { name: "line: total", mark: "c6" }], pad.left, height - 8);
}

function drive(view, place) {
  const parts = Object.entries(view.drawing.parts);
  const height = 330;
  const pad = { left: 52, right: 16, top: 32, bottom: 78 };
  const box = chart.sheet(place, height, "Share of the time that each part of the drive, and each channel, is busy, by queue depth");
  const depths = view.rows.map((row) => row.queue_depth);
  const at = chart.logarithmic([depths[0], Math.max(depths[depths.length - 1], 2)], [pad.left + 10, box.width - pad.right - 10]);
  const up = chart.linear([0, 1], [height - pad.bottom, pad.top]);
  chart.axes(box, pad, { ticks: depths, at }, { ticks: [0, 0.25, 0.5, 0.75, 1], at: up, text: share }, { x: "", y: "busy" });
  box.drawing.append(chart.text((pad.left + box.width) / 2, height - pad.bottom + 34, "queue depth", { class: "label", "text-anchor": "middle" }));
  parts.forEach(([name, label], i) => {
    const path = view.rows.map((row, k) => `${k ? "L" : "M"}${at(row.queue_depth)},${up(row[name])}`).join("");
    box.drawing.append(svg("path", { class: `line l${i}`, d: path }));
    for (const row of view.rows) {
      box.drawing.append(svg("circle", {
        class: `c${i}`, cx: at(row.queue_depth), cy: up(row[name]), r: row.queue_depth === view.drawing.own ? 6 : 4,
        "data-tip": `${label} at queue depth ${row.queue_depth}: busy ${share(row[name])}; ${show(row.bytes_per_s, "B/s")}, simulated`,
      }));
    }
  });
  chart.legend(box, parts.map(([, name], i) => ({ name, mark: `c${i}` })), pad.left, height - 22);
  channels(view, box, Number(box.drawing.getAttribute("height")) + 36);
}

// A map below: channel by channel and queue depth by queue depth.
function channels(view, { drawing, width }, top) {
  const names = Object.entries(view.drawing.channels);
  const line = 20;
  const narrow = width < 560;
  const left = narrow ? 74 : 110;
  const cell = (width - left) / view.rows.length;
  drawing.append(narrow ? chart.text(4, top - 20, "busy share of each channel's bus, in %", { class: "label" })
    : chart.text(left, top - 20, "busy share of each channel's bus, by queue depth", { class: "label" }));
  view.rows.forEach((row, k) => drawing.append(
    chart.text(left + (k + 0.5) * cell, top - 4, digits(row.queue_depth), { class: row.queue_depth === view.drawing.own ? "name own" : "tick", "text-anchor": "middle" })));
  names.forEach(([name, label], i) => {
    const y = top + i * line;
    drawing.append(chart.text(left - 8, y + 14, label, { class: "tick", "text-anchor": "end" }));
    view.rows.forEach((row, k) => {
      const mark = `h${Math.min(6, Math.floor(row[name] * 7))}`;
      drawing.append(svg("rect", {
        class: mark, x: left + k * cell, y, width: cell - 2, height: line - 2,
        "data-tip": `${label} at queue depth ${row.queue_depth}: busy ${share(row[name])}, simulated`,
      }));
      drawing.append(chart.text(left + (k + 0.5) * cell - 1, y + 13, narrow ? digits(100 * row[name], 2) : share(row[name]), { class: `in-cell ${mark}`, "text-anchor": "middle" }));
    });
  });
  const height = top + names.length * line + 4;
  drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawing.setAttribute("height", height);
}

function machines(view, place) {
  const rows = view.rows.flatMap((row) => timeRows(row, `${row.machine}, `, view.rows));
  chart.bars(place, rows, "Times of both machines as bars", { show: seconds });
}

function measured(view, place) {
  const points = view.rows.filter((row) => row.measured_s > 0 && row.predicted_s > 0);
  if (!points.length) return;
  const values = points.flatMap((row) => [row.measured_s, row.predicted_s]);
  const low = Math.min(...values) / 1.6;
  const high = Math.max(...values) * 1.6;
  const height = 400;
  const pad = { left: 64, right: 16, top: 32, bottom: 44 };
  const box = chart.sheet(place, height, "Modelled over measured seconds, one point a timing; the line is equality");
  const at = chart.logarithmic([low, high], [pad.left, box.width - pad.right]);
  const up = chart.logarithmic([low, high], [height - pad.bottom, pad.top]);
  const marks = chart.decades(low, high);
  chart.axes(box, pad, { ticks: marks, at, text: seconds }, { ticks: marks, at: up, text: seconds }, { x: "measured", y: "model" });
  box.drawing.append(svg("line", { class: "total dashed", x1: at(low), y1: up(low), x2: at(high), y2: up(high) }));
  for (const row of points) {
    box.drawing.append(svg("circle", {
      class: row.held_out === "yes" ? "c0" : "c3", cx: at(row.measured_s), cy: up(row.predicted_s), r: 5,
      "data-tip": `${row.kind}${row.limbs ? `, ${row.limbs} limbs` : ""}: measured ${seconds(row.measured_s)}, ${row.provenance} ${seconds(row.predicted_s)} (${share(row.error)})`,
    }));
  }
  const kinds = [["no", "the model was fitted to it", "c3"], ["yes", "the model was fitted without it", "c0"]];
  chart.legend(box, kinds.filter(([held]) => points.some((row) => row.held_out === held)).map(([, name, mark]) => ({ name, mark })), pad.left, height + 12);
}

function runs(view, place) {
  const rows = view.rows.filter((row) => row.wall_s > 0).slice(0, 20);
  if (!rows.length) return;
  chart.bars(place, rows.map((row) => ({ name: row.run, value: row.wall_s, mark: "c0", tip: `${row.run}: ${seconds(row.wall_s)}, measured` })),
    "Measured time of each run", { show: seconds });
  chart.leftOut(place, rows.length, view.rows.length, "Bars: measured time of the encrypted program; runs of other sorts have none.");
}

function run(view, place) {
  const sums = new Map();
  for (const row of view.rows) {
    if (row.quantity === "op_seconds" && row.value !== null) sums.set(row.kind, (sums.get(row.kind) ?? 0) + row.value);
  }
  const sorted = [...sums].sort((a, b) => b[1] - a[1]);
  const rows = sorted.slice(0, 16);
  if (!rows.length) { other(view, place); return; }
  chart.bars(place, rows.map(([name, value]) => ({ name: String(name), value, mark: "c0", tip: `${name}: ${seconds(value)}, measured` })),
    "Measured time by kind of operation", { show: seconds });
  chart.leftOut(place, rows.length, sorted.length, "Bars: measured time, summed by kind of operation.");
}

// A run without kinds of operations: its longest times, one bar each.
function other(view, place) {
  const rows = view.rows.filter((row) => row.unit === "s" && row.value > 0).sort((a, b) => b.value - a.value);
  if (!rows.length) return;
  const drawn = rows.slice(0, 16);
  const marks = { measured: "c0", predicted: "c3", simulated: "c4", published: "c6" };
  const box = chart.bars(place, drawn.map((row) => ({
    name: [row.kind ?? row.quantity, row.tier, row.mode].filter(Boolean).join(", "), value: row.value, mark: marks[row.provenance] ?? "c6",
    tip: `${row.quantity}: ${seconds(row.value)}, ${row.provenance}`,
  })), "The longest times of the run", { show: seconds });
  chart.legend(box, Object.keys(marks).filter((name) => drawn.some((row) => row.provenance === name)).map((name) => ({ name, mark: marks[name] })), 0, box.height + 16);
  chart.leftOut(place, drawn.length, rows.length);
}

function compare(view, place) {
  const known = view.rows.filter((row) => row.ratio > 0);
  const compared = known.filter((row) => row.quantity !== "op_count");
  const rows = compared.slice(0, 30);
  if (!rows.length) return;
  const names = rows.map((row) => [row.quantity, row.kind, row.limbs, row.machine, row.tier].filter((part) => part !== null).join(" "));
  const line = 22;
  const box = chart.sheet(place, rows.length * line + 46, "Second run over first, by quantity");
  const left = Math.min(Math.max(...names.map((name) => name.length)) * 6.6 + 12, box.width * 0.5);
  const reach = Math.max(2, ...rows.map((row) => Math.max(row.ratio, 1 / row.ratio))) * 1.1;
  const at = chart.logarithmic([1 / reach, reach], [left, box.width - 16]);
  const foot = rows.length * line + 8;
  box.drawing.append(svg("line", { class: "total dashed", x1: at(1), x2: at(1), y1: 4, y2: foot }));
  for (const value of [1 / 2, 1, 2, 1 / 5, 5, 0.1, 10].filter((each) => each >= 1 / reach && each <= reach)) {
    box.drawing.append(chart.text(at(value), foot + 16, ratio(value), { class: "tick", "text-anchor": "middle" }));
  }
  box.drawing.append(chart.text(left, foot + 34, "second run over first", { class: "label" }));
  rows.forEach((row, i) => {
    const fits = Math.floor((left - 10) / 6.6);
    const name = names[i].length > fits ? `${names[i].slice(0, fits - 1)}…` : names[i];
    box.drawing.append(chart.text(left - 8, i * line + 20, name, { class: "tick", "text-anchor": "end" }));
    box.drawing.append(svg("circle", { class: "kind", cx: at(row.ratio), cy: i * line + 16, r: 5, "data-tip": `${names[i]}: ${ratio(row.ratio)}, ${row.provenance}` }));
  });
  const zero = view.rows.length - known.length;
  chart.leftOut(place, rows.length, compared.length, [
    known.length > compared.length ? `${known.length - compared.length} counts of operations are not drawn.` : "",
    zero ? `${zero} ${zero > 1 ? "quantities have" : "quantity has"} no ratio, because a value is 0.` : "",
  ].filter(Boolean).join(" "));
}

function validation(view, place) {
  const rows = view.rows.filter((row) => row.application === "all" || row.application === undefined);
  const models = [...new Set(rows.map((row) => row.model))];
  const marked = (model) => `c${[0, 1, 3, 2, 4][models.indexOf(model) % 5]}`;
  const box = chart.bars(place, rows.slice(0, 40).map((row) => ({
    name: `${row.protocol}, ${row.model}`, value: row.mean_abs_error, mark: marked(row.model),
    tip: `${row.protocol}, ${row.model}: mean |error| ${share(row.mean_abs_error)} of ${digits(row.n)}, predicted`,
  })), "Mean absolute error of each protocol and model", { show: share });
  chart.legend(box, models.map((model) => ({ name: model, mark: marked(model) })), 0, box.height + 16);
  chart.leftOut(place, Math.min(40, rows.length), rows.length, "Bars: mean absolute error over all applications.");
}

function sweep(view, place, { change, say }) {
  drawSpace(place, JSON.parse(view.drawing.space), view.drawing.asked, { change, copied: () => say("Command copied") });
}

export const DRAWINGS = { ...OWN_DRAWINGS, validation, whatif, slowdown, roofline, residency: drawResidency, hosts, drive, machines, measured, runs, run, compare, bench: drawBench, sweep, designs: sweep };
