// One workflow: how its tasks hang together, when each ran, and what failed. It grows while it runs.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { ask } from "../api";
import { confirm } from "../components/confirm";
import { CopyButton } from "../components/command";
import { Dag } from "../components/dag";
import { Stack, stateSlices } from "../components/figures";
import { ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { StateBadge, STATES, StateIcon, stateWord } from "../components/state";
import { Table } from "../components/table";
import { Waterfall } from "../components/waterfall";
import { WorkflowBadge } from "../components/workflow_state";
import type { GraphNode, WorkflowGraph } from "../api.gen";
import { ago, count, millis, plural, shortId, span } from "../format";
import { criticalPath, ran, tally } from "../graph";
import { beat, connection } from "../live";
import { useLoad } from "../load";
import { may } from "../me";
import { place, setQuery, type PageProps } from "../router";
import { watch, whenever } from "../stream";
import { say } from "../toast";

const VIEWS = ["graph", "waterfall", "list"] as const;

export function WorkflowPage({ path }: PageProps) {
  const id = path.id ?? "";
  const loaded = useLoad(`graph ${id}`, (signal) => ask("GET /workflows/{id}/graph", { path: { id }, signal }));
  const graph = loaded.data;
  useGrowth(graph, loaded.reload);
  const view = VIEWS.find((one) => one === place.value.query.get("view")) ?? "graph";
  const now = graph?.ended ? millis(graph.ended) : Date.now();
  // While something runs, its bar grows with each beat.
  if (graph && !graph.ended) void beat.value;
  const critical = useMemo(() => (graph ? criticalPath(graph, now) : new Set<string>()), [graph]);
  const [follows, setFollows] = useState(false);
  if (!graph) {
    return (
      <Page title="Workflow" trail={[["Workflows", "/workflows"]]}>
        {loaded.error ? <ErrorPanel error={loaded.error} retry={loaded.reload} /> : <Loading height={420} />}
      </Page>
    );
  }
  const counts = tally(graph.nodes);
  return (
    <Page
      title={graph.name || "Workflow"}
      mark={<WorkflowBadge state={graph.state} />}
      trail={[["Workflows", "/workflows"]]}
      about={<span class="mono">{graph.id}<CopyButton text={graph.id} what="the id" /></span>}
      actions={<Actions graph={graph} counts={counts} done={loaded.reload} />}
    >
      <Summary graph={graph} counts={counts} now={now} critical={critical} />
      <div class="toolbar">
        <div class="tabs" role="group" aria-label="View">
          {VIEWS.map((one) => (
            <button key={one} type="button" aria-pressed={one === view} onClick={() => setQuery({ view: one === "graph" ? null : one })}>
              {one.charAt(0).toUpperCase() + one.slice(1)}
            </button>
          ))}
        </div>
        {view === "graph" && !graph.ended && (
          <label class="switch">
            <input type="checkbox" checked={follows} onChange={() => setFollows(!follows)} />
            Follow what runs
          </label>
        )}
        <span class="note">{view === "list" ? "" : "The path that decides the time is marked."}</span>
      </div>
      {graph.truncated && <p class="notice">There are more tasks than can be told in one answer; these are the first {count(graph.nodes.length)}. <a href={`/tasks?workflow=${graph.id}`}>All of them as a list</a></p>}
      <div class="card flush">
        {view === "graph" && <Dag graph={graph} critical={critical} follows={follows} now={now} />}
        {view === "waterfall" && <Waterfall nodes={graph.nodes} critical={critical} started={millis(graph.started)} ended={graph.ended ? millis(graph.ended) : null} now={now} />}
        {view === "list" && <List nodes={graph.nodes} now={now} />}
      </div>
    </Page>
  );
}

/** Loads the graph anew when a task of it changes, but not more often than it can be read. */
function useGrowth(graph: WorkflowGraph | null, reload: () => void): void {
  const latest = useRef(reload);
  latest.current = reload;
  const isLive = connection.value !== "paused";
  const id = graph?.id ?? null;
  // A large graph is asked for less often.
  const rest = Math.min(400 + (graph?.nodes.length ?? 0) * 3, 5000);
  useEffect(() => {
    if (!id || !isLive) return;
    let timer: ReturnType<typeof setTimeout> | null = null;
    const changed = () => {
      timer ??= setTimeout(() => {
        timer = null;
        latest.current();
      }, rest);
    };
    const stream = watch("GET /events", { query: { workflow: id } }, whenever(changed));
    return () => {
      stream.close();
      if (timer) clearTimeout(timer);
    };
  }, [id, isLive, rest]);
}

function Actions({ graph, counts, done }: { graph: WorkflowGraph; counts: { [state: string]: number }; done: () => void }) {
  if (!may("admin")) return null;
  const failed = (counts.dead ?? 0) + (counts.cancelled ?? 0);
  const open = graph.nodes.length - failed - (counts.done ?? 0);
  const resume = () =>
    confirm({
      title: "Retry what failed, and resume?",
      text: `${plural(counts.dead ?? 0, "dead task")} and ${plural(counts.cancelled ?? 0, "cancelled task")} are put back; what is done stays done.`,
      command: `divvy workflow resume ${graph.id}`,
      verb: "Retry and resume",
      async run() {
        await ask("POST /workflows/{id}/resume", { path: { id: graph.id }, body: {} as never });
        say("The workflow goes on.");
        done();
      },
    });
  const cancel = () =>
    confirm({
      title: "Cancel this workflow?",
      text: `${plural(open, "task")} that ${open === 1 ? "has" : "have"} not ended will not run.`,
      command: `divvy workflow cancel ${graph.id}`,
      verb: "Cancel it",
      isDangerous: true,
      async run() {
        await ask("POST /workflows/{id}/cancel", { path: { id: graph.id }, body: {} as never });
        say("The workflow was cancelled.");
        done();
      },
    });
  return (
    <>
      {failed > 0 && (
        <button type="button" class="button small primary" onClick={resume}>
          Retry failed and resume
        </button>
      )}
      {open > 0 && (
        <button type="button" class="button small" onClick={cancel}>
          Cancel
        </button>
      )}
    </>
  );
}

function Summary({ graph, counts, now, critical }: { graph: WorkflowGraph; counts: { [state: string]: number }; now: number; critical: ReadonlySet<string> }) {
  const on = graph.nodes.filter(({ id }) => critical.has(id));
  const spent = on.reduce((sum, node) => sum + (ran(node, now) ?? 0), 0);
  return (
    <section class="card workflow-sum" aria-label="How it stands">
      <Stack slices={stateSlices(counts)} />
      <ul class="legend">
        {STATES.map((state) => (counts[state] ?? 0) > 0 && (
          <li key={state}>
            <StateIcon state={state} />
            {stateWord(state)} <b>{count(counts[state])}</b>
          </li>
        ))}
        <li class="right-end">
          {graph.ended ? "took" : "runs for"} <b>{span(now - millis(graph.started))}</b>
        </li>
        <li>
          started <b>{ago(graph.started)}</b>
        </li>
        {on.length > 1 && (
          <li>
            critical path <b>{plural(on.length, "task")}, {span(spent)} of running</b>
          </li>
        )}
      </ul>
    </section>
  );
}

function List({ nodes, now }: { nodes: GraphNode[]; now: number }) {
  return (
    <Table
      label="Tasks of the workflow"
      rows={nodes}
      rowKey={(node) => node.id}
      href={(node) => `/tasks/${node.id}`}
      columns={[
        { name: "State", cell: (node) => <StateBadge state={node.state} />, sort: (node) => STATES.indexOf(node.state) },
        { name: "Task", cell: (node) => <a class="plain" href={`/tasks/${node.id}`}><b class="kind">{node.name}</b> <span class="mono muted">{shortId(node.id)}</span></a>, sort: (node) => node.name },
        { name: "Why", cell: (node) => node.wait_reason ?? <span class={node.state === "dead" ? "bad-text" : "muted"}>{node.error}</span>, class: "wide", isWide: true },
        { name: "Group", cell: (node) => node.group ?? <span class="muted">–</span>, isWide: true, sort: (node) => node.group },
        { name: "Worker", cell: (node) => node.worker ?? <span class="muted">–</span>, isWide: true },
        { name: "Started", cell: (node) => (node.started ? ago(node.started) : "–"), isRight: true, isWide: true, sort: (node) => node.started },
        { name: "Ran", cell: (node) => span(ran(node, now)), isRight: true, sort: (node) => ran(node, now) },
      ]}
    />
  );
}
