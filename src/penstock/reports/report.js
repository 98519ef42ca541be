"use strict";
(() => {
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")];
  if (!window.Plotly) return;
  root.classList.add("js");
  // Only buttons that stay on this page: plotly's own list has one that sends the chart to a server.
  const config = { displaylogo: false, responsive: true, scrollZoom: false, modeBarButtons: [["toImage", "resetScale2d"]] };

  // Colours in the figures are names; the style sheet of the present theme gives their values.
  const themed = (value, style) => {
    if (typeof value === "string") {
      return /^@@[a-z0-9]+$/.test(value) ? style.getPropertyValue("--" + value.slice(2)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => themed(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, themed(item, style)]));
    }
    return value;
  };

  const draw = (width) => {
    const style = getComputedStyle(root);
    for (const plot of plots) {
      const figure = themed(JSON.parse(document.getElementById(plot.dataset.figure).textContent), style);
      if (width) figure.layout.width = width;
      const narrow = plot.clientWidth < 480;
      if (narrow) figure.layout.font.size = 11;
      Plotly.react(plot, figure.data, figure.layout, { ...config, displayModeBar: narrow ? false : "hover" });
    }
  };

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  addEventListener("beforeprint", () => { root.setAttribute("data-print", ""); draw(660); });
  addEventListener("afterprint", () => { root.removeAttribute("data-print"); draw(); });
})();
