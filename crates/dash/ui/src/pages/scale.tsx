// Pools of workers: what comes, what is expected and what there is room for; what that costs; why, and what else could be.
import { useState } from "preact/hooks";

import { ask } from "../api";
import type { Change, PoolExplained, PoolStatus } from "../api.gen";
import { Stat } from "../components/figures";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { Table, type Column } from "../components/table";
import { ago, count, millis, moment, plural, span } from "../format";
import { useLoad, type Loaded } from "../load";
import { may } from "../me";
import { place, setQuery } from "../router";
import { BOUNDS, goalWords, hold, letDecide, rest } from "./scale/acts";
import { LoadChart, WorkerChart } from "./scale/charts";
import { Costs, money } from "./scale/costs";
import { Trial } from "./scale/trial";

export function Scale() {
  const pools = useLoad("pools", (signal) => ask("GET /pools", { signal }), 2);
  const list = pools.data?.items ?? [];
  const chosen = place.value.query.get("pool");
  const pool = list.find((one) => one.name === chosen) ?? list[0];
  return (
    <Page title="Scale" about="Pools of workers that grow and shrink with the work, at the least cost that reaches their goals." actions={pool && <Acts pool={pool} done={pools.reload} />}>
      {pools.error && <ErrorPanel error={pools.error} retry={pools.reload} />}
      {!pools.data && !pools.error && <Loading height={320} />}
      {pools.data && !pool && <NoPool />}
      {list.length > 1 && pool && <Pools list={list} chosen={pool.name} />}
      {pool && <Pool key={pool.name} pool={pool} />}
    </Page>
  );
}

function NoPool() {
  return (
    <Empty
      title="No pool of workers"
      text={
        <>
          A pool starts and stops workers by itself. Write one into <code>divvy.yaml</code>, or let the server look after processes on this machine:
        </>
      }
      commands={["divvy up --workers auto", "divvy config init", "divvy scale status"]}
    />
  );
}

function Pools({ list, chosen }: { list: PoolStatus[]; chosen: string }) {
  return (
    <nav class="tabs" aria-label="Pools">
      {list.map((pool) => (
        <a key={pool.name} href={`/scale?pool=${encodeURIComponent(pool.name)}`} aria-current={pool.name === chosen ? "page" : undefined} onClick={(event) => (event.preventDefault(), setQuery({ pool: pool.name }))}>
          {pool.name} <span class="note">{count(pool.running)}</span>
        </a>
      ))}
    </nav>
  );
}

function Acts({ pool, done }: { pool: PoolStatus; done: () => void }) {
  if (!may("admin")) return null;
  return (
    <>
      {pool.set !== null && pool.set !== undefined ? (
        <button type="button" class="button small" onClick={() => letDecide(pool, done)}>
          Let it decide…
        </button>
      ) : (
        <button type="button" class="button small" onClick={() => hold(pool, done)}>
          Hold a number…
        </button>
      )}
      <button type="button" class="button small" onClick={() => rest(pool, done)}>
        {pool.paused ? "Resume…" : "Pause…"}
      </button>
    </>
  );
}

function Pool({ pool }: { pool: PoolStatus }) {
  const path = { name: pool.name };
  const explained = useLoad(`explained ${pool.name}`, (signal) => ask("GET /pools/{name}/explain", { path, signal }), 5);
  const past = useLoad(`past ${pool.name}`, (signal) => ask("POST /pools/{name}/simulate", { path, body: {}, signal }), 10);
  const changes = useLoad(`changes ${pool.name}`, (signal) => ask("GET /pools/{name}/history", { path, signal }), 5);
  const [isTrial, setTrial] = useState(false);
  const wanted = Object.values(pool.wanted ?? {}).reduce((sum, one) => sum + one, 0);
  const isEmpty = past.error !== null && past.data === null;
  return (
    <div class="scale">
      {pool.problem && <p class="banner bad">{pool.problem}</p>}
      <div class="stats">
        <Stat name="Workers wanted" value={count(wanted)} note={`${count(pool.min)} to ${count(pool.max)}`} />
        <Stat name="Running" value={count(pool.running)} note={pool.starting > 0 ? `${count(pool.starting)} starting` : pool.draining > 0 ? `${count(pool.draining)} leaving` : pool.running < wanted ? "fewer than wanted" : "as wanted"} href="/workers" tone={pool.running < wanted ? "warn" : undefined} />
        <Stat name="Tasks waiting" value={count(pool.tasks_waiting)} note={`${plural(pool.tasks_running, "task")} running`} href="/tasks?state=ready" />
        <Stat name="Cost per hour" value={money(pool.costs.per_hour)} note={`${money(pool.costs.total)} in ${span(Date.now() - millis(pool.costs.since))}`} />
      </div>
      <div class="columns">
        <div class="stack-cards">
          <LoadChart past={past.data} forecast={explained.data?.explanation?.forecast ?? null} isLoading={!past.data && !past.error} isEmpty={isEmpty} />
          <WorkerChart past={past.data} pool={pool} isLoading={!past.data && !past.error} />
          <Decisions changes={changes} />
        </div>
        <div class="stack-cards">
          <Costs costs={pool.costs} />
          <Why pool={pool} explained={explained} />
        </div>
      </div>
      <section class="card">
        <div class="card-head">
          <h2>What if</h2>
          <button type="button" class="button small" aria-expanded={isTrial} onClick={() => setTrial(!isTrial)}>
            {isTrial ? "Close" : "Try other settings"}
          </button>
        </div>
        <p class="note">Another policy, other bounds or another goal, over the work that this pool has seen. It changes nothing.</p>
        {isTrial && <Trial pool={pool} now={past.data} />}
      </section>
    </div>
  );
}

function Why({ pool, explained }: { pool: PoolStatus; explained: Loaded<PoolExplained> }) {
  const words = explained.data?.explanation?.words ?? [];
  return (
    <section class="card why">
      <h2>Why so many</h2>
      <p>
        <span class={pool.paused ? "chip warn" : pool.set !== null && pool.set !== undefined ? "chip warn" : "chip busy"}>{pool.paused ? "paused" : pool.set !== null && pool.set !== undefined ? `set to ${pool.set}` : pool.policy}</span>{" "}
        <span class="note">
          goal: {goalWords(pool.goal)}
          {pool.bound ? `; ${BOUNDS[pool.bound]}` : ""}
        </span>
      </p>
      {explained.error && <ErrorPanel error={explained.error} retry={explained.reload} />}
      {words.length > 0 ? (
        <ul class="sentences">
          {words.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      ) : (
        <p>{pool.reason || "Nothing has been seen yet."}</p>
      )}
    </section>
  );
}

const CHANGES: ReadonlyArray<Column<Change>> = [
  { name: "When", cell: (change) => <span title={moment(change.at)}>{ago(change.at)}</span> },
  {
    name: "Change",
    cell: (change) => (
      <span class={change.to > change.from ? "good-text" : "muted"}>
        {change.to > change.from ? "+" : "−"}
        {count(Math.abs(change.to - change.from))}
      </span>
    ),
  },
  { name: "Workers", cell: (change) => `${count(change.from)} → ${count(change.to)}` },
  { name: "Why", class: "wraps", cell: (change) => change.reason },
];

/** Decisions that are listed. */
const DECISIONS_MAX = 30;

function Decisions({ changes }: { changes: Loaded<{ items: Change[] }> }) {
  const list = (changes.data?.items ?? []).slice(0, DECISIONS_MAX);
  return (
    <section class="card">
      <h2>Decisions</h2>
      {changes.error && <ErrorPanel error={changes.error} retry={changes.reload} />}
      {changes.data && list.length === 0 && <p class="note">This pool has not changed yet.</p>}
      {list.length > 0 && <Table label="Decisions, newest first" rows={list} rowKey={(change) => `${change.at} ${change.to}`} columns={CHANGES} />}
    </section>
  );
}
