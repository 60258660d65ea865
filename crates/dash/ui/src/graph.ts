// What is drawn of a workflow: many alike become one, the path that decides how long it takes, and where everything stands.
// Nothing here draws or asks.
import { graphlib, layout } from "@dagrejs/dagre";

import type { TaskState } from "./api.gen";
import type { GraphNode, WorkflowGraph } from "./contract";
import { millis } from "./format";

/** Siblings that are alike are drawn one by one up to so many. */
export const ALIKE_MAX = 8;
export const NODE = { width: 176, height: 46 };
/** With more nodes the layout takes the quicker way. */
const THOROUGH_MAX = 250;

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
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 46, marginx: 12, marginy: 12, ranker: drawn.length > THOROUGH_MAX ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { key } of drawn) graph.setNode(key, { ...NODE });
  for (const { from, to } of links) graph.setEdge(from, to);
  layout(graph);
  const size = graph.graph();
  const nodes = drawn.map((one) => {
    const { x, y } = graph.node(one.key) as Point;
    return { ...one, x: x - NODE.width / 2, y: y - NODE.height / 2 };
  });
  return {
    nodes,
    at: new Map(nodes.map(({ key, x, y }) => [key, { x, y }])),
    links: links.map((link) => ({ ...link, path: curve(bends(graph, link)) })),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
}

interface Point {
  x: number;
  y: number;
}

/** From the right side of one node to the left side of the other, around what is between. */
function bends(graph: InstanceType<typeof graphlib.Graph>, { from, to }: Link): Point[] {
  const [a, b] = [graph.node(from) as Point, graph.node(to) as Point];
  const between = ((graph.edge(from, to) as { points?: Point[] }).points ?? []).slice(1, -1);
  // Points right beside an end only make a kink.
  const free = between.filter(({ x }) => x > a.x + NODE.width / 2 + 8 && x < b.x - NODE.width / 2 - 8);
  const isFar = b.x - a.x > NODE.width * 2;
  return [{ x: a.x + NODE.width / 2, y: a.y }, ...(isFar ? free : []), { x: b.x - NODE.width / 2, y: b.y }];
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
  if (!node) return null;
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
