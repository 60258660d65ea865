// One job as it goes: the server pushes what its parts show.

import { ago, api, barRow, bytes, count, drawState, element, find, isOver, number, post, say, span, watch } from "/assets/live.js";

/** Bars that are shown: the largest partitions. */
const BARS_SHOWN = 24;
const id = location.pathname.split("/").filter(Boolean).pop();
const base = `/api/v1/flows/${encodeURIComponent(id)}`;
let last = null;

function draw(job) {
  const before = last;
  const wasOver = last && isOver(last);
  const stagesBefore = last ? last.stages.filter((stage) => stage.ended_at_ms).length : -1;
  last = job;
  find("cancel").hidden = isOver(job) || job.state === "cancelling";
  find("stop").hidden = job.kind !== "stream" || isOver(job) || ["cancelling", "stopping"].includes(job.state);
  drawState(job, [job.kind, `started ${ago(job.created_at_ms)}`]);
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
  else if (isNews(job, before)) drawFiles();
  return isOver(job);
}

/** The stage that a job is at. */
const current = (job) => job?.stages[job.stages.length - 1];

/** Whether a stream that goes on has kept something since. */
const isNews = (job, before) => !isOver(job) && current(job)?.stream && JSON.stringify(current(job).stream) !== JSON.stringify(current(before)?.stream);

function drawFigures(job) {
  const stage = current(job);
  const stream = stage?.stream;
  const isStream = job.kind === "stream";
  find("input").textContent = isStream ? number(stream?.events ?? stage?.rows_in ?? 0) : bytes(job.input_bytes);
  find("input-note").textContent = isStream ? "events" : count(job.inputs, "file");
  find("stage").textContent = stage ? stage.name : "–";
  find("stage-note").textContent = stage ? `${number(stage.done)} of ${count(stage.parts, "part")}, ${bytes(stage.bytes_done)} of ${bytes(stage.bytes_total)}` : "";
  find("time").textContent = span((job.ended_at_ms ?? Date.now()) - job.created_at_ms);
  const engine = job.stages.reduce((sum, each) => sum + each.engine_ms, 0);
  find("time-note").textContent = `${span(engine)} of it the task engine`;
  find("watermark-figure").hidden = !stream;
  if (stream) {
    find("watermark").textContent = stream.lag_ms == null ? "–" : `${span(stream.lag_ms)} behind`;
    const until = stream.watermark_ms == null ? "no event yet" : new Date(stream.watermark_ms).toISOString();
    find("watermark-note").textContent = `${until}, ${count(stream.windows_open, "window")} open, ${count(stream.late, "event")} late`;
  }
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
  find("sizes").replaceChildren(...largest.map((size) => barRow(`${size.at}`, bytes(size.bytes), size.bytes / most, { title: count(size.rows, "row") })));
}

function drawFacts(job) {
  const counters = Object.entries(job.counters);
  find("counters-card").hidden = counters.length === 0;
  find("counters").replaceChildren(...counters.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, number(value))]));
  find("skips-card").hidden = job.first_skipped.length === 0;
  find("skips").replaceChildren(...job.first_skipped.map((skip) => element("li", {}, `${skip.file}:${skip.line}: ${skip.why}`)));
  find("result-title").textContent = isOver(job) ? "Result" : "Result so far";
  find("result-card").hidden = !job.summary && !current(job)?.stream;
  find("summary").replaceChildren(...(job.summary?.lines ?? []).map((line) => element("li", {}, line)));
}

async function drawFiles() {
  try {
    const manifest = await api(`${base}/output`);
    const links = manifest.files.slice(0, 20).flatMap((file) => [element("a", { href: `${base}/output/${encodeURIComponent(file.name)}`, download: file.name }, file.name), " "]);
    find("files").replaceChildren(`${count(manifest.rows, "row")}, ${bytes(manifest.bytes)} in ${count(manifest.files.length, "file")}: `, ...links);
  } catch (problem) {
    say(problem.message, true);
  }
}

for (const wish of ["stop", "cancel"]) {
  find(wish).onclick = async () => {
    try {
      draw(await post(`${base}/${wish}`, {}));
    } catch (problem) {
      say(problem.message, true);
    }
  };
}

watch(base, "flow", draw);
