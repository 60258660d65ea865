// How the API is asked: addresses, queries and bodies are those of the OpenAPI document, so that a field that is renamed
// there breaks the build here. What is answered is text of strangers: it is shown as text, never as HTML.
import type { Answers, Bodies, Queries } from "./api.gen";

export type Address = keyof Answers;
type QueryOf<A> = A extends keyof Queries ? Queries[A] : Record<string, never>;
type BodyOf<A> = A extends keyof Bodies ? Bodies[A] : undefined;

export interface Asking<A extends Address> {
  /** What stands for `{id}` and the like in the address. */
  path?: Record<string, string>;
  query?: QueryOf<A>;
  body?: BodyOf<A>;
  signal?: AbortSignal;
}

/** A server that says no, or does not answer (`code` is `unreachable`). */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly code: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** Asks an address such as `GET /tasks/{id}`. */
export async function ask<A extends Address>(address: A, asking: Asking<A> = {}): Promise<Answers[A]> {
  const response = await send(address, asking);
  const type = response.headers.get("content-type") ?? "";
  const text = await response.text();
  return (type.includes("json") ? parse(text) : text) as Answers[A];
}

/** The same for an answer that is read piece by piece. */
export async function send<A extends Address>(address: A, asking: Asking<A> = {}, headers: Record<string, string> = {}): Promise<Response> {
  const [method, pattern] = (address as string).split(" ") as [string, string];
  const init: RequestInit = { method, credentials: "same-origin", headers: { ...headers } };
  if (asking.signal) init.signal = asking.signal;
  if (asking.body !== undefined) {
    init.body = JSON.stringify(asking.body);
    init.headers = { ...headers, "content-type": "application/json" };
  }
  const url = `/api/v1${filled(pattern, asking.path)}${queryText(asking.query ?? {})}`;
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refusal("The server does not answer.", "unreachable", 0);
  }
  if (response.ok) return response;
  // The session is over: the page itself answers with the form to sign in.
  if (response.status === 401) location.reload();
  const body = (await response.json().catch(() => null)) as { error?: { message?: string; code?: string } } | null;
  const message = body?.error?.message ?? `The server answered ${response.status}.`;
  throw new Refusal(sentence(message), body?.error?.code ?? "refused", response.status);
}

/** A query as it stands in an address; lists are written once per value. */
export function queryText(query: object): string {
  const values = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) values.append(name, String(one));
  }
  const text = values.toString();
  return text === "" ? "" : `?${text}`;
}

/** JSON whose whole numbers stay exact: those that a `number` would round become a `bigint`. */
export function parse(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;
  const exact: Reviver = (_key, value, context) => {
    const isRounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isRounded && context?.source && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  };
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown);
}

function filled(pattern: string, path: Record<string, string> = {}): string {
  return pattern.replace(/\{\*?(\w+)\}/g, (_whole, name: string) => encodeURIComponent(path[name] ?? ""));
}

/** The errors of the API are lower-case without a full stop; on a page they are sentences. */
function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
