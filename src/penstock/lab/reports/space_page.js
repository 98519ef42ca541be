// The drawing of many points on a page of its own; what is chosen is kept in the address.
(() => {
  const place = document.getElementById("space");
  const space = JSON.parse(document.getElementById("space-data").textContent);
  const read = () => (location.hash.includes("=") ? Object.fromEntries(new URLSearchParams(location.hash.slice(1))) : {});
  let asked = read();
  const draw = () => {
    const kept = document.activeElement?.dataset?.keep;
    place.replaceChildren();
    window.penstockSpace.drawSpace(place, space, asked, {
      change: (changes) => {
        asked = { ...asked, ...changes };
        history.replaceState(null, "", `#${new URLSearchParams(asked)}`);
        draw();
      },
    });
    if (kept) place.querySelector(`[data-keep="${kept}"]`)?.focus();
  };
  draw();
  let wide = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; draw(); } });
  addEventListener("hashchange", () => { if (location.hash.includes("=")) { asked = read(); draw(); } });
})();
