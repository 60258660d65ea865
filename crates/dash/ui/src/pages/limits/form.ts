// A limit as a form has it, what it would mean, and the command that says the same.
import type { Limit } from "../../api.gen";
import { command, flag } from "../../command";
import { quoted } from "../../components/command";
import { count, plural, span } from "../../format";

export interface Draft {
  name: string;
  rate: string;
  burst: string;
  concurrency: string;
  total_rate: string;
  total_concurrency: string;
}

export const EMPTY: Draft = { name: "", rate: "", burst: "", concurrency: "", total_rate: "", total_concurrency: "" };

const PER_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function draftOf(name: string, limit: Limit): Draft {
  const text = (value: string | number | null | undefined) => (value === null || value === undefined ? "" : String(value));
  return {
    name,
    rate: text(limit.rate),
    burst: text(limit.burst),
    concurrency: text(limit.concurrency),
    total_rate: text(limit.total_rate),
    total_concurrency: text(limit.total_concurrency),
  };
}

export function limitOf(draft: Draft): Limit {
  const number = (text: string) => (text.trim() === "" ? undefined : Number(text));
  const rate = (text: string) => (text.trim() === "" ? undefined : text.trim());
  return {
    rate: rate(draft.rate),
    burst: number(draft.burst),
    concurrency: number(draft.concurrency),
    total_rate: rate(draft.total_rate),
    total_concurrency: number(draft.total_concurrency),
  } as Limit;
}

export function commandOf(draft: Draft): string {
  return command(
    `divvy limit set ${quoted(draft.name || "NAME")}`,
    flag("rate", draft.rate.trim()),
    flag("burst", draft.burst.trim()),
    flag("concurrency", draft.concurrency.trim()),
    flag("total-rate", draft.total_rate.trim()),
    flag("total-concurrency", draft.total_concurrency.trim()),
  );
}

/** A rate such as `10/s`: how many, and in which time. */
export function rateOf(text: string): { count: number; per_ms: number } | null {
  const found = /^(\d+)\s*\/\s*([smhd])/.exec(text.trim());
  if (!found || Number(found[1]) === 0) return null;
  return { count: Number(found[1]), per_ms: PER_MS[found[2] as string] as number };
}

/** What a limit would mean, in sentences; `waiting` tasks are behind it now. */
export function meaning(draft: Draft, waiting: number): string[] {
  const said: string[] = [];
  const rate = rateOf(draft.rate);
  if (rate) {
    const burst = Number(draft.burst) || Math.max(1, Math.round((rate.count * 1_000) / rate.per_ms));
    said.push(`Each key may start ${plural(burst, "task")} at once, then one every ${span(rate.per_ms / rate.count)}.`);
  }
  if (draft.concurrency.trim() !== "") said.push(`At most ${plural(Number(draft.concurrency), "task")} of each key at the same time.`);
  const total = rateOf(draft.total_rate);
  if (total) said.push(`Over all keys together one every ${span(total.per_ms / total.count)}.`);
  if (draft.total_concurrency.trim() !== "") said.push(`Over all keys at most ${plural(Number(draft.total_concurrency), "task")} at the same time.`);
  const slowest = total ?? rate;
  if (slowest && waiting > 0) {
    const least = span((waiting * slowest.per_ms) / slowest.count);
    said.push(`The ${count(waiting)} that wait now would take ${total ? "at least" : "at most"} ${least} to start.`);
  }
  return said.length > 0 ? said : ["It limits nothing yet: give a rate, or how many may run at once."];
}
