// One crawl as it goes: the server pushes what its shards show.

import { ago, api, barRow, bytes, count, drawState, element, find, isOver, number, post, say, span, watch } from "/assets/live.js";

/** Hosts in the table; the latest pages are below it. */
const HOSTS_SHOWN = 20;
const id = location.pathname.split("/").filter(Boolean).pop();
const base = `/api/v1/crawls/${encodeURIComponent(id)}`;
let last = null;

function draw({ crawl, hosts, pages }) {
  last = crawl;
  const about = [`started ${ago(crawl.created_at_ms)}`, `scope ${crawl.rules.scope}`, `at least ${span(crawl.rules.delay_ms)} between requests of a host`];
  if (crawl.ended_at_ms) about.unshift(`took ${span(crawl.ended_at_ms - crawl.created_at_ms)}`);
  drawState(crawl, about);
  drawActions(crawl);
  drawFigures(crawl);
  drawStatuses(crawl.totals);
  drawRefused(crawl.totals);
  drawKeptAway(crawl.kept_away);
  find("host-rows").replaceChildren(...hosts.slice(0, HOSTS_SHOWN).map(hostRow));
  find("tail").replaceChildren(...pages.map(pageRow));
  find("shard-rows").replaceChildren(...crawl.shards.map(shardRow));
  drawRules(crawl);
  return isOver(crawl);
}

function drawActions(crawl) {
  const over = isOver(crawl);
  find("pause").textContent = over || crawl.state === "paused" ? "Resume" : "Pause";
  find("pause").hidden = crawl.state === "stopping";
  find("stop").hidden = over || crawl.state === "stopping";
  find("retry").hidden = crawl.waiting.dead === 0 && crawl.waiting.hosts_parked + crawl.waiting.hosts_blocked === 0;
}

function drawFigures(crawl) {
  const { totals, waiting, rules } = crawl;
  const queued = waiting.bands.reduce((sum, count) => sum + count, 0);
  find("pages").textContent = number(totals.pages);
  find("pages-note").textContent = rules.max_pages ? `of at most ${number(rules.max_pages)}` : `${count(totals.links, "link")} found`;
  find("rate").textContent = crawl.rate.toFixed(1);
  find("rate-note").textContent = `${number(waiting.in_flight)} in flight`;
  find("queued").textContent = number(queued);
  find("queued-note").textContent = waiting.dead ? `${number(waiting.dead)} failed for good` : `${number(waiting.spilled)} on disk only`;
  find("hosts").textContent = number(waiting.hosts);
  find("hosts-note").textContent = `${number(waiting.hosts_ready)} ready, ${number(waiting.hosts_waiting)} waiting, ${number(waiting.hosts_blocked)} blocked, ${number(waiting.hosts_parked)} parked`;
  find("bytes").textContent = bytes(totals.body_bytes);
  find("bytes-note").textContent = `${bytes(totals.wire_bytes)} on the wire`;
  const sent = totals.slack.reduce((sum, count) => sum + count, 0);
  find("polite").textContent = totals.impolite ? `${number(totals.impolite)} early` : "0 early";
  find("polite").className = totals.impolite ? "bad-ink" : "good-ink";
  find("polite-note").textContent = sent ? `${count(sent, "request")}, ${span(totals.slack_ms / sent)} late on average` : "no request yet";
}

const COLOURS = { "2xx": "good", "3xx": "", "4xx": "warn", "5xx": "bad", failed: "bad" };

function drawStatuses(totals) {
  const rows = ["2xx", "3xx", "4xx", "5xx", "failed"].map((word) => [word, totals.by_status[word] ?? 0]);
  rows.push(["robots.txt", totals.robots], ["duplicates", totals.duplicates]);
  const most = Math.max(1, ...rows.map(([, count]) => count));
  find("statuses").replaceChildren(...rows.map(([word, count]) => barRow(word, number(count), count / most, { colour: COLOURS[word] })));
}

function drawRefused(totals) {
  const rows = Object.entries(totals.refused).sort((a, b) => b[1] - a[1]).slice(0, 10);
  const most = Math.max(1, ...rows.map(([, count]) => count));
  find("refused").replaceChildren(...rows.map(([word, count]) => barRow(word.replaceAll("_", " "), number(count), count / most)));
  find("refused").parentElement.hidden = rows.length === 0;
}

/** Hosts that nothing is fetched from, and why. */
function drawKeptAway(hosts) {
  find("kept-away").replaceChildren(
    ...hosts.map((host) =>
      element("li", {}, element("span", { className: HOST_STATES[host.state] ?? "" }, host.state), ` ${host.host}: ${host.why ?? ""}`),
    ),
  );
  find("kept-away").parentElement.hidden = hosts.length === 0;
}

const HOST_STATES = { ready: "good-ink", in_flight: "good-ink", blocked: "warn-ink", parked: "bad-ink" };

function hostRow(host) {
  const inMs = host.next_ms - Date.now();
  const state = host.state === "waiting" && inMs > 1000 ? `in ${span(inMs)}` : host.state.replaceAll("_", " ");
  return element(
    "tr",
    { title: host.why ?? "" },
    element("th", { scope: "row", title: host.host }, host.host),
    element("td", { className: "right" }, number(host.queued)),
    element("td", { className: "right" }, number(host.pages)),
    element("td", { className: "right" }, span(host.delay_ms)),
    element("td", { className: host.robots === "unreachable" ? "bad-ink" : "" }, host.robots),
    element("td", { className: host.breaker === "closed" ? "" : "warn-ink" }, host.breaker),
    element("td", { className: HOST_STATES[host.state] ?? "" }, state),
  );
}

function pageRow(page) {
  const ink = page.status === 0 || page.status >= 500 ? "bad-ink" : page.status >= 400 ? "warn-ink" : "good-ink";
  return element(
    "li",
    {},
    element("span", { className: `status ${ink}` }, page.status || "none"),
    element("span", { className: "url", title: page.url }, page.url),
    element("span", { className: "note" }, `${bytes(page.bytes)} · ${span(page.ms)}`),
    page.note ? element("span", { className: "title" }, page.note) : null,
  );
}

function shardRow(shard) {
  return element(
    "tr",
    { title: shard.wait ?? "" },
    element("th", { scope: "row" }, String(shard.shard)),
    element("td", {}, shard.state),
    element("td", {}, shard.worker ?? "–"),
    element("td", { className: "right" }, number(shard.pages)),
    element("td", { className: "right" }, number(shard.queued)),
  );
}

function drawRules({ rules, seeds, blocked, seen }) {
  const facts = [
    ["Seeds", seeds.length === 1 ? seeds[0] : `${number(seeds.length)}, first ${seeds[0]}`],
    ["Depth", `at most ${rules.max_depth} links from a seed`],
    ["User agent", rules.user_agent ?? "none: this machine only"],
    ["Rendering", rules.render],
    ["Formats", rules.formats.join(", ")],
    ["Seen", `${rules.seen}, ${number(seen.count)} addresses, filter ${bytes(seen.filter_bytes)}`],
  ];
  if (rules.seen === "bloom") facts.push(["Lost", `about ${seen.lost.toFixed(1)} pages, by the filter`]);
  if (rules.recrawl_ms) facts.push(["Again", `first after ${span(rules.recrawl_ms)}`]);
  if (blocked.length) facts.push(["Blocked", blocked.join(", ")]);
  find("rules").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

async function wish(verb) {
  try {
    const crawl = await post(`${base}/${verb}`, {});
    const wasOver = last && isOver(last);
    draw({ crawl, hosts: [], pages: [] });
    if (wasOver) follow();
  } catch (problem) {
    say(problem.message, true);
  }
}

find("pause").onclick = () => wish(find("pause").textContent === "Pause" ? "pause" : "resume");
find("stop").onclick = () => wish("stop");
find("retry").onclick = () => wish("retry");
find("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const answer = await api(`${base}/explain?url=${encodeURIComponent(find("url").value)}`);
    const details = answer.details.map((detail) => element("div", { className: "note" }, detail));
    find("answer").replaceChildren(element("strong", {}, answer.text), ...details);
  } catch (problem) {
    find("answer").replaceChildren(element("strong", { className: "bad-ink" }, problem.message));
  }
});

const follow = watch(base, "crawl", draw);
