// What moves: one pulse per second that all parts of the page share. A person can pause it; a hidden tab pauses by itself.
// After a gap that the server cannot fill, `gaps` counts up and every list is loaded anew.
import { computed, effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import type { Overview, Series } from "./api.gen";
import { span } from "./format";
import { watch, type StreamState } from "./stream";
import { say } from "./toast";

/** One step of the history, as the pulse tells it. */
export type HistoryPoint = { at: string; step_ms: number } & { [name in keyof Series]: number | null };

/** The event that comes once a second. */
interface Pulse {
  overview: Overview;
  point: HistoryPoint | null;
}

export type PulseEvent = "worker" | "steal" | "queue" | "alert";

/** Whether a person stopped the movement. */
export const paused = signal(false);
/** Whether nobody can see the page. */
const hidden = signal(document.hidden);
const state = signal<StreamState>("connecting");

/** The numbers of now; nothing before the first pulse. */
export const overview = signal<Overview | null>(null);
/** The last step of the history that is over. */
export const point = signal<HistoryPoint | null>(null);
/** Counts up with each pulse: what changes with time follows it. */
export const beat = signal(0);
/** Counts up when something may have been missed. */
export const gaps = signal(0);

export const connection = computed<"connecting" | "live" | "paused" | "lost">(() => {
  if (paused.value || hidden.value) return "paused";
  return state.value === "open" ? "live" : state.value;
});

/** A pulse comes each second; so much silence is a broken connection. */
const SILENCE_MS = 6_000;

const listeners = new Map<string, Set<(data: unknown) => void>>();
let lostAt: number | null = null;

/** Begins to follow the pulse. */
export function begin(): void {
  document.addEventListener("visibilitychange", () => (hidden.value = document.hidden));
  const stream = watch(
    "GET /pulse",
    {},
    {
      said({ name, data }) {
        if (name === "pulse") {
          overview.value = (data as Pulse).overview;
          if ((data as Pulse).point?.at !== point.peek()?.at) point.value = (data as Pulse).point;
          beat.value += 1;
        } else if (name === "lagged") {
          gaps.value += 1;
          say("Some events were missed; the lists were loaded anew.");
        }
        for (const listener of listeners.get(name) ?? []) listener(data);
      },
      state: connectionIs,
    },
    SILENCE_MS,
  );
  effect(() => {
    if (paused.value || hidden.value) stream.pause();
    else stream.resume();
  });
}

/** Calls back on each event of a name while the component is there. */
export function useEvents<T>(name: PulseEvent, said: (event: T) => void): void {
  const latest = useRef(said);
  latest.current = said;
  useEffect(() => {
    const listener = (data: unknown) => latest.current(data as T);
    const set = listeners.get(name) ?? new Set();
    listeners.set(name, set.add(listener));
    return () => void set.delete(listener);
  }, [name]);
}

function connectionIs(next: StreamState): void {
  if (next === "lost" && lostAt === null && state.value === "open") lostAt = Date.now();
  if (next === "open" && lostAt !== null) {
    say(`Connected again after ${span(Date.now() - lostAt)}.`);
    lostAt = null;
    // Events are replayed; numbers that no event tells are read again.
    gaps.value += 1;
  }
  // While a lost connection is tried again, it is still lost.
  if (next === "connecting" && state.value === "lost") return;
  state.value = next;
}
