// What the reader may do. A button that the server would refuse is not shown.
import { signal } from "@preact/signals";

import { ask } from "./api";
import type { Caller } from "./api.gen";

const me = signal<Caller | null>(null);

/** Asks once, when the page begins. */
export async function introduce(): Promise<void> {
  try {
    me.value = await ask("GET /me");
  } catch {
    // Nothing is known: nothing is offered.
    me.value = { scopes: [], token: null };
  }
}

/** Whether the reader may use a scope; `admin` includes the others. */
export function may(scope: "read" | "submit" | "admin"): boolean {
  const scopes = me.value?.scopes ?? [];
  return scopes.includes(scope) || scopes.includes("admin");
}
