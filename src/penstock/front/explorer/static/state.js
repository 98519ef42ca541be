// What the page shows, and its address: the settings that are not the default, and the view.

let defaults = {};
let settings = {};
let view = "whatif";
let service = false;

export function begin(catalogue) {
  defaults = catalogue.defaults;
  service = Boolean(catalogue.service);
  read();
}

export function read() {
  const asked = new URLSearchParams(window.location.search);
  view = asked.get("view") || "whatif";
  settings = { ...defaults };
  // Unknown settings are kept: the server says what is wrong with them.
  for (const [name, value] of asked) if (name !== "view") settings[name] = value;
}

export const current = () => ({ ...settings, view });
export const get = (name) => settings[name];
export const viewName = () => view;
export const hasService = () => service;

export function change(changes) {
  const { view: other, ...rest } = changes;
  if (other !== undefined) view = other;
  for (const [name, value] of Object.entries(rest)) settings[name] = String(value);
}

export function query(changes = {}, leave = []) {
  const { view: other, ...rest } = changes;
  const found = new URLSearchParams();
  const shown = other ?? view;
  if (!leave.includes("view")) found.set("view", shown);
  for (const [name, value] of Object.entries({ ...settings, ...rest })) {
    if (String(value) !== defaults[name]) found.set(name, String(value));
  }
  return found.toString();
}

export const address = (changes = {}) => `/?${query(changes)}`;
export const dataAddress = (format) => {
  const asked = query({}, ["view"]);
  const parts = [asked, format ? `format=${format}` : ""].filter(Boolean).join("&");
  return `/api/view/${encodeURIComponent(view)}${parts ? `?${parts}` : ""}`;
};

export function write(push) {
  const target = address();
  if (target === window.location.pathname + window.location.search) return;
  if (push) window.history.pushState(null, "", target);
  else window.history.replaceState(null, "", target);
}
