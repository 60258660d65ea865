// A workflow as a drawing from left to right. It can be scrolled, dragged and zoomed; only what can be seen is in the page,
// so that a thousand tasks scroll as smoothly as ten. The list of the same tasks is its twin.
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { WorkflowGraph } from "../api.gen";
import { count, plural, span } from "../format";
import { fold, NODE, placed, ran, stateOf, tally, type Placed } from "../graph";
import { Ring } from "./figures";
import { stateWord, StateShape } from "./state";

interface DagProps {
  graph: Pick<WorkflowGraph, "nodes" | "edges">;
  /** Ids on the path that decides the time. */
  critical: ReadonlySet<string>;
  /** Whether the view goes along with what runs. */
  follows: boolean;
  now: number;
}

/** What is drawn around the visible part. */
const MARGIN = 160;
/** The visible part is looked at in steps of so many pixels. */
const GRAIN = 160;
/** The side of the parts of the drawing whose lines are one path. */
const BUNDLE = 500;
const ZOOMS = [0.35, 0.5, 0.7, 0.85, 1, 1.25];

export function Dag({ graph, critical, follows, now }: DagProps) {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [zoom, setZoom] = useState(1);
  const place = useRef<HTMLDivElement>(null);
  const view = useView(place, zoom);
  const { drawn, links } = useMemo(() => fold(graph, opened), [graph, opened]);
  const shape = useMemo(() => drawn.map(({ key }) => key).join() + links.map(({ from, to }) => `${from}>${to}`).join(), [drawn, links]);
  // What moves is how tasks stand; where they stand changes only when tasks come.
  const where = useMemo(() => placed(drawn, links), [shape]);
  const cache = useMemo(() => new Cache(), [where]);
  const fresh = useMemo(() => new Map(drawn.map((one) => [one.key, one])), [drawn]);
  useFollow(place, where, fresh, follows, zoom);
  useDrag(place);
  const isSeen = (x: number, y: number, width: number, height: number) => x + width > view.left && x < view.right && y + height > view.top && y < view.bottom;
  const isCritical = (key: string) => fresh.get(key)?.members.some(({ id }) => critical.has(id)) ?? false;
  const bundles = useMemo(() => bundled(where, isCritical), [where, fresh, critical]);
  const fit = (least: number) => {
    const width = place.current?.clientWidth ?? 0;
    setZoom(ZOOMS.findLast((one) => one <= 1 && one >= least && where.width * one <= width) ?? least);
  };
  // At first the drawing is as large as can still be read.
  useEffect(() => fit(ZOOMS[2]!), [graph.nodes.length > 0]);
  return (
    <div class="dag">
      <div class="dag-tools">
        {opened.size > 0 && (
          <button type="button" class="button small" onClick={() => setOpened(new Set())}>
            Fold again
          </button>
        )}
        <button type="button" class="icon-button" aria-label="Smaller" onClick={() => setZoom(ZOOMS.findLast((one) => one < zoom) ?? zoom)}>
          −
        </button>
        <button type="button" class="icon-button" aria-label="Larger" onClick={() => setZoom(ZOOMS.find((one) => one > zoom) ?? zoom)}>
          +
        </button>
        <button type="button" class="icon-button" aria-label="Fit into the window" onClick={() => fit(ZOOMS[0]!)}>
          ⤢
        </button>
      </div>
      <div ref={place} class="dag-place" role="region" aria-label="Drawing of the workflow" tabIndex={0}>
        <svg width={where.width * zoom} height={where.height * zoom} viewBox={`0 0 ${where.width} ${where.height}`} role="group" aria-label={plural(drawn.length, "node")}>
          {bundles.map(({ left, right, top, bottom, drawing }) => isSeen(left, top, right - left, bottom - top) && drawing)}
          {where.nodes.map(({ key, x, y }) => {
            const one = fresh.get(key);
            if (!one || !isSeen(x, y, NODE.width, NODE.height)) return null;
            const drawing = () => {
              const props = { x, y, isCritical: isCritical(key), now };
              if (!one.isFolded) return <One key={key} {...props} node={one.members[0]!} />;
              return <Folded key={key} {...props} name={one.name} members={one.members} open={() => setOpened(new Set([...opened, key]))} />;
            };
            return cache.of(key, one.isFolded ? one.members : one.members[0], isCritical(key), x, y, drawing);
          })}
        </svg>
      </div>
    </div>
  );
}

/** Lines of one look that begin near each other. */
interface Bundle {
  left: number;
  right: number;
  top: number;
  bottom: number;
  drawing: VNode;
}

/** All lines of one look in one part of the drawing are one path: a few large ones are drawn much faster than many small ones,
 * and while one scrolls, the parts that stay are not drawn again. */
function bundled(where: Placed, isCritical: (key: string) => boolean): Bundle[] {
  const parts = new Map<string, Omit<Bundle, "drawing"> & { look: string; path: string }>();
  for (const link of where.links) {
    const [from, to] = [where.at.get(link.from), where.at.get(link.to)];
    if (!from || !to) continue;
    const look = [link.isOptional ? "is-optional" : "", link.isSpawned ? "is-spawned" : "", isCritical(link.from) && isCritical(link.to) ? "is-critical" : ""].join(" ").trim();
    const key = `${Math.floor(from.x / BUNDLE)} ${Math.floor(from.y / BUNDLE)} ${look}`;
    const box = { left: from.x, right: to.x + NODE.width, top: Math.min(from.y, to.y), bottom: Math.max(from.y, to.y) + NODE.height };
    const known = parts.get(key) ?? { ...box, look, path: "" };
    parts.set(key, {
      look,
      path: known.path + link.path,
      left: Math.min(known.left, box.left),
      right: Math.max(known.right, box.right),
      top: Math.min(known.top, box.top),
      bottom: Math.max(known.bottom, box.bottom),
    });
  }
  const rank = ({ look }: { look: string }) => Number(look.includes("critical"));
  // What decides the time lies above the rest.
  const sorted = [...parts].sort(([, a], [, b]) => rank(a) - rank(b));
  return sorted.map(([key, { look, path, ...box }]) => ({ ...box, drawing: <path key={key} class={`dag-link ${look}`} d={path} /> }));
}

/** Drawings of tasks that stand as they stood: while one scrolls, nothing about them is worked out again. */
class Cache {
  private readonly kept = new Map<string, { node: unknown; mark: string; drawing: VNode }>();

  of(key: string, node: unknown, isCritical: boolean, x: number, y: number, drawing: () => VNode): VNode {
    const mark = `${isCritical} ${x} ${y}`;
    const known = this.kept.get(key);
    // What runs shows how long, so it is drawn anew.
    const isRunning = Array.isArray(node) || (node as Node).state === "leased";
    if (known && known.node === node && known.mark === mark && !isRunning) return known.drawing;
    const made = drawing();
    this.kept.set(key, { node, mark, drawing: made });
    return made;
  }
}

interface NodeProps {
  x: number;
  y: number;
  isCritical: boolean;
  now: number;
}

type Node = WorkflowGraph["nodes"][number];

function One({ x, y, isCritical, now, node }: NodeProps & { node: Node }) {
  const took = ran(node, now);
  const note = [stateWord(node.state), took !== null ? span(took) : node.name !== node.kind ? node.kind : ""].filter(Boolean).join(" · ");
  return (
    <g transform={`translate(${x} ${y})`}>
      <title>{[node.name, note, node.wait_reason ?? node.error ?? ""].filter(Boolean).join("\n")}</title>
      <a href={`/tasks/${node.id}`} class={`dag-node is-${node.state} ${isCritical ? "is-critical" : ""}`}>
        <rect width={NODE.width} height={NODE.height} rx="8" />
        <StateShape state={node.state} x={11} y={10} />
        <text x="30" y="20" class="dag-name">
          {cut(node.name, 20)}
        </text>
        <text x="30" y="36" class="dag-note">
          {cut(note, 24)}
        </text>
      </a>
    </g>
  );
}

function Folded({ x, y, isCritical, name, members, open }: NodeProps & { name: string; members: Node[]; open: () => void }) {
  const counts = tally(members);
  const state = stateOf(members);
  const done = counts.done ?? 0;
  const bad = (counts.dead ?? 0) + (counts.cancelled ?? 0);
  const note = `${count(done)}/${count(members.length)} done${bad ? `, ${count(bad)} failed` : counts.leased ? `, ${count(counts.leased)} running` : ""}`;
  return (
    <g
      class={`dag-node is-folded is-${state} ${isCritical ? "is-critical" : ""}`}
      transform={`translate(${x} ${y})`}
      role="button"
      tabIndex={0}
      onClick={open}
      onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), open())}
    >
      <title>{`${name}: ${note}. Unfold`}</title>
      <rect x="5" y="-4" width={NODE.width - 10} height={NODE.height} rx="8" class="dag-behind" />
      <rect width={NODE.width} height={NODE.height} rx="8" />
      <Ring share={done / members.length} radius={11} x={23} y={23} tone={bad ? "state-dead" : done === members.length ? "state-done" : "state-leased"} />
      <text x="44" y="20" class="dag-name">
        {cut(name, 18)}
      </text>
      <text x="44" y="36" class="dag-note">
        {cut(note, 22)}
      </text>
    </g>
  );
}

function cut(text: string, letters: number): string {
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

interface View {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** What can be seen, in the units of the drawing. */
function useView(place: { current: HTMLDivElement | null }, zoom: number): View {
  const [view, setView] = useState<View>({ left: 0, right: 2000, top: 0, bottom: 1500 });
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const look = () => {
      const grain = (value: number) => Math.floor(value / GRAIN) * GRAIN;
      const [left, top] = [grain(element.scrollLeft), grain(element.scrollTop)];
      const next = { left: (left - MARGIN) / zoom, right: (left + element.clientWidth + GRAIN + MARGIN) / zoom, top: (top - MARGIN) / zoom, bottom: (top + element.clientHeight + GRAIN + MARGIN) / zoom };
      setView((before) => (JSON.stringify(before) === JSON.stringify(next) ? before : next));
    };
    look();
    element.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, [zoom]);
  return view;
}

/** Keeps what runs in the middle, unless the pointer is there. */
function useFollow(place: { current: HTMLDivElement | null }, where: Placed, fresh: Map<string, { members: Node[] }>, follows: boolean, zoom: number): void {
  useEffect(() => {
    const element = place.current;
    if (!follows || !element || element.matches(":hover")) return;
    const running = where.nodes.filter(({ key }) => fresh.get(key)?.members.some(({ state }) => state === "leased"));
    const last = running.at(-1);
    if (!last) return;
    element.scrollTo({ left: last.x * zoom - element.clientWidth / 2, top: last.y * zoom - element.clientHeight / 2, behavior: "smooth" });
  }, [fresh, follows, zoom]);
}

/** The drawing can be dragged with the mouse; fingers scroll by themselves. */
function useDrag(place: { current: HTMLDivElement | null }): void {
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let from: { x: number; y: number; left: number; top: number } | null = null;
    let isDragged = false;
    const down = (event: PointerEvent) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      from = { x: event.clientX, y: event.clientY, left: element.scrollLeft, top: element.scrollTop };
      isDragged = false;
    };
    const move = (event: PointerEvent) => {
      if (!from) return;
      const [x, y] = [event.clientX - from.x, event.clientY - from.y];
      if (!isDragged && Math.hypot(x, y) < 5) return;
      isDragged = true;
      element.scrollTo(from.left - x, from.top - y);
    };
    const up = () => (from = null);
    // What ends a drag is no click.
    const click = (event: MouseEvent) => isDragged && (event.preventDefault(), event.stopPropagation(), (isDragged = false));
    const start = (event: Event) => event.preventDefault();
    element.addEventListener("pointerdown", down);
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    element.addEventListener("click", click, true);
    element.addEventListener("dragstart", start);
    return () => {
      element.removeEventListener("pointerdown", down);
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
      element.removeEventListener("click", click, true);
      element.removeEventListener("dragstart", start);
    };
  }, []);
}
