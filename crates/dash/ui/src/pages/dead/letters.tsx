// The letters of a group, each by itself: when it came and how often it was tried.
import { ask } from "../../api";
import type { DeadGroup, TaskSummary } from "../../api.gen";
import { ErrorPanel, Loading } from "../../components/notices";
import { Table, type Column } from "../../components/table";
import { ago, moment, plural, shortId } from "../../format";
import { useLoad } from "../../load";
import { may } from "../../me";
import { groupKey, ofTask, type Act } from "./selection";

/** Letters that are listed. */
const ROWS_MAX = 25;

export function Letters({ group, act }: { group: DeadGroup; act: (act: Act) => void }) {
  const { kind, class: sort, error } = group;
  const query = { state: ["dead" as const], kind, class: sort, error, limit: ROWS_MAX };
  const letters = useLoad(`letters ${groupKey(group)}`, (signal) => ask("GET /tasks", { query, signal }), 10);
  if (letters.error) return <ErrorPanel error={letters.error} retry={letters.reload} />;
  if (!letters.data) return <Loading />;
  const list = letters.data.items;
  const more = `/tasks?state=dead&kind=${encodeURIComponent(kind)}&class=${sort}&error=${encodeURIComponent(error)}`;
  return (
    <div class="letters">
      <Table label={`Dead letters: ${error}`} rows={list} rowKey={(task) => task.id} columns={may("admin") ? [...COLUMNS, acts(act)] : COLUMNS} href={(task) => `/tasks/${task.id}`} />
      {group.count > ROWS_MAX && (
        <p class="note">
          The newest {list.length}. <a href={more}>All {plural(group.count, "letter")} as tasks</a>
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
