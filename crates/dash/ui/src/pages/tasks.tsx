// Tasks. Every filter is in the URL and is applied by the server; pages go on from the last row, however many there are.
import { useEffect, useMemo, useState } from "preact/hooks";

import { ask } from "../api";
import type { Select, TaskState, TaskSummary } from "../api.gen";
import { askBulk, type Action } from "../bulk";
import { Filter, type Filters } from "../components/filter";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { STATES, StateBadge, StateIcon, stateWord } from "../components/state";
import { Table } from "../components/table";
import { TASK_COLUMNS } from "../components/task_columns";
import { confirm } from "../components/confirm";
import { count, plural } from "../format";
import { overview } from "../live";
import { useLoad } from "../load";
import { may } from "../me";
import { go, place, setQuery } from "../router";
import { say } from "../toast";
import { asQuery, asSelect, FIELDS, fromQuery } from "./tasks/filters";

const ROWS = 50;

export function Tasks() {
  const { query } = place.value;
  const filters = fromQuery(query);
  const after = query.get("after") ?? undefined;
  const key = JSON.stringify([filters, after]);
  // A span back from now stays the same moment while the list is looked at.
  const select = useMemo(() => asSelect(filters, Date.now()), [key]);
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  useEffect(() => setChosen(new Set()), [key]);
  // Later pages are looked at, not watched.
  const tasks = useLoad(key, (signal) => ask("GET /tasks", { query: { ...select, after, limit: ROWS } as never, signal }), after ? 0 : 2);
  const known = useLoad("queues", (signal) => ask("GET /queues", { signal }));
  const rows = tasks.data?.items ?? [];
  const offers: Record<string, Array<string | null | undefined>> = {
    queue: (known.data?.items ?? []).map(({ name }) => name),
    kind: rows.map(({ kind }) => kind),
    worker: rows.map(({ worker }) => worker),
  };
  const fields = FIELDS.map((field) => (offers[field.name] ? { ...field, values: [...new Set(offers[field.name])].filter((value) => typeof value === "string") } : field));
  const change = (next: Filters) => setQuery({ ...asQuery(next), after: null }, { replace: false });
  return (
    <Page title="Tasks" actions={may("admin") && <Actions select={select} chosen={chosen} rows={rows} done={() => (setChosen(new Set()), tasks.reload())} />}>
      <div class="toolbar">
        <Filter fields={fields} value={filters} change={change} placeholder="kind:video.* state:dead queue:mail  ( / )" />
      </div>
      <StateTabs chosen={filters.state ?? []} isOnly={Object.keys(filters).every((name) => name === "state")} change={(state) => change({ ...filters, state })} />
      {tasks.error && <ErrorPanel error={tasks.error} retry={tasks.reload} />}
      {!tasks.data && !tasks.error && <Loading height={400} />}
      {tasks.data && rows.length === 0 && !tasks.data.next && <None isFiltered={Object.keys(filters).length > 0} />}
      {tasks.data && (rows.length > 0 || tasks.data.next) && (
        <div class={tasks.isStale ? "card flush is-stale" : "card flush"}>
          <Table label="Tasks" rows={rows} rowKey={(task) => task.id} listKey={key} columns={TASK_COLUMNS} href={(task) => `/tasks/${task.id}`} {...(may("admin") ? { selection: { chosen, change: setChosen } } : {})} />
          <Pager rows={rows} next={tasks.data.next ?? null} isPartial={tasks.data.partial ?? false} isFirst={!after} />
        </div>
      )}
    </Page>
  );
}

function StateTabs({ chosen, isOnly, change }: { chosen: string[]; isOnly: boolean; change: (states: TaskState[]) => void }) {
  const counts = overview.value?.states;
  return (
    <div class="state-tabs" role="group" aria-label="States">
      <button type="button" aria-pressed={chosen.length === 0} onClick={() => change([])}>
        all
      </button>
      {STATES.map((state) => (
        <button key={state} type="button" aria-pressed={chosen.includes(state)} onClick={() => change([state])}>
          <StateIcon state={state} />
          {stateWord(state)}
          {isOnly && counts && <b>{count(counts[state] ?? 0)}</b>}
        </button>
      ))}
    </div>
  );
}

function Pager({ rows, next, isPartial, isFirst }: { rows: TaskSummary[]; next: string | null; isPartial: boolean; isFirst: boolean }) {
  const query = new URLSearchParams(place.value.query);
  if (next) query.set("after", next);
  return (
    <div class="pager">
      <span>
        {plural(rows.length, "task")}, newest first
        {next === null ? ": that is all" : isPartial ? "; much was looked at for few that fit, and there may be more" : "; there are more"}
      </span>
      <div>
        {!isFirst && (
          <button type="button" class="button small" onClick={() => setQuery({ after: null }, { replace: false })}>
            Newest
          </button>
        )}
        {next && (
          <button type="button" class="button small" onClick={() => go(`/tasks?${query}`)}>
            Older
          </button>
        )}
      </div>
    </div>
  );
}

function None({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No task fits this filter" text="It is applied to all tasks that are kept." commands={[]} />;
  return (
    <Empty
      title="No tasks yet"
      text="A task is one unit of work: its kind decides who runs it."
      commands={["divvy submit sleep --arg ms:=500 --wait", "divvy submit noop --queue mail --count 100", "divvy run workflow.yaml --wait"]}
    />
  );
}

interface ActionsProps {
  select: Select;
  chosen: Set<string>;
  rows: TaskSummary[];
  done: () => void;
}

/** What can be done with the chosen rows, or with everything that fits the filter. */
function Actions({ select, chosen, rows, done }: ActionsProps) {
  if (chosen.size === 0) {
    const offer = (action: Action, name: string) => (
      <button type="button" class="button small" onClick={() => void askBulk(action, select, done)}>
        {name}
      </button>
    );
    return (
      <div class="actions" role="group" aria-label="With all tasks that fit the filter">
        <span class="note">All that fit:</span>
        {offer("retry", "Retry")}
        {offer("reprioritise", "Reprioritise")}
        {offer("cancel", "Cancel")}
      </div>
    );
  }
  const picked = rows.filter(({ id }) => chosen.has(id));
  const each = (address: "POST /tasks/{id}/retry" | "POST /tasks/{id}/cancel", verb: "retry" | "cancel") =>
    confirm({
      title: `${verb === "retry" ? "Retry" : "Cancel"} ${plural(picked.length, "task")}?`,
      text: picked.length === 1 && picked[0] ? <StateBadge state={picked[0].state} /> : undefined,
      command: `divvy task ${verb} ${picked.map(({ id }) => id).join(" ")}`,
      verb: verb === "retry" ? "Retry" : "Cancel them",
      isDangerous: verb === "cancel",
      async run() {
        const ends = await Promise.allSettled(picked.map(({ id }) => ask(address, { path: { id }, body: {} as never })));
        const bad = ends.filter((end) => end.status === "rejected");
        say(`${plural(ends.length - bad.length, "task")} ${verb === "retry" ? "put back" : "cancelled"}${bad.length ? `; ${bad.length} refused: ${(bad[0] as PromiseRejectedResult).reason.message}` : "."}`, bad.length > 0);
        done();
      },
    });
  return (
    <div class="actions" role="group" aria-label="With the selected tasks">
      <span class="note">{count(chosen.size)} selected:</span>
      <button type="button" class="button small" onClick={() => each("POST /tasks/{id}/retry", "retry")}>
        Retry
      </button>
      <button type="button" class="button small" onClick={() => each("POST /tasks/{id}/cancel", "cancel")}>
        Cancel
      </button>
    </div>
  );
}
