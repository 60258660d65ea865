// What a page has no place of its own for, in words: fields of a task that are new need no line of the page.
import { count, span } from "./format";

/** A field of a thing: its name for people, and its value as words, or as a list of them. */
export type Fact = readonly [name: string, value: string | string[]];

/** All fields that say something, but those that are shown elsewhere. */
export function otherFacts(thing: object, elsewhere: readonly string[]): Fact[] {
  const rest = Object.entries(thing).filter(([field, value]) => !elsewhere.includes(field) && says(value));
  return rest.map(([field, value]) => [title(field), Array.isArray(value) ? value.map((one) => words(field, one)) : words(field, value)]);
}

function says(value: unknown): boolean {
  return value !== null && value !== undefined && value !== "" && value !== false && !(Array.isArray(value) && value.length === 0);
}

/** `cost_hint` is "Cost hint", `timeout_ms` is "Timeout". */
function title(field: string): string {
  const name = spoken(field);
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function spoken(field: string): string {
  return field.replace(/_ms$/, "").replaceAll("_", " ");
}

function words(field: string, value: unknown): string {
  if (typeof value === "number") return field.endsWith("_ms") ? span(value) : count(value);
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return value.map((one) => `(${words(field, one)})`).join(" ");
  const parts = Object.entries(value).filter(([, part]) => says(part));
  return parts.map(([name, part]) => (part === true ? spoken(name) : `${spoken(name)} ${words(name, part)}`)).join(", ");
}
