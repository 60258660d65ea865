// A chart over time, and its twin as a table. Charts of one page share a pointer. Colours are those of the page, so they
// are read anew when the theme changes.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { clock } from "../format";
import { Loading } from "./notices";

export interface Series {
  name: string;
  values: ReadonlyArray<number | null>;
  /** The name of a custom property: `--good`. */
  colour: string;
  /** Filled to the ground. */
  isArea?: boolean;
  isDashed?: boolean;
  /** Capacity changes at once, not gradually. */
  isStepped?: boolean;
  /** Drawn as a soft band up to the series of this name. */
  bandTo?: string;
}

interface ChartProps {
  title: string;
  /** Milliseconds since 1970 of each point. */
  times: readonly number[];
  series: readonly Series[];
  /** How a value is written; at the axis there is less room. */
  write: (value: number) => string;
  writeAxis?: (value: number) => string;
  height?: number;
  /** While the data is on its way. */
  isLoading?: boolean;
  /** What is said in place of an empty chart. */
  empty?: string;
}

/** Rows of the twin at most: it is for reading. */
const ROWS_MAX = 60;

export function Chart({ title, times, series, write, writeAxis = write, height = 190, isLoading = false, empty = "Nothing yet." }: ChartProps) {
  const [isTable, setTable] = useState(false);
  const [at, setAt] = useState<number | null>(null);
  const isEmpty = !series.some(({ values }) => values.some((value) => value !== null));
  const shown = (values: ReadonlyArray<number | null>) => (at === null ? (values.findLast((value) => value !== null) ?? null) : (values[at] ?? null));
  return (
    <section class="card chart" aria-label={title}>
      <div class="card-head">
        <h2>{title}</h2>
        <ul class="legend">
          {series.map((one) => {
            const value = shown(one.values);
            return (
              <li key={one.name}>
                <i class={one.isDashed ? "is-dashed" : ""} style={{ color: `var(${one.colour})` }} aria-hidden="true" />
                {one.name} <b>{value === null ? "–" : write(value)}</b>
              </li>
            );
          })}
        </ul>
        <button type="button" class="button small quiet" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          {isTable ? "Chart" : "Table"}
        </button>
      </div>
      {isLoading ? (
        <Loading height={height} />
      ) : isEmpty ? (
        <div class="chart-empty" style={{ height: `${height}px` }}>
          {empty}
        </div>
      ) : isTable ? (
        <Twin title={title} times={times} series={series} write={write} height={height} />
      ) : (
        <Plot title={title} times={times} series={series} write={write} writeAxis={writeAxis} height={height} point={setAt} />
      )}
    </section>
  );
}

type PlotProps = Pick<ChartProps, "title" | "times" | "series" | "write"> & { height: number };

function Plot({ title, times, series, write, writeAxis, height, point }: PlotProps & { writeAxis: (value: number) => string; point: (at: number | null) => void }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const look = useTheme();
  const shape = JSON.stringify([series.map(({ values: _values, ...rest }) => rest), look, height]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const made = new uPlot(options(series, writeAxis, element.clientWidth, height, point), data(times, series), element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data(times, series)), [times, series]);
  const last = series.map(({ name, values }) => `${name} ${write(values.findLast((value) => value !== null) ?? 0)}`).join(", ");
  return <div ref={place} class="plot" role="img" aria-label={`${title}; now: ${last}`} />;
}

function data(times: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  return [times.map((time) => time / 1000), ...series.map(({ values }) => [...values])];
}

function options(series: readonly Series[], write: (value: number) => string, width: number, height: number, point: (at: number | null) => void): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => resolved(style.getPropertyValue(name).trim());
  const axis = { stroke: colour("--muted"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  const grid = { stroke: colour("--line"), width: 1 };
  // Where only whole numbers are written, the axis has no others.
  const isWhole = write(0.5) === write(1) || write(0.5) === write(0);
  // An axis so short that its lines would be written alike tells nothing.
  const least = [0.001, 0.01, 0.1].find((end) => write(end / 4) !== write(0)) ?? 1;
  const at = (name: string) => series.findIndex((one) => one.name === name) + 1;
  return {
    width,
    height,
    legend: { show: false },
    padding: [6, 6, 0, 0],
    cursor: { sync: { key: "divvy" }, points: { size: 6 }, drag: { x: false, y: false }, y: false },
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? Math.max(high * 1.08, least) : 1] } },
    axes: [
      { ...axis, grid: { show: false }, size: 22, gap: 6, space: 90, values: (_plot, values) => values.map((value) => clock(value * 1000).slice(-8).replace(/:00$/, "")) },
      { ...axis, grid, ...(isWhole ? { incrs: WHOLE } : {}), size: (_plot, values) => width11(values ?? []), space: 34, values: (_plot, values) => values.map(write) },
    ],
    series: [
      {},
      ...series.map((one) => ({
        stroke: colour(one.colour),
        width: 1.5,
        points: { show: false },
        ...(one.isDashed ? { dash: [5, 4] } : {}),
        ...(one.isArea ? { fill: faded(colour(one.colour), 0.12) } : {}),
        ...(one.isStepped && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      })),
    ],
    bands: series.flatMap((one) => (one.bandTo ? [{ series: [at(one.name), at(one.bandTo)] as uPlot.Band.Bounds, fill: faded(colour(one.colour), 0.14) }] : [])),
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? null)] },
  };
}

/** Steps of an axis of whole numbers: 1, 2, 5, 10, … */
const WHOLE = Array.from({ length: 13 }, (_one, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

/** Room for the longest label, in letters of 11 pixels. */
function width11(labels: readonly string[]): number {
  return Math.max(48, ...labels.map(({ length }) => length * 6 + 16));
}

/** A colour as the canvas takes it: the browser resolves what depends on the theme. */
function resolved(value: string): string {
  const probe = document.createElement("span");
  probe.style.color = value;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function faded(colour: string, share: number): string {
  return `color-mix(in srgb, ${colour} ${share * 100}%, transparent)`;
}

/** Changes with the theme. */
function useTheme(): string {
  const now = () => `${document.documentElement.dataset.theme}${matchMedia("(prefers-color-scheme: dark)").matches}`;
  const [theme, setTheme] = useState(now);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setTheme(now());
    const observer = new MutationObserver(change);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    dark.addEventListener("change", change);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", change);
    };
  }, []);
  return theme;
}

function Twin({ title, times, series, write, height }: PlotProps) {
  const step = Math.max(1, Math.ceil(times.length / ROWS_MAX));
  const rows = times.map((_time, at) => at).filter((at) => (times.length - 1 - at) % step === 0).reverse();
  return (
    <div class="table-wrap" role="region" aria-label={`${title} as a table`} tabIndex={0} style={{ maxHeight: `${height}px` }}>
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ name }) => (
              <th key={name} scope="col" class="right">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((at) => (
            <tr key={times[at]}>
              <td>{clock(times[at])}</td>
              {series.map(({ name, values }) => {
                const value = values[at] ?? null;
                return (
                  <td key={name} class="right">
                    {value === null ? "–" : write(value)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
