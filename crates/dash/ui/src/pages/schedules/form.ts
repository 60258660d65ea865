// A schedule as a form has it: text in fields, to and from what the API takes, and as the command that says the same.
import type { CatchUp, Overlap, Schedule } from "../../api.gen";
import { command, flag } from "../../command";
import { quoted } from "../../components/command";

export interface Draft {
  name: string;
  cron: string;
  zone: string;
  kind: string;
  queue: string;
  priority: string;
  payload: string;
  catchUp: CatchUp;
  overlap: Overlap;
}

export const EMPTY: Draft = {
  name: "",
  cron: "0 3 * * *",
  zone: "UTC",
  kind: "",
  queue: "default",
  priority: "3",
  payload: "",
  catchUp: "skip",
  overlap: "allow",
};

export function draftOf(name: string, { cron, zone, task, catch_up, overlap }: Schedule): Draft {
  const payload = task.payload === null || task.payload === undefined ? "" : JSON.stringify(task.payload);
  return {
    name,
    cron,
    zone,
    kind: task.kind,
    queue: task.queue ?? "default",
    priority: String(task.priority ?? 3),
    payload,
    catchUp: catch_up,
    overlap,
  };
}

/** What the API takes. What the form does not show stays as it was in `before`. Throws if the payload is no JSON. */
export function scheduleOf(draft: Draft, before: Schedule | null): Schedule {
  const task = { ...before?.task, kind: draft.kind, queue: draft.queue, priority: Number(draft.priority), payload: payloadOf(draft) };
  return { ...before, cron: draft.cron, zone: draft.zone, task, catch_up: draft.catchUp, overlap: draft.overlap };
}

/** The command that does the same. */
export function commandOf(draft: Draft): string {
  const every = /^@every\s+(.+)$/.exec(draft.cron);
  return command(
    `divvy schedule set ${quoted(draft.name || "NAME")}`,
    every ? flag("every", every[1]) : flag("cron", draft.cron),
    draft.zone === "UTC" ? "" : flag("zone", draft.zone),
    flag("kind", draft.kind || "KIND"),
    draft.queue === "default" ? "" : flag("queue", draft.queue),
    draft.priority === "3" ? "" : flag("priority", draft.priority),
    draft.payload.trim() === "" ? "" : flag("payload", draft.payload),
    draft.catchUp === "skip" ? "" : flag("catch-up", draft.catchUp),
    draft.overlap === "allow" ? "" : flag("overlap", draft.overlap),
  );
}

function payloadOf({ payload }: Draft): unknown {
  if (payload.trim() === "") return null;
  try {
    return JSON.parse(payload);
  } catch (error) {
    throw new Error(`The payload is no JSON: ${(error as Error).message}`);
  }
}
