// Filters: as text, in the address, and as the server is asked.
import assert from "node:assert/strict";
import { test } from "node:test";

import { queryText } from "../src/api";
import { read, write, type Filters } from "../src/components/filter";
import { asQuery, asSelect, FIELDS, fromQuery } from "../src/pages/tasks/filters";

const CASES: readonly Filters[] = [
  {},
  { kind: ["video.*"], state: ["dead", "ready"] },
  { error: ['timed out after "30 s"'], queue: ["über mail"] },
  { since: ["2h"], until: ["2026-01-31T09:00:00Z"], tag: ["a:b"], worker: ['"w1"'] },
  { error: ["back\\slash and `code`"] },
];

test("what is written is read again, as text and in an address", () => {
  for (const filters of CASES) {
    assert.deepEqual(read(write(filters, FIELDS), FIELDS), { filters, unknown: [] });
    assert.deepEqual(fromQuery(new URLSearchParams(queryText(asQuery(filters)))), filters);
  }
});

test("what is no filter is named, and what is half written is no error", () => {
  assert.deepEqual(read("colour:red kind:mail oops", FIELDS), { filters: { kind: ["mail"] }, unknown: ["colour:red", "oops"] });
  assert.deepEqual(read('kind: error:"timed ou', FIELDS), { filters: { error: ["timed ou"] }, unknown: [] });
  assert.deepEqual(read("kind:a kind:b state:dead state:done", FIELDS).filters, { kind: ["b"], state: ["dead", "done"] });
});

test("an address may hold more than filters", () => {
  assert.deepEqual(fromQuery(new URLSearchParams("state=dead&after=77&view=x&state=ready")), { state: ["dead", "ready"] });
});

test("spans are meant back from now, and everything but states is one value", () => {
  const now = Date.parse("2026-01-02T12:00:00Z");
  const select = asSelect({ since: ["90m"], until: ["2026-01-02T11:00:00Z"], state: ["dead"], kind: ["mail"] }, now);
  assert.deepEqual(select, { since: "2026-01-02T10:30:00.000Z", until: "2026-01-02T11:00:00Z", state: ["dead"], kind: "mail" });
});
