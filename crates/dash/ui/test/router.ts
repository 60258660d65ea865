// Addresses: which page they show, and what changes in them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { follow, found, go, place, setQuery, type PageRoute } from "../src/router";

const page = () => null;
const ROUTES: PageRoute[] = ["/", "/tasks", "/tasks/{id}", "/queues/{name}"].map((pattern) => ({ pattern, title: pattern, page }));

test("an address shows its page, with the parts that have names", () => {
  follow(ROUTES);
  const cases: ReadonlyArray<readonly [path: string, pattern: string | undefined, parts: Record<string, string>]> = [
    ["/", "/", {}],
    ["/tasks", "/tasks", {}],
    ["/tasks/", "/tasks", {}],
    ["/tasks/7", "/tasks/{id}", { id: "7" }],
    ["/queues/a%2Fb%20c", "/queues/{name}", { name: "a/b c" }],
    ["/queues/%E0%A4%A", undefined, {}],
    ["/tasks/7/log", undefined, {}],
    ["/videos", undefined, {}],
  ];
  for (const [path, pattern, parts] of cases) {
    assert.equal(found(path)?.route.pattern, pattern, path);
    assert.deepEqual(found(path)?.parts ?? {}, parts, path);
  }
});

test("a change of the query keeps the rest, and what is empty goes away", () => {
  go("/tasks?state=dead&queue=mail&after=9");
  setQuery({ state: ["ready", "done"], after: null, kind: "" });
  assert.equal(place.value.path, "/tasks");
  assert.equal(place.value.query.toString(), "queue=mail&state=ready&state=done");
  setQuery({ state: null, queue: undefined });
  assert.equal(location.href, "http://divvy.test/tasks");
});
