// Which dead letters are meant and what is done with them: for the API, and as the command that does the same.
import type { DeadGroup, DeadSelection, TaskSummary } from "../../api.gen";
import { command, flag } from "../../command";
import { quoted } from "../../components/command";
import { shortId } from "../../format";

export interface Chosen {
  /** What is meant, as the end of a sentence: "replay …". */
  words: string;
  select: DeadSelection;
  /** The flags that mean the same. */
  flags: string;
  /** The one letter, if it is one. */
  one?: TaskSummary;
}

export type Act = Chosen & { verb: "replay" | "drop" };

export function groupKey(group: DeadGroup): string {
  return [group.kind, group.class, group.error].join(" ");
}

export function all(): Chosen {
  return { words: "all dead letters", select: { all: true }, flags: "--all" };
}

export function ofGroup(group: DeadGroup): Chosen {
  const { kind, class: sort, error } = group;
  return {
    words: "this group",
    select: { kind, class: sort, error },
    flags: command(flag("kind", kind), flag("class", sort), flag("error", error)),
  };
}

export function ofTask(task: TaskSummary): Chosen {
  return { words: `task ${shortId(task.id)}`, select: { ids: [task.id] }, flags: quoted(task.id), one: task };
}

/** The command for an act. */
export function commandOf({ verb, flags }: Act, rate: string, payload: string | null): string {
  return command(`divvy dead ${verb} ${flags}`, verb === "replay" ? flag("rate", rate) : "", payload === null ? "" : flag("payload", payload), "--yes");
}
