// The series of the last minutes or hours: loaded once, and from then on continued by the pulse without asking again.
import { ask } from "./api";
import type { History, Series } from "./contract";
import { millis } from "./format";
import { useLoad, type Loaded } from "./load";

/** What people look at: a name and its milliseconds. */
export const WINDOWS: ReadonlyArray<readonly [name: string, ms: number]> = [
  ["15 min", 15 * 60_000],
  ["1 h", 3_600_000],
  ["6 h", 6 * 3_600_000],
  ["24 h", 24 * 3_600_000],
];

/** Points of a chart; more are not seen. */
const POINTS = 240;

/** The history of the last `ms`, of the server or of one queue. It is asked for again as often as a new point can be seen,
 * so fewer points cost less. */
export function useHistory(ms: number, queue?: string, points = POINTS): Loaded<History> {
  const seconds = Math.max(2, Math.round(ms / points / 1000));
  return useLoad(
    `history ${ms} ${points} ${queue ?? ""}`,
    (signal) => {
      const from = new Date(Date.now() - ms).toISOString();
      return ask("GET /history", { query: { from, points, ...(queue ? { queue } : {}) }, signal });
    },
    seconds,
  );
}

/** When each point of a history was. */
export function times(history: History | null): number[] {
  if (!history) return [];
  const from = millis(history.from);
  return history.series.done.map((_value, at) => from + at * history.step_ms);
}

/** One of its series. */
export function series(history: History | null, name: keyof Series): Array<number | null> {
  return history?.series[name] ?? [];
}
