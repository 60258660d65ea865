// All crawls of the server.

import { ago, isOver, list, number } from "/assets/live.js";

list("crawls", (crawl) => {
  const queued = crawl.waiting.bands.reduce((sum, count) => sum + count, 0);
  const parts = [`${number(crawl.totals.pages)} pages`, `${number(queued)} queued`, `${number(crawl.waiting.hosts)} hosts`];
  if (!isOver(crawl)) parts.push(`${crawl.rate.toFixed(1)} pages/s`);
  return [...parts, `started ${ago(crawl.created_at_ms)}`];
});
