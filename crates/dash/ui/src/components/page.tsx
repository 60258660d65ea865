// What every page begins with: where one is, what can be done here, and whether it moves.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import { isHelpShown } from "../keys";
import { connection, paused } from "../live";

interface PageProps {
  title: string;
  /** Beside the title: a state, a number. */
  mark?: ComponentChildren;
  /** Where this page is found: links above the title. */
  trail?: ReadonlyArray<readonly [name: string, href: string]>;
  /** A line under the title. */
  about?: ComponentChildren;
  actions?: ComponentChildren;
  /** Whether the page moves by itself. */
  isLive?: boolean;
  children: ComponentChildren;
}

export function Page({ title, mark, trail = [], about, actions, isLive = true, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · divvy`;
  }, [title]);
  return (
    <>
      <div class="page-head">
        <div class="page-title">
          {trail.length > 0 && (
            <nav class="trail" aria-label="Path">
              {trail.map(([name, href]) => (
                <a key={href} href={href}>
                  {name}
                </a>
              ))}
            </nav>
          )}
          <div class="title-line">
            <h1>{title}</h1>
            {mark}
          </div>
          {about && <p class="note">{about}</p>}
        </div>
        <div class="page-actions">
          {actions}
          {isLive && <LiveButton />}
          <button type="button" class="icon-button" aria-label="Keys" title="Keys (?)" onClick={() => (isHelpShown.value = true)}>
            ?
          </button>
        </div>
      </div>
      {children}
    </>
  );
}

const WORDS = {
  connecting: "Connecting",
  live: "Live",
  paused: "Paused",
  lost: "Reconnecting",
} as const;

/** Says whether the page is live, and stops it. */
export function LiveButton() {
  const is = connection.value;
  return (
    <button
      type="button"
      class={`button small live is-${is}`}
      aria-pressed={paused.value}
      title={paused.value ? "Go on (p)" : "Pause (p)"}
      onClick={() => (paused.value = !paused.value)}
    >
      <span class="live-dot" aria-hidden="true" />
      <span aria-live="polite">{WORDS[is]}</span>
      <svg viewBox="0 0 12 12" width="11" height="11" aria-hidden="true" class="solid-icon">
        <path d={paused.value ? "M3 1.500v9l7.5-4.500z" : "M2.5 1.500h2.500v9H2.500zM7 1.500h2.500v9H7z"} />
      </svg>
      <span class="unseen">{paused.value ? "go on" : "pause"}</span>
    </button>
  );
}
