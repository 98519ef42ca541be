// What the drawings share: a sheet of real pixels, scales, axes, bars. The table beside a drawing holds its numbers.

import { el, svg } from "./dom.js";
import { digits } from "./format.js";

export function sheet(place, height, label) {
  const width = Math.max(280, Math.floor(place.clientWidth));
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  place.append(drawing);
  return { drawing, width, height };
}

export const text = (x, y, content, attributes = {}) => svg("text", { x, y, ...attributes }, content);

export function linear([from, to], [start, end]) {
  const span = to - from || 1;
  return (value) => start + ((value - from) / span) * (end - start);
}

export function logarithmic([from, to], range) {
  const scale = linear([Math.log10(from), Math.log10(to)], range);
  return (value) => scale(Math.log10(value));
}

export function ticks(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  if (!(rough > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((each) => each >= rough);
  const found = [];
  for (let value = Math.ceil(from / step) * step; value <= to + step * 1e-9; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

export function decades(from, to, most = 8) {
  const first = Math.ceil(Math.log10(from) - 1e-9);
  const last = Math.floor(Math.log10(to) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  const found = [];
  for (let power = first; power <= last; power += step) found.push(10 ** power);
  return found;
}

export function axes({ drawing, width, height }, { left, right, top, bottom }, x, y, labels) {
  const foot = height - bottom;
  for (const value of y.ticks) {
    drawing.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y.at(value), y2: y.at(value) }));
    drawing.append(text(left - 6, y.at(value) + 4, (y.text ?? digits)(value), { class: "tick", "text-anchor": "end" }));
  }
  for (const value of x.ticks) {
    drawing.append(svg("line", { class: "grid", x1: x.at(value), x2: x.at(value), y1: top, y2: foot }));
    drawing.append(text(x.at(value), foot + 16, (x.text ?? digits)(value), { class: "tick", "text-anchor": "middle" }));
  }
  drawing.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: foot, y2: foot }));
  drawing.append(text((left + width - right) / 2, height - 4, labels.x, { class: "label", "text-anchor": "middle" }));
  drawing.append(text(left, top - 10, labels.y, { class: "label" }));
}

// Horizontal bars, one a row, each with its name and its value.
export function bars(place, rows, label, { show, max } = {}) {
  const line = 26;
  const widest = Math.max(...rows.map((row) => row.name.length), 4);
  const box = sheet(place, rows.length * line + 8, label);
  const left = Math.min(widest * 7 + 12, box.width * 0.42);
  const room = 88;
  const top = max ?? Math.max(...rows.map((row) => row.value ?? 0));
  const at = linear([0, top || 1], [left, box.width - room]);
  rows.forEach((row, i) => {
    const y = 4 + i * line;
    const fits = Math.max(4, Math.floor((left - 12) / 7));
    const name = row.name.length > fits ? `${row.name.slice(0, fits - 1)}…` : row.name;
    box.drawing.append(text(left - 8, y + 16, name, { class: "name", "text-anchor": "end" }));
    if (row.value === null || row.value === undefined) {
      box.drawing.append(text(left + 6, y + 16, "not known", { class: "tick" }));
      return;
    }
    const end = Math.max(at(row.value), left + 1);
    box.drawing.append(svg("rect", { class: row.mark, x: left, y: y + 3, width: end - left, height: line - 8, "data-tip": row.tip }));
    box.drawing.append(text(end + 6, y + 16, show(row.value), { class: "amount" }));
  });
  box.drawing.append(svg("line", { class: "axis", x1: left, x2: left, y1: 2, y2: box.height - 2 }));
  return box;
}

// What a drawing has no room or no value for is said below it.
export function leftOut(place, drawn, all, why = "") {
  const notes = [all > drawn ? `Drawn: ${drawn} of ${all}; the table has all of them.` : "", why].filter(Boolean);
  if (notes.length) place.append(el("p", { class: "note" }, notes.join(" ")));
}

// Names of what is drawn, each with its mark, in as many lines as the width takes; the last part of a sheet.
export function legend({ drawing, width }, items, x, y) {
  let at = x;
  let line = y;
  for (const item of items) {
    const long = 22 + item.name.length * 6.8 + 14;
    if (at + long > width && at > x) { at = x; line += 18; }
    drawing.append(svg("rect", { class: item.mark, x: at, y: line - 9, width: 12, height: 10 }));
    drawing.append(text(at + 17, line, item.name, { class: "tick" }));
    at += long;
  }
  const height = line + 12;
  drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawing.setAttribute("height", height);
}
