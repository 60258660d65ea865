// One task: why it is where it is, what happened to it, what it got and returned, who was compared, what it wrote.
import { useEffect, useRef } from "preact/hooks";

import { ask } from "../api";
import type { Attempt, Candidate, TaskDetail, TaskExplanation } from "../api.gen";
import { CopyButton } from "../components/command";
import { confirm } from "../components/confirm";
import { Meter } from "../components/figures";
import { Json } from "../components/json";
import { Log } from "../components/log";
import { ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { OPEN, StateBadge, stateWord } from "../components/state";
import { Table } from "../components/table";
import { Timeline, type Step } from "../components/timeline";
import { Words } from "../components/words";
import { POSSIBLE } from "../bulk";
import { ago, amount, clock, count, millis, percent, plural, shortId, span } from "../format";
import { paused } from "../live";
import { useLoad } from "../load";
import { may } from "../me";
import type { PageProps } from "../router";
import { watch, whenever } from "../stream";
import { otherFacts } from "../terms";
import { say } from "../toast";

export function TaskPage({ path }: PageProps) {
  const id = path.id ?? "";
  const task = useLoad(`task ${id}`, (signal) => ask("GET /tasks/{id}", { path: { id }, signal }));
  const isOpen = task.data ? OPEN.includes(task.data.state) : false;
  // Where it stands among the others changes without an event of its own.
  const why = useLoad(`why ${id} ${task.data?.state}`, (signal) => ask("GET /tasks/{id}/explain", { path: { id }, signal }), isOpen ? 2 : 0);
  useChanges(task.data?.id ?? null, () => (task.reload(), why.reload()));
  if (task.error && !task.data) {
    return (
      <Page title="Task" trail={[["Tasks", "/tasks"]]}>
        <ErrorPanel error={task.error} retry={task.reload} />
      </Page>
    );
  }
  if (!task.data) {
    return (
      <Page title="Task" trail={[["Tasks", "/tasks"]]}>
        <Loading height={400} />
      </Page>
    );
  }
  const shown = task.data;
  return (
    <Page
      title={shown.kind}
      mark={<span class={`state large is-${shown.state}`}><StateBadge state={shown.state} queued={shown.state === "leased" && !!shown.wait} /></span>}
      trail={trail(shown)}
      about={<span class="mono">{shown.id}<CopyButton text={shown.id} what="the id" /></span>}
      actions={<Actions task={shown} done={() => (task.reload(), why.reload())} />}
    >
      <div class="columns">
        <div class="stack-cards">
          <Why task={shown} why={why.data} />
          <section class="card" aria-label="What happened">
            <h2>What happened</h2>
            <Timeline steps={steps(shown, why.data)} />
          </section>
          <div class="halves">
            <section class="card" aria-label="Payload">
              <h2>Payload</h2>
              <Json value={shown.payload} name="the payload" />
            </section>
            <section class="card" aria-label="Result">
              <h2>{shown.error && shown.state !== "done" ? "Error" : "Result"}</h2>
              {shown.error && shown.state !== "done" ? <pre class="error-text" tabIndex={0}>{shown.error.message}</pre> : shown.state === "done" ? <Json value={shown.result ?? null} name="the result" /> : <p class="muted">Not yet.</p>}
            </section>
          </div>
          <Log id={shown.id} isOpen={isOpen} />
          {isOpen && <Candidates why={why.data} />}
        </div>
        <Facts task={shown} why={why.data} />
      </div>
    </Page>
  );
}

function trail(task: TaskDetail): ReadonlyArray<readonly [string, string]> {
  if (!task.workflow) return [["Tasks", "/tasks"]];
  return [["Workflows", "/workflows"], [task.workflow.name || shortId(task.workflow.id), `/workflows/${task.workflow.id}`]];
}

/** Calls back when the task changes. */
function useChanges(id: string | null, changed: () => void): void {
  const latest = useRef(changed);
  latest.current = changed;
  const isPaused = paused.value;
  useEffect(() => {
    if (!id || isPaused) return;
    const stream = watch("GET /events", { query: { task: [id], progress: true } }, whenever(() => latest.current()));
    return stream.close;
  }, [id, isPaused]);
}

function Actions({ task, done }: { task: TaskDetail; done: () => void }) {
  if (!may("admin")) return null;
  const act = (verb: "retry" | "cancel", title: string, said: string) =>
    confirm({
      title,
      command: `divvy task ${verb} ${task.id}`,
      verb: verb === "retry" ? "Run it again" : "Cancel it",
      isDangerous: verb === "cancel",
      async run() {
        await ask(verb === "retry" ? "POST /tasks/{id}/retry" : "POST /tasks/{id}/cancel", { path: { id: task.id }, body: {} as never });
        say(said);
        done();
      },
    });
  return (
    <>
      {POSSIBLE.retry.includes(task.state) && (
        <button type="button" class="button small primary" onClick={() => act("retry", "Run this task again?", "It was put back.")}>
          {task.state === "scheduled" ? "Run now" : "Retry"}
        </button>
      )}
      {POSSIBLE.cancel.includes(task.state) && (
        <button type="button" class="button small" onClick={() => act("cancel", "Cancel this task?", "It was cancelled.")}>
          Cancel
        </button>
      )}
    </>
  );
}

/** The first answer: why it does not run, or how far it is. */
function Why({ task, why }: { task: TaskDetail; why: TaskExplanation | null }) {
  const text = why?.wait_text ?? task.wait_text;
  const progress = task.progress;
  if (!text && !progress) return null;
  const first = task.wait && task.wait.reason === "dependencies" ? task.wait.first : null;
  return (
    <section class={`card why-card is-${task.state}`} aria-label="Why it is where it is">
      {text && (
        <p>
          <b>{task.state === "leased" ? "Waits at its worker: " : "Does not run: "}</b>
          <Words text={text} />
          {first && (
            <>
              {" "}
              <a href={`/tasks/${first}`}>See it</a>
            </>
          )}
        </p>
      )}
      {text && why && (
        <p class="note">
          {[
            why.position !== null && why.position !== undefined && `${plural(why.position, "task")} before it`,
            why.estimated_start && `expected to start ${ago(why.estimated_start)}`,
            why.estimated_run_ms && `expected to run ${span(why.estimated_run_ms)}`,
            why.late && "expected to be late",
          ]
            .filter(Boolean)
            .join(" · ")}
        </p>
      )}
      {progress && task.state === "leased" && (
        <p class="progress">
          {progress.total > 0 && <Meter value={progress.done} max={progress.total} label={percent(progress.done / progress.total)} tone="state-leased" />}
          {progress.total > 0 && <b>{percent(progress.done / progress.total)}</b>} {progress.message}
        </p>
      )}
    </section>
  );
}

/** From the submission to the end, or to now. */
function steps(task: TaskDetail, why: TaskExplanation | null): Step[] {
  const list: Step[] = [{ at: millis(task.submitted_at), title: "Submitted", text: task.spawned_by ? <>by <a class="mono" href={`/tasks/${task.spawned_by}`}>{shortId(task.spawned_by)}</a></> : undefined, tone: "muted" }];
  const placed = why?.placement;
  task.history.forEach((attempt, at) => list.push(...attemptSteps(attempt, at, task)));
  const last = list.at(-1);
  // Why it came to that worker is known for a while after it is done.
  if (last?.tone === "done" && placed) last.text = <PlacedText placement={placed} />;
  if (task.state === "leased") {
    list.push({ at: task.started ? millis(task.started) : placed ? millis(placed.at) : null, title: <>{task.wait ? "At" : "Runs on"} {workerLink(task.worker)}</>, text: placed && <PlacedText placement={placed} />, tone: "leased", isNow: true });
  } else if (OPEN.includes(task.state)) {
    const at = task.wait && "until" in task.wait && typeof task.wait.until === "string" ? millis(task.wait.until) : null;
    list.push({ at, title: sentence(stateWord(task.state)), text: task.wait_text ? <Words text={task.wait_text} /> : undefined, tone: task.state, isNow: true });
  } else if (task.ended_at && task.state !== "done") {
    list.push({ at: millis(task.ended_at), title: task.state === "dead" ? "Dead letter" : "Cancelled", text: task.state === "cancelled" ? task.error?.message : `after ${plural(task.attempts, "attempt")}`, tone: task.state });
  } else if (task.ended_at && !task.history.some(({ error }) => !error)) {
    list.push({ at: millis(task.ended_at), title: <>Done on {workerLink(task.worker)}</>, text: placed && <PlacedText placement={placed} />, tone: "done" });
  }
  return list;
}

function sentence(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

/** When an attempt began, if that is known, and how it ended. */
function attemptSteps(attempt: Attempt, at: number, task: TaskDetail): Step[] {
  const end = attemptEnd(attempt, at, task);
  if (!attempt.started) return [end];
  return [{ at: millis(attempt.started), title: <>Attempt {at + 1} began on {workerLink(attempt.worker)}</>, tone: "leased" }, end];
}

function attemptEnd(attempt: Attempt, at: number, task: TaskDetail): Step {
  const where = workerLink(attempt.worker);
  if (!attempt.error) return { at: millis(attempt.at), title: <>Attempt {at + 1} finished it on {where}</>, tone: "done" };
  return {
    at: millis(attempt.at),
    title: (
      <>
        Attempt {at + 1}
        {task.retry ? ` of ${task.retry.limit + 1}` : ""} {attempt.error.class === "failed" ? "failed" : attempt.error.class.replace("_", " ")} on {where}
        {!attempt.counted && <span class="tag">not counted</span>}
      </>
    ),
    text: (
      <>
        <span class="bad-text">{attempt.error.message}</span>
        {attempt.log && (
          <details>
            <summary>End of its log</summary>
            <pre class="log">{attempt.log}</pre>
          </details>
        )}
      </>
    ),
    tone: "dead",
  };
}

function workerLink(worker: string | null | undefined) {
  return worker ? <a href={`/tasks?worker=${encodeURIComponent(worker)}`}>{worker}</a> : <>a worker</>;
}

function PlacedText({ placement }: { placement: NonNullable<TaskExplanation["placement"]> }) {
  const others = placement.compared ?? [];
  return (
    <>
      {placement.by === "score" ? "It had the best score" : "It had a place free, and this was the next task for it"}
      {others.length > 0 && <>: {others.slice(0, 6).map(({ worker, score }) => `${worker} ${amount(score)}`).join(", ")}</>}
    </>
  );
}

/** Every worker, and what it would mean to give it the task now. */
function Candidates({ why }: { why: TaskExplanation | null }) {
  const list = why?.candidates ?? [];
  if (list.length === 0) return null;
  const terms = [...new Set(list.flatMap((one) => (one.terms ?? []).map(({ name }) => name)))];
  return (
    <section class="card flush" aria-label="Who could run it">
      <div class="card-head">
        <h2>Who could run it</h2>
        <span class="note">{plural(list.length, "worker")}, scored as of now</span>
      </div>
      <Table
        label="Workers and their scores"
        rows={list}
        rowKey={(one: Candidate) => one.worker}
        columns={[
          { name: "Worker", cell: (one) => one.worker },
          { name: "Can", cell: (one) => canText(one), class: "wraps" },
          { name: "Score", cell: (one) => amount(one.score ?? null), isRight: true, sort: (one) => one.score },
          ...terms.map((name) => ({ name: name.replaceAll("_", " "), cell: (one: Candidate) => amount(one.terms?.find((term) => term.name === name)?.value ?? null), isRight: true, isWide: true })),
        ]}
      />
    </section>
  );
}

function canText(one: Candidate) {
  if (!one.serves) return <span class="muted">does not serve this kind and queue</span>;
  if (one.lacks?.length) return <span class="warn-text">lacks {one.lacks.join(", ")}</span>;
  if (one.quarantined_until) return <span class="warn-text">rests until {clock(one.quarantined_until)}</span>;
  return one.free ? <span class="good-text">yes, now</span> : <span>yes, when a slot is free</span>;
}

/** Fields that other places of the page show. */
const ELSEWHERE: ReadonlyArray<keyof TaskDetail> = ["id", "kind", "state", "payload", "result", "error", "history", "progress", "wait", "wait_text", "started", "spawned_by"];

type FactRow = [field: keyof TaskDetail, name: string, value: preact.ComponentChildren];

function Facts({ task, why }: { task: TaskDetail; why: TaskExplanation | null }) {
  const own: FactRow[] = [
    ["queue", "Queue", <a href={`/queues/${encodeURIComponent(task.queue)}`}>{task.queue}</a>],
    ["priority", "Priority", task.priority],
    ["attempts", "Attempts", `${count(task.attempts)} of ${count(why?.attempts_max ?? (task.retry ? task.retry.limit + 1 : null))}`],
    ["worker", "Worker", task.worker && workerLink(task.worker)],
    ["submitted_at", "Submitted", `${clock(task.submitted_at)} (${ago(task.submitted_at)})`],
    ["ended_at", "Ended", task.ended_at && `${clock(task.ended_at)} (${ago(task.ended_at)})`],
    ["ended_at", "Took", task.ended_at && span(millis(task.ended_at) - millis(task.submitted_at))],
    ["run_at", "Not before", task.run_at && clock(task.run_at)],
    ["deadline", "Deadline", task.deadline && `${clock(task.deadline)} (${ago(task.deadline)})`],
    ["workflow", "Workflow", task.workflow && <a href={`/workflows/${task.workflow.id}`}>{task.workflow.name || shortId(task.workflow.id)}</a>],
    ["tags", "Tags", task.tags?.length ? <Tags list={task.tags} href={(tag) => `/tasks?tag=${encodeURIComponent(tag)}`} /> : null],
    ["after", "After", task.after?.length ? <span class="tags">{task.after.slice(0, 12).map(({ task: id, optional }) => <a key={id} class="mono" href={`/tasks/${id}`} title={optional ? "optional" : "required"}>{shortId(id)}{optional ? "?" : ""}</a>)}{task.after.length > 12 && <span class="muted">and {task.after.length - 12} more</span>}</span> : null],
  ];
  const others = otherFacts(task, [...ELSEWHERE, ...own.map(([field]) => field)]);
  const rows: Array<[string, preact.ComponentChildren]> = [
    ...own.map(([, name, value]): [string, preact.ComponentChildren] => [name, value]),
    ...others.map(([name, value]): [string, preact.ComponentChildren] => [name, typeof value === "string" ? value : <Tags list={value} />]),
  ];
  return (
    <section class="card" aria-label="About it">
      <dl class="facts">
        {rows.map(([name, value]) => value !== null && value !== undefined && value !== "" && (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}

function Tags({ list, href }: { list: string[]; href?: (one: string) => string }) {
  return <span class="tags">{list.map((one) => (href ? <a key={one} class="tag" href={href(one)}>{one}</a> : <span key={one} class="tag">{one}</span>))}</span>;
}
