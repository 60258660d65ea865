// What both pages share beyond what all pages do: states, languages, and how what is left is told.

import * as base from "/assets/base.js";
export { api, bytes, element, post, say, span } from "/assets/base.js";

const { element } = base;

/** How long ago a moment was, given in microseconds since 1970. */
export const ago = (micros) => base.ago(micros / 1000);

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
