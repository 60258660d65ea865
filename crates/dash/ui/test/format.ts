// How figures are written.
import assert from "node:assert/strict";
import { test } from "node:test";

import { ago, amount, brief, bytes, count, percent, plural, shortId, span } from "../src/format";

type Case = readonly [given: number | null, text: string];

function each(write: (value: number | null) => string, cases: readonly Case[]): void {
  for (const [given, text] of cases) assert.equal(write(given), text, `${write.name} of ${given}`);
}

test("numbers are short and have a unit", () => {
  each(count, [[null, "–"], [0, "0"], [999, "999"], [12_345, "12\u202f345"], [1_234_567, "1.23 M"], [2e9, "2 G"]]);
  each(amount, [[0.126, "0.13"], [12.34, "12.3"], [345.6, "346"], [4_567, "4\u202f567"]]);
  each(percent, [[0, "0 %"], [0.0012, "0.12 %"], [0.012, "1.2 %"], [0.5, "50 %"], [1, "100 %"]]);
  each((value) => bytes(value ?? 0), [[999, "999 B"], [1_000, "1 kB"], [1_234_567, "1.23 MB"]]);
});

test("a span has at most two units, and never sixty of the smaller", () => {
  each(span, [[3.14, "3.1 ms"], [999, "999 ms"], [1_500, "1.5 s"], [9_960, "10 s"], [59_400, "59 s"], [59_500, "1 min"], [61_000, "1 min 1 s"]]);
  each(span, [[3_599_600, "1 h"], [3_660_000, "1 h 1 min"], [172_800_000, "2 d"], [176_400_000, "2 d 1 h"], [-1_500, "−1.5 s"]]);
  each(brief, [[900, "900 ms"], [90_000, "1.5 min"], [3_600_000, "1 h"], [86_400_000, "1 d"], [2_592_000_000, "30 d"]]);
});

test("what was and what comes are told from now", () => {
  const now = Date.parse("2026-01-02T03:04:05Z");
  assert.equal(ago("2026-01-02T03:04:04.500Z", now), "now");
  assert.equal(ago("2026-01-02T03:03:35Z", now), "30 s ago");
  assert.equal(ago("2026-01-02T03:01:35Z", now), "2 min ago");
  assert.equal(ago("2026-01-02T05:04:05Z", now), "in 2 h");
  assert.equal(ago(null, now), "–");
});

test("ids end differently, and one is not many", () => {
  assert.equal(shortId("019a8f6e-1111-7222-8333-444455556666"), "55556666");
  assert.equal(plural(1, "task"), "1 task");
  assert.equal(plural(0, "task"), "0 tasks");
  assert.equal(plural(2, "alert fires", "alerts fire"), "2 alerts fire");
});
