// All jobs of the server.

import { ago, api, bytes, element, find, isOver, number, span, stateOf } from "./common.js";

/** Between two looks: while something runs, and else. */
const EVERY_MS = 2000;
const QUIET_MS = 15000;

async function load() {
  let wait = QUIET_MS;
  try {
    const { items } = await api("/api/v1/flows");
    draw(items);
    if (items.some((job) => !isOver(job))) wait = EVERY_MS;
  } catch (problem) {
    find("count").textContent = `${problem.message} This page asks again by itself.`;
  }
  setTimeout(() => (document.hidden ? document.addEventListener("visibilitychange", load, { once: true }) : load()), wait);
}

function draw(jobs) {
  find("flows").setAttribute("aria-busy", "false");
  find("empty").hidden = jobs.length > 0;
  find("count").textContent = jobs.length || "";
  find("flows").replaceChildren(...jobs.map(row));
}

function row(job) {
  const [word, colour] = stateOf(job);
  const stage = job.stages[job.stages.length - 1];
  const parts = [job.kind, bytes(job.input_bytes)];
  if (stage && !isOver(job)) parts.push(`stage ${stage.name}: ${number(stage.done)} of ${number(stage.parts)} parts`);
  if (job.ended_at_ms) parts.push(`took ${span(job.ended_at_ms - job.created_at_ms)}`);
  parts.push(`started ${ago(job.created_at_ms)}`);
  return element(
    "a",
    { className: "card job", href: `/flows/${encodeURIComponent(job.id)}` },
    element("h2", {}, job.name),
    element("span", { className: `chip ${colour}` }, word),
    element("p", { className: "note" }, parts.join(" · ")),
  );
}

load();
