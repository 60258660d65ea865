// The lab: experiments on the real parts, run here, with their charts.
import { useState } from "preact/hooks";

import { ask } from "../api";
import { command, flag } from "../command";
import { Command } from "../components/command";
import { Field } from "../components/dialog";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import type { Experiment } from "../api.gen";
import { useLoad } from "../load";
import { may } from "../me";
import { place, setQuery } from "../router";
import { sentence } from "../sentence";
import { complain } from "../toast";
import { Run, useRun } from "./report/run";

export function Lab() {
  const lab = useLoad("lab", (signal) => ask("GET /lab", { signal }));
  const list = lab.data?.items ?? [];
  const name = place.value.query.get("experiment");
  const chosen = list.find((one) => one.name === name) ?? list[0];
  return (
    <Page title="Lab" isLive={false} about="Experiments on the parts that this server is made of: what stealing, guarding, sharing and scaling do under load. Nothing here touches your tasks.">
      {lab.error && <ErrorPanel error={lab.error} retry={lab.reload} />}
      {!lab.data && !lab.error && <Loading height={320} />}
      {lab.data && list.length === 0 && <Empty title="This server has no lab" commands={["divvy lab list", "divvy lab run herd", "divvy lab run all --html lab.html"]} />}
      {chosen && (
        <div class="lab">
          <nav class="card lab-list" aria-label="Experiments">
            {list.map((one) => (
              <a key={one.name} href={`/lab?experiment=${one.name}`} aria-current={one === chosen ? "page" : undefined} onClick={(event) => (event.preventDefault(), setQuery({ experiment: one.name, run: null }, { replace: false }))}>
                <b>{one.name}</b>
                <span>{one.summary}</span>
              </a>
            ))}
          </nav>
          <Chosen key={chosen.name} experiment={chosen} />
        </div>
      )}
    </Page>
  );
}

function Chosen({ experiment }: { experiment: Experiment }) {
  const [seed, setSeed] = useState("1");
  const [isQuick, setQuick] = useState(true);
  const [isBusy, setBusy] = useState(false);
  const { run, error } = useRun(experiment.name, place.value.query.get("run"));
  const isRunning = isBusy || run?.state === "running";
  const start = async () => {
    setBusy(true);
    try {
      const begun = await ask("POST /lab/{name}", { path: { name: experiment.name }, body: { seed: Number(seed) || 1, quick: isQuick } });
      setQuery({ run: begun.id });
    } catch (problem) {
      complain(problem);
    }
    setBusy(false);
  };
  return (
    <div class="stack-cards">
      <section class="card">
        <div class="card-head">
          <h2>{experiment.name}</h2>
          <span class="chip">{experiment.timing === "simulated" ? "simulated time: the same seed, the same result" : "measured on this machine"}</span>
        </div>
        <p>{sentence(experiment.summary)}</p>
        {may("admin") ? (
          <form class="lab-form" onSubmit={(event) => (event.preventDefault(), void start())}>
            <Field label="Seed" value={seed} change={setSeed} type="number" hint="the same, the same run" />
            <label class="check">
              <input type="checkbox" checked={isQuick} onChange={(event) => setQuick(event.currentTarget.checked)} /> A rough answer in seconds
            </label>
            <button type="submit" class="button primary" disabled={isRunning}>
              {isRunning ? "Running…" : "Run"}
            </button>
          </form>
        ) : (
          <p class="note">Your token may look, and not run experiments. On the command line they need no server:</p>
        )}
        <Command text={command(`divvy lab run ${experiment.name}`, seed === "1" ? "" : flag("seed", seed), isQuick ? "--quick" : "")} />
      </section>
      <Run run={run} error={error} />
    </div>
  );
}
