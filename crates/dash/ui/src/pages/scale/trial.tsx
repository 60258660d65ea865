// What a pool would have wanted with other settings: tried over what it has seen, beside what holds.
import { useState } from "preact/hooks";

import { ask } from "../../api";
import type { Policy, PoolStatus, Simulated } from "../../api.gen";
import { command, flag } from "../../command";
import { Chart } from "../../components/chart";
import { Command, quoted } from "../../components/command";
import { Choice, Field } from "../../components/dialog";
import { count, millis, plural } from "../../format";
import { complain } from "../../toast";
import { goalWords } from "./acts";
import { money } from "./costs";

const POLICIES: ReadonlyArray<readonly [Policy, string]> = [
  ["objective", "objective: money against lateness"],
  ["queue", "queue: arrivals and backlog"],
  ["predictive", "predictive: what is forecast"],
  ["target", "target: use held at a level"],
  ["reactive", "reactive: a step outside a band"],
  ["hpa", "hpa: the rules of Kubernetes"],
  ["fixed", "fixed: always the maximum"],
];

export function Trial({ pool, now }: { pool: PoolStatus; now: Simulated | null }) {
  const [policy, setPolicy] = useState<Policy>(pool.policy);
  const [min, setMin] = useState(String(pool.min));
  const [max, setMax] = useState(String(pool.max));
  const [goal, setGoal] = useState(goalWords(pool.goal));
  const [tried, setTried] = useState<Simulated | null>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      const body = { policy, min: Number(min), max: Number(max), goal } as never;
      setTried(await ask("POST /pools/{name}/simulate", { path: { name: pool.name }, body }));
    } catch (error) {
      complain(error);
    }
    setBusy(false);
  };
  return (
    <form class="trial" onSubmit={(event) => (event.preventDefault(), void run())}>
      <div class="field-row">
        <Choice label="Policy" value={policy} change={setPolicy} options={POLICIES} />
        <Field label="At least" value={min} change={setMin} type="number" />
        <Field label="At most" value={max} change={setMax} type="number" />
        <Field label="Goal" value={goal} change={setGoal} />
      </div>
      <Command text={command(`divvy scale simulate ${quoted(pool.name)}`, flag("policy", policy), flag("min", min), flag("max", max), flag("goal", goal))} />
      <button type="submit" class="button primary" disabled={isBusy}>
        Try it
      </button>
      {tried && <Result tried={tried} now={now} />}
    </form>
  );
}

function Result({ tried, now }: { tried: Simulated; now: Simulated | null }) {
  const times = tried.steps.map((step) => millis(step.at));
  const held = new Map((now?.steps ?? []).map((step) => [step.at, step.wanted]));
  const series = [
    { name: "would be wanted", values: tried.steps.map((step) => step.wanted), colour: "--accent", isStepped: true },
    { name: "wanted as it is set", values: tried.steps.map((step) => held.get(step.at) ?? null), colour: "--muted", isStepped: true, isDashed: true },
  ];
  return (
    <div aria-live="polite">
      <Chart title="Workers that would have been wanted" times={times} series={series} write={(value) => count(Math.round(value))} height={170} />
      <p>
        {plural(tried.changes, "change")} and {money(tried.costs.total)} in costs
        {now && (
          <span class="note">
            , against {plural(now.changes, "change")} and {money(now.costs.total)} as it is set
          </span>
        )}
        .
      </p>
    </div>
  );
}
