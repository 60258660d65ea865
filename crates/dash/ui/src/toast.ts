// Short messages at the edge of the page.
import { signal } from "@preact/signals";

export interface Toast {
  id: number;
  text: string;
  isBad: boolean;
}

export const toasts = signal<Toast[]>([]);
let next = 0;

/** Tells something that happened. */
export function say(text: string, isBad = false): void {
  const toast = { id: next++, text, isBad };
  toasts.value = [...toasts.value.slice(-3), toast];
  setTimeout(() => (toasts.value = toasts.value.filter((one) => one !== toast)), isBad ? 9000 : 4000);
}

/** Tells what went wrong. */
export function complain(error: unknown): void {
  say(error instanceof Error ? error.message : String(error), true);
}
