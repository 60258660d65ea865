// Commands put together: every action of a page shows the one that does the same.
import { quoted } from "./components/command";

/** An option with its value; nothing without one. */
export function flag(name: string, value: string | number | null | undefined): string {
  return value === null || value === undefined || value === "" ? "" : `--${name} ${quoted(String(value))}`;
}

/** The parts of a command that are there. */
export function command(...parts: string[]): string {
  return parts.filter((part) => part !== "").join(" ");
}
