// What happened to one task, in order, with the time between.
import type { ComponentChildren } from "preact";

import { clock, moment, span } from "../format";

export interface Step {
  /** Milliseconds since 1970; what has no time is what is expected. */
  at: number | null;
  title: ComponentChildren;
  text?: ComponentChildren;
  tone: "muted" | "ready" | "leased" | "blocked" | "scheduled" | "done" | "dead" | "cancelled";
  /** Whether it goes on. */
  isNow?: boolean;
}

export function Timeline({ steps }: { steps: readonly Step[] }) {
  return (
    <ol class="timeline">
      {steps.map((step, at) => {
        const before = steps[at - 1]?.at ?? null;
        return (
          <li key={at} class={`is-${step.tone} ${step.isNow ? "is-now" : ""}`}>
            <span class="timeline-gap">{before !== null && step.at !== null ? `+${span(step.at - before)}` : ""}</span>
            <i aria-hidden="true" />
            <div>
              <span class="timeline-title">
                {step.title}
                {step.at !== null && (
                  <time class="note" title={moment(step.at)} dateTime={new Date(step.at).toISOString()}>
                    {clock(step.at)}
                  </time>
                )}
              </span>
              {step.text && <div class="timeline-text">{step.text}</div>}
            </div>
          </li>
        );
      })}
    </ol>
  );
}
