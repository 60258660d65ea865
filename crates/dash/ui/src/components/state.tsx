// The states of a task: colour, shape and word, the same everywhere. Colour is never alone.
import type { TaskState } from "../api.gen";

/** In the order of a task's life. */
export const STATES: readonly TaskState[] = ["ready", "leased", "blocked", "scheduled", "done", "dead", "cancelled"];

/** Those that are not over. */
export const OPEN: readonly TaskState[] = ["ready", "leased", "blocked", "scheduled"];

const WORDS: Record<TaskState, string> = {
  ready: "ready",
  leased: "running",
  blocked: "blocked",
  scheduled: "scheduled",
  done: "done",
  dead: "dead",
  cancelled: "cancelled",
};

/** Drawn in a box of 12 by 12. */
const SHAPES: Record<TaskState, string> = {
  ready: "M6 2a4 4 0 1 0 0 8a4 4 0 1 0 0-8z",
  leased: "M3.5 2.2v7.6L10 6z",
  blocked: "M3.5 2.5v7M8.5 2.5v7",
  scheduled: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9zM6 3.6V6l1.7 1.2",
  done: "M2.5 6.4l2.4 2.4l4.8-5.2",
  dead: "M3 3l6 6M9 3l-6 6",
  cancelled: "M6 1.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 1 0 0-8.4zM3.2 8.8l5.6-5.6",
};

export function stateWord(state: TaskState): string {
  return WORDS[state] ?? state;
}

/** The shape alone; whoever uses it says the word beside it. */
export function StateIcon({ state }: { state: TaskState }) {
  return (
    <svg class={`state-icon is-${state}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={SHAPES[state] ?? SHAPES.ready} class={state === "leased" ? "is-filled" : undefined} />
    </svg>
  );
}

/** The same inside another drawing. */
export function StateShape({ state, x, y }: { state: TaskState; x: number; y: number }) {
  return (
    <g class="state-icon" transform={`translate(${x} ${y})`} aria-hidden="true">
      <path d={SHAPES[state] ?? SHAPES.ready} class={state === "leased" ? "is-filled" : undefined} />
    </g>
  );
}

/** Shape and word. `queued`: it has a worker, and waits there for a slot. */
export function StateBadge({ state, queued = false }: { state: TaskState; queued?: boolean }) {
  return (
    <span class={`state is-${state}`}>
      <StateIcon state={state} />
      {queued ? "at worker" : stateWord(state)}
    </span>
  );
}
