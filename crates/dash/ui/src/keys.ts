// The keyboard: `/` searches, `g` and a letter goes to a page, `j` and `k` walk the rows, `Enter` opens one, `p` pauses,
// `?` tells all of that. Keys that are typed into a field, or with a modifier, belong to the browser.
import { signal } from "@preact/signals";

import { paused } from "./live";
import { go } from "./router";

/** Whether the list of keys is shown. */
export const isHelpShown = signal(false);

/** After `g`: the letter, the page, its name. */
export const PLACES: ReadonlyArray<readonly [string, string, string]> = [
  ["o", "/", "Overview"],
  ["t", "/tasks", "Tasks"],
  ["q", "/queues", "Queues"],
  ["f", "/workflows", "Workflows"],
  ["w", "/workers", "Workers"],
  ["l", "/limits", "Limits"],
  ["c", "/schedules", "Schedules"],
  ["d", "/dead", "Dead letters"],
  ["s", "/scale", "Scale"],
  ["a", "/alerts", "Alerts"],
  ["x", "/lab", "Lab"],
  ["p", "/plan", "Plan"],
];

export const KEYS: ReadonlyArray<readonly [string, string]> = [
  ["/", "Search"],
  ["j", "Next row"],
  ["k", "Row before"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["p", "Pause or go on"],
  ["?", "These keys"],
];

const CHORD_MS = 1500;
let chordUntil = 0;

/** Begins to listen. */
export function listen(): void {
  document.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as HTMLElement;
    if (target.closest("input, textarea, select, [contenteditable], dialog")) return;
    if (pressed(event.key)) event.preventDefault();
  });
}

function pressed(key: string): boolean {
  if (Date.now() < chordUntil) {
    chordUntil = 0;
    const there = PLACES.find(([letter]) => letter === key);
    if (there) go(there[1]);
    return there !== undefined;
  }
  switch (key) {
    case "g":
      chordUntil = Date.now() + CHORD_MS;
      return true;
    case "/": {
      const field = document.querySelector<HTMLInputElement>("[data-search]");
      field?.focus();
      field?.select();
      if (!field) go("/tasks");
      return true;
    }
    case "j":
      return step(1);
    case "k":
      return step(-1);
    case "x": {
      const box = document.activeElement?.closest("[data-row]")?.querySelector<HTMLInputElement>("input[type=checkbox]");
      box?.click();
      return box !== null && box !== undefined;
    }
    case "p":
      paused.value = !paused.value;
      return true;
    case "?":
      isHelpShown.value = true;
      return true;
    default:
      return false;
  }
}

/** Moves the focus to another row of the table that has it, or of the first one. */
function step(by: 1 | -1): boolean {
  const current = document.activeElement?.closest<HTMLElement>("[data-row]") ?? null;
  const table = current?.closest("table") ?? document.querySelector("main table:has([data-row])");
  const rows = [...(table?.querySelectorAll<HTMLElement>("[data-row]") ?? [])];
  const next = rows[current ? rows.indexOf(current) + by : by > 0 ? 0 : rows.length - 1];
  if (!next) return false;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  return true;
}
