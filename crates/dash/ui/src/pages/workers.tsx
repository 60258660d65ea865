// The workers: one lane each, how tasks move between them, and what may be asked of one or all.
import { useState } from "preact/hooks";

import { ask } from "../api";
import type { LoadView, Move, TaskSummary, WorkerView } from "../api.gen";
import { quoted } from "../components/command";
import { confirm } from "../components/confirm";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { Table, type Column } from "../components/table";
import { count, percent, plural, span } from "../format";
import { beat, useEvents } from "../live";
import { useLoad } from "../load";
import { may } from "../me";
import { say } from "../toast";
import { inUse, Lane, Standing, tierName, type Held } from "./workers/lane";
import { Arrows, StealList, type Steal } from "./workers/steals";

/** Tasks that workers hold which are read, to tell their priorities; of more, only the number is known. */
const HELD_MAX = 500;
/** Moves that are remembered. */
const STEALS_MAX = 30;
/** Moves of a rebalance that are listed before it. */
const MOVES_MAX = 8;

export function Workers() {
  const workers = useLoad("workers", (signal) => ask("GET /workers", { signal }), 2);
  const held = useLoad("held", (signal) => ask("GET /tasks", { query: { state: ["leased"], limit: HELD_MAX }, signal }), 2);
  const load = useLoad("load", (signal) => ask("GET /load", { signal }), 5);
  const settings = useLoad("settings", (signal) => ask("GET /settings", { signal }));
  const steals = useSteals();
  const [isTable, setTable] = useState(false);
  useEvents("worker", workers.reload);
  // What moved is with another worker now: lanes, queues and figures are to say the same.
  useEvents("steal", () => [workers, held, load].forEach((one) => one.reload()));

  const list = workers.data?.items ?? [];
  const priority = settings.data?.settings.load_balancing.priority;
  const protectedFrom = priority?.preserve_high_priority ? priority.high_priority_threshold : null;
  return (
    <Page title="Workers" about={list.length > 0 ? summary(list) : undefined} actions={<Actions isTable={isTable} setTable={setTable} count={list.length} />}>
      {workers.error && <ErrorPanel error={workers.error} retry={workers.reload} />}
      {!workers.data && !workers.error && <Loading height={240} />}
      {workers.data && list.length === 0 && <NoWorker />}
      {list.length > 0 && (isTable ? <section class="card flush"><AsTable workers={list} /></section> : <Lanes workers={list} held={held.data?.items ?? []} steals={steals} protectedFrom={protectedFrom} />)}
      {list.length > 0 && <Moves load={load.data} steals={steals} protectedFrom={protectedFrom} />}
    </Page>
  );
}

function Actions({ isTable, setTable, count: workers }: { isTable: boolean; setTable: (isTable: boolean) => void; count: number }) {
  if (workers === 0) return null;
  return (
    <>
      <button type="button" class="button small" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
        {isTable ? "Show lanes" : "Show as table"}
      </button>
      {may("admin") && workers > 1 && (
        <button type="button" class="button small" onClick={() => void rebalance()}>
          Even out…
        </button>
      )}
    </>
  );
}

function NoWorker() {
  return (
    <Empty
      title="No worker is connected"
      text="Workers take tasks, run them and report. Start as many as you like, on any machine that reaches this server."
      commands={["divvy work", "divvy work --name encoder --caps gpu --slots cpu=2,async=64", "divvy up --workers 3"]}
    />
  );
}

interface LanesProps {
  workers: WorkerView[];
  held: TaskSummary[];
  steals: Steal[];
  protectedFrom: number | null;
}

function Lanes({ workers, held, steals, protectedFrom }: LanesProps) {
  // The arrows grow old with the pulse.
  void beat.value;
  return (
    <section class="lanes" aria-label="Lanes of workers">
      <Arrows steals={steals} now={Date.now()} lanes={workers.map((worker) => worker.name).join("\n")} />
      {workers.map((worker) => (
        <Lane
          key={worker.key}
          worker={worker}
          held={heldBy(worker, held)}
          protectedFrom={protectedFrom}
          mayAct={may("admin")}
          onDrain={() => drain(worker)}
          onPause={() => pause(worker)}
        />
      ))}
    </section>
  );
}

function Moves({ load, steals, protectedFrom }: { load: LoadView | null; steals: Steal[]; protectedFrom: number | null }) {
  return (
    <div class="columns moves">
      <section class="card">
        <h2>Tasks that moved</h2>
        <StealList steals={steals} now={Date.now()} />
      </section>
      <section class="card">
        <h2>How the load is spread</h2>
        {load && (
          <dl class="facts">
            <Pair name="Wait before a start" value={span(load.avg_task_wait_time * 1000)} note="mean since the server started" />
            <Pair name="Tasks asked back" value={count(load.total_steals)} note={load.total_steals > 0 ? `${percent(load.success_rate)} had not begun` : "none yet"} />
            <Pair name="Tasks that moved" value={count(load.tasks_migrated)} note={`in ${plural(load.rebalance_cycles, "look")} of the scheduler`} />
            <Pair name="Variance of queues" value={load.queue_variance.toFixed(1)} note={load.queue_variance > 10 ? "uneven" : "even"} />
            <Pair name="Busy and idle" value={`${count(load.busy_agents)} / ${count(load.idle_agents)}`} />
          </dl>
        )}
        <Legend protectedFrom={protectedFrom} />
      </section>
    </div>
  );
}

function Legend({ protectedFrom }: { protectedFrom: number | null }) {
  return (
    <div class="lane-legend">
      <span>
        <i class="cell running" /> slot that runs a task
      </span>
      <span>
        <i class="cell" /> free slot
      </span>
      <span>
        <i class="waits p5" /> high to <i class="waits p1" /> low priority
      </span>
      {protectedFrom !== null && (
        <span>
          <i class="waits p5 kept" /> from priority {protectedFrom} on never stolen
        </span>
      )}
      <span>
        <svg width="26" height="8" aria-hidden="true">
          <path class="arrow" d="M1 4h24" stroke-width="2" />
        </svg>{" "}
        taken by an idle worker
      </span>
      <span>
        <svg width="26" height="8" aria-hidden="true">
          <path class="arrow push" d="M1 4h24" stroke-width="2" />
        </svg>{" "}
        moved by the scheduler
      </span>
    </div>
  );
}

function Pair({ name, value, note }: { name: string; value: string; note?: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>
        {value} {note && <span class="note">{note}</span>}
      </dd>
    </>
  );
}

const COLUMNS: ReadonlyArray<Column<WorkerView>> = [
  { name: "Worker", cell: (worker) => <b>{worker.name}</b>, sort: (worker) => worker.name },
  { name: "State", cell: (worker) => <Standing worker={worker} /> },
  { name: "Tiers", isWide: true, cell: (worker) => (worker.tiers ?? []).map((tier) => `${tierName(tier, worker)}: ${tier.leased - tier.queue_length}/${tier.slots}`).join(" · ") },
  { name: "In use", isRight: true, cell: (worker) => percent(inUse(worker)), sort: inUse },
  { name: "Waiting", isRight: true, cell: (worker) => count(worker.queue_length ?? 0), sort: (worker) => worker.queue_length ?? 0 },
  { name: "Done", isRight: true, cell: (worker) => count(worker.finished), sort: (worker) => worker.finished },
  { name: "Failed", isRight: true, cell: (worker) => count(worker.failed), sort: (worker) => worker.failed },
  { name: "Works", isRight: true, cell: (worker) => percent(worker.success_rate), sort: (worker) => worker.success_rate ?? 1 },
];

function AsTable({ workers }: { workers: WorkerView[] }) {
  const href = (worker: WorkerView) => `/tasks?worker=${encodeURIComponent(worker.name)}`;
  return <Table label="Workers" rows={workers} rowKey={(worker) => String(worker.key)} columns={COLUMNS} href={href} />;
}

/** The moves since the page was opened, oldest first. */
function useSteals(): Steal[] {
  const [steals, setSteals] = useState<Steal[]>([]);
  useEvents<Steal>("steal", (steal) => setSteals((before) => [...before, steal].slice(-STEALS_MAX)));
  return steals;
}

function heldBy(worker: WorkerView, held: TaskSummary[]): Held {
  const own = held.filter((task) => task.worker === worker.name);
  return { running: own.filter((task) => !task.wait), waiting: own.filter((task) => task.wait) };
}

function summary(workers: WorkerView[]): string {
  const slots = workers.reduce((sum, worker) => sum + (worker.slots ?? 0), 0);
  const waiting = workers.reduce((sum, worker) => sum + (worker.queue_length ?? 0), 0);
  const busy = workers.reduce((sum, worker) => sum + inUse(worker) * (worker.slots ?? 0), 0);
  const waits = waiting === 0 ? "nothing waits at a worker" : `${plural(waiting, "task waits", "tasks wait")} at a worker`;
  return `${plural(workers.length, "worker")} with ${plural(slots, "slot")}, ${percent(slots === 0 ? 0 : busy / slots)} in use; ${waits}.`;
}

function drain(worker: WorkerView): void {
  confirm({
    title: `Drain ${worker.name}?`,
    text: `It ends the ${plural(worker.leased, "task")} that it holds, takes no more, and leaves. This cannot be undone; to let it rest for a while, pause it.`,
    command: `divvy worker drain ${quoted(worker.name)}`,
    verb: "Drain",
    isDangerous: true,
    run: async () => {
      await ask("POST /workers/{name}/drain", { path: { name: worker.name } });
      say(`${worker.name} takes no more tasks.`);
    },
  });
}

function pause(worker: WorkerView): void {
  const verb = worker.paused ? "resume" : "pause";
  confirm({
    title: worker.paused ? `Let ${worker.name} take tasks again?` : `Pause ${worker.name}?`,
    text: worker.paused ? undefined : `It ends the ${plural(worker.leased, "task")} that it holds and takes nothing until it is resumed.`,
    command: `divvy worker ${verb} ${quoted(worker.name)}`,
    verb: worker.paused ? "Resume" : "Pause",
    run: async () => {
      await ask(worker.paused ? "POST /workers/{name}/resume" : "POST /workers/{name}/pause", { path: { name: worker.name } });
      say(worker.paused ? `${worker.name} takes tasks again.` : `${worker.name} rests.`);
    },
  });
}

/** Says first what would move. */
async function rebalance(): Promise<void> {
  const trial = await ask("POST /rebalance", { query: { dry_run: true }, body: {} });
  if (trial.moves.length === 0) return say("The load is even: nothing would move.");
  confirm({
    title: `Move ${plural(trial.moves.length, "task")}?`,
    text: <MoveList moves={trial.moves} />,
    command: "divvy queue rebalance",
    verb: "Move",
    run: async () => {
      const done = await ask("POST /rebalance", { body: {} });
      say(`${plural(done.moves.length, "task")} asked back.`);
    },
  });
}

function MoveList({ moves }: { moves: Move[] }) {
  return (
    <ul>
      {moves.slice(0, MOVES_MAX).map((move) => (
        <li key={move.task}>
          {move.kind} from <b>{move.from}</b> to <b>{move.to}</b>
        </li>
      ))}
      {moves.length > MOVES_MAX && <li>and {count(moves.length - MOVES_MAX)} more</li>}
    </ul>
  );
}
