// Limits: how often tasks may start and how many may run, how full that is, and editing with what it would mean.
import { useState } from "preact/hooks";

import { ask } from "../api";
import type { LimitStatus, LimitView } from "../api.gen";
import { quoted } from "../components/command";
import { confirm } from "../components/confirm";
import { Dialog, Field } from "../components/dialog";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { Table, type Column } from "../components/table";
import { ago, count, plural } from "../format";
import { useLoad } from "../load";
import { may } from "../me";
import { say } from "../toast";
import { commandOf, draftOf, EMPTY, limitOf, meaning, type Draft } from "./limits/form";

/** Keys of one limit that are listed. */
const LEVELS_MAX = 12;

export function Limits() {
  const limits = useLoad("limits", (signal) => ask("GET /limits", { signal }), 2);
  const settings = useLoad("settings", (signal) => ask("GET /settings", { signal }));
  const [edited, setEdited] = useState<{ draft: Draft; isNew: boolean; waiting: number } | null>(null);
  const file = settings.data?.file_sections.includes("limits") ? (settings.data.file ?? "the settings file") : null;
  const mayEdit = may("admin") && !file;
  const list = limits.data?.items ?? [];
  const edit = (limit: LimitStatus) => setEdited({ draft: draftOf(limit.name, limit.limit), isNew: false, waiting: limit.waiting });
  const add = (
    <button type="button" class="button small primary" onClick={() => setEdited({ draft: EMPTY, isNew: true, waiting: 0 })}>
      New limit…
    </button>
  );
  return (
    <Page title="Limits" about="How often tasks may start and how many may run at once. Tasks name the limits that they run under, with a key such as a customer." actions={mayEdit && add}>
      {file && may("admin") && (
        <p class="banner">
          Limits are set in <code>{file}</code>. Change them there; the server reads it again by itself.
        </p>
      )}
      {limits.error && <ErrorPanel error={limits.error} retry={limits.reload} />}
      {!limits.data && !limits.error && <Loading />}
      {limits.data && list.length === 0 && (
        <Empty
          title="No limit is set"
          text="A limit keeps a service that you call from being called too often, or something scarce from being used by too many at once."
          commands={["divvy limit set mail-api --rate 10/s --burst 20 --concurrency 4", "divvy submit http --limit mail-api/acme --payload '{\"url\": \"https://example.com\"}'", "divvy limit list"]}
        />
      )}
      {list.length > 0 && (
        <div class="cards">
          {list.map((limit) => (
            <LimitCard key={limit.name} limit={limit} edit={mayEdit ? () => edit(limit) : undefined} remove={mayEdit ? () => remove(limit, limits.reload) : undefined} />
          ))}
        </div>
      )}
      {edited && <Editor {...edited} close={() => setEdited(null)} done={limits.reload} />}
    </Page>
  );
}

function LimitCard({ limit, edit, remove: gone }: { limit: LimitStatus; edit?: () => void; remove?: () => void }) {
  return (
    <section class="card limit" aria-label={`Limit ${limit.name}`}>
      <div class="card-head">
        <h2>{limit.name}</h2>
        <span class="card-acts">
          {edit && (
            <button type="button" class="button small" onClick={edit}>
              Edit…<span class="unseen"> {limit.name}</span>
            </button>
          )}
          {gone && (
            <button type="button" class="button small" onClick={gone}>
              Remove…<span class="unseen"> {limit.name}</span>
            </button>
          )}
        </span>
      </div>
      <dl class="figures">
        <Figure name="running" value={count(limit.running)} />
        <Figure name="waiting" value={count(limit.waiting)} tone={limit.waiting > 0 ? "warn-text" : undefined} />
        <Figure name="keys" value={count(limit.keys)} />
      </dl>
      <ul class="rules">
        {rules(limit).map((rule) => (
          <li key={rule}>{rule}</li>
        ))}
      </ul>
      {limit.levels.length > 0 && <Levels limit={limit} />}
    </section>
  );
}

function Figure({ name, value, tone }: { name: string; value: string; tone?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={tone}>{value}</dd>
    </div>
  );
}

/** What is set, in words. */
function rules({ limit }: LimitStatus): string[] {
  const said: string[] = [];
  if (limit.rate) said.push(`${limit.rate} per key${limit.burst ? `, ${limit.burst} at once after a pause` : ""}`);
  if (limit.concurrency) said.push(`${plural(limit.concurrency, "task")} at once per key`);
  if (limit.total_rate) said.push(`${limit.total_rate} over all keys`);
  if (limit.total_concurrency) said.push(`${plural(limit.total_concurrency, "task")} at once over all keys`);
  return said;
}

const LEVELS: ReadonlyArray<Column<LimitView>> = [
  { name: "Key", cell: (level) => (level.key === "*" ? <i>all keys</i> : (level.key ?? <i>no key</i>)) },
  { name: "Running", cell: (level) => <Gauge value={level.running} of={level.concurrency ?? null} /> },
  { name: "Waiting", isRight: true, cell: (level) => <span class={level.waiting > 0 ? "warn-text" : undefined}>{count(level.waiting)}</span> },
  { name: "Starts left", isRight: true, cell: (level) => (level.next_at ? `next ${ago(level.next_at)}` : count(level.tokens)) },
];

function Levels({ limit }: { limit: LimitStatus }) {
  const shown = limit.levels.slice(0, LEVELS_MAX);
  return (
    <>
      <Table label={`Keys of limit ${limit.name}`} rows={shown} rowKey={(level) => level.key ?? ""} columns={LEVELS} />
      {limit.keys > shown.length && <p class="note">The {shown.length} keys that keep most, of {count(limit.keys)}.</p>}
    </>
  );
}

function Gauge({ value, of }: { value: number; of: number | null }) {
  if (of === null) return <>{count(value)}</>;
  return (
    <span class="gauge">
      <span class="bar" role="meter" aria-label="Tasks that run" aria-valuemin={0} aria-valuemax={of} aria-valuenow={value}>
        <div style={{ width: `${Math.min(100, (value / of) * 100)}%` }} />
      </span>
      <span class="note">
        {count(value)} / {count(of)}
      </span>
    </span>
  );
}

function Editor({ draft: first, isNew, waiting, close, done }: { draft: Draft; isNew: boolean; waiting: number; close: () => void; done: () => void }) {
  const [draft, setDraft] = useState(first);
  const set = (field: keyof Draft) => (value: string) => setDraft({ ...draft, [field]: value });
  const isEmpty = draft.rate + draft.concurrency + draft.total_rate + draft.total_concurrency === "";
  const hindrance = draft.name.trim() === "" ? "Give it a name." : isEmpty ? "Say what it limits." : null;
  const run = async () => {
    await ask("PUT /limits/{name}", { path: { name: draft.name }, body: limitOf(draft) });
    say(`Limit ${draft.name} holds from now on.`);
    done();
  };
  return (
    <Dialog title={isNew ? "New limit" : `Limit ${draft.name}`} verb="Set" command={commandOf(draft)} hindrance={hindrance} run={run} close={close}>
      <Field label="Name" value={draft.name} change={set("name")} hint="As tasks give it: NAME or NAME/key" isFixed={!isNew} isMono />
      <div class="field-row">
        <Field label="Starts per key" value={draft.rate} change={set("rate")} placeholder="10/s" hint="such as 10/s, 100/m, 5000/h" isMono />
        <Field label="At once after a pause" value={draft.burst} change={set("burst")} type="number" placeholder="as the rate gives" />
        <Field label="Running per key" value={draft.concurrency} change={set("concurrency")} type="number" placeholder="any" />
      </div>
      <div class="field-row">
        <Field label="Starts over all keys" value={draft.total_rate} change={set("total_rate")} placeholder="1000/h" isMono />
        <Field label="Running over all keys" value={draft.total_concurrency} change={set("total_concurrency")} type="number" placeholder="any" />
      </div>
      <div class="preview" aria-live="polite">
        <span class="note">What that means</span>
        {meaning(draft, waiting).map((line) => (
          <p key={line}>{line}</p>
        ))}
      </div>
    </Dialog>
  );
}

function remove(limit: LimitStatus, done: () => void): void {
  confirm({
    title: `Remove limit ${limit.name}?`,
    text: limit.waiting > 0 ? `The ${plural(limit.waiting, "task")} behind it can start at once.` : "Tasks that name it are no longer kept.",
    command: `divvy limit remove ${quoted(limit.name)} --yes`,
    verb: "Remove",
    isDangerous: true,
    run: async () => {
      await ask("DELETE /limits/{name}", { path: { name: limit.name } });
      say(`Limit ${limit.name} is gone.`);
      done();
    },
  });
}
