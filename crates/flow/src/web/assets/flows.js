// All jobs of the server.

import { ago, bytes, count, isOver, list, number, span } from "/assets/live.js";

list("flows", (job) => {
  const stage = job.stages[job.stages.length - 1];
  const parts = [job.kind, bytes(job.input_bytes)];
  if (stage && !isOver(job)) parts.push(`stage ${stage.name}: ${number(stage.done)} of ${count(stage.parts, "part")}`);
  if (job.ended_at_ms) parts.push(`took ${span(job.ended_at_ms - job.created_at_ms)}`);
  return [...parts, `started ${ago(job.created_at_ms)}`];
});
