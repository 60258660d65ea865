// When a schedule ticks, on the clocks of its zone.

/** The local time of a tick as people write it, from RFC 3339. */
export function localTick(local: string): string {
  const found = /^(\d{4})-(\d\d)-(\d\d)T(\d\d:\d\d)(:\d\d)?/.exec(local);
  if (!found) return local;
  const [, year, month, day, time, seconds] = found;
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)));
  const words = date.toLocaleDateString("en", { weekday: "short", month: "short", day: "numeric", timeZone: "UTC" });
  return `${words}, ${time}${seconds === ":00" ? "" : (seconds ?? "")}`;
}
