// What a part of a page shows: asked for when it appears, when its key changes, after a gap, and again and again while the
// page is live. A part that fails fails alone, and keeps what it had.
import { useEffect, useRef, useState } from "preact/hooks";

import { beat, gaps, paused } from "./live";

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  /** Whether `data` belongs to another key than the present one. */
  isStale: boolean;
  reload: () => void;
}

/** Loads `key`. `every` beats (seconds) it is asked again; 0 means never by itself. */
export function useLoad<T>(key: string, load: (signal: AbortSignal) => Promise<T>, every = 0): Loaded<T> {
  const [shown, setShown] = useState<{ key: string; data: T | null; error: Error | null }>({ key: "", data: null, error: null });
  const latest = useRef(load);
  latest.current = load;
  const run = useRef<() => void>(() => {});

  useEffect(() => {
    const asking = askAgain(async (signal) => {
      try {
        const data = await latest.current(signal);
        if (!signal.aborted) setShown({ key, data, error: null });
      } catch (error) {
        if (!signal.aborted) setShown((before) => ({ key, data: before.key === key ? before.data : null, error: error as Error }));
      }
    }, every);
    run.current = asking.ask;
    return asking.end;
  }, [key, every]);

  return { data: shown.data, error: shown.error, isStale: shown.key !== key, reload: () => run.current() };
}

/** Asks now, after each gap, and every so many beats, one answer at a time, until the end. */
export function askAgain(once: (signal: AbortSignal) => Promise<void>, every: number): { ask: () => void; end: () => void } {
  const stop = new AbortController();
  let isAsking = false;
  let isOutdated = false;
  let waited = 0;
  const asked = async () => {
    // The answer that is on its way may be older than what made somebody ask.
    isOutdated = isAsking;
    if (isAsking) return;
    isAsking = true;
    do {
      isOutdated = false;
      waited = 0;
      await once(stop.signal);
    } while (isOutdated && !stop.signal.aborted);
    isAsking = false;
  };
  const ask = () => void asked();
  ask();
  const ends = [
    beat.subscribe(() => {
      waited += 1;
      if (every > 0 && waited > every && !isAsking && !paused.peek()) ask();
    }),
    skipFirst(gaps, ask),
  ];
  return {
    ask,
    end: () => {
      stop.abort();
      for (const end of ends) end();
    },
  };
}

function skipFirst(source: typeof gaps, then: () => void): () => void {
  let isFirst = true;
  return source.subscribe(() => {
    if (!isFirst) then();
    isFirst = false;
  });
}
