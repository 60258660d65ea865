// How figures are written, the same on all pages: short, with a unit, never more digits than one reads.

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 12 345; from a million on 1.23 M. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e9) return `${trimmed(value / 1e9)} G`;
  if (Math.abs(value) >= 1e6) return `${trimmed(value / 1e6)} M`;
  return NUMBER.format(value).replaceAll(",", "\u202f");
}

/** A rate or an average: fewer decimals the larger it is. */
export function amount(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 1000 ? count(value) : trimmed(value);
}

/** A share of one as percent. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return "–";
  const value = share * 100;
  return `${value === 0 || value >= 10 ? Math.round(value) : Number(value.toFixed(value >= 1 ? 1 : 2))} %`;
}

/** A span of time. */
export function span(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms < 0) return `−${span(-ms)}`;
  if (ms < 1000) return `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  if (minutes < 60) return two(minutes, "min", Math.round(seconds) % 60, "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return two(hours, "h", minutes % 60, "min");
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** A span of time in one unit, where there is little room. */
export function brief(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || ms < 59_500) return span(ms);
  const units: ReadonlyArray<readonly [number, string]> = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"]];
  const [size, unit] = units.find(([size]) => ms >= size * 0.995) ?? [60_000, "min"];
  const value = ms / size;
  return `${value >= 10 ? Math.round(value) : Number(value.toFixed(1))} ${unit}`;
}

/** How long ago, or in how long. */
export function ago(time: string | number | null | undefined, now = Date.now()): string {
  if (time === null || time === undefined) return "–";
  const ms = now - millis(time);
  if (Math.abs(ms) < 1000) return "now";
  const size = Math.abs(ms);
  const text = size < 60_000 ? `${Math.floor(size / 1000)} s` : span(coarse(size));
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

/** The time of day; with the day if it is another one. */
export function clock(time: string | number | null | undefined): string {
  if (time === null || time === undefined) return "–";
  const date = new Date(millis(time));
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString("en", { month: "short", day: "numeric" })} `;
  return day + date.toLocaleTimeString("en", { hour12: false });
}

/** The whole moment, for titles. */
export function moment(time: string | number): string {
  return new Date(millis(time)).toISOString().replace("T", " ").replace("Z", " UTC");
}

export function millis(time: string | number): number {
  return typeof time === "number" ? time : Date.parse(time);
}

export function bytes(size: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (size >= 1000 && at < units.length - 1) {
    size /= 1000;
    at += 1;
  }
  return `${at === 0 ? size : trimmed(size)} ${units[at]}`;
}

/** An id as it stands in tables: its end, because ids begin with the time and look alike there. */
export function shortId(id: string): string {
  return id.length > 12 ? id.slice(-8) : id;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

function trimmed(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return String(Math.round(value));
  return String(Number(value.toFixed(size >= 10 ? 1 : 2)));
}

/** From a minute on, seconds do not matter. */
function coarse(ms: number): number {
  return ms < 3_600_000 ? Math.floor(ms / 60_000) * 60_000 : ms;
}

function two(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}
