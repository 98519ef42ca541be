// Many points in one drawing: axes to choose, the front that nothing beats, a map, filters, and the command of a point.
// The explorer and the pages of sweeps and design spaces share it.

import { digits, show } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const NUM_COLOURS = 7;
const NEAR = 14; // pixels between a click and the point that it means
const LINE = 13.5; // of text
const STEPS = 7; // of the map's colours

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const words = (x, y, text, attributes = {}) => draw("text", { x, y, ...attributes }, text);

// What is asked, with the rest filled in.
export function complete(space, asked) {
  const axes = space.axes.map((axis) => axis.name);
  const measures = space.measures.map((measure) => measure.name);
  const known = (name, list, other) => (list.includes(name) ? name : other);
  const shape = asked.shape === "map" && axes.length > 1 ? "map" : "points";
  const both = [...measures, ...axes];
  const found = {
    shape,
    x: shape === "map" ? known(asked.x, axes, axes[0]) : known(asked.x, both, measures[1] ?? measures[0]),
    by: known(asked.by, axes, ""),
    z: known(asked.z, measures, measures[0]),
    pick: ["best", "median", "worst"].includes(asked.pick) ? asked.pick : "best",
    where: filters(space, asked.where ?? ""),
  };
  found.y = shape === "map" ? known(asked.y, axes, axes.find((name) => name !== found.x)) : known(asked.y, measures, measures[0]);
  if (shape === "points" && !found.by && asked.by !== "none") found.by = axes.find((name) => !space.apart.includes(name)) ?? axes[0] ?? "";
  return found;
}

// `axis=value; axis=value` as axis -> index of the value.
function filters(space, text) {
  const found = new Map();
  for (const part of text.split(";")) {
    const [name, ...rest] = part.split("=");
    const axis = space.axes.find((each) => each.name === name.trim());
    const value = axis ? axis.texts.indexOf(rest.join("=").trim()) : -1;
    if (value >= 0) found.set(axis.name, value);
  }
  return found;
}

const axisOf = (space, name) => space.axes.find((axis) => axis.name === name);
const measureOf = (space, name) => space.measures.find((measure) => measure.name === name);
export const whereText = (space, where) => [...where].map(([name, value]) => `${name}=${axisOf(space, name).texts[value]}`).join("; ");

export function chosen(space, where) {
  const tests = [...where].map(([name, value]) => [axisOf(space, name).codes, value]);
  const found = [];
  for (let i = 0; i < space.count; i += 1) if (tests.every(([codes, value]) => codes[i] === value)) found.push(i);
  return found;
}

// The points that no other one beats in both measures; apart for each program.
export function front(space, points, x, y) {
  const [a, b] = [measureOf(space, x), measureOf(space, y)];
  const keys = space.apart.map((name) => axisOf(space, name).codes);
  const groups = new Map();
  for (const i of points) {
    if (a.values[i] === null || b.values[i] === null) continue;
    const key = keys.map((codes) => codes[i]).join();
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push([a.more ? -a.values[i] : a.values[i], b.more ? -b.values[i] : b.values[i], i]);
  }
  return [...groups.values()].map((group) => {
    let best = Infinity;
    const found = [];
    for (const [, value, i] of group.sort((p, q) => p[0] - q[0] || p[1] - q[1] || p[2] - q[2])) {
      if (value < best) { best = value; found.push(i); }
    }
    return found;
  });
}

export function commandOf(space, point) {
  if (space.command === null) return "";
  const parts = new Map(space.axes.map((axis) => [axis.name, axis.words[axis.codes[point]]]));
  const target = space.targets.map((name) => parts.get(name)).find(Boolean) ?? "";
  const rest = [...parts].filter(([name, word]) => word && !space.targets.includes(name)).map(([, word]) => word);
  return [space.command.replace("{target}", target), ...rest].join(" ");
}

export function said(space, point) {
  const axes = space.axes.map((axis) => [axis.label, axis.texts[axis.codes[point]]]);
  const measures = space.measures.map((measure) => [measure.label, show(measure.values[point], measure.unit)]);
  return { axes, measures };
}

const tip = (space, point, names) => {
  const { axes } = said(space, point);
  const costs = names.map((name) => measureOf(space, name)).filter(Boolean).map((each) => `${each.label} ${show(each.values[point], each.unit)}`);
  return `${[...costs, ...axes.map(([label, text]) => `${label.toLowerCase()} ${text}`)].join(", ")}; ${space.provenance}`;
};

// Everything: controls, drawing, the chosen point. `change` gets what was chosen, as an address has it.
export function drawSpace(place, space, asked, { change, copied = () => {}, picked = null }) {
  const now = complete(space, asked);
  const set = (changes) => {
    const where = new Map(now.where);
    if (changes.filter) {
      if (changes.filter[1] === "") where.delete(changes.filter[0]);
      else where.set(changes.filter[0], Number(changes.filter[1]));
    }
    const { filter, ...others } = changes;
    const { x, y, by, z, shape, pick } = { ...now, ...others };
    change({ x, y, by: by || "none", z, shape, pick, where: whereText(space, where) });
  };
  const points = chosen(space, now.where);
  const sheet = html("div", { class: "space-sheet" });
  const panel = html("div", { class: "space-chosen", role: "status" });
  place.append(controls(space, now, set), sheet, panel);
  const pick = (point) => showPoint(panel, space, point, copied);
  if (!points.length) sheet.append(html("p", { class: "note" }, "No point meets all filters."));
  else if (now.shape === "map") map(sheet, space, now, points, pick);
  else cloud(sheet, space, now, points, pick);
  if (picked !== null && picked < space.count) pick(picked);
  else panel.append(html("p", { class: "note" }, `${digits(points.length)} of ${digits(space.count)} points. A click on a point shows it, and the command that prints it.`));
  if (space.left_out) panel.append(html("p", { class: "note" }, `${digits(space.left_out)} more points are not drawn; the file of the results has them.`));
}

function select(id, label, options, value, act) {
  const control = html("select", { id: `space-${id}`, "data-keep": `space-${id}`, onchange: (event) => act(event.target.value) },
    options.map(([key, text]) => html("option", { value: key }, text)));
  control.value = value;
  return html("div", { class: "field" }, html("label", { for: `space-${id}` }, label), control);
}

function controls(space, now, set) {
  const measures = space.measures.map((each) => [each.name, each.label]);
  const axes = space.axes.map((each) => [each.name, each.label]);
  const fields = [select("shape", "Drawing", axes.length > 1 ? [["points", "points and front"], ["map", "heat map"]] : [["points", "points and front"]],
    now.shape, (shape) => set({ shape, x: "", y: "" }))];
  if (now.shape === "map") {
    fields.push(
      select("x", "Across", axes, now.x, (x) => set({ x, y: x === now.y ? now.x : now.y })),
      select("y", "Down", axes, now.y, (y) => set({ y, x: y === now.x ? now.y : now.x })),
      select("z", "Cells", measures, now.z, (z) => set({ z })),
      select("pick", "Of each cell's points", [["best", "the best"], ["median", "the median"], ["worst", "the worst"]], now.pick, (pick) => set({ pick })));
  } else {
    fields.push(
      select("x", "Across", [...measures, ...axes], now.x, (x) => set({ x })),
      select("y", "Up", measures, now.y, (y) => set({ y })),
      select("by", "Colour", [["none", "none"], ...axes], now.by || "none", (by) => set({ by })));
  }
  const narrowed = space.axes.map((axis) => select(`where-${axis.name}`, axis.label, [["", "all"], ...axis.texts.map((text, i) => [String(i), text])],
    now.where.has(axis.name) ? String(now.where.get(axis.name)) : "", (value) => set({ filter: [axis.name, value] })));
  return html("div", { class: "space-controls" },
    html("div", { role: "group", "aria-label": "What is drawn", class: "space-fields" }, fields),
    narrowed.length ? html("details", { class: "space-filters", open: now.where.size > 0 || window.innerWidth >= 900 },
      html("summary", {}, now.where.size ? `Filters (${now.where.size})` : "Filters"),
      html("div", { class: "space-fields" }, narrowed)) : null);
}

function showPoint(panel, space, point, copied) {
  const { axes, measures } = said(space, point);
  const command = commandOf(space, point);
  const pair = ([label, text]) => [html("dt", {}, label), html("dd", {}, text)];
  panel.replaceChildren(
    html("h2", {}, "Point"), html("dl", {}, measures.map(pair), axes.map(pair)),
    command ? html("div", { class: "command" }, html("code", { tabindex: "0", "aria-label": "The command of this point", id: "space-command" }, command),
      html("button", { type: "button", id: "space-copy", onclick: async () => { await navigator.clipboard.writeText(command); copied(command); } }, "Copy"))
      : html("p", { class: "note" }, "No command prints this point alone: it rests on files or levels of memory that a row does not hold."));
}

// The drawing of points.

function scaleOf(values, [start, end]) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const log = low > 0 && high > 12 * low;
  const to = (value) => (log ? Math.log10(value) : value);
  const margin = (to(high) - to(low)) * 0.04 || Math.abs(to(high)) * 0.1 || 1;
  const [from, until] = [log || low !== 0 ? to(low) - margin : 0, to(high) + margin];
  const at = (value) => start + ((to(value) - from) / (until - from)) * (end - start);
  return { at, ticks: log ? logTicks(10 ** from, 10 ** until) : evenTicks(from, until) };
}

function logTicks(from, to) {
  const found = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.ceil(Math.log10(to)); power += 1) {
    for (const step of to / from > 2000 ? [1] : [1, 2, 5]) found.push(step * 10 ** power);
  }
  const inside = found.filter((value) => value >= from && value <= to);
  return inside.length > 9 ? inside.filter((_, i) => i % Math.ceil(inside.length / 9) === 0) : inside;
}

function evenTicks(from, to) {
  const rough = (to - from) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) found.push(Number(value.toPrecision(10)));
  return found;
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);
const colour = (axis, value) => `var(--c${axis?.colours ? axis.colours[value] : value % NUM_COLOURS})`;

function newSheet(place, height, label) {
  const width = Math.max(280, Math.floor(place.clientWidth || 600));
  const drawing = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, class: "space-drawing" });
  place.append(drawing);
  return { drawing, width };
}

function cloud(place, space, now, points, pick) {
  const xAxis = axisOf(space, now.x);
  const xs = measureOf(space, now.x);
  const ys = measureOf(space, now.y);
  const by = axisOf(space, now.by);
  const known = points.filter((i) => ys.values[i] !== null && (xAxis || xs.values[i] !== null));
  const height = 440;
  const { drawing, width } = newSheet(place, height, `${ys.label} over ${(xAxis ?? xs).label.toLowerCase()}: ${known.length} points`);
  if (!known.length) { drawing.append(words(8, 30, "no point has both values", { class: "label" })); return; }
  const pad = { left: 74, right: 14, top: 28, bottom: 46 };
  const foot = height - pad.bottom;
  const up = scaleOf(known.map((i) => ys.values[i]), [foot, pad.top]);
  for (const value of up.ticks) {
    drawing.append(draw("line", { class: "grid", x1: pad.left, x2: width - pad.right, y1: up.at(value), y2: up.at(value) }));
    drawing.append(words(pad.left - 6, up.at(value) + 4, show(value, ys.unit), { class: "tick", "text-anchor": "end" }));
  }
  const across = xAxis ? bands(drawing, xAxis, known, width, pad, foot) : numbers(drawing, xs, known, width, pad, foot);
  drawing.append(words(pad.left, pad.top - 12, `${ys.label}${ys.more ? " (more is better)" : ""}`, { class: "label" }));
  drawing.append(words((pad.left + width) / 2, height - 6, `${(xAxis ?? xs).label}${xs?.more ? " (more is better)" : ""}`, { class: "label", "text-anchor": "middle" }));
  drawing.append(draw("line", { class: "axis", x1: pad.left, x2: width - pad.right, y1: foot, y2: foot }));
  const where = new Map(known.map((i) => [i, [across(i), up.at(ys.values[i])]]));
  const marks = new Map();
  for (const i of known) {
    const value = by ? by.codes[i] : 0;
    const [x, y] = where.get(i);
    marks.set(value, `${marks.get(value) ?? ""}M${x.toFixed(1)} ${y.toFixed(1)}h0`);
  }
  const size = known.length > 3000 ? 4 : known.length > 600 ? 5.5 : 8;
  for (const [value, path] of [...marks].sort((a, b) => a[0] - b[0])) {
    drawing.append(draw("path", { d: path, fill: "none", stroke: by ? colour(by, value) : "var(--c0)", "stroke-width": size, "stroke-linecap": "round", "stroke-opacity": known.length > 600 ? 0.55 : 0.8 }));
  }
  const fronts = xAxis ? best(known, xAxis, ys) : front(space, known, now.x, now.y);
  for (const line of fronts) {
    const path = line.map((i, k) => { const [x, y] = where.get(i); return k && !xAxis ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}`; }).join("");
    drawing.append(draw("path", { class: "space-front", d: path, fill: "none", stroke: "var(--fg)", "stroke-width": 1.2 }));
    for (const i of line) {
      const [x, y] = where.get(i);
      const text = tip(space, i, [now.y, xs ? now.x : ""]);
      drawing.append(draw("circle", {
        class: "space-best", cx: x, cy: y, r: 5.5, fill: by ? colour(by, by.codes[i]) : "var(--c0)", stroke: "var(--fg)", "stroke-width": 1.6, "data-tip": text, "data-point": i,
      }));
    }
  }
  const ring = draw("circle", { r: 9, fill: "none", stroke: "var(--fg)", "stroke-width": 2, visibility: "hidden" });
  drawing.append(ring);
  drawing.addEventListener("click", (event) => {
    const box = drawing.getBoundingClientRect();
    const scale = width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let found = null;
    let least = NEAR * scale;
    for (const [i, [px, py]] of where) {
      const far = Math.hypot(px - x, py - y);
      if (far < least) { least = far; found = i; }
    }
    if (found === null) return;
    const [px, py] = where.get(found);
    ring.setAttribute("cx", px);
    ring.setAttribute("cy", py);
    ring.setAttribute("visibility", "visible");
    pick(found);
  });
  const items = by ? [...marks.keys()].sort((a, b) => a - b).map((value) => [by.texts[value], colour(by, value)]) : [];
  const ends = xAxis ? "ring: the best of each value" : "ring and line: the front that no other point beats in both";
  legend(drawing, width, height + 18, [...items, [ends, "none"]]);
}

function best(points, axis, ys) {
  const found = new Map();
  const better = (i, k) => (ys.more ? ys.values[i] > ys.values[k] : ys.values[i] < ys.values[k]);
  for (const i of points) {
    const value = axis.codes[i];
    if (!found.has(value) || better(i, found.get(value))) found.set(value, i);
  }
  return [[...found.values()]];
}

function bands(drawing, axis, points, width, pad, foot) {
  const present = axis.texts.map((_, value) => value).filter((value) => points.some((i) => axis.codes[i] === value));
  const step = (width - pad.left - pad.right) / present.length;
  const at = new Map(present.map((value, k) => [value, pad.left + (k + 0.5) * step]));
  const fits = Math.floor(step / 6.6);
  present.forEach((value, k) => {
    if (fits < 3 && k % Math.ceil(24 / step)) return;
    drawing.append(words(at.get(value), foot + 16, cut(axis.texts[value], Math.max(3, fits)), { class: "tick", "text-anchor": "middle" }));
  });
  return (i) => at.get(axis.codes[i]);
}

function numbers(drawing, measure, points, width, pad, foot) {
  const scale = scaleOf(points.map((i) => measure.values[i]), [pad.left, width - pad.right]);
  let last = -Infinity;
  for (const value of scale.ticks) {
    const text = show(value, measure.unit);
    const x = scale.at(value);
    drawing.append(draw("line", { class: "grid", x1: x, x2: x, y1: pad.top, y2: foot }));
    if (x - text.length * 3.3 < last) continue;
    last = x + text.length * 3.3 + 6;
    drawing.append(words(x, foot + 16, text, { class: "tick", "text-anchor": "middle" }));
  }
  return (i) => scale.at(measure.values[i]);
}

function legend(drawing, width, top, items) {
  let x = 8;
  let y = top;
  for (const [text, paint] of items) {
    const shown = cut(text, Math.floor((width - 40) / 6.6));
    const long = 34 + shown.length * 6.6;
    if (x + long > width && x > 8) { x = 8; y += 19; }
    drawing.append(draw("circle", { cx: x + 6, cy: y - 4, r: 5, fill: paint, stroke: paint === "none" ? "var(--fg)" : "none", "stroke-width": 1.6 }));
    drawing.append(words(x + 16, y, shown, { class: "tick" }));
    x += long;
  }
  drawing.setAttribute("viewBox", `0 0 ${width} ${y + 10}`);
  drawing.setAttribute("height", y + 10);
}

// The map: two axes, a colour for the chosen point of each cell.

function map(place, space, now, points, pick) {
  const [across, down] = [axisOf(space, now.x), axisOf(space, now.y)];
  const measure = measureOf(space, now.z);
  const cells = new Map();
  for (const i of points) {
    if (measure.values[i] === null) continue;
    const key = `${across.codes[i]},${down.codes[i]}`;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(i);
  }
  const order = (i, k) => (measure.more ? measure.values[k] - measure.values[i] : measure.values[i] - measure.values[k]);
  const of = (found) => {
    const sorted = [...found].sort(order);
    return sorted[{ best: 0, median: Math.floor((sorted.length - 1) / 2), worst: sorted.length - 1 }[now.pick]];
  };
  const shown = new Map([...cells].map(([key, found]) => [key, of(found)]));
  const columns = across.texts.map((_, i) => i).filter((i) => points.some((p) => across.codes[p] === i));
  const rows = down.texts.map((_, i) => i).filter((i) => points.some((p) => down.codes[p] === i));
  const line = 30;
  const top = 46;
  const { drawing, width } = newSheet(place, top + rows.length * line + 44, `${measure.label} by ${down.label.toLowerCase()} and ${across.label.toLowerCase()}, as a map`);
  const longest = Math.max(...rows.map((i) => down.texts[i].length), 4);
  const left = Math.min(longest * 7 + 14, width * 0.34);
  const cell = (width - left) / columns.length;
  const values = [...shown.values()].map((i) => measure.values[i]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const log = low > 0 && high > 4 * low;
  const part = (value) => (high === low ? 0 : log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  const step = (value) => Math.min(STEPS - 1, Math.floor((measure.more ? 1 - part(value) : part(value)) * STEPS));
  drawing.append(words(left, 14, across.label, { class: "label" }));
  columns.forEach((value, k) => drawing.append(words(left + (k + 0.5) * cell, top - 8, cut(across.texts[value], Math.floor(cell / 6.6)), { class: "tick", "text-anchor": "middle" })));
  rows.forEach((value, r) => {
    const y = top + r * line;
    drawing.append(words(left - 8, y + 19, cut(down.texts[value], Math.floor((left - 10) / 6.8)), { class: "name", "text-anchor": "end" }));
    columns.forEach((other, k) => {
      const point = shown.get(`${other},${value}`);
      if (point === undefined) return;
      const mark = `h${step(measure.values[point])}`;
      drawing.append(draw("rect", {
        class: `cell ${mark}`, x: left + k * cell, y, width: Math.max(2, cell - 2), height: line - 2, "data-point": point,
        "data-tip": tip(space, point, [now.z]), onclick: () => pick(point),
      }));
      const text = show(measure.values[point], measure.unit);
      if (text.length * 6.4 < cell) drawing.append(words(left + (k + 0.5) * cell - 1, y + 19, text, { class: `in-cell ${mark}`, "text-anchor": "middle" }));
    });
  });
  const y = top + rows.length * line + 22;
  const ends = measure.more ? [high, low] : [low, high];
  drawing.append(words(left, y, show(ends[0], measure.unit), { class: "tick" }));
  const start = left + show(ends[0], measure.unit).length * 6.8 + 8;
  for (let i = 0; i < STEPS; i += 1) drawing.append(draw("rect", { class: `h${i}`, x: start + i * 20, y: y - LINE + 3, width: 20, height: LINE }));
  drawing.append(words(start + STEPS * 20 + 8, y, `${show(ends[1], measure.unit)}; ${measure.label.toLowerCase()}, ${now.pick} of each cell, ${space.provenance}`, { class: "tick" }));
}
