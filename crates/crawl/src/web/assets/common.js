// What both pages share beyond what all pages do: states, numbers and rows of bars.

import { element } from "/assets/base.js";
export { ago, api, bytes, element, post, say, span } from "/assets/base.js";

export const find = (id) => document.getElementById(id);

const STATES = {
  waiting: ["Waiting for a worker", "warn"],
  running: ["Running", "busy"],
  paused: ["Paused", "warn"],
  stopping: ["Stopping", "warn"],
  stopped: ["Stopped", "quiet"],
  done: ["Done", "good"],
  failed: ["Failed", "bad"],
  cancelled: ["Cancelled", "quiet"],
};

/** What a state is called, and which colour it has. */
export function stateOf(crawl) {
  return STATES[crawl.state] ?? [crawl.state, "quiet"];
}

export const isOver = (crawl) => ["stopped", "done", "failed", "cancelled"].includes(crawl.state);

export const number = (value) => Math.round(value).toLocaleString("en");

/** A bar with what it stands for before it and how many behind it. */
export function barRow(label, count, share, colour = "") {
  const fill = element("div");
  fill.style.width = `${Math.round(Math.min(1, Math.max(0, share)) * 100)}%`;
  const bar = element("div", { className: "bar", role: "img", "aria-label": `${label}: ${number(count)}` }, fill);
  return element("li", { className: colour }, element("span", {}, label), bar, element("span", {}, number(count)));
}
