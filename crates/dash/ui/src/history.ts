// The series of the last minutes or hours: loaded once, and from then on continued by the pulse without asking again.
import { useEffect, useRef, useState } from "preact/hooks";

import { ask } from "./api";
import type { History, Series } from "./api.gen";
import { millis } from "./format";
import { point, type HistoryPoint } from "./live";
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

/** How often a chart that the pulse continues is asked for all the same. */
const ALL_THE_SAME = 60;

/** The history of the last `ms`, of the server or of one queue. The pulse continues that of the server; what it does not
 * continue is asked for again as often as a new point can be seen, so fewer points cost less. */
export function useHistory(ms: number, queue?: string, points = POINTS): Loaded<History> {
  const seconds = Math.max(2, Math.round(ms / points / 1000));
  const loaded = useLoad(
    `history ${ms} ${points} ${queue ?? ""}`,
    (signal) => {
      const from = new Date(Date.now() - ms).toISOString();
      return ask("GET /history", { query: { from, points, ...(queue ? { queue } : {}) }, signal });
    },
    queue || ms > (WINDOWS[0]?.[1] ?? 0) ? seconds : ALL_THE_SAME,
  );
  const [grown, setGrown] = useState<{ from: History; now: History } | null>(null);
  const base = loaded.data;
  const now = grown && grown.from === base ? grown.now : base;
  const latest = useRef(now);
  latest.current = now;
  useEffect(() => {
    if (queue || !base) return;
    return point.subscribe((next) => {
      const longer = next && latest.current && continued(latest.current, next);
      if (longer === "gap") loaded.reload();
      else if (longer) setGrown({ from: base, now: longer });
    });
  }, [base, queue]);
  return { ...loaded, data: now };
}

/** The history with one more point at its end and one less at its beginning; nothing if it has the point already or its
 * steps are others. */
export function continued(history: History, next: HistoryPoint): History | "gap" | null {
  if (next.step_ms !== history.step_ms) return null;
  const at = Math.round((millis(next.at) - millis(history.from)) / history.step_ms);
  const length = history.series.done.length;
  if (at < length) return null;
  if (at > length) return "gap";
  const series = Object.fromEntries(Object.entries(history.series).map(([name, values]) => [name, [...values.slice(1), next[name as keyof Series] ?? null]]));
  return { ...history, from: new Date(millis(history.from) + history.step_ms).toISOString(), series: series as unknown as Series };
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
