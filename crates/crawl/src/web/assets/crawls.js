// All crawls of the server.

import { ago, count, isOver, list, number } from "/assets/live.js";

list("crawls", (crawl) => {
  const queued = crawl.waiting.bands.reduce((sum, count) => sum + count, 0);
  const parts = [count(crawl.totals.pages, "page"), `${number(queued)} queued`, count(crawl.waiting.hosts, "host")];
  if (!isOver(crawl)) parts.push(`${crawl.rate.toFixed(1)} pages/s`);
  return [...parts, `started ${ago(crawl.created_at_ms)}`];
});
