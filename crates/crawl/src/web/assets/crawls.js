// All crawls of the server.

import { ago, api, element, find, isOver, number, stateOf } from "./common.js";

/** Between two looks: while something runs, and else. */
const EVERY_MS = 2000;
const QUIET_MS = 15000;

async function load() {
  let wait = QUIET_MS;
  try {
    const { items } = await api("/api/v1/crawls");
    draw(items);
    if (items.some((crawl) => !isOver(crawl))) wait = EVERY_MS;
  } catch (problem) {
    find("count").textContent = `${problem.message} This page asks again by itself.`;
  }
  setTimeout(() => (document.hidden ? document.addEventListener("visibilitychange", load, { once: true }) : load()), wait);
}

function draw(crawls) {
  find("crawls").setAttribute("aria-busy", "false");
  find("empty").hidden = crawls.length > 0;
  find("count").textContent = crawls.length || "";
  find("crawls").replaceChildren(...crawls.map(row));
}

function row(crawl) {
  const [word, colour] = stateOf(crawl);
  const queued = crawl.waiting.bands.reduce((sum, count) => sum + count, 0);
  const parts = [`${number(crawl.totals.pages)} pages`, `${number(queued)} queued`, `${number(crawl.waiting.hosts)} hosts`];
  if (!isOver(crawl)) parts.push(`${crawl.rate.toFixed(1)} pages/s`);
  parts.push(`started ${ago(crawl.created_at_ms)}`);
  return element(
    "a",
    { className: "card crawl", href: `/crawls/${encodeURIComponent(crawl.id)}` },
    element("h2", {}, crawl.name),
    element("span", { className: `chip ${colour}` }, word),
    element("p", { className: "note" }, parts.join(" · ")),
  );
}

load();
