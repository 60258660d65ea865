// One action on all tasks that fit a filter. First it is counted what would be done, then asked, then done in pieces.
import { signal } from "@preact/signals";

import { ask } from "./api";
import type { BulkReport, BulkRequest, Select, TaskState } from "./api.gen";
import { quoted } from "./components/command";
import { confirm } from "./components/confirm";
import { count, plural } from "./format";
import { complain, say } from "./toast";

export type Action = BulkRequest["action"];

/** What an action may be done to. */
export const POSSIBLE: Record<Action, readonly TaskState[]> = {
  retry: ["dead", "cancelled", "scheduled"],
  cancel: ["blocked", "scheduled", "ready", "leased"],
  drop: ["dead"],
  reprioritise: ["ready", "blocked", "scheduled"],
};

/** What is meant if no state is named: what somebody cancelled is put back only if that is said. */
const USUAL: Record<Action, readonly TaskState[]> = { ...POSSIBLE, retry: ["dead"] };

const VERBS: Record<Action, string> = { retry: "Retry", cancel: "Cancel", drop: "Drop", reprioritise: "Set the priority of" };
const DONE: Record<Action, readonly [one: string, many: string]> = {
  retry: ["was put back", "were put back"],
  cancel: ["was cancelled", "were cancelled"],
  drop: ["was dropped", "were dropped"],
  reprioritise: ["has the new priority", "have the new priority"],
};

/** One request treats so many tasks. */
const PIECE = 5_000;

const priority = signal(5);

/** Counts, asks, does. */
export async function askBulk(action: Action, filter: Select, done: () => void): Promise<void> {
  const possible = POSSIBLE[action];
  const state = filter.state?.length ? filter.state.filter((one) => possible.includes(one)) : [...USUAL[action]];
  if (state.length === 0) {
    say(`Nothing here can be treated so: it takes tasks that are ${possible.join(", ")}.`, true);
    return;
  }
  const request: BulkRequest = { action, filter: { ...filter, state } };
  let found: BulkReport;
  try {
    found = await ask("POST /tasks/bulk", { body: { ...request, ...extra(action), dry_run: true } });
  } catch (error) {
    complain(error);
    return;
  }
  if (found.matched === 0) {
    say("No task fits.");
    return;
  }
  const many = `${found.next ? "at least " : ""}${plural(found.matched, "task")}`;
  confirm({
    title: `${VERBS[action]} ${many}${action === "reprioritise" ? "" : "?"}`,
    text: <Found report={found} action={action} />,
    command: () => twin(action, request.filter ?? {}),
    verb: action === "reprioritise" ? "Set it" : `${VERBS[action]} ${found.next ? "all" : count(found.matched)}`,
    isDangerous: action === "cancel" || action === "drop",
    async run() {
      const treated = await treat(request, found.matched);
      say(`${plural(treated, "task")} ${DONE[action][treated === 1 ? 0 : 1]}.`);
      done();
    },
  });
}

/** Does it piece by piece; what was treated does not fit any more, so nothing is treated twice. */
async function treat(request: BulkRequest, matched: number): Promise<number> {
  let [treated, after]: [number, string | null] = [0, null];
  do {
    const report: BulkReport = await ask("POST /tasks/bulk", { body: { ...request, ...extra(request.action), limit: PIECE, after } });
    treated += report.done;
    after = report.next ?? null;
    if (after && treated < matched) say(`${count(treated)} of ${count(matched)} …`);
  } while (after);
  return treated;
}

function extra(action: Action): Partial<BulkRequest> {
  return action === "reprioritise" ? { priority: priority.value } : {};
}

function Found({ report, action }: { report: BulkReport; action: Action }) {
  const kinds = Object.entries(report.by_kind).sort((a, b) => b[1] - a[1]);
  return (
    <>
      {report.next && <p class="note">Counting stopped at {count(report.matched)}: there are more, and all of them are meant.</p>}
      <ul class="found">
        {kinds.slice(0, 6).map(([kind, number]) => (
          <li key={kind}>
            <span class="cut">{kind}</span>
            <b>{count(number)}</b>
          </li>
        ))}
        {kinds.length > 6 && <li class="muted">and {plural(kinds.length - 6, "more kind")}</li>}
      </ul>
      {action === "reprioritise" && (
        <label>
          Priority, 5 goes first
          <select value={priority.value} onChange={(event) => (priority.value = Number(event.currentTarget.value))}>
            {[5, 4, 3, 2, 1].map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}

/** The same on the command line. */
function twin(action: Action, filter: Select): string {
  const flags = Object.entries(filter).flatMap(([name, value]) => {
    if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return [];
    const flag = `--${name.replaceAll("_", "-")}`;
    return [`${flag} ${quoted(Array.isArray(value) ? value.join(",") : String(value))}`];
  });
  if (action === "reprioritise") return `divvy task reprioritise --priority ${priority.value} ${flags.join(" ")}`;
  return `divvy ${action === "drop" ? "dead" : "task"} ${action} ${flags.join(" ")}`;
}
