// The library: what there is, and how more gets in.

import { ago, api, bytes, clock, element, fileUrl, isWatchable, keep, kept, left, makeBar, outlook, post, say, sentence, setBar, stateOf } from "./common.js";
import { Upload, discard, unfinished } from "./upload.js";

const find = (id) => document.getElementById(id);
const RUNGS = [2160, 1440, 1080, 720, 480, 360, 240];
const USUAL = [1080, 720, 480];
/** How long the page waits before it asks again a server that could not be asked. */
const AGAIN_MS = 5000;
/** Files that are sent at once; the others wait. */
const UPLOADS_MAX = 2;

/** Videos that are shown more at each request of a person, and that the server gives at once. */
const PAGE = 48;
const PAGE_MAX = 500;

const cards = new Map();
/** What is shown, how much a person wants to see, and where the list goes on. */
const shown = { videos: [], count: PAGE, next: null, timer: null, loading: false, again: false };

/* The list. */

async function load() {
  // What changes while the list is read is in the next one.
  if (shown.loading) return void (shown.again = true);
  shown.loading = true;
  clearTimeout(shown.timer);
  try {
    show(await read(shown.count, null));
  } catch (problem) {
    find("count").textContent = `${sentence(problem.message)} This page asks again by itself.`;
    shown.timer = setTimeout(load, AGAIN_MS);
  }
  shown.loading = false;
  if (shown.again) {
    shown.again = false;
    load();
  }
}

/** So many videos behind a place of the list, and where it goes on. */
async function read(count, after) {
  const found = { videos: [], next: after };
  do {
    const from = found.next ? `&after=${encodeURIComponent(found.next)}` : "";
    const page = await api(`/api/v1/videos?limit=${Math.min(PAGE_MAX, count - found.videos.length)}${from}`);
    found.videos.push(...page.items);
    found.next = page.next;
  } while (found.next && found.videos.length < count);
  return found;
}

function show({ videos, next }) {
  Object.assign(shown, { videos, next });
  draw(videos);
  find("more").hidden = !next;
  find("count").textContent = videos.length ? `${videos.length}${next ? "+" : ""}` : "";
}

/** Shows the next part of the list behind what is there. */
async function more() {
  shown.count += PAGE;
  // A list that is being read, or was never, is read to there.
  if (shown.loading || !shown.next) return load();
  shown.loading = true;
  try {
    const { videos, next } = await read(PAGE, shown.next);
    const known = new Set(shown.videos.map((video) => video.id));
    show({ videos: [...shown.videos, ...videos.filter((video) => !known.has(video.id))], next });
  } catch (problem) {
    say(problem.message, true);
  }
  shown.loading = false;
  if (shown.again) {
    shown.again = false;
    load();
  }
}

/** The server says when something has changed. */
function follow() {
  const events = new EventSource("/api/v1/videos/events");
  // Also after a break: what happened meanwhile was not heard.
  events.onopen = load;
  events.addEventListener("changed", () => document.hidden || load());
  events.onerror = () => {
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, AGAIN_MS);
  };
}

function draw(videos) {
  const grid = find("grid");
  grid.setAttribute("aria-busy", "false");
  find("empty").hidden = videos.length > 0;
  const present = new Set(videos.map((video) => video.id));
  for (const [id, card] of cards) {
    if (!present.has(id)) {
      card.root.remove();
      cards.delete(id);
    }
  }
  videos.forEach((video, at) => {
    let card = cards.get(video.id);
    if (!card) cards.set(video.id, (card = makeCard(video)));
    update(card, video);
    if (grid.children[at] !== card.root) grid.insertBefore(card.root, grid.children[at] ?? null);
  });
}

function makeCard(video) {
  const card = {
    image: element("img", { alt: "", loading: "lazy", hidden: true }),
    length: element("span", { className: "length", hidden: true }),
    percent: element("span", { className: "percent", hidden: true }),
    bar: makeBar("Progress"),
    title: element("h2"),
    chip: element("span"),
    note: element("span", { className: "note" }),
    reason: element("p", { className: "reason", hidden: true }),
  };
  card.image.onerror = () => (card.image.hidden = true);
  // A tall picture is shown whole: its middle alone says little.
  card.image.onload = () => card.image.classList.toggle("tall", card.image.naturalHeight > card.image.naturalWidth);
  card.root = element(
    "a",
    { className: "video", href: `/videos/${encodeURIComponent(video.id)}` },
    element("div", { className: "poster" }, card.image, card.percent, card.length, card.bar),
    element("div", { className: "video-text" }, card.title, element("p", {}, card.chip, card.note), card.reason),
  );
  return card;
}

function update(card, video) {
  const [word, colour] = stateOf(video);
  const isBusy = video.state === "processing";
  card.title.textContent = video.title;
  card.title.title = video.title;
  card.chip.textContent = word;
  card.chip.className = `chip ${colour}`;
  card.root.dataset.state = video.state;
  card.bar.hidden = card.percent.hidden = !isBusy;
  if (isBusy) {
    setBar(card.bar, video.progress);
    card.percent.textContent = `${Math.floor(video.progress * 100)} %`;
  }
  if (isWatchable(video) && video.has_poster && !card.image.src) {
    card.image.src = fileUrl(video.id, "poster.jpg");
    card.image.hidden = false;
  }
  card.length.hidden = !video.duration_ms || isBusy;
  card.length.textContent = clock((video.duration_ms ?? 0) / 1000);
  card.note.textContent = isBusy ? outlook(video) : ago(video.added_at);
  card.reason.hidden = video.state !== "failed" || !video.reason;
  card.reason.textContent = video.reason ? sentence(video.reason) : "";
}

/* What is wanted. */

function drawOptions() {
  const last = lastOptions();
  for (const rung of RUNGS) {
    const box = element("input", { type: "checkbox", value: rung, checked: (last.ladder ?? USUAL).includes(rung) });
    find("rungs").append(element("label", { className: "pill" }, box, `${rung}p`));
  }
  for (const name of ["subtitles", "priority"]) {
    if ([...find(name).options].some((option) => option.value === last[name])) find(name).value = last[name];
  }
  find("scan").checked = last.scan === true;
  find("options").addEventListener("change", () => {
    keep("options", JSON.stringify({ ladder: chosenRungs(), subtitles: find("subtitles").value, scan: find("scan").checked, priority: find("priority").value }));
    summarise();
  });
  summarise();
}

/** What was chosen on the last visit, so that an upload that goes on after a reload becomes the same video. */
function lastOptions() {
  try {
    return JSON.parse(kept("options")) ?? {};
  } catch {
    return {};
  }
}

function chosenRungs() {
  return [...find("rungs").querySelectorAll("input:checked")].map((box) => Number(box.value));
}

function summarise() {
  const parts = [chosenRungs().map((rung) => `${rung}p`).join(", ") || "no size"];
  const language = find("subtitles").selectedOptions[0];
  if (language.value) parts.push(`${language.text} subtitles`);
  if (find("scan").checked) parts.push("scan");
  if (find("priority").value) parts.push(`${find("priority").selectedOptions[0].text.toLowerCase()} priority`);
  find("options-summary").textContent = parts.join(" · ");
}

function wishes() {
  const ladder = chosenRungs();
  if (ladder.length === 0) {
    find("options").open = true;
    throw new Error("Choose at least one size.");
  }
  const recipe = { ladder, subtitles: find("subtitles").value || null, scan: find("scan").checked };
  const priority = Number(find("priority").value) || null;
  return { recipe, priority };
}

async function add(video) {
  const added = await post("/api/v1/videos", video);
  const rest = added.estimated_ms ? `: ${left(added.estimated_ms)}` : "";
  say(added.known ? `“${added.video.title}” is here already.` : `Added “${added.video.title}”${rest}.`);
  load();
}

/* By address. */

find("by-url").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  try {
    await add({ url: find("url").value, ...wishes() });
    find("url").value = "";
  } catch (problem) {
    say(problem.message, true);
  }
  button.disabled = false;
});

/* By upload. */

const waiting = [];
/** Rows of uploads that an earlier visit did not end. */
const broken = new Map();
const begun = new Set();
let sending = 0;

function choose(files) {
  let wanted;
  try {
    wanted = wishes();
  } catch (problem) {
    return say(problem.message, true);
  }
  for (const file of files) waiting.push(makeUpload(file, wanted));
  sendNext();
}

function makeUpload(file, wanted) {
  const bar = makeBar(`Upload of ${file.name}`);
  const note = element("span", { className: "note" }, "Waiting");
  const stop = element("button", { className: "button small", type: "button" }, "Stop");
  const row = element(
    "li",
    {},
    element("div", { className: "upload-text" }, element("strong", {}, file.name), note, stop),
    bar,
  );
  find("uploads").append(row);
  let hint = "";
  const began = { at: 0, bytes: null };
  const upload = new Upload(file, (sent) => {
    if (began.bytes === null && sent > 0) hint = " · goes on where it stopped";
    began.bytes ??= sent;
    began.at ||= performance.now();
    const speed = (sent - began.bytes) / ((performance.now() - began.at) / 1000);
    setBar(bar, sent / file.size);
    const pace = Number.isFinite(speed) && speed > 0 ? ` · ${bytes(speed)}/s` : "";
    note.textContent = `${bytes(sent)} of ${bytes(file.size)}${pace || hint}`;
  });
  begun.add(upload.memory);
  broken.get(upload.memory)?.remove();
  const entry = { file, wanted, upload, row, note, stop };
  stop.onclick = () => {
    const at = waiting.indexOf(entry);
    if (at >= 0) waiting.splice(at, 1);
    upload.abort();
    row.remove();
  };
  return entry;
}

async function sendNext() {
  if (sending >= UPLOADS_MAX || waiting.length === 0) return;
  const entry = waiting.shift();
  sending += 1;
  sendNext();
  try {
    const source = await entry.upload.run();
    entry.note.textContent = "Adding it to the library";
    const title = entry.file.name.replace(/\.[^.]{1,5}$/, "");
    await add({ source, title, ...entry.wanted });
    entry.row.remove();
  } catch (problem) {
    if (!entry.upload.stopped) {
      entry.note.textContent = sentence(problem.message);
      entry.row.classList.add("bad");
      entry.stop.textContent = "Dismiss";
    }
  }
  sending -= 1;
  sendNext();
}

/** An upload cannot go on by itself after a reload: a page may read a file only when a person chooses it. */
function drawBroken({ memory, name, size, sent }) {
  if (begun.has(memory)) return;
  const bar = makeBar(`Upload of ${name}`);
  setBar(bar, sent / size);
  const again = element("button", { className: "button small primary", type: "button" }, "Choose it again");
  again.onclick = () => find("file").click();
  const stop = element("button", { className: "button small", type: "button" }, "Discard");
  const note = element("span", { className: "note" }, `${bytes(sent)} of ${bytes(size)} sent · choose the file again to go on from there`);
  const row = element("li", { className: "broken" }, element("div", { className: "upload-text" }, element("strong", {}, name), note, again, stop), bar);
  stop.onclick = () => {
    discard(memory);
    row.remove();
  };
  broken.set(memory, row);
  find("uploads").append(row);
}

addEventListener("storage", ({ key, newValue }) => {
  if (newValue === null) broken.get(key)?.remove();
});

const drop = find("drop");
find("file").addEventListener("change", (event) => {
  choose([...event.target.files]);
  event.target.value = "";
});
for (const name of ["dragenter", "dragover"]) {
  addEventListener(name, (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    drop.classList.add("over");
  });
}
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) drop.classList.remove("over");
});
addEventListener("drop", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  drop.classList.remove("over");
  const isFolder = (item) => item.webkitGetAsEntry?.()?.isDirectory;
  if ([...event.dataTransfer.items].some(isFolder)) return say("A folder cannot be added. Drop the files in it.", true);
  choose([...event.dataTransfer.files]);
});
addEventListener("beforeunload", (event) => {
  if (sending > 0) event.preventDefault();
});
document.addEventListener("visibilitychange", () => document.hidden || load());
find("more").addEventListener("click", more);

drawOptions();
follow();
load();
unfinished().then((uploads) => uploads.forEach(drawBroken));
