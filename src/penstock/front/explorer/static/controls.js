// The settings: selects and sliders, each with its label, its value and its unit. A change is a new question.

import { el, byId } from "./dom.js";
import * as format from "./format.js";
import { OWN_VIEWS, PREDICTED } from "./own.js";
import * as state from "./state.js";

const OWN = "\u0000own";
const CACHE_STEPS = 20; // of a decade
const CACHE_FROM = 6; // 10^6 bytes
const AHEAD = ["none", "next-1", "next-2", "next-4", "next-8", "perfect"];
const WHATIF = ["whatif", "slowdown", "roofline", "residency", "hosts", "machines", ...OWN_VIEWS];

// What a drawing of many points shows is of those points.
export const FRESH = { shape: "", x: "", y: "", by: "", z: "", pick: "", where: "" };

let ask = () => {};
let catalogue = null;
let redraw = [];

const labelled = (label, control, note) => el("div", { class: "field" }, el("label", { for: control.id }, label, note ?? null), control);

function choice(name, label, options, also = {}) {
  const current = state.get(name);
  const known = options.map((option) => (typeof option === "string" ? { value: option, text: option } : option));
  if (!known.some((option) => option.value === current)) known.push({ value: current, text: current });
  const control = el("select", {
    id: `set-${name}`,
    name,
    onchange: (event) => { state.change({ ...also, [name]: event.target.value }); sync(); ask(true); },
  }, known.map((option) => el("option", { value: option.value }, option.text)));
  control.value = current;
  redraw.push(() => { control.value = state.get(name); });
  return labelled(label, control);
}

// A slider over whole steps; `read` and `write` turn a step into the setting and back, `text` shows it.
function slider(name, label, { min, max, step = 1, read, write, text, also = {} }) {
  const shown = el("output", { for: `set-${name}`, class: "value" }, "");
  const control = el("input", {
    type: "range", id: `set-${name}`, name, min, max, step,
    oninput: (event) => { state.change({ ...also, [name]: write(Number(event.target.value)) }); update(); ask(false); },
    onchange: () => ask(true),
  });
  const update = () => {
    control.value = read(state.get(name));
    shown.value = text(state.get(name));
    control.setAttribute("aria-valuetext", shown.value);
  };
  redraw.push(update);
  return labelled(label, control, shown);
}

function text(name, label, hint) {
  const control = el("input", {
    type: "text", id: `set-${name}`, name, maxlength: 200, autocomplete: "off", spellcheck: "false", placeholder: hint,
    onchange: (event) => { state.change({ [name]: event.target.value.trim() }); sync(); ask(true); },
  });
  redraw.push(() => { if (document.activeElement !== control) control.value = state.get(name); });
  return labelled(label, control);
}

// A word of a question without a control of its own: a choice where it has few values, else a text with suggestions.
function wordField(word) {
  const label = word.label[0].toUpperCase() + word.label.slice(1);
  const known = word.known.includes(word.usual) ? word.known : [{ value: word.usual, text: "as usual" }, ...word.known];
  const field = word.only ? choice(word.name, label, known) : text(word.name, label, word.usual || word.unit || "none");
  const control = field.querySelector("select, input");
  control.title = word.help;
  if (!word.only && word.known.length) {
    control.setAttribute("list", `known-${word.name}`);
    field.append(el("datalist", { id: `known-${word.name}` }, word.known.map((value) => el("option", { value }))));
  }
  const several = (current) => Number(current.hosts) > 1 || current.view === "hosts";
  return shownWhen((current) => !word.of || (word.of === "hosts" ? several(current) : current.view === word.of), field);
}

function group(title, ...fields) {
  return el("fieldset", {}, el("legend", {}, title), fields);
}

const log2 = { read: (value) => Math.log2(Number(value) || 1), write: (step) => String(2 ** step) };

function sizeOfStep(step) {
  const value = 10 ** (CACHE_FROM + step / CACHE_STEPS);
  const [factor, unit] = value >= 999.5e9 ? [1e12, "TB"] : value >= 999.5e6 ? [1e9, "GB"] : [1e6, "MB"];
  return `${Number((value / factor).toPrecision(2))} ${unit}`;
}

function stepOfSize(size) {
  const found = /^([\d.]+) *([kMGT])(i?)B$/.exec(size);
  if (!found) return 46;
  const power = "kMGT".indexOf(found[2]) + 1;
  const value = Number(found[1]) * (found[3] ? 1024 : 1000) ** power;
  return Math.round((Math.log10(value) - CACHE_FROM) * CACHE_STEPS);
}

function tierField() {
  const names = catalogue.tiers.map((tier) => ({
    value: tier.name, text: `${tier.name}  ${format.show(tier.bytes_per_s, "B/s")}`,
  }));
  const control = el("select", {
    id: "set-tier", name: "tier",
    onchange: (event) => {
      if (event.target.value === OWN) { own.hidden = false; own.querySelector("input").focus(); return; }
      state.change({ tier: event.target.value }); sync(); ask(true);
    },
  }, names.map((option) => el("option", { value: option.value }, option.text)), el("option", { value: OWN }, "own bandwidth"));
  const typed = el("input", {
    type: "text", id: "set-own", maxlength: 60, placeholder: "7 GB/s", autocomplete: "off",
    onchange: (event) => { state.change({ tier: event.target.value.trim() }); sync(); ask(true); },
  });
  const own = el("div", { class: "field", hidden: true }, el("label", { for: "set-own" }, "Bandwidth"), typed);
  redraw.push(() => {
    const known = names.some((option) => option.value === state.get("tier"));
    control.value = known ? state.get("tier") : OWN;
    own.hidden = known;
    if (!known && document.activeElement !== typed) typed.value = state.get("tier");
  });
  return [labelled("Tier", control), own];
}

function classField() {
  const boxes = catalogue.classes.map((name) => {
    const box = el("input", {
      type: "checkbox", id: `set-class-${name}`, value: name,
      onchange: () => {
        const chosen = boxes.map((each) => each.querySelector("input")).filter((each) => each.checked);
        if (!chosen.length) { box.checked = true; return; }
        state.change({ classes: chosen.map((each) => each.value).join(",") });
        ask(true);
      },
    });
    redraw.push(() => { box.checked = state.get("classes").split(",").includes(name); });
    return el("div", { class: "check" }, box, el("label", { for: `set-class-${name}` }, name));
  });
  return el("div", { class: "field", role: "group", "aria-label": "Classes of data that come from the tier" },
    el("span", { class: "label" }, "Comes from the tier"), el("div", { class: "checks" }, boxes));
}

function holdField() {
  const options = [["ratio", "a stated hit ratio"], ["cache", "a cache"]].map(([value, label]) => {
    const radio = el("input", {
      type: "radio", name: "hold", id: `set-hold-${value}`, value,
      onchange: () => { state.change({ hold: value }); sync(); ask(true); },
    });
    redraw.push(() => { radio.checked = state.get("hold") === value; });
    return el("div", { class: "check" }, radio, el("label", { for: `set-hold-${value}` }, label));
  });
  return el("div", { class: "field", role: "radiogroup", "aria-label": "On chip" }, options);
}

// The drive view always shows one: without a choice the first.
function driveField(options) {
  const field = choice("drive", "SSD", options);
  const none = field.querySelector("option");
  redraw.push(() => { none.textContent = state.viewName() === "drive" ? `${options[1]}, the first` : options[0].text; });
  return field;
}

// A setting that stands in several groups has an id in each.
function again(field, where) {
  const control = field.querySelector("select");
  control.id = `${control.id}-${where}`;
  field.querySelector("label").setAttribute("for", control.id);
  return field;
}

function shownWhen(test, ...fields) {
  const box = el("div", {}, fields.flat());
  redraw.push(() => { box.hidden = !test(state.current()); });
  return box;
}

function runField(name, label, runs = catalogue.runs) {
  const options = [{ value: "", text: "the newest that fits" }, ...runs];
  return choice(name, label, options, name === "run" ? FRESH : {});
}

const FILE_VIEWS = ["validation"];
const RUN_VIEWS = ["run", "compare", "measured"];

export function build(found, onask) {
  catalogue = found;
  ask = onask;
  redraw = [];
  const params = [{ value: "", text: "the machine's own" }, ...catalogue.params];
  const forms = [{ value: "", text: "as the set says" }, ...catalogue.key_forms];
  const drives = [{ value: "", text: "none" }, ...catalogue.drives];
  const whatif = (current) => WHATIF.includes(current.view);
  const form = byId("settings");
  const fields = el("div", { class: "groups" },
    shownWhen(whatif,
      group("Program", choice("workload", "Workload", catalogue.workloads), choice("params", "Parameters", params), choice("key_form", "Keys", forms)),
      group("Machine",
        choice("machine", "Machine", catalogue.machines),
        shownWhen((current) => current.view === "machines", choice("other", "Compared with", catalogue.machines)),
        shownWhen((current) => !PREDICTED.includes(current.view), choice("mode", "Time", [
          { value: "serial", text: "serial: load, then compute" }, { value: "overlap", text: "overlap: load ahead" },
          { value: "bound", text: "bound: the slowest resource" }])),
        shownWhen((current) => current.mode === "overlap" && !PREDICTED.includes(current.view),
          choice("prefetch", "Prefetch", [...AHEAD, ...catalogue.prefetchers]),
          shownWhen((current) => current.prefetch === "perfect", text("buffer", "Prefetch buffer", "1 GB")))),
      shownWhen((current) => !PREDICTED.includes(current.view), group("On chip",
        shownWhen((current) => !["residency", "slowdown", "levels"].includes(current.view), holdField()),
        shownWhen((current) => current.view === "levels", text("levels", "Levels, fastest first", "on-chip,hbm:16 GB,nvme-gen5")),
        shownWhen((current) => current.hold === "ratio" && !["residency", "slowdown", "levels"].includes(current.view),
          slider("hit_ratio", "Hit ratio", {
            min: 0, max: 100, read: (value) => Math.round(Number(value) * 100), write: (step) => String(step / 100),
            text: (value) => format.share(Number(value)),
          })),
        shownWhen((current) => current.view === "residency" || (current.hold === "cache" && !["slowdown", "levels"].includes(current.view)),
          slider("cache", "Cache", { min: 0, max: 120, read: stepOfSize, write: sizeOfStep, text: (value) => value }),
          text("cache", "Size, or on-chip", "512 MB"),
          choice("policy", "Policy", catalogue.policies)),
        classField()))),
    shownWhen((current) => (whatif(current) && !PREDICTED.includes(current.view)) || current.view === "drive",
      group("Storage",
        shownWhen((current) => current.view !== "drive" && current.view !== "slowdown" && !current.drive, tierField()),
        drives.length > 1 ? driveField(drives) : null,
        shownWhen((current) => current.drive || current.view === "drive",
          choice("pattern", "Reads", catalogue.patterns),
          slider("queue_depth", "Queue depth", { min: 0, max: 12, ...log2, text: (value) => value })),
        shownWhen((current) => current.view === "drive",
          choice("scan_end", "Pages end", [{ value: "pcie", text: "in the host, by PCIe" }, { value: "none", text: "inside the drive" }])))),
    shownWhen((current) => whatif(current) && current.view !== "residency" && !OWN_VIEWS.includes(current.view),
      group("Cluster",
        slider("hosts", "Hosts", { min: 0, max: 6, ...log2, text: (value) => value }),
        shownWhen((current) => Number(current.hosts) > 1 || current.view === "hosts",
          choice("network", "Network", catalogue.networks),
          choice("partition", "Partition", catalogue.partitions)))),
    shownWhen((current) => whatif(current) && !PREDICTED.includes(current.view),
      group("More words", ...catalogue.words.map(wordField))),
    shownWhen((current) => FILE_VIEWS.includes(current.view),
      group("Predictions", choice("predictions", "File", [{ value: "", text: "the first" }, ...catalogue.predictions]))),
    shownWhen((current) => RUN_VIEWS.includes(current.view),
      group("Runs", runField("run", "Run"),
        shownWhen((current) => current.view === "compare", runField("other_run", "Compared with")))),
    shownWhen((current) => current.view === "designs", group("Design space", choice("query", "Workload", catalogue.queries, FRESH))),
    shownWhen((current) => current.view === "sweep", group("Sweep", again(runField("run", "Run", catalogue.sweeps), "sweep"))),
    shownWhen((current) => current.view === "bench", group("Benchmarks",
      again(runField("run", "Run", catalogue.benches), "bench"), again(runField("other_run", "Against", catalogue.benches), "bench"))));
  const more = el("details", { class: "drawer" }, el("summary", {}, "Settings"), fields);
  more.open = window.matchMedia("(min-width: 900px)").matches;
  form.replaceChildren(more);
  form.addEventListener("submit", (event) => event.preventDefault());
  const ids = new Map();
  for (const control of form.querySelectorAll("[id]")) {
    // A setting may have a slider and a text field: the second gets an id of its own.
    const seen = ids.get(control.id) ?? 0;
    ids.set(control.id, seen + 1);
    if (!seen) continue;
    const label = control.parentElement.querySelector(`label[for="${control.id}"]`);
    control.id = `${control.id}-text`;
    label?.setAttribute("for", control.id);
  }
  sync();
}

export function sync() {
  for (const each of redraw) each();
  const form = byId("settings");
  form.hidden = ["runs"].includes(state.viewName());
}
