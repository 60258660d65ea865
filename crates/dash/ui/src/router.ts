// Where the reader is. Every link to a page of the dashboard, those in the bar that the server renders too, is followed
// without loading the page anew; everything else is left to the browser. Filters live in the query.
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";

export interface Place {
  path: string;
  query: URLSearchParams;
}

/** What pages get: the parts of their address that have names. */
export type PageProps = { path: Record<string, string> };

export interface PageRoute {
  /** Such as `/tasks/{id}`. */
  pattern: string;
  title: string;
  page: ComponentType<PageProps>;
}

export const place = signal<Place>(here());

let table: PageRoute[] = [];

/** Begins to follow links. */
export function follow(routes: PageRoute[]): void {
  table = routes;
  addEventListener("popstate", () => (place.value = here()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    // Links of drawings are links too, so the attributes are read.
    const link = (event.target as Element | null)?.closest?.("a[href]");
    if (!link || link.hasAttribute("target") || link.hasAttribute("download")) return;
    const to = new URL(link.getAttribute("href") ?? "", location.href);
    if (to.origin !== location.origin || to.hash || !found(to.pathname)) return;
    event.preventDefault();
    go(to.pathname + to.search);
  });
}

/** The page of a path, and the parts of it that have names. */
export function found(path: string): { route: PageRoute; parts: Record<string, string> } | null {
  for (const route of table) {
    const parts = matched(route.pattern, path);
    if (parts) return { route, parts };
  }
  return null;
}

/** Goes to a page. With `replace` the way back does not lead here: for filters while someone types. */
export function go(address: string, { replace = false } = {}): void {
  const isOtherPage = new URL(address, location.href).pathname !== location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  place.value = here();
  if (!isOtherPage || replace) return;
  scrollTo(0, 0);
  // Who does not see the page hears that there is another one, and goes on from its beginning.
  document.getElementById("page")?.focus({ preventScroll: true });
}

/** Changes some of the query and keeps the rest; what is empty goes away. */
export function setQuery(changes: Record<string, string | string[] | null | undefined>, options = { replace: true }): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) if (one) query.append(name, one);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), options);
}

function here(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

function matched(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.replace(/(.)\/$/, "$1").split("/");
  if (wanted.length !== given.length) return null;
  const parts: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const is = given[at] ?? "";
    if (part.startsWith("{")) {
      try {
        parts[part.slice(1, -1)] = decodeURIComponent(is);
      } catch {
        return null;
      }
    } else if (part !== is) return null;
  }
  return parts;
}
