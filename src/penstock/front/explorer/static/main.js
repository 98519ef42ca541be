// The page: reads its address, asks the server, draws the answer, and keeps the address true.

import { addAdvice } from "./advice.js";
import { byId, el } from "./dom.js";
import * as controls from "./controls.js";
import { DRAWINGS } from "./draw.js";
import { headline } from "./headline.js";
import { runsTable } from "./runs.js";
import { describe } from "./describe.js";
import { copy, savePng, saveSvg } from "./save.js";
import * as state from "./state.js";
import { factsTable } from "./facts.js";
import { table } from "./table.js";
import * as theme from "./theme.js";
import * as tip from "./tip.js";

const NAMES = {
  whatif: "What if", runs: "Runs", slowdown: "Slowdown", roofline: "Roofline", residency: "Keys", hosts: "Hosts",
  drive: "SSD", machines: "Machines", measured: "Measured", validation: "Validation", compare: "Compare", run: "Run", sweep: "Sweeps", designs: "Designs", bench: "Bench",
  predict: "Predicted run", suggest: "Parameters", precision: "Precision", tenants: "Tenants", levels: "Levels",
};
const IN_MENU = ["whatif", "slowdown", "roofline", "residency", "hosts", "drive", "machines", "predict", "suggest", "precision", "tenants", "levels", "sweep", "designs", "bench", "runs", "measured", "validation", "compare"];

let asking = null;
let shown = null;

async function answer(address, started) {
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const response = await (started ?? fetch(address, { signal: mine.signal }));
  mine.signal.throwIfAborted();
  const found = await response.json();
  if (asking === mine) asking = null;
  return { ok: response.ok, found };
}

async function ask(push, started) {
  state.write(push);
  menu();
  document.body.dataset.state = "asking";
  const slow = window.setTimeout(() => { byId("status").textContent = "Working"; document.body.dataset.state = "slow"; }, 300);
  try {
    const { ok, found } = await answer(state.dataAddress(), started);
    if (ok && !found.error) draw(found);
    else fail(found.error ?? "the server could not answer");
  } catch (error) {
    if (error.name === "AbortError") return;
    fail("the server does not answer any more: start 'penstock explore' again");
  } finally {
    window.clearTimeout(slow);
  }
  document.body.dataset.state = asking ? "asking" : "ready";
}

function fail(message) {
  shown = null;
  byId("title").textContent = NAMES[state.viewName()] ?? "penstock explore";
  byId("error").replaceChildren(el("p", { class: "problem" }, message));
  byId("content").replaceChildren();
  byId("status").textContent = "";
}

function draw(view) {
  shown = view;
  document.title = `${view.title} · penstock explore`;
  byId("title").textContent = view.title;
  byId("error").replaceChildren();
  const content = byId("content");
  const kept = document.activeElement?.dataset?.keep;
  const drawing = DRAWINGS[view.name];
  const change = (changes) => { state.change(changes); controls.sync(); ask(true); };
  const parts = [headline(view)];
  if (drawing) {
    const place = el("figure", { class: "drawing" });
    parts.push(place);
    content.replaceChildren(...parts.filter(Boolean), ...rest(view, change));
    drawing(view, place, { change, say: (text) => { byId("status").textContent = text; } });
    inWords(view, place);
  } else {
    content.replaceChildren(...parts.filter(Boolean), ...rest(view, change));
  }
  if (kept) content.querySelector(`[data-keep="${kept}"]`)?.focus();
  byId("status").textContent = spoken(view);
  if (view.name === "whatif") addAdvice(content, change);
}

// A drawing is one picture with a name; what it shows is said in words, and the table has the numbers.
function inWords(view, place) {
  const picture = place.querySelector("svg");
  if (!picture) return;
  place.append(el("p", { id: "in-words", class: "visually-hidden" }, describe(view)));
  picture.setAttribute("aria-describedby", "in-words");
  picture.setAttribute("aria-details", "numbers");
}

function spoken(view) {
  const row = view.rows[0];
  if (view.name !== "whatif" || !row) return `${view.title}: ${view.rows.length} rows`;
  return [...document.querySelectorAll(".figures dt")].slice(0, 2)
    .map((term) => `${term.textContent} ${term.nextElementSibling.querySelector(".figure").textContent}`).join(", ");
}

// A click on the map opens its point; so does Enter on a number of its table.
const OPENS = {
  slowdown: (row) => ({ view: "whatif", tier: row.tier, drive: "", hold: "ratio", hit_ratio: row.hit_ratio }),
  hosts: (row) => ({ view: "whatif", hosts: row.hosts }),
};

function rest(view, change) {
  const parts = [];
  for (const note of view.notes) parts.push(el("p", { class: "note" }, note));
  if (view.warnings.length) {
    parts.push(el("details", { class: "warnings" },
      el("summary", {}, `${view.warnings.length} warning${view.warnings.length > 1 ? "s" : ""}`),
      el("ul", {}, view.warnings.map((each) => el("li", {}, each)))));
  }
  parts.push(take(view));
  if (view.name === "machines") parts.push(factsTable(view));
  const caption = "Numbers";
  const opens = OPENS[view.name];
  if (opens) parts.push(el("p", { class: "note", id: "how" }, "Enter on a number of the table opens its point."));
  parts.push(el("section", { "aria-label": caption, id: "numbers" }, el("h2", {}, caption),
    view.name === "runs" ? runsTable(view) : table(view, { caption, open: opens && ((row) => change(opens(row))) })));
  return parts;
}

// The command, the downloads and the address.
function take(view) {
  const name = `penstock-${view.name}`;
  const say = (text) => { byId("status").textContent = text; };
  const button = (label, id, act) => el("button", { type: "button", id, onclick: act }, label);
  const drawn = () => byId("content").querySelector("figure svg");
  return el("section", { class: "take", "aria-label": "Command and downloads" },
    el("div", { class: "command" },
      el("code", { id: "command", tabindex: "0", "aria-label": "The command line that gives the same numbers" },
        view.command.split(" ").flatMap((word, i) => [i ? " " : null, el("span", { class: "word" }, word)])),
      button("Copy command", "copy-command", async () => { await copy(view.command); say("Command copied"); })),
    el("div", { class: "buttons" },
      el("a", { class: "button", id: "save-csv", href: state.dataAddress("csv"), download: `${name}.csv` }, "CSV"),
      el("a", { class: "button", id: "save-json", href: state.dataAddress("json"), download: `${name}.json` }, "JSON"),
      DRAWINGS[view.name] ? button("SVG", "save-svg", () => saveSvg(drawn(), name)) : null,
      DRAWINGS[view.name] ? button("PNG", "save-png", () => savePng(drawn(), name)) : null,
      button("Copy address", "copy-address", async () => { await copy(window.location.href); say("Address copied"); })));
}

function menu() {
  const links = IN_MENU.map((name) => el("li", {}, el("a", {
    href: state.address({ view: name, ...controls.FRESH }), "aria-current": name === (state.viewName() === "run" ? "runs" : state.viewName()) ? "page" : null, "data-keep": `view-${name}`,
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      state.change({ view: name, ...controls.FRESH });
      controls.sync();
      ask(true);
    },
  }, NAMES[name])));
  if (state.hasService()) links.unshift(el("li", {}, el("a", { href: "/service" }, "Service")));
  const nav = byId("views");
  const kept = document.activeElement?.dataset?.keep;
  nav.replaceChildren(el("ul", {}, links));
  if (kept) nav.querySelector(`[data-keep="${kept}"]`)?.focus();
  const current = nav.querySelector("[aria-current]");
  if (current) nav.scrollLeft = current.offsetLeft - nav.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
}

async function start() {
  theme.install(() => { if (shown) draw(shown); });
  tip.install();
  let wide = window.innerWidth;
  window.addEventListener("resize", () => { if (shown && window.innerWidth !== wide) { wide = window.innerWidth; draw(shown); } });
  // The first answer is under way while the choices load.
  const asked = new URLSearchParams(window.location.search);
  const view = asked.get("view") || "whatif";
  asked.delete("view");
  const first = fetch(`/api/view/${encodeURIComponent(view)}?${asked}`);
  const response = await fetch("/api/catalogue");
  const catalogue = await response.json();
  state.begin(catalogue);
  controls.build(catalogue, ask);
  window.addEventListener("popstate", () => { state.read(); controls.build(catalogue, ask); ask(false); });
  await ask(false, first);
  if (state.viewName() === "whatif") await addRuns();
}

// The first page also lists the runs.
async function addRuns() {
  const response = await fetch("/api/view/runs");
  if (!response.ok || state.viewName() !== "whatif") return;
  const found = await response.json();
  const place = el("section", { id: "recent", "aria-label": "Runs" }, el("h2", {}, found.title), runsTable(found));
  for (const note of found.notes) place.append(el("p", { class: "note" }, note));
  byId("recent")?.remove();
  byId("view").append(place);
  new MutationObserver(() => { place.hidden = state.viewName() !== "whatif"; }).observe(byId("views"), { childList: true });
}

start();
