// Texts of the server on a page: sentences, code between back quotes, commands to copy.
import assert from "node:assert/strict";
import { test } from "node:test";

import { queryText } from "../src/api";
import { command, flag } from "../src/command";
import { Words } from "../src/components/words";
import { commandsIn, withoutCommand } from "../src/pages/alerts/acts";
import { sentence } from "../src/sentence";

/** What an element says, with the name of each that is inside it. */
function told(part: unknown): string {
  if (Array.isArray(part)) return part.map(told).join("");
  if (part === null || typeof part !== "object") return String(part ?? "");
  const { type, props } = part as { type: unknown; props: { children?: unknown } };
  return typeof type === "string" ? `<${type}>${told(props.children)}</${type}>` : told(props.children);
}

test("what stands between back quotes is code, and is text all the same", () => {
  assert.equal(told(Words({ text: "no worker has `gpu`; start `divvy work`" })), "no worker has <code>gpu</code>; start <code>divvy work</code>");
  assert.equal(told(Words({ text: "`<b>x</b>` waits" })), "<code><b>x</b></code> waits");
  assert.equal(told(Words({ text: "a lone ` stays" })), "a lone ` stays");
});

test("a text of the API is a sentence", () => {
  assert.equal(sentence("nothing waits"), "Nothing waits.");
  assert.equal(sentence("start one:"), "Start one:");
});

test("the commands of a cure can be copied, and the one at its end stands below it", () => {
  assert.deepEqual(commandsIn("start one with `divvy work`"), ["divvy work"]);
  const cure = "see why: divvy worker status 'a b'";
  assert.deepEqual(commandsIn(cure), ["divvy worker status 'a b'"]);
  assert.equal(withoutCommand(cure), "See why:");
  assert.deepEqual(commandsIn("start more workers"), []);
});

test("a command quotes what a shell would take apart", () => {
  assert.equal(command("divvy dead replay", flag("kind", "mail"), flag("error", "it's <b>"), flag("rate", "")), "divvy dead replay --kind mail --error 'it'\\''s <b>'");
});

test("a list is written once per value, and nothing for what is empty", () => {
  assert.equal(queryText({ state: ["dead", "done"], kind: "", after: null, limit: 5 }), "?state=dead&state=done&limit=5");
});
