// What is drawn of a workflow: many alike become one, the path that decides how long it takes, and where everything stands.
// Nothing here draws or asks.
import { graphlib, layout } from "@dagrejs/dagre";

import type { GraphNode, TaskState, WorkflowGraph } from "./api.gen";
import { millis } from "./format";
import { layers } from "./layers";

/** Siblings that are alike are drawn one by one up to so many. */
export const ALIKE_MAX = 8;
export const NODE = { width: 176, height: 46 };
const GAP = { x: 46, y: 14 };
const MARGIN = 12;
/** With more nodes the layout takes the quicker way. */
const THOROUGH_MAX = 120;

/** A task, or many that are alike. */
export interface Drawn {
  key: string;
  name: string;
  /** One task, or those that stand for all of them. */
  members: GraphNode[];
  isFolded: boolean;
}

export interface Link {
  from: string;
  to: string;
  isOptional: boolean;
  isSpawned: boolean;
}

export interface Placed {
  nodes: Array<Drawn & { x: number; y: number }>;
  links: Array<Link & { path: string }>;
  /** Where each node is, by its key. */
  at: Map<string, Point>;
  width: number;
  height: number;
}

/** Groups and siblings of more than `ALIKE_MAX` become one, except those that somebody opened. */
export function fold(graph: Pick<WorkflowGraph, "nodes" | "edges">, opened: ReadonlySet<string>): { drawn: Drawn[]; links: Link[] } {
  const before = new Map<string, string[]>();
  for (const { from, to } of graph.edges) before.set(to, [...(before.get(to) ?? []), from]);
  const alike = new Map<string, GraphNode[]>();
  for (const node of graph.nodes) {
    const key = node.group !== null ? `group ${node.group}` : `kind ${node.kind} ${[...(before.get(node.id) ?? [])].sort().join()}`;
    const list = alike.get(key);
    if (list) list.push(node);
    else alike.set(key, [node]);
  }
  const drawn: Drawn[] = [];
  const home = new Map<string, string>();
  for (const [key, members] of alike) {
    if (members.length > ALIKE_MAX && !opened.has(key)) {
      drawn.push({ key, name: members[0]?.group ?? members[0]?.kind ?? "", members, isFolded: true });
      for (const { id } of members) home.set(id, key);
    } else {
      for (const node of members) {
        drawn.push({ key: node.id, name: node.name, members: [node], isFolded: false });
        home.set(node.id, node.id);
      }
    }
  }
  const links = new Map<string, Link>();
  for (const edge of graph.edges) {
    const [from, to] = [home.get(edge.from), home.get(edge.to)];
    if (!from || !to || from === to) continue;
    const name = `${from}>${to}`;
    const known = links.get(name);
    links.set(name, { from, to, isOptional: edge.optional && (known?.isOptional ?? true), isSpawned: edge.spawned && (known?.isSpawned ?? true) });
  }
  return { drawn, links: [...links.values()] };
}

/** Where everything stands, from left to right. It depends on what is drawn, not on how it stands. */
export function placed(drawn: readonly Drawn[], links: readonly Link[]): Placed {
  const { at, bends } = drawn.length > THOROUGH_MAX ? quick(drawn, links) : thorough(drawn, links);
  const nodes = drawn.map((one) => ({ ...one, ...(at.get(one.key) ?? { x: 0, y: 0 }) }));
  const path = (link: Link) => {
    const [from, to] = [at.get(link.from), at.get(link.to)];
    if (!from || !to) return "";
    return curve([{ x: from.x + NODE.width, y: from.y + NODE.height / 2 }, ...bends(link), { x: to.x, y: to.y + NODE.height / 2 }]);
  };
  return {
    nodes,
    at,
    links: links.map((link) => ({ ...link, path: path(link) })),
    width: Math.max(0, ...nodes.map(({ x }) => x)) + NODE.width + MARGIN,
    height: Math.max(0, ...nodes.map(({ y }) => y)) + NODE.height + MARGIN,
  };
}

interface Point {
  x: number;
  y: number;
}

/** The upper left corners, and what a line goes around. */
interface Layout {
  at: Map<string, Point>;
  bends: (link: Link) => Point[];
}

function thorough(drawn: readonly Drawn[], links: readonly Link[]): Layout {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: GAP.y, ranksep: GAP.x, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { key } of drawn) graph.setNode(key, { ...NODE });
  for (const { from, to } of links) graph.setEdge(from, to);
  layout(graph);
  const middle = (key: string) => graph.node(key) as Point;
  return {
    at: new Map(drawn.map(({ key }) => [key, { x: middle(key).x - NODE.width / 2, y: middle(key).y - NODE.height / 2 }])),
    bends({ from, to }) {
      const [left, right] = [middle(from).x + NODE.width / 2, middle(to).x - NODE.width / 2];
      // Between neighbours a line needs no bend.
      if (right - left < NODE.width) return [];
      const points = (graph.edge(from, to) as { points?: Point[] }).points ?? [];
      return points.slice(1, -1).filter(({ x }) => x > left + 8 && x < right - 8);
    },
  };
}

function quick(drawn: readonly Drawn[], links: readonly Link[]): Layout {
  const cells = layers(drawn.map(({ key }) => key), links);
  const at = new Map([...cells].map(([key, { column, row }]) => [key, { x: MARGIN + column * (NODE.width + GAP.x * 2), y: MARGIN + row * (NODE.height + GAP.y) }]));
  return { at, bends: () => [] };
}

/** A soft line through the points. */
function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${round(first.x)} ${round(first.y)}`;
  let last = first;
  for (const point of rest) {
    const middle = (last.x + point.x) / 2;
    path += `C${round(middle)} ${round(last.y)} ${round(middle)} ${round(point.y)} ${round(point.x)} ${round(point.y)}`;
    last = point;
  }
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** The tasks that decide how long the workflow takes: from the one that ended last, each time to the one that it waited for. */
export function criticalPath(graph: Pick<WorkflowGraph, "nodes" | "edges">, now: number): Set<string> {
  const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
  const before = new Map<string, string[]>();
  for (const { from, to } of graph.edges) before.set(to, [...(before.get(to) ?? []), from]);
  const end = (id: string) => ended(nodes.get(id), now);
  const last = (ids: Iterable<string>) => {
    let best: string | null = null;
    for (const id of ids) if (end(id) !== null && (best === null || (end(id) ?? 0) > (end(best) ?? 0))) best = id;
    return best;
  };
  const path = new Set<string>();
  let at = last([...nodes.values()].filter(({ role }) => role === "member").map(({ id }) => id));
  while (at !== null && !path.has(at)) {
    path.add(at);
    at = last(before.get(at) ?? []);
  }
  return path;
}

function ended(node: GraphNode | undefined, now: number): number | null {
  // What was cancelled took no time.
  if (!node || node.state === "cancelled") return null;
  if (node.ended) return millis(node.ended);
  return node.state === "leased" ? now : null;
}

/** How many of a folded node are where. */
export function tally(members: readonly GraphNode[]): { [state: string]: number } {
  const counts: { [state: string]: number } = {};
  for (const { state } of members) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}

/** The state that speaks for many: what is bad first, then what moves. */
export function stateOf(members: readonly GraphNode[]): TaskState {
  const counts = tally(members);
  const order: TaskState[] = ["dead", "leased", "ready", "scheduled", "blocked", "cancelled", "done"];
  return order.find((state) => counts[state]) ?? "done";
}

/** How long a task ran, or has run. */
export function ran(node: GraphNode, now: number): number | null {
  if (!node.started) return null;
  return (node.ended ? millis(node.ended) : now) - millis(node.started);
}
