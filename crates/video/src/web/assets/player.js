// The page of one video: how far it is while it is made, and the player when it is there.

import { ago, api, bytes, clock, element, fileUrl, isWatchable, language, makeBar, outlook, post, say, sentence, setBar, span, stateOf } from "./common.js";
import { Controls } from "./controls.js";
import { HlsSource, NativeSource } from "./sources.js";
import { Thumbnails } from "./thumbnails.js";

const find = (id) => document.getElementById(id);
const id = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1));
const base = `/api/v1/videos/${encodeURIComponent(id)}`;
/** How often a video is asked for when its events cannot be had. */
const POLL_MS = 3000;

const shown = { video: null, manifest: null, player: null, stages: new Map(), wasBusy: false };

/* Following the video. */

async function start() {
  try {
    show(await api(base));
  } catch (problem) {
    const isGone = problem.code === "no_such_video";
    curtain(isGone ? "There is no such video" : "This video cannot be shown", isGone ? "It may have been removed." : sentence(problem.message));
    find("state").hidden = true;
    document.body.classList.add("lost");
    return;
  }
  if (shown.video.state === "processing") follow();
}

function follow() {
  const events = new EventSource(`${base}/events`);
  events.addEventListener("video", (event) => {
    const video = JSON.parse(event.data);
    if (video.state !== "processing") events.close();
    show(video);
  });
  events.onerror = () => {
    if (events.readyState !== EventSource.CLOSED) return;
    setTimeout(() => api(base).then((video) => (show(video), video.state === "processing" && follow())).catch(follow), POLL_MS);
  };
}

async function show(video) {
  const isBusy = video.state === "processing";
  shown.wasBusy ||= isBusy;
  shown.video = video;
  drawHead(video);
  drawStages(video);
  drawActions(video);
  if (isBusy) {
    const rest = outlook(video);
    const text = rest ? `${sentence(rest)} · it plays here when it is ready` : "It plays here when it is ready";
    curtain(`Processing · ${Math.floor(video.progress * 100)} %`, text, video.progress);
  } else if (isWatchable(video)) {
    await open(video);
  } else if (video.state === "cancelled") {
    curtain("This video was cancelled", "What was done until then is kept, if you try again.");
  } else {
    curtain("This video could not be made", video.reason ? sentence(video.reason) : "The server does not say why.");
  }
}

function curtain(title, text, progress) {
  find("curtain").hidden = false;
  find("frame").classList.add("still");
  find("curtain-title").textContent = title;
  find("curtain-text").textContent = text;
  find("curtain-bar").hidden = progress === undefined;
  if (progress !== undefined) setBar(find("curtain-bar"), progress);
}

function drawHead(video) {
  const [word, colour] = stateOf(video);
  document.title = `${video.title} · divvy`;
  find("title").textContent = video.title;
  find("state").textContent = word;
  find("state").className = `chip ${colour}`;
  const parts = [];
  if (video.duration_ms) parts.push(clock(video.duration_ms / 1000));
  parts.push(`added ${ago(video.added_at)}`);
  if (video.url) parts.push(`from ${host(video.url)}`);
  find("byline").textContent = parts.join(" · ");
  drawBanner(video);
}

function host(url) {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

function drawBanner(video) {
  const banner = find("banner");
  banner.hidden = true;
  if (video.state === "degraded") {
    banner.replaceChildren(element("p", {}, element("strong", {}, "It can be watched, but a part is missing. "), video.reason ? sentence(video.reason) : "See the details below."));
    banner.hidden = false;
  } else if (video.state === "needs_review") {
    const approve = element("button", { className: "button primary", id: "approve" }, "Approve");
    approve.onclick = () => act(approve, () => post(`${base}/approve`), "Approved.");
    banner.replaceChildren(
      element("p", {}, element("strong", {}, "The scan flagged this video. "), "Watch it, then approve or remove it."),
      approve,
    );
    banner.hidden = false;
  }
}

function drawStages(video) {
  const isOver = video.state === "ready" || video.state === "degraded" || video.state === "needs_review";
  find("stages-card").hidden = isOver || video.stages.length === 0;
  let hasFailed = false;
  for (const stage of video.stages) {
    let row = shown.stages.get(stage.name);
    if (!row) {
      const name = stage.about || stage.name;
      row = { count: element("span", { className: "note" }), bar: makeBar(name) };
      row.root = element("li", {}, element("span", {}, name), row.count, row.bar);
      shown.stages.set(stage.name, row);
      find("stages").append(row.root);
    }
    const isDone = stage.done === stage.total;
    // What waited for a failed stage, or was cancelled, has no fault of its own.
    const isStopped = stage.failed > 0 && (hasFailed || video.state === "cancelled");
    hasFailed ||= stage.failed > 0;
    row.root.className = isStopped ? "" : stage.failed ? "bad" : isDone ? "done" : stage.running ? "busy" : "";
    row.count.textContent = isStopped
      ? "not done"
      : stage.failed
      ? stage.total > 1 ? `${stage.failed} failed` : "failed"
      : stage.total > 1 ? `${stage.done} of ${stage.total}` : isDone ? "done" : stage.running ? `${Math.floor(stage.progress * 100)} %` : "waiting";
    setBar(row.bar, isStopped ? stage.done / stage.total : stage.progress);
  }
}

/* What can be done with it. */

function drawActions(video) {
  const isBusy = video.state === "processing";
  const isPart = video.state === "failed" || video.state === "cancelled" || video.state === "degraded";
  if (find("actions").dataset.state === video.state) return;
  find("actions").dataset.state = video.state;
  const buttons = [];
  const button = (id, text, action) => {
    const made = element("button", { className: "button", id }, text);
    made.onclick = () => action(made);
    buttons.push(made);
  };
  if (isPart) button("again", "Try again", again);
  if (isBusy) button("cancel", "Cancel", cancel);
  else button("remove", "Remove", remove);
  find("actions").replaceChildren(...buttons);
}

/** Adding the same source with the same recipe makes what is missing, under the same name. */
async function again(button) {
  const { source, url, title, recipe, priority } = shown.video;
  button.disabled = true;
  try {
    await post("/api/v1/videos", { ...(source ? { source: source.id } : { url }), title, recipe, priority });
    location.reload();
  } catch (problem) {
    say(sentence(problem.message), true);
    button.disabled = false;
  }
}

async function cancel(button) {
  if (!(await ask("Cancel this video?", "Its tasks stop. What is done already is kept for the next time.", "Cancel it"))) return;
  await act(button, () => post(`${base}/cancel`), "Cancelled.");
}

async function remove(button) {
  if (!(await ask("Remove this video?", "Its files are deleted a little later, unless another video uses them. This cannot be undone.", "Remove it"))) return;
  button.disabled = true;
  try {
    await api(base, { method: "DELETE" });
    location.href = "/videos";
  } catch (problem) {
    say(sentence(problem.message), true);
    button.disabled = false;
  }
}

async function act(button, action, done) {
  button.disabled = true;
  try {
    await action();
    say(done);
    show(await api(base));
  } catch (problem) {
    say(sentence(problem.message), true);
    button.disabled = false;
  }
}

function ask(title, text, yes) {
  const dialog = find("ask");
  find("ask-title").textContent = title;
  find("ask-text").textContent = text;
  find("ask-yes").textContent = yes;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/* Playing. */

async function open(video) {
  if (shown.player) {
    // What is known may have changed: someone approved it.
    if (shown.manifest) drawFacts(video, shown.manifest);
    return;
  }
  shown.player = true;
  let manifest;
  try {
    manifest = await api(`${base}/manifest?segments=false`);
  } catch (problem) {
    shown.player = null;
    return curtain("This video cannot be shown", sentence(problem.message));
  }
  shown.manifest = manifest;
  drawFacts(video, manifest);
  const picture = find("video");
  const first = manifest.renditions[0];
  if (first) find("frame").style.setProperty("--shape", `${first.width} / ${first.height}`);
  if (has(manifest, "poster.jpg")) picture.poster = fileUrl(id, "poster.jpg");
  const master = fileUrl(id, "master.m3u8");
  const failed = (text) => curtain("It does not play", text);
  const source = window.Hls?.isSupported()
    ? new HlsSource(picture, master, failed)
    : new NativeSource(picture, master, failed);
  source.captions = find("captions");
  const controls = new Controls(picture, source);
  find("curtain").hidden = true;
  find("frame").classList.remove("still");
  const index = manifest.files.find((file) => /(^|\/)thumbs\.vtt$/.test(file.path));
  if (index) {
    Thumbnails.load(fileUrl(id, index.path))
      .then((thumbnails) => (controls.thumbnails = thumbnails))
      // The seek bar works without pictures.
      .catch(() => {});
  }
  if (shown.wasBusy) begin(picture);
}

/** Starts by itself. Browsers mostly allow that without sound only; then a button brings the sound. */
async function begin(picture) {
  try {
    await picture.play();
  } catch (problem) {
    if (problem.name !== "NotAllowedError") return;
    picture.muted = true;
    find("unmute").hidden = false;
    await picture.play().catch(() => (find("unmute").hidden = true));
  }
}

const has = (manifest, path) => manifest.files.some((file) => file.path === path);

/* What is known about it. */

function drawFacts(video, manifest) {
  const { probe, cost } = manifest;
  const rate = probe.video.rate.frames / probe.video.rate.seconds;
  const total = manifest.renditions.reduce((sum, rendition) => sum + rendition.bytes, 0);
  const facts = [
    ["Length", `${clock(manifest.duration_ms / 1000)}, ${manifest.frames.toLocaleString("en")} frames`],
    ["Source", `${probe.video.width} × ${probe.video.height}, ${probe.video.codec}, ${Number(rate.toFixed(2))} fps, ${bytes(probe.source.size)}`],
    ["Sound", manifest.tracks.map((track) => track.name || track.language).join(", ") || "none"],
    ["Renditions", `${manifest.renditions.length}, ${bytes(total)} together`],
    ["Time taken", video.ended_at ? span((video.ended_at - video.added_at) / 1000) : "–"],
    ["CPU time", span(cost.cpu_ms)],
    ["Subtitles", texts(manifest)],
    ["Content scan", scan(video, manifest)],
    ...(manifest.notes ?? []).map((note) => ["Note", sentence(note)]),
  ];
  find("facts").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  find("facts-card").hidden = false;
  drawRenditions(video, manifest);
  drawDownloads(video, manifest);
}

/** The tracks that there are, and why what was wanted beside them is not. */
function texts({ texts = [], subtitles, captions }) {
  const names = texts.map((text) => text.name).join(", ");
  const failed = [captions, subtitles].find((made) => made?.status === "failed");
  if (failed) return names ? `${names}; ${part(failed)}` : part(failed);
  return names || part(subtitles);
}

function part({ status, provider, reason }) {
  if (status === "done") return `by ${provider}`;
  return status === "skipped" ? `none (${reason})` : `failed: ${reason}`;
}

function scan(video, manifest) {
  if (manifest.scan.status !== "done") return part(manifest.scan).replace(/^none/, "not scanned");
  const highest = manifest.findings ? `, highest score ${manifest.findings.highest.toFixed(2)}` : "";
  const verdict = manifest.needs_review ? (video.state === "needs_review" ? "flagged" : "flagged, approved") : "nothing flagged";
  return `${verdict}${highest}, by ${manifest.scan.provider}`;
}

function drawRenditions(video, manifest) {
  const rows = manifest.renditions.map((rendition) => {
    const path = `mp4/${rendition.name}.mp4`;
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, rendition.name),
      element("td", {}, `${rendition.width} × ${rendition.height}`),
      element("td", {}, `${(rendition.bitrate / 1e6).toFixed(2)} Mbit/s`),
      element("td", {}, bytes(rendition.bytes)),
      element("td", {}, has(manifest, path) ? download(path, `${video.title} ${rendition.name}.mp4`, "MP4") : ""),
    );
  });
  find("renditions").replaceChildren(...rows);
  find("renditions-card").hidden = rows.length === 0;
}

function drawDownloads(video, manifest) {
  const items = manifest.files
    .filter((file) => /^subs\/[^/]+\.vtt$/.test(file.path))
    .map((file) => [file.path, `Subtitles (${language(file.path.slice(5, -4).replace(/_\d+$/, ""))})`, bytes(file.length)]);
  if (has(manifest, "poster.jpg")) items.push(["poster.jpg", "Poster", bytes(manifest.files.find((file) => file.path === "poster.jpg").length)]);
  items.push(["master.m3u8", "HLS playlist", "m3u8"], ["manifest.json", "Manifest", "JSON"]);
  find("downloads").replaceChildren(
    ...items.map(([path, name, note]) => {
      const file = `${video.title} ${path.split("/").at(-1)}`;
      return element("li", {}, download(path, file, name), element("span", { className: "note" }, note));
    }),
  );
  find("downloads-card").hidden = false;
}

function download(path, file, label) {
  const link = element("a", { href: fileUrl(id, path), download: file, className: "download" }, label);
  link.insertAdjacentHTML("afterbegin", '<svg aria-hidden="true"><use href="#i-download"/></svg>');
  if (label === "MP4") link.setAttribute("aria-label", `Download ${file}`);
  return link;
}

start();
