// How tasks move between workers: arrows beside the lanes for the last seconds, and the moves one by one.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ago, millis, plural } from "../../format";

/** A move as it was told. */
export interface Steal {
  at: string;
  from: string;
  to: string;
  count: number;
  by: "pull" | "push";
}

/** Moves of so many milliseconds make an arrow. */
export const ARROW_MS = 10_000;
/** The width of the strip that the arrows have. */
const STRIP = 64;

interface Arrow {
  from: string;
  to: string;
  count: number;
  isPush: boolean;
}

/** What moved lately, one arrow for each pair and way. */
export function arrows(steals: Steal[], now: number): Arrow[] {
  const found = new Map<string, Arrow>();
  for (const steal of steals) {
    if (now - millis(steal.at) > ARROW_MS) continue;
    const key = JSON.stringify([steal.from, steal.to, steal.by]);
    const arrow = found.get(key) ?? { from: steal.from, to: steal.to, count: 0, isPush: steal.by === "push" };
    arrow.count += steal.count;
    found.set(key, arrow);
  }
  return [...found.values()];
}

/** The arrows, drawn over the strip at the left of the lanes. The list beside them says the same in words. */
export function Arrows({ steals, now, lanes }: { steals: Steal[]; now: number; lanes: string }) {
  const strip = useRef<SVGSVGElement>(null);
  const [places, setPlaces] = useState<Map<string, number>>(new Map());
  useLayoutEffect(() => {
    const list = strip.current?.parentElement;
    if (!list) return;
    const measure = () => {
      const next = new Map<string, number>();
      for (const lane of list.querySelectorAll<HTMLElement>(".lane")) {
        next.set(lane.dataset.worker ?? "", lane.offsetTop + lane.offsetHeight / 2);
      }
      setPlaces((last) => (isSame(last, next) ? last : next));
    };
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(list);
    return () => watch.disconnect();
  }, [lanes]);
  const drawn = arrows(steals, now).filter((arrow) => places.has(arrow.from) && places.has(arrow.to));
  return (
    <svg ref={strip} class="arrows" width={STRIP} aria-hidden="true">
      <defs>
        <marker id="arrow-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">
          <path d="M0 0 8 4 0 8z" />
        </marker>
      </defs>
      {drawn.map((arrow) => {
        const [from, to] = [places.get(arrow.from) ?? 0, places.get(arrow.to) ?? 0];
        const bend = STRIP - Math.min(STRIP - 8, 18 + Math.abs(to - from) / 8);
        return (
          <path
            key={`${arrow.from} ${arrow.to} ${arrow.isPush}`}
            class={arrow.isPush ? "arrow push" : "arrow"}
            stroke-width={Math.min(6, 1.5 + Math.log2(arrow.count))}
            marker-end="url(#arrow-head)"
            d={`M${STRIP - 2} ${from} C${bend} ${from} ${bend} ${to} ${STRIP - 2} ${to}`}
          />
        );
      })}
    </svg>
  );
}

export function StealList({ steals, now }: { steals: Steal[]; now: number }) {
  if (steals.length === 0) {
    return <p class="note">No task has moved while this page was open. Workers with nothing to do take over what waits at busy ones.</p>;
  }
  return (
    <ol class="steals">
      {[...steals].reverse().map((steal, at) => (
        <li key={`${steal.at} ${at}`}>
          <span>
            {plural(steal.count, "task")} from <b>{steal.from}</b> to <b>{steal.to}</b>
          </span>
          <span class="note">
            {steal.by === "pull" ? "taken by an idle worker" : "moved by the scheduler"}, {ago(steal.at, now)}
          </span>
        </li>
      ))}
    </ol>
  );
}

function isSame(one: Map<string, number>, other: Map<string, number>): boolean {
  return one.size === other.size && [...one].every(([name, place]) => other.get(name) === place);
}
