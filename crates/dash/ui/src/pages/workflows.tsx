// Workflows, newest first.
import { ask } from "../api";
import { Meter } from "../components/figures";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { Table } from "../components/table";
import { WorkflowBadge } from "../components/workflow_state";
import { ago, count, millis, moment, shortId, span } from "../format";
import { useLoad } from "../load";
import { go, place, setQuery } from "../router";

const ROWS = 50;
const STATES = ["open", "failed", "succeeded"] as const;

export function Workflows() {
  const { query } = place.value;
  const after = query.get("after") ?? undefined;
  const state = STATES.find((one) => one === query.get("state"));
  const key = JSON.stringify(["workflows", after, state]);
  const list = useLoad(key, (signal) => ask("GET /workflows", { query: { limit: ROWS, after, state } as never, signal }), after ? 0 : 2);
  const rows = list.data?.items ?? [];
  const tabs = (
    <div class="tabs" role="group" aria-label="State">
      <button type="button" aria-pressed={!state} onClick={() => setQuery({ state: null, after: null })}>
        All
      </button>
      {STATES.map((one) => (
        <button key={one} type="button" aria-pressed={one === state} onClick={() => setQuery({ state: one, after: null })}>
          {one.charAt(0).toUpperCase() + one.slice(1)}
        </button>
      ))}
    </div>
  );
  return (
    <Page title="Workflows" actions={tabs}>
      {list.error && <ErrorPanel error={list.error} retry={list.reload} />}
      {!list.data && !list.error && <Loading height={300} />}
      {list.data && rows.length === 0 && (
        <Empty
          title={state ? `No workflow is ${state}` : "No workflows yet"}
          text="A workflow is a set of tasks that wait for each other, submitted in one step."
          commands={state ? [] : ["divvy run workflow.yaml --wait", "divvy video add clip.mp4 --wait", "divvy workflow list"]}
        />
      )}
      {rows.length > 0 && (
        <div class={list.isStale ? "card flush is-stale" : "card flush"}>
          <Table
            label="Workflows"
            rows={rows}
            rowKey={(one) => one.id}
            listKey={key}
            href={(one) => `/workflows/${one.id}`}
            columns={[
              { name: "State", cell: (one) => <WorkflowBadge state={one.state} /> },
              { name: "Workflow", cell: (one) => <a class="plain" href={`/workflows/${one.id}`}><b class="kind">{one.name}</b> <span class="mono muted">{shortId(one.id)}</span></a>, class: "wide" },
              { name: "Over", cell: (one) => <span class="over"><Meter value={one.percent} max={100} label={`${one.percent} % is over`} tone={one.failed > 0 ? "state-dead" : one.state === "open" ? "state-leased" : "state-done"} /> {one.percent} %</span>, isWide: true },
              { name: "Tasks", cell: (one) => count(one.total), isRight: true },
              { name: "Open", cell: (one) => count(one.open), isRight: true, isWide: true },
              { name: "Failed", cell: (one) => (one.failed > 0 ? <span class="bad-text">{count(one.failed)}</span> : 0), isRight: true },
              { name: "Started", cell: (one) => <time title={moment(one.started_at)} dateTime={one.started_at}>{ago(one.started_at)}</time>, isRight: true, isWide: true },
              { name: "Took", cell: (one) => (one.ended_at ? span(millis(one.ended_at) - millis(one.started_at)) : "–"), isRight: true, isWide: true },
            ]}
          />
          {(list.data?.next || after) && (
            <div class="pager">
              <span>{count(rows.length)} workflows</span>
              <div>
                {after && (
                  <button type="button" class="button small" onClick={() => setQuery({ after: null }, { replace: false })}>
                    First
                  </button>
                )}
                {list.data?.next && (
                  <button type="button" class="button small" onClick={() => go(`/workflows?after=${encodeURIComponent(list.data?.next ?? "")}${state ? `&state=${state}` : ""}`)}>
                    Older
                  </button>
                )}
              </div>
            </div>
          )}
        </div>
      )}
    </Page>
  );
}
