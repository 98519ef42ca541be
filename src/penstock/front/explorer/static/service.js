// A running service: asked once a second while the page is seen, and drawn in place so that no focus is lost.

import { axes, legend, linear, sheet, text, ticks } from "./chart.js";
import { byId, el, svg } from "./dom.js";
import { bytes, digits, seconds, share, UNKNOWN } from "./format.js";
import * as theme from "./theme.js";
import * as tip from "./tip.js";

const EACH_MS = 1000;
const LATE_MS = 7000;
const MOST_POINTS = 180;
const MOST_BARS = 12;

let paused = false;
let heardAt = null;
let last = null;
const history = [];
const parts = {};

function figure(name, label, source, badge = "measured") {
  const value = el("span", { class: "figure", tabindex: "0", role: "note", "data-name": name, "data-tip": `${badge}: ${source}` }, UNKNOWN);
  parts.figures.append(el("div", {}, el("dt", {}, label), el("dd", {}, value, el("span", { class: `badge ${badge}` }, badge))));
  return (shown) => { if (value.textContent !== shown) value.textContent = shown; };
}

function panel(column, id, title, headers) {
  const note = el("p", { class: "note" });
  const head = headers.map(([label, isNumber]) => el("th", { scope: "col", class: isNumber ? "num" : "text" }, label));
  const body = el("tbody");
  const drawing = headers.length ? null : el("figure", { class: "drawing" });
  const inside = drawing ?? el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `${title}, scrolls` },
    el("table", { "aria-label": title }, el("thead", {}, el("tr", {}, head)), body));
  const section = el("section", { id, "aria-label": title }, el("h2", {}, title, note), inside);
  column.append(section);
  return {
    place: drawing,
    rows(found, empty) {
      const none = el("tr", {}, el("td", { class: "text", colspan: headers.length }, empty));
      body.replaceChildren(...(found.length ? found : [none]));
    },
    say: (words) => { if (note.textContent !== words) note.textContent = words; },
  };
}

const cell = (value, isNumber) => el("td", { class: isNumber ? "num" : "text", title: isNumber ? null : value }, value);

function build() {
  parts.figures = el("dl", { class: "figures" });
  const [left, right] = [el("div"), el("div")];
  byId("content").replaceChildren(parts.figures, el("div", { class: "panels" }, left, right));
  parts.set = {
    running: figure("running", "Running", "jobs that compute now"),
    waiting: figure("waiting", "Waiting", "jobs that wait for a worker"),
    backlog: figure("backlog_s", "Backlog", "seconds until all jobs are done, keys in memory", "predicted"),
    hits: figure("hit_ratio", "Hit ratio", "uses of keys that found their rows in memory or on their way"),
    resident: figure("resident_bytes", "Keys in memory", "bytes, and reads under way"),
    budget: figure("budget_share", "Of the budget", "share of the most bytes of keys in memory"),
    read: figure("read_bytes", "Keys read", "bytes of keys read from storage since the start"),
    evictions: figure("evictions", "Evictions", "times that rows of a key were given up for others"),
    deaths: figure("worker_deaths", "Worker deaths", "worker processes that died"),
  };
  parts.curves = panel(left, "curves", "Jobs over time", []);
  parts.running = panel(left, "running", "Running", [["Tenant"], ["Program"], ["Since", true], ["Tasks"]]);
  parts.queue = panel(left, "queue", "Waiting", [["Tenant"], ["Program"], ["Waits for"], ["Since", true], ["Priority", true]]);
  parts.keys = panel(right, "keys", "Keys by tenant", []);
  parts.latency = panel(right, "latency", "Latency by program", [["Program"], ["Tenant"], ["Jobs", true], ["p50", true], ["p95", true], ["p99", true], ["Queue p99", true], ["Run p99", true]]);
  parts.tenants = panel(right, "tenants", "Where keys lie", [["Tenant"], ["In memory", true], ["Keys", true], ["On disk", true]]);
}

function draw(work) {
  const gets = work.hits + work.misses;
  parts.set.running(digits(work.running.length));
  parts.set.waiting(digits(work.waiting));
  parts.set.backlog(seconds(work.backlog_s));
  parts.set.hits(gets ? share(work.hits / gets) : UNKNOWN);
  parts.set.resident(bytes(work.resident_bytes));
  parts.set.budget(share(work.resident_bytes / work.budget_bytes));
  parts.set.read(bytes(work.read_bytes));
  parts.set.evictions(digits(work.evictions));
  parts.set.deaths(digits(work.worker_deaths));
  drawCurves();
  drawKeys(work);
  parts.running.rows(work.running.map((each) => el("tr", {},
    cell(each.tenant), cell(each.program), cell(seconds(each.running_s), true), el("td", {}, progress(each)))), "No job computes.");
  parts.queue.say(work.waiting > work.queue.length ? `The first ${work.queue.length} of ${digits(work.waiting)}.` : "");
  parts.queue.rows(work.queue.map((each) => el("tr", {},
    cell(each.tenant), cell(each.program), el("td", { class: `text waits-${each.waits_for}` }, reason(each)),
    cell(seconds(each.waited_s), true), cell(String(each.priority), true))), "No job waits.");
  parts.latency.say("Measured, of the latest jobs that computed.");
  parts.latency.rows(work.programs.map((each) => el("tr", {}, cell(each.program), cell(each.tenant), cell(digits(each.jobs), true),
    ...["p50_s", "p95_s", "p99_s", "queue_p99_s", "compute_p99_s"].map((name) => cell(seconds(each[name]), true)))), "No job has computed yet.");
  parts.tenants.say(work.more_tenants ? `And ${digits(work.more_tenants)} further tenants.` : "");
  parts.tenants.rows(work.tenants.map((each) => el("tr", {}, cell(each.tenant), cell(bytes(each.memory_bytes), true),
    cell(digits(each.memory_keys), true), cell(bytes(each.disk_bytes), true))), "No tenant has keys.");
}

function progress(job) {
  if (!job.tasks) return "begins";
  const label = `${job.tenant}, ${job.program}: tasks that have ended`;
  return [el("progress", { max: job.tasks, value: job.tasks_ended, "aria-label": label }), ` ${digits(job.tasks_ended)} of ${digits(job.tasks)}`];
}

// Bytes of its keys that memory lacks, memory for its values, or its turn.
function reason(job) {
  if (job.waits_for === "memory") return "memory";
  return job.waits_for === "keys" ? `keys: ${bytes(job.missing_bytes)}` : "its turn";
}

// Jobs that wait and run, over the last minutes in which the page was seen.
function drawCurves() {
  const place = parts.curves.place;
  place.replaceChildren();
  const points = history.filter((each) => each.waiting !== null);
  if (points.length < 2) { place.append(el("p", { class: "note" }, "The curves begin with the second answer.")); return; }
  const box = sheet(place, 210, `Jobs that wait and run over the last ${seconds((points.at(-1).at - points[0].at))}: now ${points.at(-1).waiting} wait and ${points.at(-1).running} run`);
  const frame = { left: 52, right: 12, top: 24, bottom: 52 };
  const end = points.at(-1).at;
  const span = Math.max(30, end - points[0].at);
  const most = Math.max(4, ...points.map((each) => Math.max(each.waiting, each.running)));
  const x = linear([-span, 0], [frame.left, box.width - frame.right]);
  const y = linear([0, most], [box.height - frame.bottom, frame.top]);
  const whole = ticks(0, most, 4).filter(Number.isInteger);
  axes(box, frame, { ticks: ticks(-span, 0, box.width < 480 ? 3 : 6), at: x, text: (value) => (value ? seconds(value) : "now") }, { ticks: whole, at: y }, { x: "", y: "jobs" });
  for (const name of ["waiting", "running"]) {
    // A gap where the page or the service was away.
    let path = "";
    let before = null;
    for (const each of points) {
      const near = before !== null && each.at - before < 8;
      path += `${near ? "L" : "M"}${x(each.at - end).toFixed(1)} ${y(each[name]).toFixed(1)}`;
      before = each.at;
    }
    box.drawing.append(svg("path", { class: `line l-${name}`, d: path }));
    box.drawing.append(svg("circle", { class: `f-${name}`, cx: x(0), cy: y(points.at(-1)[name]), r: 3.5 }));
  }
  legend(box, [{ name: "waiting", mark: "f-waiting" }, { name: "running", mark: "f-running" }], frame.left, box.height - 8);
}

// Of each tenant: its keys on disk, the part of them in memory, and its floor.
function drawKeys(work) {
  const place = parts.keys.place;
  place.replaceChildren();
  const rows = work.tenants.slice(0, MOST_BARS);
  if (!rows.length) { place.append(el("p", { class: "note" }, "No tenant has keys.")); return; }
  const line = 26;
  const box = sheet(place, rows.length * line + 40, `Keys in memory and on disk of ${rows.length} tenants; the table 'Where keys lie' has the numbers`);
  const widest = Math.max(...rows.map((row) => row.tenant.length), 4);
  const left = Math.min(widest * 7 + 14, box.width * 0.36);
  const most = Math.max(...rows.map((row) => Math.max(row.memory_bytes, row.disk_bytes)), work.floor_bytes, 1);
  const isWide = box.width >= 480;
  const x = linear([0, most], [left, box.width - (isWide ? 150 : 78)]);
  const amount = (row) => (isWide ? `${bytes(row.memory_bytes)} of ${bytes(row.disk_bytes)}` : bytes(row.memory_bytes));
  rows.forEach((row, i) => {
    const y = 4 + i * line;
    const fits = Math.max(4, Math.floor((left - 12) / 7));
    const name = row.tenant.length > fits ? `${row.tenant.slice(0, fits - 1)}…` : row.tenant;
    const words = `measured: ${row.tenant}: ${bytes(row.memory_bytes)} in memory, ${bytes(row.disk_bytes)} on disk`;
    const bar = (mark, value, inset) => svg("rect", { class: mark, x: left, y: y + inset, width: Math.max(0, x(value) - left), height: line - 2 * inset, "data-tip": words });
    box.drawing.append(text(left - 8, y + 17, name, { class: "name", "text-anchor": "end" }));
    box.drawing.append(bar("key-disk", row.disk_bytes, 4), bar("key-memory", row.memory_bytes, 8));
    box.drawing.append(text(x(Math.max(row.memory_bytes, row.disk_bytes)) + 6, y + 17, amount(row), { class: "amount" }));
  });
  const foot = 4 + rows.length * line;
  if (work.floor_bytes) box.drawing.append(svg("line", { class: "key-floor", x1: x(work.floor_bytes), x2: x(work.floor_bytes), y1: 2, y2: foot }));
  const marks = [{ name: "in memory", mark: "key-memory" }, { name: "on disk", mark: "key-disk" }];
  if (work.floor_bytes) marks.push({ name: `floor ${bytes(work.floor_bytes)}`, mark: "f-waiting" });
  legend(box, marks, left, foot + 20);
  const more = work.tenants.length - rows.length + work.more_tenants;
  parts.keys.say(more > 0 ? `The ${rows.length} with the most in memory; ${digits(more)} more.` : "");
}

function say(state, words) {
  document.body.dataset.state = state;
  // A status that changes each second would be read out each second.
  if (byId("state").textContent !== words) byId("state").textContent = words;
}

async function ask() {
  if (paused) { say("paused", "Paused."); return; }
  if (document.hidden) { say("paused", "Paused while it is not seen."); return; }
  const late = new AbortController();
  const timer = window.setTimeout(() => late.abort(), LATE_MS);
  try {
    const response = await fetch("/api/service", { signal: late.signal });
    const found = await response.json();
    if (found.error) throw new Error(found.error);
    byId("title").textContent = `Service at ${found.service.replace(/^https?:\/\//, "")}`;
    if (found.gone) throw new Error(found.gone);
    if (paused) return;
    const now = performance.now() / 1000;
    heardAt = now;
    last = found.work;
    history.push({ at: now, waiting: last.waiting, running: last.running.length });
    if (history.length > MOST_POINTS) history.shift();
    draw(last);
    say("ready", last.draining ? "Live. The service drains: it takes no more jobs." : "Live, asked once a second.");
  } catch (error) {
    const known = heardAt === null ? "" : " The last figures stay below.";
    const words = error instanceof TypeError || error.name === "AbortError" ? "The explorer does not answer: start 'penstock explore' again." : `The service is gone: ${error.message}`;
    say("gone", `${words}${known}`);
  } finally {
    window.clearTimeout(timer);
  }
}

async function go() {
  for (;;) {
    await ask();
    await new Promise((done) => { window.setTimeout(done, EACH_MS); });
  }
}

build();
theme.install(() => { if (last) draw(last); });
tip.install();
byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  ask();
});
document.addEventListener("visibilitychange", ask);
window.addEventListener("resize", () => { if (last) draw(last); });
go();
