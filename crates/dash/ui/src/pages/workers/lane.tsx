// One worker: its slots tier by tier, what waits at it by priority, how it does, and what may be asked of it.
import type { SkillView, TaskSummary, TierView, WorkerView } from "../../api.gen";
import { ago, count, millis, moment, percent, plural } from "../../format";

/** Cells of one tier that are drawn; of more slots the rest is a number. */
const CELLS_MAX = 32;
/** Kinds that the name of a tier lists. */
const KINDS_MAX = 2;
const PRIORITIES = [5, 4, 3, 2, 1];

export interface Held {
  /** Tasks that run, by nothing but their worker. */
  running: TaskSummary[];
  /** Tasks that wait at the worker for a slot. */
  waiting: TaskSummary[];
}

export interface LaneProps {
  worker: WorkerView;
  held: Held;
  /** From this priority on tasks are never stolen; nothing if all may be. */
  protectedFrom: number | null;
  /** Whether the reader may act. */
  mayAct: boolean;
  onDrain: () => void;
  onPause: () => void;
}

export function Lane({ worker, held, protectedFrom, mayAct, onDrain, onPause }: LaneProps) {
  const quarantined = (worker.skills ?? []).filter((skill) => skill.quarantined_until && millis(skill.quarantined_until) > Date.now());
  return (
    <article class="lane" data-worker={worker.name} aria-label={`Worker ${worker.name}`}>
      <div class="lane-who">
        <h2>
          <a href={`/tasks?worker=${encodeURIComponent(worker.name)}`}>{worker.name}</a>
        </h2>
        <Standing worker={worker} />
        <p class="note" title={moment(worker.connected_at)}>
          connected {ago(worker.connected_at)}
        </p>
      </div>
      <div class="lane-work">
        {(worker.tiers ?? []).map((tier, at) => (
          <Tier key={at} tier={tier} name={tierName(tier, worker)} running={held.running.filter((task) => tier.kinds.includes(task.kind))} />
        ))}
        <LocalQueue worker={worker} waiting={held.waiting} protectedFrom={protectedFrom} />
      </div>
      <div class="lane-facts">
        <dl>
          <Fact name="in use" value={percent(inUse(worker))} />
          <Fact name="works" value={percent(worker.success_rate)} title="The moving share of its attempts that worked" />
          <Fact name="done" value={count(worker.finished)} />
          <Fact name="failed" value={count(worker.failed)} isBad={worker.failed > 0} />
        </dl>
        {quarantined.map((skill) => (
          <Quarantine key={skill.kind} skill={skill} />
        ))}
        <Has worker={worker} />
      </div>
      {mayAct && (
        <div class="lane-acts">
          <button type="button" class="button small" disabled={worker.draining} onClick={onPause}>
            {worker.paused ? "Resume" : "Pause"}
            <span class="unseen"> {worker.name}</span>
          </button>
          <button type="button" class="button small" disabled={worker.draining} onClick={onDrain}>
            Drain
            <span class="unseen"> {worker.name}</span>
          </button>
        </div>
      )}
    </article>
  );
}

/** How much of its slots a worker uses, from 0 to 1. */
export function inUse(worker: WorkerView): number {
  const slots = worker.slots ?? 0;
  const begun = worker.leased - (worker.queue_length ?? 0);
  return slots === 0 ? 0 : Math.min(1, Math.max(0, begun) / slots);
}

/** Where a worker stands, as a word and the colour of its chip. */
export function standing(worker: WorkerView): { word: string; tone: string } {
  if (worker.away_until) return { word: "away", tone: "bad" };
  if (worker.draining) return { word: "draining", tone: "warn" };
  if (worker.paused) return { word: "paused", tone: "warn" };
  return worker.leased > 0 ? { word: "working", tone: "busy" } : { word: "idle", tone: "" };
}

export function Standing({ worker }: { worker: WorkerView }) {
  const { word, tone } = standing(worker);
  const until = worker.away_until ? `Its connection broke. It keeps what it holds until ${moment(worker.away_until)}` : undefined;
  return (
    <span class={`chip ${tone}`} title={until}>
      {word}
    </span>
  );
}

/** What a tier is called: by its kinds, those first that the worker ran most. */
export function tierName(tier: TierView, worker: WorkerView): string {
  const attempts = (kind: string) => worker.skills?.find((skill) => skill.kind === kind)?.attempts ?? 0;
  const kinds = [...tier.kinds].sort((a, b) => attempts(b) - attempts(a));
  const more = kinds.length - KINDS_MAX;
  const first = kinds.slice(0, KINDS_MAX).join(", ");
  return more > 0 ? `${first} +${more}` : first;
}

function Tier({ tier, name, running }: { tier: TierView; name: string; running: TaskSummary[] }) {
  const busy = Math.min(tier.slots, Math.max(0, tier.leased - tier.queue_length));
  const cells = Math.min(tier.slots, CELLS_MAX);
  const label = `${name}: ${busy} of ${plural(tier.slots, "slot")} busy`;
  return (
    <div class="tier" role="group" aria-label={label}>
      <span class="tier-name" title={tier.kinds.join(", ")}>
        {name}
      </span>
      <span class="cells">
        {Array.from({ length: cells }, (_, at) => (
          <Cell key={at} task={running[at]} isBusy={at < busy} />
        ))}
        {tier.slots > cells && <span class="note">+{count(tier.slots - cells)}</span>}
      </span>
      <span class="note tier-count">
        {count(busy)} / {count(tier.slots)}
      </span>
    </div>
  );
}

/** A slot. A busy one leads to its task where that is known. */
function Cell({ task, isBusy }: { task: TaskSummary | undefined; isBusy: boolean }) {
  if (!isBusy) return <span class="cell" />;
  if (!task) return <span class="cell running" />;
  const share = task.progress && task.progress.total > 0 ? ` · ${percent(task.progress.done / task.progress.total)}` : "";
  const what = `${task.kind}${share} · priority ${task.priority}`;
  return <a class="cell running" href={`/tasks/${task.id}`} title={what} aria-label={what} />;
}

/** What waits at a worker, highest priority first; what nobody may steal has a frame. */
function LocalQueue({ worker, waiting, protectedFrom }: { worker: WorkerView; waiting: TaskSummary[]; protectedFrom: number | null }) {
  const length = worker.queue_length ?? 0;
  const parts = PRIORITIES.map((priority) => ({ priority, tasks: waiting.filter((task) => task.priority === priority).length }));
  const known = parts.reduce((sum, part) => sum + part.tasks, 0);
  const isKept = (priority: number) => protectedFrom !== null && priority >= protectedFrom;
  const words = parts
    .filter((part) => part.tasks > 0)
    .map((part) => `${part.tasks} of priority ${part.priority}${isKept(part.priority) ? ", protected" : ""}`);
  const label = length === 0 ? "Nothing waits at this worker" : `${plural(length, "task")} at this worker wait: ${words.join("; ") || "priorities not known"}`;
  return (
    <div class="tier" role="group" aria-label={label}>
      <span class="tier-name">local queue</span>
      <span class="local-queue" title={label}>
        {parts.map(
          ({ priority, tasks }) =>
            tasks > 0 && (
              <span key={priority} class={`waits p${priority}${isKept(priority) ? " kept" : ""}`} style={{ flexGrow: tasks }}>
                {tasks}
              </span>
            ),
        )}
        {length > known && (
          <span class="waits unknown" style={{ flexGrow: length - known }}>
            {length - known}
          </span>
        )}
      </span>
      <span class="note tier-count">{count(length)}</span>
    </div>
  );
}

function Quarantine({ skill }: { skill: SkillView }) {
  return (
    <p class="note">
      <span class="chip warn">kept from {skill.kind}</span> tries again {ago(skill.quarantined_until)}
    </p>
  );
}

function Has({ worker }: { worker: WorkerView }) {
  const own = worker.capabilities.filter((one) => !one.includes("."));
  return (
    <details class="has">
      <summary class="note">
        {plural(worker.capabilities.length, "capability", "capabilities")}, {plural(worker.kinds.length, "kind")}
      </summary>
      <p class="note wrap">
        <b>Has</b> {own.join(", ") || "nothing special"}
        {worker.capabilities.length > own.length && ` and ${worker.capabilities.length - own.length} codecs and filters`}
      </p>
      <p class="note wrap">
        <b>Runs</b> {worker.kinds.join(", ")}
      </p>
      <p class="note wrap">
        <b>Serves</b> {worker.queues.join(", ") || "all queues"}
      </p>
    </details>
  );
}

function Fact({ name, value, title, isBad }: { name: string; value: string; title?: string; isBad?: boolean }) {
  return (
    <div title={title}>
      <dt>{name}</dt>
      <dd class={isBad ? "bad-text" : undefined}>{value}</dd>
    </div>
  );
}
