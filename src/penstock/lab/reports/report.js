"use strict";
// The list of contents marks the section that is being read. Everything else on the page works without a script.
(() => {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const sections = [...links.keys()].map((id) => document.getElementById(id)).filter(Boolean);
  const mark = () => {
    const line = innerHeight * 0.3;
    const current = sections.filter((section) => section.getBoundingClientRect().top <= line).pop() ?? sections[0];
    for (const [id, link] of links) {
      if (id === current?.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const link = links.get(current?.id);
    const list = link?.closest("ul");
    if (list && list.scrollWidth > list.clientWidth) list.scrollLeft = link.offsetLeft - list.clientWidth / 3;
  };
  addEventListener("scroll", mark, { passive: true });
  addEventListener("resize", mark);
  mark();
})();
