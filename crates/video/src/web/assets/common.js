// What both pages share: elements, requests, and how figures are written.

/** An element with properties, attributes (with a dash or `role`) and children. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.includes("-") || name === "role" || name === "for") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Asks the API; an answer that is no success is thrown as an `Error` with its `code`. */
export async function api(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw Object.assign(new Error("The server does not answer."), { code: "unreachable" });
  }
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  // The session is over: the page itself answers with the form to sign in.
  if (response.status === 401) location.reload();
  const problem = body?.error ?? {};
  const message = problem.message ?? `The server answered ${response.status}.`;
  throw Object.assign(new Error(message), { code: problem.code, status: response.status });
}

export function post(path, body) {
  const options = { method: "POST" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "content-type": "application/json" };
  }
  return api(path, options);
}

const STATES = {
  processing: ["Processing", "busy"],
  ready: ["Ready", "good"],
  degraded: ["Ready, in part", "warn"],
  needs_review: ["Needs review", "warn"],
  failed: ["Failed", "bad"],
  cancelled: ["Cancelled", "quiet"],
};

/** What a state is called, and which colour it has. */
export function stateOf(video) {
  return STATES[video.state] ?? [video.state, "quiet"];
}

export function isWatchable(video) {
  return Boolean(video.manifest);
}

/** What a language is called; a name that is no code of one stays as it is. */
export function language(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

/** Seconds as a clock shows them. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds || 0));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** A span of time in words. */
export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = seconds / 60;
  if (minutes < 60) return `${Math.floor(minutes)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${Math.round(minutes % 60)} min`;
}

/** How long something will take yet. An estimate that pretends to know seconds is not believed. */
export function left(ms) {
  if (ms < 10_000) return "a few seconds left";
  if (ms < 60_000) return `about ${Math.ceil(ms / 10_000) * 10} s left`;
  const minutes = Math.ceil(ms / 60_000);
  if (minutes < 60) return `about ${minutes} min left`;
  return `about ${Math.floor(minutes / 60)} h ${minutes % 60} min left`;
}

/** What can be said about the rest of a video that is being made. */
export function outlook(video) {
  const hasBegun = video.stages.some((stage) => stage.running || stage.done);
  if (!hasBegun) return "waiting for a worker";
  return video.remaining_ms ? left(video.remaining_ms) : "";
}

/** A reason as a sentence: without the name of the task that gave it. */
export function sentence(reason) {
  const text = reason.replace(/^[a-z]+: (?=\S)/, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let [value, at] = [count, 0];
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

/** How long ago a moment was, given in microseconds since 1970. */
export function ago(micros) {
  const seconds = Math.round(Date.now() / 1000 - micros / 1e6);
  if (seconds < 60) return "just now";
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  if (seconds < 3600) return words.format(-Math.floor(seconds / 60), "minute");
  if (seconds < 86400) return words.format(-Math.floor(seconds / 3600), "hour");
  if (seconds < 86400 * 14) return words.format(-Math.floor(seconds / 86400), "day");
  return new Date(micros / 1000).toLocaleDateString("en", { dateStyle: "medium" });
}

// A browser may forbid storage; then nothing is remembered.
export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // See above.
  }
}

export function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Tells something that happened. */
export function say(text, isBad = false) {
  const toast = element("div", { className: isBad ? "toast bad" : "toast" }, text);
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), isBad ? 9000 : 4000);
}

/** Moves a bar made of two elements. */
export function setBar(bar, fraction) {
  const percent = Math.round(Math.min(1, Math.max(0, fraction)) * 100);
  bar.setAttribute("aria-valuenow", percent);
  bar.firstElementChild.style.width = `${percent}%`;
}

export function makeBar(label) {
  return element(
    "div",
    { className: "bar", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 },
    element("div"),
  );
}

/** Where a file of a video is. */
export function fileUrl(id, path) {
  return `/videos/${encodeURIComponent(id)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
}
