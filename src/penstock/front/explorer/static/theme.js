// Light and dark: as the system has it until somebody chooses.

import { byId } from "./dom.js";

const KEY = "penstock-theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try {
    return window.localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function apply() {
  const dark = (chosen() ?? (system.matches ? "dark" : "light")) === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark"; // what a click gives
  return dark;
}

export function install(changed) {
  apply();
  system.addEventListener("change", () => { apply(); changed(); });
  byId("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      window.localStorage.setItem(KEY, next);
    } catch {
      document.documentElement.dataset.theme = next;
      return;
    }
    apply();
    changed();
  });
}
