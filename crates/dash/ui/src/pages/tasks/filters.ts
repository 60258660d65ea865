// What tasks can be filtered by: in the URL, on the page, and as the server is asked.
import type { ErrorClass, Select } from "../../api.gen";
import type { Field, Filters } from "../../components/filter";
import { STATES } from "../../components/state";

export const FIELDS: readonly Field[] = [
  { name: "kind", about: "a trailing * stands for any end" },
  { name: "state", about: "may be given more than once", values: STATES, isMany: true },
  { name: "queue", about: "waits in this queue" },
  { name: "tag", about: "has this label" },
  { name: "worker", about: "runs there, or did last" },
  { name: "error", about: "the last error contains this text" },
  { name: "class", about: "the sort of the last error", values: ["failed", "timeout", "crashed", "worker_lost", "cancelled"] satisfies ErrorClass[] },
  { name: "workflow", about: "of this workflow, by its id" },
  { name: "workflow_name", about: "of workflows with this name" },
  { name: "since", about: "submitted so long ago at most (2h), or since a time (2026-01-31T09:00:00Z)", values: ["15m", "1h", "24h", "7d"] },
  { name: "until", about: "submitted longer ago than this, or before a time" },
];

/** The filters in an address; what is none of them stays out. */
export function fromQuery(query: URLSearchParams): Filters {
  const filters: Filters = {};
  for (const { name } of FIELDS) if (query.has(name)) filters[name] = query.getAll(name);
  return filters;
}

/** The filters as they stand in an address; what is not filtered by goes away. */
export function asQuery(filters: Filters): Record<string, string[] | null> {
  return Object.fromEntries(FIELDS.map(({ name }) => [name, filters[name] ?? null]));
}

/** What the server is asked for. Spans are meant back from `now`. */
export function asSelect(filters: Filters, now: number): Select {
  const select: Record<string, unknown> = {};
  for (const [name, values] of Object.entries(filters)) {
    select[name] = name === "state" ? values : name === "since" || name === "until" ? asTime(values[0] ?? "", now) : values[0];
  }
  return select as Select;
}

/** `2h` is two hours ago; anything else is a time. */
function asTime(text: string, now: number): string {
  const units: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  const [, number, unit] = /^(\d+)([smhd])$/.exec(text) ?? [];
  return number && unit ? new Date(now - Number(number) * (units[unit] ?? 0)).toISOString() : text;
}
