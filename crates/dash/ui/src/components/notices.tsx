// What stands where data would: nothing yet, an error, or waiting. And the toasts.
import type { ComponentChildren } from "preact";

import { Refusal } from "../api";
import { toasts } from "../toast";
import { Command, firstLine } from "./command";

/** An empty list that teaches: commands that would fill it. */
export function Empty({ title, text, commands = [] }: { title: string; text?: ComponentChildren; commands?: string[] }) {
  const first = commands.length > 0 ? firstLine() : null;
  return (
    <div class="empty">
      <h2>{title}</h2>
      {text && <p>{text}</p>}
      {commands.length > 0 && (
        <div class="empty-commands">
          {first && <Command text={first} />}
          {commands.map((command) => (
            <Command key={command} text={command} />
          ))}
        </div>
      )}
    </div>
  );
}

/** A part that could not be loaded. It fails alone, and can be tried again. */
export function ErrorPanel({ error, retry }: { error: Error; retry?: () => void }) {
  const isMissing = error instanceof Refusal && error.status === 404;
  return (
    <div class="error-panel" role="alert">
      <strong>{isMissing ? "Not found" : "This could not be loaded"}</strong>
      <span>{error.message}</span>
      {retry && (
        <button type="button" class="button small" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** A quiet place for what is on its way. */
export function Loading({ height = 120 }: { height?: number }) {
  return (
    <div class="loading" style={{ minHeight: `${height}px` }} role="status">
      <span class="unseen">Loading</span>
    </div>
  );
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={toast.isBad ? "toast bad" : "toast"}>
          {toast.text}
        </div>
      ))}
    </div>
  );
}
