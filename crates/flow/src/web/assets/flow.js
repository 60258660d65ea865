// One job as it goes: the server pushes what its parts show.

import { ago, api, barRow, bytes, element, find, isOver, number, post, say, span, stateOf } from "./common.js";

/** How long the page waits before it asks again a server that could not be asked. */
const AGAIN_MS = 5000;
/** Bars that are shown: the largest partitions. */
const BARS_SHOWN = 24;
const id = location.pathname.split("/").filter(Boolean).pop();
const base = `/api/v1/flows/${encodeURIComponent(id)}`;
let last = null;

function follow() {
  const events = new EventSource(`${base}/events`);
  events.addEventListener("flow", ({ data }) => {
    draw(JSON.parse(data));
    if (isOver(last)) events.close();
  });
  events.onerror = () => {
    if (events.readyState === EventSource.CLOSED && !(last && isOver(last))) setTimeout(begin, AGAIN_MS);
  };
}

async function begin() {
  try {
    await api(base);
    follow();
  } catch (problem) {
    find("about").textContent = problem.message;
    if (problem.status !== 404) setTimeout(begin, AGAIN_MS);
  }
}

function draw(job) {
  const wasOver = last && isOver(last);
  const stagesBefore = last ? last.stages.filter((stage) => stage.ended_at_ms).length : -1;
  last = job;
  find("body").hidden = find("actions").hidden = false;
  find("cancel").hidden = isOver(job) || job.state === "cancelling";
  const [word, colour] = stateOf(job);
  find("state").textContent = word;
  find("state").className = `chip ${colour}`;
  const about = [job.kind, `started ${ago(job.created_at_ms)}`];
  if (job.reason) about.unshift(job.reason);
  find("about").textContent = about.join(" · ");
  drawFigures(job);
  find("stage-rows").replaceChildren(...job.stages.map(stageRow));
  const notes = job.stages.flatMap((stage) => stage.notes);
  find("notes").replaceChildren(...notes.map((note) => element("li", {}, note)));
  drawSizes(job);
  drawFacts(job);
  const stagesDone = job.stages.filter((stage) => stage.ended_at_ms).length;
  if (stagesDone > 0 && stagesDone !== stagesBefore) {
    find("timeline-card").hidden = false;
    find("timeline").src = `${base}/timeline?stages=${stagesDone}`;
  }
  if (isOver(job) && !wasOver && job.state === "done") drawFiles();
}

function drawFigures(job) {
  const stage = job.stages[job.stages.length - 1];
  find("input").textContent = bytes(job.input_bytes);
  find("input-note").textContent = `${number(job.inputs)} files`;
  find("stage").textContent = stage ? stage.name : "–";
  find("stage-note").textContent = stage ? `${number(stage.done)} of ${number(stage.parts)} parts, ${bytes(stage.bytes_done)} of ${bytes(stage.bytes_total)}` : "";
  find("time").textContent = span((job.ended_at_ms ?? Date.now()) - job.created_at_ms);
  const engine = job.stages.reduce((sum, each) => sum + each.engine_ms, 0);
  find("time-note").textContent = `${span(engine)} of it the task engine`;
  find("skipped").textContent = number(job.skipped);
  find("skipped-note").textContent = job.on_error === "fail" ? "a wrong row ends the job" : "wrong rows are left out";
}

function stageRow(stage) {
  const right = (text, className = "") => element("td", { className: `right ${className}` }, text);
  const took = stage.ended_at_ms ? span(stage.ended_at_ms - stage.started_at_ms) : "…";
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, stage.name),
    right(stage.ended_at_ms ? number(stage.parts) : `${number(stage.done)} / ${number(stage.parts)}`),
    right(number(stage.rows_in)),
    right(number(stage.rows_out)),
    right(bytes(stage.bytes_done)),
    right(bytes(stage.bytes_out)),
    right(stage.skew.toFixed(2), stage.skew > 2 ? "warn-ink" : ""),
    right(number(stage.repeated)),
    right(number(stage.twins)),
    right(took),
    right(span(stage.engine_ms)),
  );
}

function drawSizes(job) {
  const shown = [...job.stages].reverse().find((stage) => stage.sizes.length > 1) ?? job.stages[0];
  const sizes = (shown?.sizes ?? []).map((size, at) => ({ ...size, at }));
  find("sizes-title").textContent = shown ? `Bytes per partition after stage ${shown.name}, largest first` : "Bytes per partition";
  const largest = sizes.sort((a, b) => b.bytes - a.bytes).slice(0, BARS_SHOWN);
  const most = Math.max(1, ...largest.map((size) => size.bytes));
  find("sizes").replaceChildren(...largest.map((size) => barRow(`${size.at}`, size, size.bytes / most)));
}

function drawFacts(job) {
  const counters = Object.entries(job.counters);
  find("counters-card").hidden = counters.length === 0;
  find("counters").replaceChildren(...counters.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, number(value))]));
  find("skips-card").hidden = job.first_skipped.length === 0;
  find("skips").replaceChildren(...job.first_skipped.map((skip) => element("li", {}, `${skip.file}:${skip.line}: ${skip.why}`)));
  find("result-card").hidden = !job.summary;
  find("summary").replaceChildren(...(job.summary?.lines ?? []).map((line) => element("li", {}, line)));
}

async function drawFiles() {
  try {
    const manifest = await api(`${base}/output`);
    const links = manifest.files.slice(0, 20).flatMap((file) => [element("a", { href: `${base}/output/${encodeURIComponent(file.name)}`, download: file.name }, file.name), " "]);
    find("files").replaceChildren(`${number(manifest.rows)} rows, ${bytes(manifest.bytes)} in ${number(manifest.files.length)} files: `, ...links);
  } catch (problem) {
    say(problem.message, true);
  }
}

find("cancel").onclick = async () => {
  try {
    draw(await post(`${base}/cancel`, {}));
  } catch (problem) {
    say(problem.message, true);
  }
};

begin();
