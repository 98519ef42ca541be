// Numbers as people read them: four digits at most, the unit that suits, a dash where a value is unknown.

export const UNKNOWN = "–";
const NARROW = "\u202f";

export function digits(value, most = 4) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 9999.5 && size < 1e15) return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, NARROW);
  if (size < 1e-4 || size >= 1e15) return value.toExponential(most - 1);
  return Number(value.toPrecision(most)).toString();
}

function scaled(value, steps) {
  const [factor, unit] = steps.find(([step]) => Math.abs(value) >= step) ?? steps[steps.length - 1];
  return `${digits(value / factor)}${NARROW}${unit}`;
}

const SECONDS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"], [1e-12, "ps"]];
const BYTES = [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const JOULES = [[1, "J"], [1e-3, "mJ"], [1e-6, "µJ"]];

export function seconds(value) {
  if (Math.abs(value) >= 120) {
    const whole = Math.round(Math.abs(value));
    return `${value < 0 ? "-" : ""}${Math.floor(whole / 60)}${NARROW}min ${whole % 60}${NARROW}s`;
  }
  return value === 0 ? `0${NARROW}s` : scaled(value, SECONDS);
}

export const bytes = (value) => (value === 0 ? `0${NARROW}B` : scaled(value, BYTES));
export const ratio = (value) => `${digits(value, value < 10 ? 3 : 4)}×`;
export const share = (value) => `${digits(100 * value, 3)}${NARROW}%`;

export function show(value, unit) {
  if (value === null || value === undefined || value === "") return UNKNOWN;
  if (typeof value !== "number") return typeof value === "object" ? JSON.stringify(value) : String(value);
  switch (unit) {
    case "s": return seconds(value);
    case "B": return bytes(value);
    case "B/s": return `${bytes(value)}/s`;
    case "J": return value === 0 ? `0${NARROW}J` : scaled(value, JOULES);
    case "W": return `${digits(value)}${NARROW}W`;
    case "mm²": return `${digits(value)}${NARROW}mm²`;
    case "x": return ratio(value);
    case "share": return share(value);
    default: return digits(value);
  }
}
