// Benchmarks: of each point the runs one by one, now and before, and the median of every run over time.

import * as chart from "./chart.js";
import { svg } from "./dom.js";
import { digits, ratio, seconds, share } from "./format.js";

const MOST = 40;
const LINE = 24;
const LEAST = 0.02; // half of a strip's range at least

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2;
};

export function drawBench(view, place) {
  const { points, runs } = view.drawing;
  // Words that every point has say nothing beside each of them.
  const parts = points.map((point) => point.label.split(", "));
  const common = points.length > 1 ? parts[0].filter((word) => parts.every((each) => each.includes(word))) : [];
  const order = points.map((point, i) => ({ ...point, label: parts[i].filter((word) => !common.includes(word)).join(", "), row: view.rows[i] }));
  const weight = (each) => (each.row.verdict === "slower" || each.row.verdict === "faster" ? 2 : 0) + Math.abs(Math.log(each.row.ratio ?? 1));
  const shown = [...order].sort((a, b) => weight(b) - weight(a)).slice(0, MOST);
  if (!shown.length) return;
  const several = runs.length > 1;
  const top = 34;
  const box = chart.sheet(place, top + shown.length * LINE + 60, several
    ? "Times of each point now and before, relative to before, and their trend over the runs" : "Times of each point's runs, relative to their median");
  const { drawing, width } = box;
  const narrow = width < 620;
  const left = narrow ? width * 0.44 : Math.min(Math.max(...shown.map((each) => each.label.length)) * 6.7 + 14, width * 0.4);
  const trendWide = several && runs.length > 2 ? (narrow ? 64 : 130) : 0;
  const verdictWide = several ? (narrow ? 62 : 240) : 0;
  const right = width - trendWide - verdictWide - 10;
  const strips = shown.map((each) => {
    const now = each.samples[each.samples.length - 1];
    const before = each.samples.slice(0, -1).filter((samples) => samples.length).pop() ?? [];
    return { now, before, centre: median(before.length ? before : now) };
  });
  const reach = Math.max(LEAST, ...strips.flatMap(({ now, before, centre }) => [...now, ...before].map((value) => Math.abs(Math.log(value / centre))))) * 1.08;
  const at = chart.linear([-reach, reach], [left, right]);
  const foot = top + shown.length * LINE;
  for (const value of [0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 2, 5, 10].filter((each) => Math.abs(Math.log(each)) <= reach)) {
    const x = at(Math.log(value));
    drawing.append(svg("line", { class: value === 1 ? "total dashed" : "grid", x1: x, x2: x, y1: top - 4, y2: foot }));
    if (value === 1 || Math.abs(x - at(0)) > 44) drawing.append(chart.text(x, foot + 16, ratio(value), { class: "tick", "text-anchor": "middle" }));
  }
  drawing.append(chart.text(left, 14, several ? (narrow ? "now / before" : "time now over the median before") : "time over the median", { class: "label" }));
  if (several && !narrow) drawing.append(chart.text(right + 10, 14, "verdict", { class: "label" }));
  if (trendWide) drawing.append(chart.text(width - trendWide + 4, 14, narrow ? "trend" : `trend, ${runs.length} runs`, { class: "label" }));
  shown.forEach((each, i) => {
    const y = top + i * LINE + LINE / 2;
    const fits = Math.floor((left - 12) / 6.7);
    drawing.append(chart.text(left - 8, y + 4, each.label.length > fits ? `${each.label.slice(0, fits - 1)}…` : each.label, { class: "tick", "text-anchor": "end" }));
    const { now, before, centre } = strips[i];
    const said = (value, when) => `${each.label}: ${seconds(value)} ${when}, ${ratio(value / centre)} of the median${several ? " before" : ""}, measured`;
    for (const value of before) drawing.append(svg("circle", { class: "point", cx: at(Math.log(value / centre)), cy: y, r: 4, "data-tip": said(value, "before") }));
    for (const value of now) drawing.append(svg("circle", { class: "c0 now", cx: at(Math.log(value / centre)), cy: y, r: 4, "data-tip": said(value, several ? "now" : "") }));
    if (several) drawing.append(chart.text(right + 10, y + 4, verdict(each.row, narrow), { class: each.row.verdict === "slower" || each.row.verdict === "faster" ? "name own" : "tick" }));
    if (trendWide) trend(drawing, each, runs, { left: width - trendWide + 4, right: width - 4, y });
  });
  const items = several ? [{ name: "a run before", mark: "c6" }, { name: "a run now", mark: "c0" }] : [{ name: "one run", mark: "c0" }];
  chart.legend(box, items, left, foot + 40);
  chart.leftOut(place, shown.length, points.length, 
    [common.length ? `All points: ${common.join(", ")}.` : "", several ? "What changed stands first, then by ratio." : ""].filter(Boolean).join(" "));
}

function verdict(row, narrow) {
  if (row.ratio === null || row.ratio === undefined) return narrow ? "new" : "measured once";
  const change = `${row.ratio > 1 ? "+" : "−"}${share(Math.abs(row.ratio - 1))}`;
  return narrow ? change : `${row.verdict}, ${change}${row.p_value === null ? "" : `, p ${digits(row.p_value, 2)}`}`;
}

function trend(drawing, each, runs, { left, right, y }) {
  const known = each.samples.map((samples, i) => [i, samples.length ? median(samples) : null]).filter(([, value]) => value !== null);
  if (known.length < 2) return;
  const values = known.map(([, value]) => value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const middle = (low + high) / 2;
  const reach = Math.max((high - low) / 2, middle * LEAST);
  const at = (i) => left + (i / (runs.length - 1)) * (right - left);
  const up = (value) => y - ((value - middle) / reach) * (LINE / 2 - 5);
  drawing.append(svg("path", { class: "line l0", d: known.map(([i, value], k) => `${k ? "L" : "M"}${at(i)},${up(value)}`).join("") }));
  for (const [i, value] of known) drawing.append(svg("circle", { class: "c0", cx: at(i), cy: up(value), r: 3, "data-tip": `${each.label}: ${seconds(value)} in run ${runs[i]}, measured` }));
}
