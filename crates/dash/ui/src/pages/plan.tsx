// A plan: what comes, what is wanted and what workers cost, written as YAML; the cheapest fleet, tried in simulated time.
import { useState } from "preact/hooks";

import { ask } from "../api";
import { Command } from "../components/command";
import { Page } from "../components/page";
import { may } from "../me";
import { place, setQuery } from "../router";
import { complain } from "../toast";
import { EXAMPLE } from "./plan/example";
import { Run, useRun } from "./report/run";

/** Where a plan that is being written is kept, so that a reload loses nothing. */
const KEY = "divvy-plan";

export function Plan() {
  const [text, setText] = useState(() => kept() ?? EXAMPLE);
  const [isBusy, setBusy] = useState(false);
  const { run, error } = useRun("plan", place.value.query.get("run"));
  const isRunning = isBusy || run?.state === "running";
  const write = (next: string) => {
    setText(next);
    keep(next);
  };
  const start = async () => {
    setBusy(true);
    try {
      const begun = await ask("POST /plan", { body: { plan: text } });
      setQuery({ run: begun.id });
    } catch (problem) {
      complain(problem);
    }
    setBusy(false);
  };
  return (
    <Page title="Plan" isLive={false} about="How many workers a load needs, at what cost and with what risk. The scheduler and the autoscaler of this server try it out in simulated time.">
      <div class="stack-cards">
        <form class="card plan" onSubmit={(event) => (event.preventDefault(), void start())}>
          <label for="plan-text">What comes, what is wanted, what workers cost</label>
          <textarea id="plan-text" class="input mono" rows={30} spellcheck={false} value={text} onInput={(event) => write(event.currentTarget.value)} />
          <div class="plan-acts">
            <Command text="divvy plan plan.yaml" />
            <button type="button" class="button" disabled={text === EXAMPLE} onClick={() => write(EXAMPLE)}>
              Begin anew
            </button>
            {may("admin") && (
              <button type="submit" class="button primary" disabled={isRunning}>
                {isRunning ? "Trying…" : "Find the cheapest fleet"}
              </button>
            )}
          </div>
        </form>
        <Run run={run} error={error} />
      </div>
    </Page>
  );
}

function kept(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function keep(text: string): void {
  try {
    localStorage.setItem(KEY, text);
  } catch {
    // Without a memory the plan lives as long as the page.
  }
}
