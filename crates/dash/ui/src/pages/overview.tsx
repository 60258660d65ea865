// The overview: eight numbers that lead to the lists behind them, how it went lately, and what needs attention. First how
// well the work goes (rate, errors, waits), then what does it (slots, workers, cost).
import { ask } from "../api";
import type { Alert, History, Overview as Numbers } from "../api.gen";
import { Chart } from "../components/chart";
import { Stack, Stat, stateSlices } from "../components/figures";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { StateIcon, STATES, stateWord } from "../components/state";
import { Words } from "../components/words";
import { amount, brief, count, percent, span } from "../format";
import { series, times, useHistory, WINDOWS } from "../history";
import { overview } from "../live";
import { useLoad } from "../load";
import { place, setQuery } from "../router";

/** Waiting longer than this is worth a second look. */
const LONG_WAIT_MS = 60_000;

export function Overview() {
  // The pulse brings the same once a second; before the first one the page is not empty.
  const first = useLoad("overview", (signal) => ask("GET /overview", { signal }));
  const now = overview.value ?? first.data;
  const asked = place.value.query.get("last");
  const [, ms] = WINDOWS.find(([name]) => name === asked) ?? WINDOWS[0]!;
  const history = useHistory(ms);
  if (first.error && !now) return <Shell>{<ErrorPanel error={first.error} retry={first.reload} />}</Shell>;
  if (!now) return <Shell>{<Loading height={320} />}</Shell>;
  const total = Object.values(now.states).reduce((sum, value) => sum + (value ?? 0), 0);
  return (
    <Shell>
      <Tiles now={now} done={series(history.data, "done")} />
      {total === 0 ? (
        <Empty
          title="Nothing has been submitted yet"
          text="These commands give it something to do; this page follows by itself."
          commands={["divvy submit sleep --arg ms:=500 --count 100", "divvy submit noop --wait", "divvy task list"]}
        />
      ) : (
        <div class="columns">
          <div class="stack-cards">
            {history.error && !history.data ? <ErrorPanel error={history.error} retry={history.reload} /> : <Charts history={history.data} />}
          </div>
          <div class="stack-cards">
            <Attention alerts={now.alerts} />
            <States states={now.states} />
          </div>
        </div>
      )}
    </Shell>
  );
}

function Shell({ children }: { children: preact.ComponentChildren }) {
  const chosen = place.value.query.get("last") ?? WINDOWS[0]![0];
  const windows = (
    <div class="tabs" role="group" aria-label="Time shown">
      {WINDOWS.map(([name], at) => (
        <button key={name} type="button" aria-pressed={name === chosen} onClick={() => setQuery({ last: at === 0 ? null : name })}>
          {name}
        </button>
      ))}
    </div>
  );
  return (
    <Page title="Overview" actions={windows}>
      {children}
    </Page>
  );
}

function Tiles({ now, done }: { now: Numbers; done: Array<number | null> }) {
  const isLate = (now.oldest_wait_ms ?? 0) > LONG_WAIT_MS;
  const few = now.workers_wanted !== null && now.workers < now.workers_wanted;
  return (
    <div class="stats">
      <Stat name="Waiting" value={count(now.waiting)} note="ready for a worker" href="/tasks?state=ready" />
      <Stat name="Oldest wait" value={brief(now.oldest_wait_ms)} note={now.oldest_wait_ms === null ? "nothing waits" : "of ready tasks"} href="/queues" {...(isLate ? { tone: "warn" as const } : {})} />
      <Stat name="Running" value={count(now.running)} unit={`of ${count(now.slots)} slots`} note={now.slots > 0 ? `${percent(now.running / now.slots)} busy` : "no slot"} href="/tasks?state=leased" />
      <Stat name="Done per minute" value={amount(now.done_per_min)} note={<Trend values={done} />} href="/tasks?state=done" />
      <Stat name="Failing" value={percent(now.failed_share)} note="of attempts that ended" href="/tasks?state=dead" {...((now.failed_share ?? 0) >= 0.05 ? { tone: "bad" as const } : {})} />
      <Stat name="Dead" value={count(now.dead)} note={now.dead === 0 ? "no dead letters" : "dead letters"} href="/dead" {...(now.dead > 0 ? { tone: "bad" as const } : {})} />
      <Stat name="Workers" value={count(now.workers)} unit={now.workers_wanted === null ? "" : `of ${count(now.workers_wanted)} wanted`} note={now.workers === 0 ? "nobody works" : few ? "more are coming" : "connected"} href="/workers" {...(now.workers === 0 ? { tone: "bad" as const } : {})} />
      <Stat name="Cost per hour" value={now.cost_per_hour === null ? "–" : amount(now.cost_per_hour)} note={now.cost_per_hour === null ? "no prices are set" : "of all pools"} href="/scale" />
    </div>
  );
}

/** How the last minute compares with what was before. */
function Trend({ values }: { values: Array<number | null> }) {
  const known = values.filter((value): value is number => value !== null);
  if (known.length < 8) return <>all queues</>;
  const mean = (list: number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const [now, before] = [mean(known.slice(-6)), mean(known.slice(0, -6))];
  if (before === 0) return <>all queues</>;
  const change = Math.round((now / before - 1) * 100);
  if (Math.abs(change) < 5) return <>steady</>;
  return (
    <>
      {change > 0 ? "↑" : "↓"} {Math.abs(change)} % against before
    </>
  );
}

function Charts({ history }: { history: History | null }) {
  const when = times(history);
  return (
    <>
      <Chart
        title="Throughput per minute"
        times={when}
        isLoading={!history}
        write={amount}
        series={[
          { name: "done", values: series(history, "done"), colour: "--state-done", isArea: true },
          { name: "failed", values: series(history, "failed"), colour: "--state-dead" },
          { name: "retried", values: series(history, "retried"), colour: "--state-blocked", isDashed: true },
        ]}
      />
      <Chart
        title="Wait before the start"
        times={when}
        isLoading={!history}
        write={span} writeAxis={brief}
        empty="No task has started in this time."
        series={[
          { name: "p50", values: series(history, "wait_p50_ms"), colour: "--state-ready", isArea: true },
          { name: "p95", values: series(history, "wait_p95_ms"), colour: "--state-leased" },
          { name: "p99", values: series(history, "wait_p99_ms"), colour: "--muted", isDashed: true },
        ]}
      />
      <Chart
        title="Waiting and running"
        times={when}
        isLoading={!history}
        write={count}
        height={150}
        series={[
          { name: "waiting", values: series(history, "waiting"), colour: "--state-ready", isArea: true },
          { name: "running", values: series(history, "running"), colour: "--state-leased" },
          { name: "workers", values: series(history, "workers"), colour: "--muted", isStepped: true },
        ]}
      />
    </>
  );
}

function Attention({ alerts }: { alerts: Alert[] }) {
  const firing = alerts.filter((alert) => alert.firing);
  const pending = alerts.filter((alert) => !alert.firing);
  return (
    <section class="card" aria-label="Needs attention">
      <div class="card-head">
        <h2>Needs attention</h2>
        <a class="right-end" href="/alerts">
          All rules
        </a>
      </div>
      {firing.length === 0 ? (
        <p class="calm">
          <svg viewBox="0 0 16 16" width="18" height="18" class="line-icon" aria-hidden="true">
            <circle cx="8" cy="8" r="6.5" />
            <path d="M5 8.2l2.1 2.1L11 6.2" />
          </svg>
          {pending.length === 0 ? "Every rule holds: nothing needs you." : "No alert fires."}
        </p>
      ) : (
        <Broken alerts={firing} />
      )}
      {pending.length > 0 && (
        <>
          <h3>Pending: broken, and not for long enough to fire</h3>
          <Broken alerts={pending} />
        </>
      )}
    </section>
  );
}

function Broken({ alerts }: { alerts: Alert[] }) {
  return (
    <ul class="attention">
      {alerts.map((alert) => (
        <li key={alert.name} class={!alert.firing ? "is-pending" : alert.severity === "fault" ? "is-fault" : undefined}>
          <span>
            <Words text={alert.text} /> <a href={whereToLook(alert.name)}>Look</a>
            <span class="note">{alert.cure ? <Words text={alert.cure} /> : "Well again, and over if that lasts."}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

/** The page that shows what a rule is about; without one, the rules. */
const SHOWN_BY: ReadonlyArray<readonly [RegExp, string]> = [
  [/dead/, "/dead"],
  [/capable|capability|deadline/, "/tasks?state=ready"],
  [/worker|steal|variance|quarantine|flap/, "/workers"],
  [/wait|queue/, "/queues"],
  [/tick|schedule/, "/schedules"],
  [/breaker|limit/, "/limits"],
  [/pool|scale/, "/scale"],
];

function whereToLook(rule: string): string {
  return SHOWN_BY.find(([words]) => words.test(rule))?.[1] ?? "/alerts";
}

function States({ states }: { states: Numbers["states"] }) {
  return (
    <section class="card" aria-label="Tasks by state">
      <div class="card-head">
        <h2>Tasks by state</h2>
      </div>
      <Stack slices={stateSlices(states)} />
      <ul class="state-list">
        {STATES.map((state) => (
          <li key={state}>
            <a href={`/tasks?state=${state}`}>
              <StateIcon state={state} />
              {stateWord(state)}
              <b>{count(states[state] ?? 0)}</b>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
