// Small pictures of numbers: a tile, a meter, a stack, a line without axes, a ring.
import type { ComponentChildren } from "preact";

import type { TaskState } from "../api.gen";
import { count } from "../format";
import { STATES, stateWord } from "./state";

export type Tone = "accent" | "good" | "warn" | "bad" | "muted" | `state-${TaskState}` | `p${1 | 2 | 3 | 4 | 5}`;

interface StatProps {
  name: string;
  value: ComponentChildren;
  /** Small, after the value: a unit, or of how many. */
  unit?: ComponentChildren;
  note?: ComponentChildren;
  /** The list behind the number. */
  href?: string;
  tone?: "good" | "warn" | "bad";
  values?: ReadonlyArray<number | null>;
}

/** A number that leads to the list behind it. */
export function Stat({ name, value, unit, note, href, tone, values }: StatProps) {
  const inside = (
    <>
      <span class="stat-name">{name}</span>
      <span class="stat-value">
        {value}
        {unit && <small>{unit}</small>}
      </span>
      <span class="stat-note">{note ?? "\u00a0"}</span>
      {values && <Sparkline values={values} label={`${name}, lately`} tone={tone ?? "accent"} height={26} />}
    </>
  );
  const look = `stat ${tone ? `is-${tone}` : ""}`;
  return href ? (
    <a class={look} href={href}>
      {inside}
    </a>
  ) : (
    <div class={look}>{inside}</div>
  );
}

/** How full something is. */
export function Meter({ value, max, label, tone = "accent" }: { value: number; max: number; label: string; tone?: Tone }) {
  const share = max > 0 ? Math.min(value / max, 1) : 0;
  return (
    <span class={`meter tone-${tone}`} role="img" aria-label={label} title={label}>
      <span style={{ width: `${share * 100}%` }} />
    </span>
  );
}

export interface Slice {
  name: string;
  value: number;
  tone: Tone;
}

/** Parts of a whole, one beside the other. With `max` several stacks can be compared. */
export function Stack({ slices, max, label }: { slices: readonly Slice[]; max?: number; label?: string }) {
  const total = slices.reduce((sum, { value }) => sum + value, 0);
  const whole = Math.max(max ?? total, 1);
  const text = label ?? (slices.filter(({ value }) => value > 0).map(({ name, value }) => `${name} ${count(value)}`).join(", ") || "nothing");
  return (
    <span class="stack" role="img" aria-label={text} title={text}>
      {slices.map(({ name, value, tone }) => value > 0 && <span key={name} class={`tone-${tone}`} style={{ width: `${(value / whole) * 100}%` }} />)}
    </span>
  );
}

/** Tasks by state as slices of a stack. */
export function stateSlices(counts: { [state: string]: number | undefined }): Slice[] {
  return STATES.map((state) => ({ name: stateWord(state), value: counts[state] ?? 0, tone: `state-${state}` }));
}

interface SparklineProps {
  values: ReadonlyArray<number | null>;
  label: string;
  tone?: Tone;
  width?: number;
  height?: number;
}

/** A line without axes; unknown values leave a gap. */
export function Sparkline({ values, label, tone = "accent", width = 120, height = 24 }: SparklineProps) {
  const known = values.filter((value): value is number => value !== null);
  const top = Math.max(...known, 1e-9);
  const x = (at: number) => (values.length < 2 ? 0 : (at / (values.length - 1)) * width);
  const y = (value: number) => height - 1.5 - (value / top) * (height - 3);
  const runs: Array<Array<[number, number]>> = [];
  let run: Array<[number, number]> | null = null;
  values.forEach((value, at) => {
    if (value === null) run = null;
    else {
      if (!run) runs.push((run = []));
      run.push([x(at), y(value)]);
    }
  });
  const line = (points: Array<[number, number]>) => points.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L");
  return (
    <svg class={`spark tone-${tone}`} viewBox={`0 0 ${width} ${height}`} width={width} height={height} preserveAspectRatio="none" role="img" aria-label={known.length > 0 ? `${label}: now ${count(known.at(-1))}, at most ${count(top)}` : `${label}: nothing known`}>
      {runs.map((points, at) => (
        <g key={at}>
          <path class="spark-area" d={`M${points[0]?.[0]} ${height}L${line(points)}L${points.at(-1)?.[0]} ${height}Z`} />
          <path class="spark-line" d={`M${line(points)}`} />
        </g>
      ))}
    </svg>
  );
}

/** How much of a whole is over, as a ring; drawn inside another drawing. */
export function Ring({ share, radius, x, y, tone }: { share: number; radius: number; x: number; y: number; tone: Tone }) {
  const around = 2 * Math.PI * radius;
  return (
    <g class={`ring tone-${tone}`} transform={`translate(${x} ${y}) rotate(-90)`}>
      <circle r={radius} class="ring-track" />
      <circle r={radius} class="ring-part" stroke-dasharray={`${around * Math.min(share, 1)} ${around}`} />
    </g>
  );
}
