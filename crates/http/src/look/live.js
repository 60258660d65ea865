// What pages share that show crawls, jobs and the like: lists of them, one as it goes, states, numbers and rows of bars.

import { api, element } from "./base.js";
export * from "./base.js";

/** Between two looks at a list: while something runs, and else. */
const EVERY_MS = 2000;
const QUIET_MS = 15000;
/** How long a page waits before it asks again a server that could not be asked. */
const AGAIN_MS = 5000;

export const find = (id) => document.getElementById(id);

const STATES = {
  waiting: ["Waiting for a worker", "warn"],
  running: ["Running", "busy"],
  paused: ["Paused", "warn"],
  stopping: ["Stopping", "warn"],
  stopped: ["Stopped", "quiet"],
  cancelling: ["Cancelling", "warn"],
  done: ["Done", "good"],
  failed: ["Failed", "bad"],
  cancelled: ["Cancelled", "quiet"],
};

export const isOver = (thing) => ["stopped", "done", "failed", "cancelled"].includes(thing.state);

export const number = (value) => Math.round(value).toLocaleString("en");

/** `1 file`, `2,000 files`. */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Shows what one is called, and its state. */
export function drawState(thing, about) {
  const [word, colour] = STATES[thing.state] ?? [thing.state, "quiet"];
  find("body").hidden = find("actions").hidden = false;
  find("state").textContent = word;
  find("state").className = `chip ${colour}`;
  find("about").textContent = [thing.reason, ...about].filter(Boolean).join(" · ");
}

/** A bar with what it stands for before it and how much that is behind it. */
export function barRow(label, amount, share, { colour = "", title = "" } = {}) {
  const fill = element("div");
  fill.style.width = `${Math.round(Math.min(1, Math.max(0, share)) * 100)}%`;
  const bar = element("div", { className: "bar", role: "img", "aria-label": `${label}: ${amount}` }, fill);
  return element("li", { className: colour, title }, element("span", {}, label), bar, element("span", {}, amount));
}

/** Lists all that are at a place of the API, with a line about each. */
export async function list(place, about) {
  const row = (thing) => {
    const [word, colour] = STATES[thing.state] ?? [thing.state, "quiet"];
    return element(
      "a",
      { className: "card thing", href: `/${place}/${encodeURIComponent(thing.id)}` },
      element("h2", {}, thing.name),
      element("span", { className: `chip ${colour}` }, word),
      element("p", { className: "note" }, about(thing).join(" · ")),
    );
  };
  let wait = QUIET_MS;
  try {
    const { items } = await api(`/api/v1/${place}`);
    find("things").setAttribute("aria-busy", "false");
    find("empty").hidden = items.length > 0;
    find("count").textContent = items.length || "";
    find("things").replaceChildren(...items.map(row));
    if (!items.every(isOver)) wait = EVERY_MS;
  } catch (problem) {
    find("count").textContent = `${problem.message} This page asks again by itself.`;
  }
  const again = () => list(place, about);
  setTimeout(() => (document.hidden ? document.addEventListener("visibilitychange", again, { once: true }) : again()), wait);
}

/** Draws a thing whenever the server pushes it, until `draw` says that it is over. The result watches one that goes on. */
export function watch(base, event, draw) {
  let isEnded = false;
  const follow = () => {
    const events = new EventSource(`${base}/events`);
    isEnded = false;
    events.addEventListener(event, ({ data }) => {
      isEnded = draw(JSON.parse(data));
      if (isEnded) events.close();
    });
    events.onerror = () => {
      if (events.readyState === EventSource.CLOSED && !isEnded) setTimeout(begin, AGAIN_MS);
    };
  };
  const begin = async () => {
    try {
      await api(base);
      follow();
    } catch (problem) {
      find("about").textContent = problem.message;
      if (problem.status !== 404) setTimeout(begin, AGAIN_MS);
    }
  };
  begin();
  return follow;
}
