// A schedule in a form. While it is written, the server says when it would tick, or what is wrong with it.
import { useEffect, useState } from "preact/hooks";

import { ask } from "../../api";
import type { SchedulePreview, ScheduleView } from "../../api.gen";
import { Choice, Dialog, Field } from "../../components/dialog";
import { ago } from "../../format";
import { say } from "../../toast";
import { commandOf, draftOf, EMPTY, scheduleOf, type Draft } from "./form";
import { localTick } from "./ticks";

/** The pause after a key before the server is asked. */
const TYPING_MS = 250;
/** Zones that are offered first; any other of the IANA list can be written. */
const ZONES = ["UTC", ...new Set([Intl.DateTimeFormat().resolvedOptions().timeZone, "Europe/Berlin", "Europe/London", "America/New_York", "Asia/Tokyo"])].filter((zone, at, all) => all.indexOf(zone) === at);

type Looked = { preview: SchedulePreview } | { problem: string } | null;

export function Editor({ before, close, done }: { before: ScheduleView | null; close: () => void; done: () => void }) {
  const [draft, setDraft] = useState<Draft>(before ? draftOf(before.name, before.schedule) : EMPTY);
  const set = (field: keyof Draft) => (value: string) => setDraft({ ...draft, [field]: value });
  const looked = usePreview(draft, before);
  const problem = looked && "problem" in looked ? looked.problem : null;
  const hindrance = draft.name.trim() === "" ? "Give it a name." : draft.kind.trim() === "" ? "Say which kind of task it submits." : problem;
  const run = async () => {
    await ask("PUT /schedules/{name}", { path: { name: draft.name }, body: scheduleOf(draft, before?.schedule ?? null) });
    say(`Schedule ${draft.name} holds from now on.`);
    done();
  };
  return (
    <Dialog title={before ? `Schedule ${before.name}` : "New schedule"} verb="Set" command={commandOf(draft)} hindrance={hindrance} run={run} close={close}>
      <div class="field-row">
        <Field label="Name" value={draft.name} change={set("name")} isFixed={before !== null} placeholder="nightly-report" isMono />
        <Field label="When" value={draft.cron} change={set("cron")} hint="0 3 * * *, @daily, @every 90s" isMono />
        <Field label="Time zone" value={draft.zone} change={set("zone")} known={ZONES} />
      </div>
      <Ticks looked={looked} />
      <div class="field-row">
        <Field label="Kind of task" value={draft.kind} change={set("kind")} placeholder="report" isMono />
        <Field label="Queue" value={draft.queue} change={set("queue")} isMono />
        <Choice label="Priority" value={draft.priority} change={set("priority")} options={[["5", "5, first"], ["4", "4"], ["3", "3, usual"], ["2", "2"], ["1", "1, last"]]} />
      </div>
      <Field label="Payload, as JSON" value={draft.payload} change={set("payload")} placeholder='{"days": 1}' isMono />
      <div class="field-row">
        <Choice
          label="Ticks that were missed"
          value={draft.catchUp}
          change={set("catchUp")}
          options={[["skip", "are dropped"], ["last", "make one task"], ["all", "make a task each"]]}
        />
        <Choice label="While the last task is open" value={draft.overlap} change={set("overlap")} options={[["allow", "another comes"], ["skip", "nothing comes"]]} />
      </div>
    </Dialog>
  );
}

function Ticks({ looked }: { looked: Looked }) {
  if (looked && "problem" in looked) {
    return (
      <p class="preview bad" role="alert">
        {looked.problem}
      </p>
    );
  }
  return (
    <div class="preview" aria-live="polite">
      <span class="note">Next ticks{looked ? `: ${looked.preview.words}` : ""}</span>
      <ol class="ticks">
        {(looked?.preview.next ?? []).slice(0, 5).map((tick) => (
          <li key={tick.at}>
            {localTick(tick.local)} <span class="note">{ago(tick.at)}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** What the server says about a draft, a moment after the last key. */
function usePreview(draft: Draft, before: ScheduleView | null): Looked {
  const [looked, setLooked] = useState<Looked>(null);
  const { cron, zone, payload } = draft;
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        // What is not filled in yet is no fault of the calendar.
        const body = scheduleOf({ ...draft, kind: draft.kind || "noop", queue: draft.queue || "default" }, before?.schedule ?? null);
        const preview = await ask("POST /schedules/preview", { body, signal: stop.signal });
        if (!stop.signal.aborted) setLooked({ preview });
      } catch (error) {
        if (!stop.signal.aborted) setLooked({ problem: (error as Error).message });
      }
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [cron, zone, payload, before]);
  return looked;
}
