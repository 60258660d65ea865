// Events: read in pieces, and after a break from where it was; the history that they continue.
import assert from "node:assert/strict";
import { test } from "node:test";

import type { History, Series } from "../src/api.gen";
import { continued } from "../src/history";
import { beat, begin, paused, type HistoryPoint } from "../src/live";
import { askAgain } from "../src/load";
import { watch, whenever, type Said, type Stream } from "../src/stream";

/** Answers each request with the next of these texts, a few characters at a time, and then ends the connection. */
function serve(...answers: string[]): Array<string | null> {
  const asked: Array<string | null> = [];
  globalThis.fetch = (async (_url: string, init: RequestInit) => {
    asked.push((init.headers as Record<string, string>)["last-event-id"] ?? null);
    const bytes = new TextEncoder().encode(answers.shift() ?? "");
    const body = new ReadableStream({
      start(control) {
        for (let from = 0; from < bytes.length; from += 5) control.enqueue(bytes.slice(from, from + 5));
        control.close();
      },
    });
    return new Response(body);
  }) as typeof fetch;
  return asked;
}

test("events that come in pieces are whole, and a break goes on behind the last one", async () => {
  const first = ': hello\n\nid: 7\nevent: queue\ndata: {"queue":\ndata: "größe"}\n\ndata: plain\n\nid: 8\nevent: steal\ndata: {"cut';
  const asked = serve(first, "id: 8\r\nevent: steal\r\ndata: 1\r\n\r\n");
  const said: Said[] = [];
  const states: string[] = [];
  let stream: Stream | undefined;
  await new Promise<void>((done) => {
    stream = watch("GET /pulse", {}, { said: (event) => (said.push(event), event.name === "steal" && done()), state: (state) => states.push(state) });
  });
  stream?.close();
  assert.deepEqual(said, [
    { name: "queue", data: { queue: "größe" } },
    { name: "message", data: "plain" },
    { name: "steal", data: 1 },
  ]);
  assert.deepEqual(asked, [null, "7"], "what was cut off is asked for again");
  assert.deepEqual(states, ["connecting", "open", "lost", "connecting", "open"]);
});

test("whoever begins to hear looks once: what changed just before that was not heard", async () => {
  serve("");
  let looks = 0;
  let stream: Stream | undefined;
  await new Promise<void>((done) => {
    stream = watch("GET /pulse", {}, whenever(() => ((looks += 1), done())));
  });
  stream?.close();
  assert.equal(looks, 1);
});

test("lists are loaded anew when the pulse is heard again after a break", async () => {
  const pulse = 'id: 1\nevent: pulse\ndata: {"overview":{},"point":null}\n\n';
  serve(pulse, pulse);
  let loads = 0;
  const list = askAgain(async () => void (loads += 1), 0);
  begin();
  await new Promise<void>((done) => beat.subscribe((pulses) => pulses === 2 && done()));
  paused.value = true;
  list.end();
  assert.equal(loads, 2, "once when it appeared, and once after the break");
});

test("a pulse continues a history by one step, or tells that one is missing", () => {
  const names = ["done", "failed", "retried", "submitted", "wait_p50_ms", "wait_p95_ms", "wait_p99_ms", "waiting", "running", "workers"] as const;
  const all = <T>(value: T) => Object.fromEntries(names.map((name) => [name, value]));
  const history: History = { step_ms: 5_000, from: "2026-01-01T00:00:00.000Z", series: all([1, 2, 3]) as unknown as Series };
  const point = (at: string, step_ms = 5_000) => ({ at, step_ms, ...all(9) }) as HistoryPoint;
  const longer = continued(history, point("2026-01-01T00:00:15.000Z"));
  assert(longer !== null && longer !== "gap");
  assert.equal(longer.from, "2026-01-01T00:00:05.000Z");
  assert.deepEqual(longer.series.done, [2, 3, 9]);
  assert.equal(continued(history, point("2026-01-01T00:00:10.000Z")), null, "it is known");
  assert.equal(continued(history, point("2026-01-01T00:00:20.000Z")), "gap");
  assert.equal(continued(history, point("2026-01-01T00:00:15.000Z", 60_000)), null, "its steps are others");
});
