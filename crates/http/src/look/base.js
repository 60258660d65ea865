// What all pages share: elements, requests, and how figures are written. Whatever strangers wrote becomes text, never HTML.

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

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let [value, at] = [count, 0];
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
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

/** How long ago a moment was, given in milliseconds since 1970. */
export function ago(ms) {
  const seconds = Math.round((Date.now() - ms) / 1000);
  if (seconds < 60) return "just now";
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  if (seconds < 3600) return words.format(-Math.floor(seconds / 60), "minute");
  if (seconds < 86400) return words.format(-Math.floor(seconds / 3600), "hour");
  if (seconds < 86400 * 14) return words.format(-Math.floor(seconds / 86400), "day");
  return new Date(ms).toLocaleDateString("en", { dateStyle: "medium" });
}

/** Tells something that happened. */
export function say(text, isBad = false) {
  const toast = element("div", { className: isBad ? "toast bad" : "toast" }, text);
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), isBad ? 9000 : 4000);
}
