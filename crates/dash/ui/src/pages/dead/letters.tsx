// The letters of a group: when they came, how often each was tried, and each by itself.
import { ask } from "../../api";
import type { DeadGroup, TaskSummary } from "../../api.gen";
import { Sparkline } from "../../components/figures";
import { ErrorPanel, Loading } from "../../components/notices";
import { Table, type Column } from "../../components/table";
import { ago, millis, moment, plural, shortId } from "../../format";
import { useLoad } from "../../load";
import { may } from "../../me";
import { groupKey, ofTask, type Act } from "./selection";

/** Letters that are read. */
const LETTERS_MAX = 200;
/** Letters that are listed. */
const ROWS_MAX = 25;
/** Parts of the time that the trend has. */
const PARTS = 24;

export function Letters({ group, act }: { group: DeadGroup; act: (act: Act) => void }) {
  const { kind, class: sort, error } = group;
  const query = { state: ["dead" as const], kind, class: sort, error, limit: LETTERS_MAX };
  const letters = useLoad(`letters ${groupKey(group)}`, (signal) => ask("GET /tasks", { query, signal }), 10);
  if (letters.error) return <ErrorPanel error={letters.error} retry={letters.reload} />;
  if (!letters.data) return <Loading />;
  const list = letters.data.items;
  const times = list.map((task) => millis(task.ended_at ?? task.submitted_at)).sort((a, b) => a - b);
  const more = `/tasks?state=dead&kind=${encodeURIComponent(kind)}&class=${sort}&error=${encodeURIComponent(error)}`;
  return (
    <div class="letters">
      <div class="letters-when">
        {times.length > 0 && (
          <p class="note">
            First {ago(times[0])}, last {ago(times.at(-1))}
            {group.count > list.length && `, of the newest ${list.length}`}
          </p>
        )}
        {times.length > 1 && <Sparkline values={trend(times)} label="Letters over this time" tone="bad" width={160} />}
      </div>
      <Table label={`Dead letters: ${error}`} rows={list.slice(0, ROWS_MAX)} rowKey={(task) => task.id} columns={may("admin") ? [...COLUMNS, acts(act)] : COLUMNS} href={(task) => `/tasks/${task.id}`} />
      {group.count > ROWS_MAX && (
        <p class="note">
          The newest {Math.min(ROWS_MAX, list.length)}. <a href={more}>All {plural(group.count, "letter")} as tasks</a>
        </p>
      )}
    </div>
  );
}

const COLUMNS: ReadonlyArray<Column<TaskSummary>> = [
  { name: "Task", cell: (task) => <a href={`/tasks/${task.id}`}>{shortId(task.id)}</a> },
  { name: "Error", class: "wraps", cell: (task) => task.error?.message ?? "–" },
  { name: "Queue", isWide: true, cell: (task) => task.queue },
  { name: "Attempts", isRight: true, cell: (task) => task.attempts },
  { name: "Worker", isWide: true, cell: (task) => task.worker ?? "–" },
  { name: "Died", isRight: true, cell: (task) => <span title={moment(task.ended_at ?? task.submitted_at)}>{ago(task.ended_at)}</span> },
];

function acts(act: (act: Act) => void): Column<TaskSummary> {
  return {
    name: "Actions",
    class: "acts",
    cell: (task) => (
      <button type="button" class="button small" onClick={() => act({ ...ofTask(task), verb: "replay" })}>
        Replay…<span class="unseen"> {shortId(task.id)}</span>
      </button>
    ),
  };
}

/** How many came in each part of the time from the first to the last. */
function trend(times: number[]): number[] {
  const [first, last] = [times[0] ?? 0, times.at(-1) ?? 0];
  const parts = new Array<number>(PARTS).fill(0);
  for (const time of times) {
    const at = Math.min(PARTS - 1, Math.floor(((time - first) / Math.max(1, last - first)) * PARTS));
    parts[at] = (parts[at] ?? 0) + 1;
  }
  return parts;
}
