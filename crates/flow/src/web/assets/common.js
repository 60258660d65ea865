// What both pages share beyond what all pages do: states, numbers and rows of bars.

import { bytes, element } from "/assets/base.js";
export { ago, api, bytes, element, post, say, span } from "/assets/base.js";

export const find = (id) => document.getElementById(id);

const STATES = {
  waiting: ["Waiting for a worker", "warn"],
  running: ["Running", "busy"],
  cancelling: ["Cancelling", "warn"],
  done: ["Done", "good"],
  failed: ["Failed", "bad"],
  cancelled: ["Cancelled", "quiet"],
};

/** What a state is called, and which colour it has. */
export function stateOf(job) {
  return STATES[job.state] ?? [job.state, "quiet"];
}

export const isOver = (job) => ["done", "failed", "cancelled"].includes(job.state);

export const number = (value) => Math.round(value).toLocaleString("en");

/** A bar with what it stands for before it and how many bytes behind it. */
export function barRow(label, size, share, colour = "") {
  const fill = element("div");
  fill.style.width = `${Math.round(Math.min(1, Math.max(0, share)) * 100)}%`;
  const bar = element("div", { className: "bar", role: "img", "aria-label": `${label}: ${bytes(size.bytes)}` }, fill);
  return element("li", { className: colour, title: `${number(size.rows)} rows` }, element("span", {}, label), bar, element("span", {}, bytes(size.bytes)));
}
