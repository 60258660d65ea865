// Dead letters in groups of alike errors: what they have in common, the letters themselves, and replaying them, at a rate.
import { useState } from "preact/hooks";

import { ask } from "../api";
import type { DeadGroup } from "../api.gen";
import { Sparkline, Stack } from "../components/figures";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { ago, count, moment, percent, plural } from "../format";
import { useLoad } from "../load";
import { may } from "../me";
import { place, setQuery } from "../router";
import { Act } from "./dead/act";
import { Letters } from "./dead/letters";
import { all, groupKey, ofGroup, type Act as Action } from "./dead/selection";

export function Dead() {
  const after = place.value.query.get("after") ?? undefined;
  const groups = useLoad(`dead ${after}`, (signal) => ask("GET /dead", { query: { after }, signal }), 5);
  const [open, setOpen] = useState<string | null>(null);
  const [action, setAction] = useState<Action | null>(null);
  const list = groups.data?.items ?? [];
  const total = list.reduce((sum, group) => sum + group.count, 0);
  const hasMore = Boolean(groups.data?.next);
  const actions = may("admin") && list.length > 0 && (
    <>
      <button type="button" class="button small" onClick={() => setAction({ ...all(), verb: "drop" })}>
        Give all up…
      </button>
      <button type="button" class="button small primary" onClick={() => setAction({ ...all(), verb: "replay" })}>
        Replay all…
      </button>
    </>
  );
  return (
    <Page title="Dead letters" about={list.length > 0 ? about(list, total, hasMore) : undefined} actions={actions}>
      {groups.error && <ErrorPanel error={groups.error} retry={groups.reload} />}
      {!groups.data && !groups.error && <Loading height={240} />}
      {groups.data && list.length === 0 && !after && <NoDead />}
      <div class="groups">
        {list.map((group) => (
          <Group
            key={groupKey(group)}
            group={group}
            most={list[0]?.count ?? 1}
            total={total}
            isOpen={open === groupKey(group)}
            toggle={() => setOpen(open === groupKey(group) ? null : groupKey(group))}
            act={setAction}
          />
        ))}
      </div>
      {hasMore && (
        <button type="button" class="button" onClick={() => setQuery({ after: groups.data?.next }, { replace: false })}>
          More groups
        </button>
      )}
      {action && <Act action={action} close={() => setAction(null)} done={groups.reload} />}
    </Page>
  );
}

function NoDead() {
  return (
    <Empty
      title="No dead letters"
      text="A task that failed for good comes here with its error, and stays until you replay it or give it up. Try it out:"
      commands={[`divvy submit fail --payload '{"message": "no such customer 42", "verdict": "dead"}'`, "divvy dead list", "divvy dead replay --all --rate 10/s"]}
    />
  );
}

interface GroupProps {
  group: DeadGroup;
  most: number;
  total: number;
  isOpen: boolean;
  toggle: () => void;
  act: (action: Action) => void;
}

function Group({ group, most, total, isOpen, toggle, act }: GroupProps) {
  const id = `letters-${groupKey(group).replace(/\W+/g, "-")}`;
  return (
    <section class="card group" aria-label={group.error}>
      <div class="group-head">
        <div class="group-what">
          <h2>
            <button type="button" class="group-open" aria-expanded={isOpen} aria-controls={id} onClick={toggle}>
              <span class="turn" aria-hidden="true">
                ▸
              </span>
              <code class="plain wrap">{group.error}</code>
            </button>
          </h2>
          <p class="note">
            <a href={`/tasks?state=dead&kind=${encodeURIComponent(group.kind)}`}>{group.kind}</a> · {CLASSES[group.class] ?? group.class} ·{" "}
            <a href={`/tasks/${group.sample}`}>a sample</a>
            {group.first && group.last && (
              <>
                {" "}
                · first <time title={moment(group.first)}>{ago(group.first)}</time>, last <time title={moment(group.last)}>{ago(group.last)}</time>
              </>
            )}
          </p>
        </div>
        {group.trend && <Sparkline values={group.trend} label="Dead letters over the time of all groups" tone="bad" width={110} />}
        <div class="group-count">
          <b>{count(group.count)}</b>
          <Stack slices={[{ name: "dead letters", value: group.count, tone: "bad" }]} max={most} label={`${plural(group.count, "dead letter")}, ${percent(group.count / Math.max(total, 1))} of those listed`} />
        </div>
        {may("admin") && (
          <div class="group-acts">
            <button type="button" class="button small" onClick={() => act({ ...ofGroup(group), verb: "drop" })}>
              Give up…<span class="unseen"> {group.error}</span>
            </button>
            <button type="button" class="button small" onClick={() => act({ ...ofGroup(group), verb: "replay" })}>
              Replay…<span class="unseen"> {group.error}</span>
            </button>
          </div>
        )}
      </div>
      <div id={id} hidden={!isOpen}>
        {isOpen && <Letters group={group} act={act} />}
      </div>
    </section>
  );
}

/** What went wrong, in words. */
const CLASSES: Record<string, string> = {
  failed: "the handler failed",
  timeout: "it took too long",
  crashed: "the handler crashed",
  worker_lost: "its workers were lost",
  cancelled: "it was cancelled",
};

function about(list: DeadGroup[], total: number, hasMore: boolean): string {
  const those = `${plural(total, "task")} failed for good, with ${plural(list.length, "sort")} of errors`;
  return hasMore ? `At least ${those}; more are on the next page.` : `${those}.`;
}
