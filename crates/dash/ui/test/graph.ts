// Workflows: what is folded, which path decides the time, and where nodes stand.
import assert from "node:assert/strict";
import { test } from "node:test";

import type { GraphEdge, GraphNode } from "../src/api.gen";
import { ALIKE_MAX, criticalPath, fold, placed, stateOf } from "../src/graph";
import { layers } from "../src/layers";

const START = Date.parse("2026-01-01T00:00:00Z");

function at(second: number): string {
  return new Date(START + second * 1000).toISOString();
}

function node(id: string, more: Partial<GraphNode> = {}): GraphNode {
  const whole: GraphNode = { id, name: id, kind: "step", role: "member", state: "done", group: null, submitted: at(0), started: null, ended: null, attempt: null, wait_reason: null, error: null, worker: null };
  return { ...whole, ...more };
}

function edge(from: string, to: string, optional = false): GraphEdge {
  return { from, to, optional, spawned: false };
}

/** One that is followed by many, which one waits for. */
function fan(width: number) {
  const many = Array.from({ length: width }, (_value, number) => node(`part-${number}`, { kind: "part" }));
  const edges = many.flatMap(({ id }) => [edge("first", id), edge(id, "last", id !== "part-0")]);
  return { nodes: [node("first"), ...many, node("last")], edges };
}

test("so many alike are drawn one by one, more become one", () => {
  const few = fold(fan(ALIKE_MAX), new Set());
  assert.equal(few.drawn.length, ALIKE_MAX + 2);
  assert(few.drawn.every(({ isFolded }) => !isFolded));
  const { drawn, links } = fold(fan(ALIKE_MAX + 1), new Set());
  assert.deepEqual(drawn.map(({ name, members }) => [name, members.length]), [["first", 1], ["part", ALIKE_MAX + 1], ["last", 1]]);
  assert.equal(links.length, 2);
  assert(links.every(({ isOptional }) => !isOptional), "one that is needed makes them all needed");
});

test("a fold that somebody opened stays open, and groups fold by their name", () => {
  const graph = fan(ALIKE_MAX + 1);
  const key = fold(graph, new Set()).drawn[1]?.key ?? "";
  assert.equal(fold(graph, new Set([key])).drawn.length, graph.nodes.length);
  const grouped = graph.nodes.map((one, number) => ({ ...one, kind: `kind-${number}`, group: one.kind === "part" ? "parts" : null }));
  const { drawn } = fold({ ...graph, nodes: grouped }, new Set());
  assert.deepEqual(drawn.map(({ name }) => name), ["first", "parts", "last"]);
});

test("the path that decides goes from the last end to what it waited for longest", () => {
  const nodes = [
    node("a", { ended: at(5) }),
    node("b", { ended: at(9) }),
    node("c", { ended: at(19), state: "cancelled" }),
    node("d", { ended: at(20) }),
    node("told", { ended: at(30), role: "on_success" }),
  ];
  const edges = [edge("a", "d"), edge("b", "d"), edge("c", "d"), edge("d", "told")];
  assert.deepEqual([...criticalPath({ nodes, edges }, START)].sort(), ["b", "d"]);
  const runs = [...nodes, node("e", { state: "leased", started: at(6) })];
  const now = START + 60_000;
  assert.deepEqual([...criticalPath({ nodes: runs, edges: [...edges, edge("a", "e")] }, now)].sort(), ["a", "e"]);
  assert.equal(criticalPath({ nodes: [node("x", { state: "ready" })], edges: [] }, now).size, 0);
});

test("what is bad speaks for many, then what moves", () => {
  const all = (...states: Array<GraphNode["state"]>) => states.map((state, number) => node(String(number), { state }));
  assert.equal(stateOf(all("done", "leased", "dead")), "dead");
  assert.equal(stateOf(all("done", "ready", "leased")), "leased");
  assert.equal(stateOf(all("done", "done")), "done");
});

test("every node stands behind what it waits for, by both layouts, and no two at one place", () => {
  for (const width of [ALIKE_MAX, 300]) {
    const graph = fan(width);
    const { drawn, links } = fold(graph, new Set([`kind part first`]));
    const { nodes, links: lines, at: where } = placed(drawn, links);
    assert.equal(nodes.length, width + 2);
    assert.equal(new Set(nodes.map(({ x, y }) => `${x} ${y}`)).size, nodes.length);
    for (const { from, to, path } of lines) {
      assert((where.get(from)?.x ?? 0) < (where.get(to)?.x ?? 0), `${from} ${to}`);
      assert(path.startsWith("M"), path);
    }
  }
});

test("a circle, which no server accepts, ends", () => {
  assert.equal(layers(["a", "b"], [{ from: "a", to: "b" }, { from: "b", to: "a" }]).size, 2);
});
