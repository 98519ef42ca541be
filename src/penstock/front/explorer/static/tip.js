// What a number is and where it comes from, beside it, while it is pointed at or has the focus.

import { byId } from "./dom.js";

let owner = null;

function place(box, at) {
  box.hidden = false;
  const room = document.documentElement.clientWidth;
  const left = Math.max(8, Math.min(at.left, room - box.offsetWidth - 8));
  const below = at.bottom + 6;
  const above = at.top - box.offsetHeight - 6;
  const fits = below + box.offsetHeight < window.innerHeight || above < 0;
  box.style.left = `${left + window.scrollX}px`;
  box.style.top = `${(fits ? below : above) + window.scrollY}px`;
}

function open(node) {
  if (owner === node) return;
  close();
  owner = node;
  const box = byId("tip");
  box.textContent = node.getAttribute("data-tip");
  node.setAttribute("aria-describedby", "tip");
  place(box, node.getBoundingClientRect());
}

export function close() {
  owner?.removeAttribute("aria-describedby");
  owner = null;
  byId("tip").hidden = true;
}

export function install() {
  const find = (event) => event.target.closest?.("[data-tip]");
  document.addEventListener("pointerover", (event) => { const node = find(event); if (node) open(node); else close(); });
  document.addEventListener("focusin", (event) => { const node = find(event); if (node) open(node); else close(); });
  document.addEventListener("focusout", close);
  document.addEventListener("scroll", close, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
}

export function tipOf(provenance, source) {
  return [provenance, source].filter(Boolean).join(": ");
}
