// Fields that a page has no place of its own for.
import assert from "node:assert/strict";
import { test } from "node:test";

import { otherFacts } from "../src/terms";

test("every field that says something is told, whatever it is called", () => {
  const task = {
    id: "7",
    matching: "fallback",
    timeout_ms: 5_000,
    cost_hint: 4_096,
    needs: ["gpu>=2", "region=eu"],
    tags: [],
    affinity: null,
    after_groups: [{ group: "parts", optional: true }, { group: "films", optional: false }],
    unique: { key: "clip-7", window_ms: 1_000, on_conflict: "replace" },
    retry: { limit: 1, base_ms: 2, rules: [{ class: "timeout", limit: 0 }] },
    a_new_term: true,
  };
  assert.deepEqual(otherFacts(task, ["id"]), [
    ["Matching", "fallback"],
    ["Timeout", "5.0 s"],
    ["Cost hint", "4\u202f096"],
    ["Needs", ["gpu>=2", "region=eu"]],
    ["After groups", ["group parts, optional", "group films"]],
    ["Unique", "key clip-7, window 1.0 s, on conflict replace"],
    ["Retry", "limit 1, base 2 ms, rules (class timeout, limit 0)"],
    ["A new term", "true"],
  ]);
});
