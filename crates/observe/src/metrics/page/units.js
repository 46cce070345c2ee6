// Amounts with their units, as the page shows them.

function scaled(amount, step, units) {
  let unit = 0;
  while (amount >= step && unit + 1 < units.length) { amount /= step; unit += 1; }
  const digits = amount !== 0 && amount < 10 ? 1 : 0;
  return `${amount.toFixed(digits)} ${units[unit]}`.trim();
}

export const bytes = (amount) => scaled(amount, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
export const count = (amount) => scaled(amount, 1000, ["", "k", "M"]);
export const time = (ns) => scaled(ns / 1000, 1000, ["µs", "ms", "s"]);
export const part = (of) => `${Math.round(of * 100)} %`;
export const bytesPerSecond = (amount) => `${bytes(amount)}/s`;
export const perSecond = (amount) => `${count(amount)}/s`;

// A time of day, from milliseconds or a date.
export const clock = (at) => new Date(at).toLocaleTimeString([], { hour12: false });
