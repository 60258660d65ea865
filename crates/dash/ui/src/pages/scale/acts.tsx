// What may be asked of a pool by hand, with the commands that do the same; and its words.
import { signal } from "@preact/signals";

import { ask } from "../../api";
import type { Bound, PoolStatus } from "../../api.gen";
import { quoted } from "../../components/command";
import { confirm } from "../../components/confirm";
import { plural } from "../../format";
import { say } from "../../toast";

/** What kept a decision from more or fewer workers. */
export const BOUNDS: Record<Bound, string> = {
  minimum: "the minimum holds",
  maximum: "the maximum holds",
  step: "only so many may change at once",
  cool_down: "the last change was too short ago",
  window: "a change has to be right for longer",
  billing: "the others are paid for already",
  budget: "the budget allows no more",
  set: "the number was set by hand",
  paused: "the scaling is paused",
};

export function goalWords(goal: unknown): string {
  return typeof goal === "string" ? goal : JSON.stringify(goal);
}

/** Asks for a number, and holds it. */
export function hold(pool: PoolStatus, done: () => void): void {
  const wanted = signal(Math.max(pool.min, Math.min(pool.max, pool.running)));
  const question = () =>
    confirm({
      title: `Hold a number of workers in ${pool.name}`,
      text: (
        <div class="field">
          <label for="held-workers">
            Workers, from {pool.min} to {pool.max}
          </label>
          <input
            id="held-workers"
            class="input"
            type="number"
            min={pool.min}
            max={pool.max}
            value={wanted.value}
            onChange={(event) => {
              wanted.value = Number(event.currentTarget.value);
              question();
            }}
          />
          <p class="note">The pool stays at this number, whatever comes, until you let it decide again.</p>
        </div>
      ),
      command: `divvy scale set ${quoted(pool.name)} ${wanted.value}`,
      verb: "Hold",
      run: async () => {
        await ask("PUT /pools/{name}/workers", { path: { name: pool.name }, body: { workers: wanted.value } });
        say(`${pool.name} holds ${plural(wanted.value, "worker")}.`);
        done();
      },
    });
  question();
}

export function letDecide(pool: PoolStatus, done: () => void): void {
  confirm({
    title: `Let ${pool.name} decide by itself again?`,
    command: `divvy scale set ${quoted(pool.name)} auto`,
    verb: "Let it decide",
    run: async () => {
      await ask("PUT /pools/{name}/workers", { path: { name: pool.name }, body: {} });
      say(`${pool.name} decides by itself again.`);
      done();
    },
  });
}

export function rest(pool: PoolStatus, done: () => void): void {
  confirm({
    title: pool.paused ? `Let ${pool.name} change again?` : `Pause the scaling of ${pool.name}?`,
    text: pool.paused ? undefined : "Workers stay as they are; tasks go on.",
    command: `divvy scale ${pool.paused ? "resume" : "pause"} ${quoted(pool.name)}`,
    verb: pool.paused ? "Resume" : "Pause",
    run: async () => {
      await ask(pool.paused ? "POST /pools/{name}/resume" : "POST /pools/{name}/pause", { path: { name: pool.name } });
      say(pool.paused ? `${pool.name} goes on.` : `${pool.name} stays as it is.`);
      done();
    },
  });
}
