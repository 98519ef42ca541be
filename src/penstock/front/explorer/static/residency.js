// Which key is on chip when: a line a key, a bar a stay, zoomed with buttons, keys or by drawing over a stretch.

import * as chart from "./chart.js";
import { el, svg } from "./dom.js";
import { bytes, digits, seconds } from "./format.js";

function zoomed(first, last, end, factor, shift) {
  const width = last - first + 1;
  const next = Math.max(2, Math.min(end + 1, Math.round(width * factor)));
  const middle = (first + last + 1) / 2 + shift * width;
  const from = Math.max(0, Math.min(end + 1 - next, Math.round(middle - next / 2)));
  return [from, from + next - 1];
}

export function drawResidency(view, place, { change }) {
  const { keys, labels, first, last, operations, listed } = view.drawing;
  const said = (key) => labels[key] ?? key;
  const end = operations - 1;
  const go = (factor, shift) => {
    const [from, to] = zoomed(first, last, end, factor, shift);
    change({ first: from, last: to >= end ? 0 : to });
  };
  const button = (id, label, name, act, off) => el("button", { type: "button", "data-keep": id, "aria-label": name, onclick: act, disabled: off }, label);
  const number = (id, label, value, act) => el("label", { class: "inline" }, label, el("input", {
    type: "number", "data-keep": id, min: 0, max: end, value, onchange: (event) => act(Math.max(0, Math.min(end, Math.round(Number(event.target.value)) || 0))),
  }));
  place.append(el("div", { class: "zoom", role: "group", "aria-label": "Window of operations" },
    button("in", "+", "Zoom in", () => go(0.5, 0), last - first < 2),
    button("out", "−", "Zoom out", () => go(2, 0), last - first >= end),
    button("left", "←", "Earlier", () => go(1, -0.5), first === 0),
    button("right", "→", "Later", () => go(1, 0.5), last >= end),
    button("all", "All", "All operations", () => change({ first: 0, last: 0 }), first === 0 && last >= end),
    number("from", "from operation", first, (value) => change({ first: Math.min(value, last) })),
    number("to", "to", last, (value) => change({ last: value >= end ? 0 : Math.max(value, first) }))));
  const names = [...new Set(keys)];
  const line = names.length > 60 ? 9 : names.length > 30 ? 12 : 17;
  const top = 8;
  const pad = { right: 12, bottom: 58 };
  const box = chart.sheet(place, top + names.length * line + pad.bottom, "Stays of keys on chip, one line a key; the table has them as numbers");
  const left = box.width < 560 ? 88 : 130;
  const fits = Math.floor(left / 7.2);
  const at = chart.linear([first, last + 1], [left, box.width - pad.right]);
  const foot = top + names.length * line;
  const { drawing } = box;
  for (const value of chart.ticks(first, last, box.width < 560 ? 3 : 7).filter(Number.isInteger)) {
    drawing.append(svg("line", { class: "grid", x1: at(value), x2: at(value), y1: top, y2: foot }));
    drawing.append(chart.text(at(value), foot + 16, digits(value), { class: "tick", "text-anchor": "middle" }));
  }
  drawing.append(chart.text((left + box.width) / 2, foot + 34, "operation", { class: "label", "text-anchor": "middle" }));
  const every = line >= 12 ? 1 : 3;
  const rowOf = new Map(names.map((name, i) => [name, i]));
  names.forEach((name, i) => {
    if (i % every) return;
    drawing.append(chart.text(left - 6, top + i * line + line - 3, said(name).length > fits ? `${said(name).slice(0, fits - 1)}…` : said(name), { class: line >= 12 ? "tick" : "tick small", "text-anchor": "end" }));
  });
  for (const stay of view.rows) {
    const i = rowOf.get(stay.key);
    if (i === undefined) continue;
    const from = Math.max(stay.first, first);
    const to = Math.min(stay.last, last);
    const x = at(from);
    const wide = Math.max(1.5, at(to + 1) - x);
    drawing.append(svg("rect", {
      class: stay.uses > stay.loads ? "stay" : "stay once", x, y: top + i * line + 1, width: wide, height: line - 2,
      "data-tip": `${said(stay.key)}${said(stay.key) === stay.key ? "" : ` (key ${stay.key})`}: operations ${digits(stay.first)} to ${digits(stay.last)}, ${digits(stay.uses)} uses, ${digits(stay.loads)} loads, ${bytes(stay.loaded_bytes)} loaded, simulated`,
    }));
  }
  if (listed.length && at(1) - at(0) > 4) {
    for (const operation of listed) {
      if (operation.loaded_bytes > 0 && rowOf.has(operation.key)) {
        drawing.append(svg("rect", { class: "load", x: at(operation.operation), y: top + rowOf.get(operation.key) * line + 1, width: 2.5, height: line - 2 }));
      }
    }
  }
  select(drawing, { left, right: box.width - pad.right, top, foot }, (from, to) => {
    const back = chart.linear([left, box.width - pad.right], [first, last + 1]);
    const a = Math.max(0, Math.floor(back(from)));
    const b = Math.min(end, Math.ceil(back(to)));
    change({ first: a, last: b >= end ? 0 : b });
  });
  chart.legend(box, [{ name: "kept for more uses", mark: "stay" }, { name: "loaded for each use", mark: "stay once" }], left, foot + 52);
  if (listed.length) place.append(operationsTable(listed, said));
}

function select(drawing, area, done) {
  let start = null;
  let mark = null;
  const x = (event) => {
    const box = drawing.getBoundingClientRect();
    return Math.max(area.left, Math.min(area.right, event.clientX - box.left));
  };
  drawing.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch") return;
    start = x(event);
    mark = svg("rect", { class: "selection", x: start, y: area.top, width: 0, height: area.foot - area.top });
    drawing.append(mark);
    drawing.setPointerCapture(event.pointerId);
  });
  drawing.addEventListener("pointermove", (event) => {
    if (start === null) return;
    mark.setAttribute("x", Math.min(start, x(event)));
    mark.setAttribute("width", Math.abs(x(event) - start));
  });
  drawing.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const [from, to] = [start, x(event)].sort((a, b) => a - b);
    start = null;
    mark.remove();
    if (to - from > 6) done(from, to);
  });
}

function operationsTable(listed, said) {
  const head = ["operation", "kind", "limbs", "key", "loaded", "compute", "starts at", "scope"];
  const numeric = new Set(["operation", "limbs", "loaded", "compute", "starts at"]);
  const row = (each) => [
    digits(each.operation), each.kind, each.limbs_in, each.key ? said(each.key) : "–", each.loaded_bytes ? bytes(each.loaded_bytes) : "–",
    seconds(each.compute_s), each.start_s === null ? "–" : seconds(each.start_s), each.scope,
  ];
  return el("details", { class: "operations" }, el("summary", {}, `${listed.length} operations, one by one`),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Operations, scrolls" }, el("table", {},
      el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col", class: numeric.has(name) ? "num" : "text" }, name)))),
      el("tbody", {}, listed.map((each) => el("tr", {}, row(each).map((value, i) => el("td", { class: numeric.has(head[i]) ? "num" : "text" }, String(value)))))))));
}
