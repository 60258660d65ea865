// Replaying or giving up: how many that would be is counted first; a replay can be slowed down, and one letter be changed.
import { useEffect, useState } from "preact/hooks";

import { ask } from "../../api";
import { Dialog, Field } from "../../components/dialog";
import { clock, plural, span } from "../../format";
import { say } from "../../toast";
import { rateOf } from "../limits/form";
import { commandOf, type Act as Action } from "./selection";

export function Act({ action, close, done }: { action: Action; close: () => void; done: () => void }) {
  const isReplay = action.verb === "replay";
  const [rate, setRate] = useState("");
  const matched = useMatched(action);
  const { payload, setPayload, changed, problem } = usePayload(action);
  const paced = rateOf(rate);
  const hindrance = matched === 0 ? "None is left." : rate !== "" && !paced ? "Write the rate as 10/s, 100/m or 5000/h." : problem;
  const run = async () => {
    const body = { ...action.select, ...(rate && isReplay ? { rate } : {}), ...(changed === null ? {} : { payload: JSON.parse(changed) }) };
    const treated = await ask(isReplay ? "POST /dead/replay" : "POST /dead/drop", { body });
    const when = treated.last_due ? `, the last one at ${clock(treated.last_due)}` : "";
    say(isReplay ? `${plural(treated.done, "task")} run again${when}.` : `${plural(treated.done, "task")} given up.`);
    done();
  };
  return (
    <Dialog title={isReplay ? `Replay ${action.words}?` : `Give up ${action.words}?`} verb={isReplay ? "Replay" : "Give up"} command={commandOf(action, rate, changed)} hindrance={hindrance} run={run} close={close}>
      <p aria-live="polite">
        {matched === null ? "Counting…" : `${plural(matched, "task")} ${matched === 1 ? "is" : "are"} meant now. `}
        {matched !== null && (isReplay ? "Each starts anew with all its attempts." : "They count as cancelled, and what waits for them is cancelled too.")}
      </p>
      {isReplay && !action.one && (
        <>
          <Field label="How fast" value={rate} change={setRate} placeholder="all at once" hint="such as 10/s or 100/m, so that what failed before is not flooded" isMono />
          {paced && matched !== null && <p class="note">The last one starts in {span((matched * paced.per_ms) / paced.count)}.</p>}
        </>
      )}
      {isReplay && action.one && payload !== null && <Field label="Payload, as JSON" value={payload} change={setPayload} hint="Change it if that was what made it fail" isMono />}
    </Dialog>
  );
}

/** How many letters are meant, counted by the server. */
function useMatched(action: Action): number | null {
  const [matched, setMatched] = useState<number | null>(null);
  useEffect(() => {
    const address = action.verb === "replay" ? "POST /dead/replay" : "POST /dead/drop";
    void ask(address, { body: { ...action.select, dry_run: true } }).then(
      (counted) => setMatched(counted.matched),
      () => setMatched(null),
    );
  }, [action]);
  return matched;
}

/** The payload of the one letter: as it is, and as it was changed. */
function usePayload({ one }: Action) {
  const [before, setBefore] = useState<string | null>(null);
  const [payload, setPayload] = useState<string | null>(null);
  useEffect(() => {
    if (!one) return;
    void ask("GET /tasks/{id}", { path: { id: one.id } }).then((task) => {
      const text = JSON.stringify(task.payload ?? null);
      setBefore(text);
      setPayload(text);
    });
  }, [one]);
  const changed = payload !== null && payload !== before ? payload : null;
  return { payload, setPayload, changed, problem: changed === null || isJson(changed) ? null : "The payload is no JSON." };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
