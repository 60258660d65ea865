// What can be done to a queue.
import { signal } from "@preact/signals";

import { ask } from "./api";
import type { FairBy, QueueStatus } from "./api.gen";
import { quoted } from "./components/command";
import { confirm } from "./components/confirm";
import { plural } from "./format";
import { say } from "./toast";

/** Pauses or resumes it, after a question. */
export function askPause(queue: QueueStatus, done: () => void): void {
  const verb = queue.paused ? "resume" : "pause";
  confirm({
    title: `${queue.paused ? "Resume" : "Pause"} the queue ${queue.name}?`,
    text: queue.paused ? `${plural(queue.ready, "task")} that ${queue.ready === 1 ? "waits" : "wait"} may start at once.` : "Tasks that run go on; no more of it are given to workers until it is resumed.",
    command: `divvy queue ${verb} ${quoted(queue.name)}`,
    verb: queue.paused ? "Resume" : "Pause",
    async run() {
      await ask(queue.paused ? "POST /queues/{name}/resume" : "POST /queues/{name}/pause", { path: { name: queue.name } });
      say(`The queue ${queue.name} ${queue.paused ? "goes on" : "is paused"}.`);
      done();
    },
  });
}

const weight = signal("");
const fairBy = signal<FairBy>("tasks");

/** Sets its share, and what fair keys share in it. */
export function askShare(queue: QueueStatus, done: () => void): void {
  weight.value = queue.weight ? String(queue.weight) : "";
  fairBy.value = queue.fair_by;
  confirm({
    title: `The share of the queue ${queue.name}`,
    text: <Share />,
    command: () => `divvy queue set ${quoted(queue.name)}${weight.value ? ` --weight ${quoted(weight.value)}` : " --reset"} --fair-by ${fairBy.value}`,
    verb: "Set",
    async run() {
      const number = weight.value.trim() === "" ? null : Number(weight.value);
      await ask("PUT /queues/{name}", { path: { name: queue.name }, body: { weight: number, fair_by: fairBy.value, fair_weights: queue.fair_weights ?? {} } });
      say(`The share of ${queue.name} was set.`);
      done();
    },
  });
}

function Share() {
  return (
    <>
      <label>
        Weight against other queues; empty for none
        <input type="number" min="1" value={weight.value} onInput={(event) => (weight.value = event.currentTarget.value)} />
      </label>
      <label>
        What fair keys share
        <select value={fairBy.value} onChange={(event) => (fairBy.value = event.currentTarget.value as FairBy)}>
          <option value="tasks">starts of tasks</option>
          <option value="time">time on workers</option>
        </select>
      </label>
      <p class="note">Queues with a weight get slots in its proportion. Without any weights they are served by age.</p>
    </>
  );
}
