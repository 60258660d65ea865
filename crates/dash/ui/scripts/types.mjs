// Writes src/api.gen.ts: what the API takes and answers, from the OpenAPI document that a server serves.
// Usage: node scripts/types.mjs URL_OR_FILE [--check]. With --check nothing is written; what differs is an error.
import { readFile, writeFile } from "node:fs/promises";

/** Addresses of workloads have pages of their own. */
const LEFT_OUT = /^\/(?!api\/v1\/)|^\/api\/v1\/(videos|crawls|flows|blobs|records|uploads|objects)/;
const TARGET = new URL("../src/api.gen.ts", import.meta.url);

const [from, check] = process.argv.slice(2);
const document = JSON.parse(/^https?:/.test(from) ? await (await fetch(from)).text() : await readFile(from, "utf8"));
const schemas = document.components.schemas;
const wanted = new Set();

const text = made();
if (check !== "--check") {
  await writeFile(TARGET, text);
} else if ((await readFile(TARGET, "utf8")) !== text) {
  console.error("src/api.gen.ts is not what the server serves; write it anew: scripts/dash --write");
  process.exit(1);
}

function made() {
  const answers = [];
  const bodies = [];
  const queries = [];
  for (const [path, operations] of Object.entries(document.paths)) {
    if (LEFT_OUT.test(path)) continue;
    for (const [method, operation] of Object.entries(operations)) {
      const name = JSON.stringify(`${method.toUpperCase()} ${path.slice("/api/v1".length)}`);
      const good = Object.keys(operation.responses ?? {}).find((status) => status.startsWith("2"));
      const answer = operation.responses?.[good]?.content?.["application/json"]?.schema;
      answers.push(`  ${name}: ${answer ? type(answer) : "string"};`);
      const body = operation.requestBody?.content?.["application/json"]?.schema;
      if (body) bodies.push(`  ${name}: ${type(body)};`);
      const asked = (operation.parameters ?? []).filter((one) => one.in === "query");
      if (asked.length > 0) {
        const fields = asked.map((one) => `${key(one.name)}${one.required ? "" : "?"}: ${type(one.schema)}`);
        queries.push(`  ${name}: { ${fields.join("; ")} };`);
      }
    }
  }
  // A schema that is named may name others, so the set grows while it is walked.
  const texts = new Map();
  for (const name of wanted) texts.set(name, declared(name, schemas[name]));
  const lines = [
    "// Written by scripts/types.mjs from the OpenAPI document of the server. Do not edit.",
    "",
    ...[...texts.keys()].sort().map((name) => texts.get(name)),
    "/** What each address answers. */",
    "export interface Answers {",
    ...answers,
    "}",
    "",
    "/** What each address takes. */",
    "export interface Bodies {",
    ...bodies,
    "}",
    "",
    "/** What may stand in the query of an address. */",
    "export interface Queries {",
    ...queries,
    "}",
    "",
  ];
  return lines.join("\n");
}

function declared(name, schema) {
  const about = schema.description ? `/** ${comment(schema.description)} */\n` : "";
  if (schema.type === "object" && schema.properties && !schema.oneOf && !schema.anyOf && !schema.allOf) {
    return `${about}export interface ${name} ${object(schema, "")}\n`;
  }
  return `${about}export type ${name} = ${type(schema)};\n`;
}

function type(schema) {
  if (schema === true || schema === undefined) return "unknown";
  if (schema === false) return "never";
  const parts = [];
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    wanted.add(name);
    parts.push(name);
  }
  if ("const" in schema) parts.push(JSON.stringify(schema.const));
  else if (schema.enum) parts.push(union(schema.enum.map((one) => JSON.stringify(one))));
  for (const choice of [schema.oneOf, schema.anyOf]) {
    if (choice && !choice.every(isOnlyARule)) parts.push(union(choice.map(type)));
  }
  for (const one of schema.allOf ?? []) if (!isOnlyARule(one)) parts.push(type(one));
  if (parts.length === 0 || schema.properties) parts.push(plain(schema));
  return parts.length === 1 ? parts[0] : parts.map((one) => `(${one})`).join(" & ");
}

/** Such as `{ required: [...] }`, which forbids values but has no type. */
function isOnlyARule(schema) {
  return typeof schema === "object" && !["$ref", "type", "const", "enum", "oneOf", "anyOf", "allOf", "properties"].some((key) => key in schema);
}

function plain(schema) {
  const types = Array.isArray(schema.type) ? schema.type : schema.type ? [schema.type] : [];
  const names = types.map((name) => {
    if (name === "integer" || name === "number") return "number";
    if (name === "array") return schema.items ? `Array<${type(schema.items)}>` : "unknown[]";
    if (name !== "object") return name;
    if (schema.properties) return object(schema, "  ");
    const values = schema.additionalProperties;
    return values && values !== true ? `Record<string, ${type(values)}>` : "Record<string, unknown>";
  });
  if (names.length === 0 && schema.properties) return object(schema, "  ");
  return names.length === 0 ? "unknown" : union(names);
}

function object(schema, indent) {
  const must = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties).map(([name, field]) => {
    const about = field.description ? `${indent}  /** ${comment(field.description)} */\n` : "";
    return `${about}${indent}  ${key(name)}${must.has(name) ? "" : "?"}: ${type(field)};\n`;
  });
  return `{\n${fields.join("")}${indent}}`;
}

function union(names) {
  return [...new Set(names)].join(" | ") || "never";
}

function key(name) {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}

function comment(text) {
  return text.replaceAll("*/", "* /").replace(/\s*\n\s*/g, " ");
}
