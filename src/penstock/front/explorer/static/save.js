// Downloads of a drawing, as SVG and PNG with the colours of the page; and the clipboard.

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "font-weight", "text-anchor", "opacity"];

function standalone(drawing) {
  const copy = drawing.cloneNode(true);
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, i) => {
    const style = window.getComputedStyle(originals[i]);
    for (const name of STYLES) {
      const value = style.getPropertyValue(name);
      if (value) node.setAttribute(name, value);
    }
    for (const name of ["class", "data-tip", "tabindex"]) node.removeAttribute(name);
  });
  const { width, height } = drawing.viewBox.baseVal;
  for (const name of ["aria-describedby", "aria-details"]) copy.removeAttribute(name); // they point into the page
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", width);
  ground.setAttribute("height", height);
  ground.setAttribute("fill", window.getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function saveSvg(drawing, name) {
  offer(new Blob([standalone(drawing).text], { type: "image/svg+xml" }), `${name}.svg`);
}

export async function savePng(drawing, name) {
  const { text, width, height } = standalone(drawing);
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  const sharp = 2;
  canvas.width = width * sharp;
  canvas.height = height * sharp;
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  // At once: `toBlob` waits for an idle moment of the page, up to seven seconds.
  const bytes = window.atob(canvas.toDataURL("image/png").split(",")[1]);
  offer(new Blob([Uint8Array.from(bytes, (each) => each.charCodeAt(0))], { type: "image/png" }), `${name}.png`);
}

export async function copy(text) {
  await navigator.clipboard.writeText(text);
}
