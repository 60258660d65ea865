// Commands to copy: what a page does has a twin on the command line.
import { say } from "../toast";

/** Where commands look by themselves. */
const USUAL = ["http://127.0.0.1:7171", "http://localhost:7171"];

/** What has to be typed first where commands would not find this server. */
export function firstLine(): string | null {
  return USUAL.includes(location.origin) ? null : `export DIVVY_SERVER=${location.origin}`;
}

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser does not let this page copy; mark the text instead.", true);
  }
}

/** A line to copy. */
export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <code>{text}</code>
      <CopyButton text={text} what="the command" />
    </div>
  );
}

export function CopyButton({ text, what }: { text: string; what: string }) {
  return (
    <button type="button" class="icon-button" aria-label={`Copy ${what}`} title={`Copy ${what}`} onClick={() => void copy(text)}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" class="line-icon">
        <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
        <path d="M10.5 3.5v-.5a1 1 0 0 0-1-1H3a1 1 0 0 0-1 1v6.500a1 1 0 0 0 1 1h.5" />
      </svg>
    </button>
  );
}
