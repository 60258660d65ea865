// Queues: how long one waits comes before how many wait.
import { ask } from "../api";
import type { QueueStatus } from "../api.gen";
import { Sparkline, Stack, type Slice } from "../components/figures";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { Table } from "../components/table";
import { amount, count, plural, span } from "../format";
import { series, useHistory } from "../history";
import { useEvents } from "../live";
import { useLoad } from "../load";
import { may } from "../me";
import { askPause } from "../queue_actions";

/** Queues whose last minutes are drawn; each is a question of its own. */
const DRAWN_MAX = 24;
const LATELY_MS = 15 * 60_000;
const LATELY_POINTS = 45;
/** A wait that is worth a second look. */
const LONG_MS = 60_000;

export function Queues() {
  const queues = useLoad("queues", (signal) => ask("GET /queues", { signal }), 2);
  useEvents("queue", queues.reload);
  const rows = queues.data?.items ?? [];
  const most = Math.max(1, ...rows.map(open));
  const mostReady = Math.max(1, ...rows.map(({ ready }) => ready));
  const drawn = new Set(rows.slice(0, DRAWN_MAX).map(({ name }) => name));
  return (
    <Page title="Queues" mark={rows.length > 0 && <span class="note">{plural(rows.length, "queue")}</span>}>
      {queues.error && <ErrorPanel error={queues.error} retry={queues.reload} />}
      {!queues.data && !queues.error && <Loading height={240} />}
      {queues.data && rows.length === 0 && (
        <Empty
          title="No queues yet"
          text="A queue comes into being with its first task. It can be paused and weighed against others."
          commands={["divvy submit sleep --arg ms:=500 --queue mail --count 50", "divvy queue set mail --weight 3", "divvy queue pause mail"]}
        />
      )}
      {rows.length > 0 && (
        <div class="card flush">
          <Table
            label="Queues"
            rows={rows}
            rowKey={(queue) => queue.name}
            href={(queue) => `/queues/${encodeURIComponent(queue.name)}`}
            columns={[
              {
                name: "Queue",
                sort: (queue) => queue.name,
                cell: (queue) => (
                  <a class="plain" href={`/queues/${encodeURIComponent(queue.name)}`}>
                    <b class="kind">{queue.name}</b> {queue.paused && <span class="chip warn">paused</span>}
                  </a>
                ),
              },
              { name: "Oldest wait", isRight: true, sort: (queue) => queue.oldest_ready_ms ?? -1, cell: (queue) => <Wait ms={queue.oldest_ready_ms ?? null} /> },
              { name: "p95 wait", isRight: true, isWide: true, cell: (queue) => (drawn.has(queue.name) ? <WaitLately queue={queue.name} /> : "–") },
              { name: "Open tasks", class: "stack-cell", isWide: true, cell: (queue) => <Stack slices={slices(queue)} max={most} /> },
              { name: "Ready", isRight: true, sort: (queue) => queue.ready, cell: (queue) => link(queue, "ready", queue.ready) },
              { name: "By priority", class: "stack-cell", isWide: true, cell: (queue) => <Stack slices={bySlices(queue)} max={mostReady} /> },
              { name: "Running", isRight: true, sort: (queue) => queue.leased - queue.queued, cell: (queue) => link(queue, "leased", queue.leased - queue.queued) },
              { name: "Later", isRight: true, isWide: true, sort: (queue) => queue.scheduled + queue.blocked, cell: (queue) => <a class="plain" href={`/tasks?queue=${encodeURIComponent(queue.name)}&state=scheduled&state=blocked`}>{count(queue.scheduled + queue.blocked)}</a> },
              { name: "Done per minute", isWide: true, class: "spark-cell", cell: (queue) => (drawn.has(queue.name) ? <DoneLately queue={queue.name} /> : null) },
              { name: "Weight", isRight: true, isWide: true, cell: (queue) => queue.weight ?? <span class="muted">–</span> },
              ...(may("admin")
                ? [
                    {
                      name: "Action",
                      isRight: true,
                      isWide: true,
                      cell: (queue: QueueStatus) => (
                        <button type="button" class="button small" onClick={() => askPause(queue, queues.reload)}>
                          {queue.paused ? "Resume" : "Pause"}
                        </button>
                      ),
                    },
                  ]
                : []),
            ]}
          />
        </div>
      )}
    </Page>
  );
}

export function slices(queue: QueueStatus): Slice[] {
  return [
    { name: "ready", value: queue.ready, tone: "state-ready" },
    { name: "running", value: queue.leased - queue.queued, tone: "state-leased" },
    { name: "at a worker", value: queue.queued, tone: "accent" },
    { name: "scheduled", value: queue.scheduled, tone: "state-scheduled" },
    { name: "blocked", value: queue.blocked, tone: "state-blocked" },
  ];
}

/** What is ready, highest priority first. */
export function bySlices(queue: QueueStatus): Slice[] {
  const counts = queue.ready_by_priority ?? [];
  return ([5, 4, 3, 2, 1] as const).map((priority) => ({ name: `priority ${priority}`, value: counts[priority - 1] ?? 0, tone: `p${priority}` }));
}

function open(queue: QueueStatus): number {
  return queue.ready + queue.leased + queue.scheduled + queue.blocked;
}

function link(queue: QueueStatus, state: string, value: number) {
  return (
    <a class="plain" href={`/tasks?queue=${encodeURIComponent(queue.name)}&state=${state}`}>
      {count(value)}
    </a>
  );
}

function Wait({ ms }: { ms: number | null }) {
  if (ms === null) return <span class="muted">–</span>;
  return <span class={ms > LONG_MS ? "warn-text" : undefined}>{span(ms)}</span>;
}

function WaitLately({ queue }: { queue: string }) {
  const history = useHistory(LATELY_MS, queue, LATELY_POINTS);
  return <Wait ms={series(history.data, "wait_p95_ms").findLast((value) => value !== null) ?? null} />;
}

function DoneLately({ queue }: { queue: string }) {
  const history = useHistory(LATELY_MS, queue, LATELY_POINTS);
  const done = series(history.data, "done");
  const now = done.findLast((value) => value !== null) ?? null;
  return (
    <span class="spark-line-cell">
      <Sparkline values={done} label="Done per minute" tone="state-done" width={96} height={20} />
      {amount(now)}
    </span>
  );
}
