// One queue: its waits and rates, what failed in it last, and its share.
import { ask } from "../api";
import type { History, QueueStatus } from "../api.gen";
import { Chart } from "../components/chart";
import { Stack, Stat, type Slice } from "../components/figures";
import { ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { Table } from "../components/table";
import { TASK_COLUMNS } from "../components/task_columns";
import { amount, brief, count, percent, span } from "../format";
import { series, times, useHistory } from "../history";
import { useEvents } from "../live";
import { useLoad } from "../load";
import { may } from "../me";
import { askPause, askShare } from "../queue_actions";
import type { PageProps } from "../router";
import { bySlices, slices } from "./queues";

const LATELY_MS = 3_600_000;

export function Queue({ path }: PageProps) {
  const name = path.name ?? "";
  const queue = useLoad(`queue ${name}`, (signal) => ask("GET /queues/{name}", { path: { name }, signal }), 2);
  useEvents("queue", queue.reload);
  const shown = queue.data;
  const actions = shown && may("admin") && (
    <>
      <button type="button" class="button small" onClick={() => askShare(shown, queue.reload)}>
        Set its share
      </button>
      <button type="button" class={shown.paused ? "button small primary" : "button small"} onClick={() => askPause(shown, queue.reload)}>
        {shown.paused ? "Resume" : "Pause"}
      </button>
    </>
  );
  return (
    <Page title={name} trail={[["Queues", "/queues"]]} mark={shown?.paused && <span class="chip warn">paused</span>} actions={actions}>
      {queue.error && <ErrorPanel error={queue.error} retry={queue.reload} />}
      {!shown && !queue.error && <Loading height={300} />}
      {shown && <Inside queue={shown} />}
    </Page>
  );
}

function Inside({ queue }: { queue: QueueStatus }) {
  const history = useHistory(LATELY_MS, queue.name);
  const last = (name: Parameters<typeof series>[1]) => series(history.data, name).findLast((value) => value !== null) ?? null;
  const [done, failed] = [last("done"), last("failed")];
  const tasks = (state: string) => `/tasks?queue=${encodeURIComponent(queue.name)}&state=${state}`;
  return (
    <>
      <div class="stats is-six">
        <Stat name="Ready" value={count(queue.ready)} note="wait for a worker" href={tasks("ready")} />
        <Stat name="Oldest wait" value={brief(queue.oldest_ready_ms)} note={`p95 ${span(last("wait_p95_ms"))}`} />
        <Stat name="Running" value={count(queue.leased - queue.queued)} note={`${count(queue.queued)} at workers`} href={tasks("leased")} />
        <Stat name="Done per minute" value={amount(done)} note="lately" href={tasks("done")} />
        <Stat name="Failing" value={percent(done !== null && failed !== null && done + failed > 0 ? failed / (done + failed) : null)} note="of those that ended" href={tasks("dead")} />
        <Stat name="Later" value={count(queue.scheduled + queue.blocked)} note={`${count(queue.scheduled)} scheduled, ${count(queue.blocked)} blocked`} href={tasks("scheduled&state=blocked")} />
      </div>
      <div class="columns">
        <div class="stack-cards">
          {history.error && !history.data ? <ErrorPanel error={history.error} retry={history.reload} /> : <Charts history={history.data} />}
        </div>
        <div class="stack-cards">
          <section class="card" aria-label="Open tasks">
            <h2>Open tasks</h2>
            <Parts slices={slices(queue)} />
          </section>
          <section class="card" aria-label="Ready by priority">
            <h2>Ready by priority</h2>
            <Parts slices={bySlices(queue)} />
          </section>
          <section class="card" aria-label="Share">
            <h2>Share</h2>
            <dl class="facts">
              <dt>Weight</dt>
              <dd>{queue.weight ?? "none: served by age"}</dd>
              <dt>Fair keys share</dt>
              <dd>{queue.fair_by === "time" ? "time on workers" : "starts of tasks"}</dd>
              {Object.entries(queue.fair_weights ?? {}).map(([key, weight]) => (
                <>
                  <dt>{key}</dt>
                  <dd>{weight}</dd>
                </>
              ))}
            </dl>
          </section>
        </div>
      </div>
      <Latest queue={queue.name} />
    </>
  );
}

/** Parts of a whole, and what each of them is. */
function Parts({ slices }: { slices: Slice[] }) {
  return (
    <>
      <Stack slices={slices} />
      <ul class="state-list">
        {slices.map(({ name, value, tone }) => (
          <li key={name} class={`slice tone-${tone}`}>
            <i aria-hidden="true" />
            {name}
            <b>{count(value)}</b>
          </li>
        ))}
      </ul>
    </>
  );
}

function Charts({ history }: { history: History | null }) {
  const when = times(history);
  return (
    <>
      <Chart title="Throughput per minute" times={when} isLoading={!history} write={amount} height={160} series={[
        { name: "done", values: series(history, "done"), colour: "--state-done", isArea: true },
        { name: "submitted", values: series(history, "submitted"), colour: "--state-ready", isDashed: true },
        { name: "failed", values: series(history, "failed"), colour: "--state-dead" },
      ]} />
      <Chart title="Wait before the start" times={when} isLoading={!history} write={span} writeAxis={brief} height={160} empty="No task has started in this time." series={[
        { name: "p50", values: series(history, "wait_p50_ms"), colour: "--state-ready", isArea: true },
        { name: "p95", values: series(history, "wait_p95_ms"), colour: "--state-leased" },
      ]} />
    </>
  );
}

/** What failed in it last. */
function Latest({ queue }: { queue: string }) {
  const dead = useLoad(`dead of ${queue}`, (signal) => ask("GET /tasks", { query: { queue, state: ["dead"], limit: 8 }, signal }), 5);
  const rows = dead.data?.items ?? [];
  if (rows.length === 0) return null;
  return (
    <section class="card flush spaced" aria-label="Last dead letters">
      <div class="card-head">
        <h2>Last dead letters</h2>
        <a class="right-end" href={`/tasks?queue=${encodeURIComponent(queue)}&state=dead`}>
          All of them
        </a>
      </div>
      <Table label="Dead letters, newest first" rows={rows} rowKey={(task) => task.id} columns={TASK_COLUMNS.filter(({ name }) => name !== "Queue")} href={(task) => `/tasks/${task.id}`} />
    </section>
  );
}
