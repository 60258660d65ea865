// Alerts: what fires and its cure, what is about to, what fired before, every rule, and who is told.
import { Fragment } from "preact";

import { ask } from "../api";
import type { Alert, AlertChange, AlertSink } from "../api.gen";
import { Command } from "../components/command";
import { confirm } from "../components/confirm";
import { ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { Table, type Column } from "../components/table";
import { Words } from "../components/words";
import { ago, amount, clock, millis, moment, plural, span } from "../format";
import { useEvents } from "../live";
import { useLoad } from "../load";
import { may } from "../me";
import { sentence } from "../sentence";
import { say } from "../toast";
import { commandsIn, silence, unsilence, withoutCommand } from "./alerts/acts";

/** Changes that are listed. */
const HISTORY_MAX = 50;

export function Alerts() {
  const alerts = useLoad("alerts", (signal) => ask("GET /alerts", { signal }), 5);
  useEvents("alert", alerts.reload);
  const rules = alerts.data?.alerts ?? [];
  const firing = rules.filter((rule) => rule.firing);
  const pending = rules.filter((rule) => rule.pending && !rule.firing);
  const test = may("admin") && (alerts.data?.sinks ?? []).length > 0 && (
    <button type="button" class="button small" onClick={() => sendTest(alerts.data?.sinks ?? [])}>
      Send a test…
    </button>
  );
  return (
    <Page title="Alerts" mark={alerts.data && <Mark firing={firing} />} about="Rules about the health of this server. Each says what is wrong and what cures it, once when it begins and once when it is over." actions={test}>
      {alerts.error && <ErrorPanel error={alerts.error} retry={alerts.reload} />}
      {!alerts.data && !alerts.error && <Loading height={200} />}
      {alerts.data && (
        <div class="stack-cards">
          {firing.length + pending.length === 0 ? <Calm rules={rules.length} /> : [...firing, ...pending].map((rule) => <Firing key={rule.name} rule={rule} done={alerts.reload} />)}
          <Past changes={alerts.data.history ?? []} />
          <Rules rules={rules} done={alerts.reload} />
          <Sinks sinks={alerts.data.sinks ?? []} />
        </div>
      )}
    </Page>
  );
}

function Mark({ firing }: { firing: Alert[] }) {
  const faults = firing.filter((rule) => rule.severity === "fault").length;
  if (firing.length === 0) return <span class="chip good">all well</span>;
  return <span class={faults > 0 ? "chip bad" : "chip warn"}>{plural(firing.length, "alert fires", "alerts fire")}</span>;
}

function Calm({ rules }: { rules: number }) {
  return (
    <section class="card calm">
      <svg viewBox="0 0 24 24" width="28" height="28" aria-hidden="true" class="line-icon">
        <circle cx="12" cy="12" r="9" />
        <path d="M8 12.500l2.700 2.700l5.300-6" />
      </svg>
      <span>
        Nothing needs you. All {plural(rules, "rule")} hold.
      </span>
    </section>
  );
}

function Firing({ rule, done }: { rule: Alert; done: () => void }) {
  const isFault = rule.severity === "fault";
  const isSilent = Boolean(rule.silenced_until && millis(rule.silenced_until) > Date.now());
  return (
    <article class={`card alert ${rule.pending && !rule.firing ? "is-pending" : isFault ? "is-fault" : "is-warning"}`} aria-label={rule.name}>
      <div class="card-head">
        <span class={isFault ? "chip bad" : "chip warn"}>{isFault ? "fault" : "warning"}</span>
        <h2>{spoken(rule.name)}</h2>
        {rule.pending && !rule.firing && <span class="note">broken, and not for long enough to fire</span>}
        {rule.firing && !rule.cure && <span class="note">well again, and over if that lasts</span>}
        {rule.since && (
          <span class="note" title={moment(rule.since)}>
            since {ago(rule.since)}
          </span>
        )}
        {isSilent && <span class="chip">silent until {clock(rule.silenced_until)}</span>}
        {may("admin") && (
          <span class="right-end">
            {isSilent ? (
              <button type="button" class="button small" onClick={() => unsilence(rule, done)}>
                Tell again…<span class="unseen"> {rule.name}</span>
              </button>
            ) : (
              <button type="button" class="button small" onClick={() => silence(rule, done)}>
                Silence…<span class="unseen"> {rule.name}</span>
              </button>
            )}
          </span>
        )}
      </div>
      <p class="alert-text">
        <Words text={sentence(rule.text)} />
      </p>
      {rule.cure && (
        <p class="cure">
          <b>Cure</b> <Words text={withoutCommand(rule.cure)} />
        </p>
      )}
      {commandsIn(rule.cure ?? "").map((text) => (
        <Command key={text} text={text} />
      ))}
    </article>
  );
}

const PAST: ReadonlyArray<Column<AlertChange>> = [
  { name: "When", cell: (change) => <span title={moment(change.at)}>{ago(change.at)}</span> },
  { name: "What", cell: (change) => <span class={change.state === "resolved" ? "chip good" : change.severity === "fault" ? "chip bad" : "chip warn"}>{change.state}</span> },
  { name: "Rule", cell: (change) => spoken(change.name) },
  { name: "Lasted", isRight: true, isWide: true, cell: (change) => (change.state === "resolved" ? span(millis(change.at) - millis(change.since)) : "–") },
  { name: "Text", class: "wraps", cell: (change) => <Words text={change.text} /> },
];

function Past({ changes }: { changes: AlertChange[] }) {
  if (changes.length === 0) return null;
  return (
    <section class="card">
      <h2>What fired before</h2>
      <Table label="Alerts that fired and resolved, newest first" rows={changes.slice(0, HISTORY_MAX)} rowKey={(change) => `${change.name} ${change.at} ${change.state}`} columns={PAST} />
    </section>
  );
}

function Rules({ rules, done }: { rules: Alert[]; done: () => void }) {
  const columns: Array<Column<Alert>> = [
    {
      name: "Rule",
      class: "wraps",
      cell: (rule) => (
        <>
          {spoken(rule.name)}
          <br />
          <span class="note">
            <Words text={rule.text} />
          </span>
        </>
      ),
    },
    { name: "State", cell: (rule) => <span class={rule.firing ? (rule.severity === "fault" ? "chip bad" : "chip warn") : rule.pending ? "chip warn" : "chip good"}>{rule.firing ? "fires" : rule.pending ? "pending" : "holds"}</span> },
    { name: "Value", isRight: true, isWide: true, cell: (rule) => (rule.value === undefined ? "–" : amount(rule.value)) },
    { name: "Fires at", isRight: true, isWide: true, cell: (rule) => (rule.fires_at === undefined ? "–" : amount(rule.fires_at)) },
  ];
  const silent: Column<Alert> = {
    name: "Told",
    class: "acts",
    cell: (rule) => {
      const isSilent = Boolean(rule.silenced_until && millis(rule.silenced_until) > Date.now());
      return (
        <button type="button" class="button small" onClick={() => (isSilent ? unsilence(rule, done) : silence(rule, done))}>
          {isSilent ? "Tell again…" : "Silence…"}
          <span class="unseen"> {rule.name}</span>
        </button>
      );
    },
  };
  return (
    <section class="card">
      <h2>Every rule</h2>
      <Table label="Rules" rows={rules} rowKey={(rule) => rule.name} columns={may("admin") ? [...columns, silent] : columns} />
    </section>
  );
}

function Sinks({ sinks }: { sinks: AlertSink[] }) {
  if (sinks.length > 0) {
    return (
      <section class="card">
        <h2>Who is told, besides the log</h2>
        <dl class="facts">
          {sinks.map((sink) => (
            <Fragment key={sink.name}>
              <dt>{sink.name}</dt>
              <dd>
                {sink.kind} <code class="wraps">{sink.to}</code>
              </dd>
            </Fragment>
          ))}
        </dl>
      </section>
    );
  }
  return (
    <section class="card">
      <h2>Who is told</h2>
      <p>
        Alerts go to the log of the server. To be told elsewhere, write a webhook or a command into the section <code>alerts</code> of <code>divvy.yaml</code>, and try it with:
      </p>
      <Command text="divvy alert test" />
    </section>
  );
}

function sendTest(sinks: AlertSink[]): void {
  confirm({
    title: "Send a test alert?",
    text: `It goes to ${sinks.map((sink) => sink.name).join(", ")}, and says that nothing is the matter.`,
    command: "divvy alert test",
    verb: "Send",
    run: async () => {
      const { sent } = await ask("POST /alerts/test");
      say(`${plural(sent.length, "test")} on the way.`);
    },
  });
}

/** The name of a rule in words. */
function spoken(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
