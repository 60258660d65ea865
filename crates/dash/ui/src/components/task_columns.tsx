// How a task stands in a table, on every page that lists some.
import type { TaskSummary } from "../api.gen";
import { ago, millis, moment, percent, shortId, span } from "../format";
import { Meter } from "./figures";
import { StateBadge } from "./state";
import type { Column } from "./table";
import { Words } from "./words";

export const TASK_COLUMNS: ReadonlyArray<Column<TaskSummary>> = [
  { name: "State", cell: (task) => <StateBadge state={task.state} queued={task.state === "leased" && !!task.wait} /> },
  {
    name: "Task",
    cell: (task) => (
      <a class="plain" href={`/tasks/${task.id}`}>
        <b class="kind">{task.kind}</b> <span class="mono muted">{shortId(task.id)}</span>
        <span class="only-narrow">
          <Why task={task} />
        </span>
      </a>
    ),
  },
  { name: "Why", cell: (task) => <Why task={task} />, class: "wide", isWide: true },
  { name: "Queue", cell: (task) => <a class="plain" href={`/queues/${encodeURIComponent(task.queue)}`}>{task.queue}</a>, isWide: true },
  { name: "Prio", cell: (task) => task.priority, isRight: true, isWide: true },
  { name: "Try", cell: (task) => task.attempts, isRight: true, isWide: true },
  { name: "Worker", cell: (task) => task.worker ?? <span class="muted">–</span>, isWide: true },
  { name: "Submitted", cell: (task) => <time dateTime={task.submitted_at} title={moment(task.submitted_at)}>{ago(task.submitted_at)}</time>, isRight: true },
  { name: "Took", cell: (task) => (task.ended_at ? span(millis(task.ended_at) - millis(task.submitted_at)) : <span class="muted">–</span>), isRight: true, isWide: true },
];

/** Why a task is where it is, in one line. */
export function Why({ task }: { task: Pick<TaskSummary, "state" | "wait_text" | "error" | "progress"> }) {
  if (task.wait_text) return <span title={task.wait_text}><Words text={task.wait_text} /></span>;
  if (task.state === "leased" && task.progress) {
    const { done, total, message } = task.progress;
    return (
      <span class="progress">
        {total > 0 && <Meter value={done} max={total} label={percent(done / total)} tone="state-leased" />}
        {message}
      </span>
    );
  }
  if (task.error && task.state !== "done") return <span class={task.state === "dead" ? "bad-text" : "muted"} title={task.error.message}>{task.error.message}</span>;
  return null;
}
