// When each task of a workflow waited and ran, one row each. Rows that cannot be seen are not in the page.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { GraphNode } from "../api.gen";
import { millis, span } from "../format";
import { ran } from "../graph";
import { StateIcon, stateWord } from "./state";

const ROW = 26;
const AROUND = 10;

interface WaterfallProps {
  nodes: readonly GraphNode[];
  critical: ReadonlySet<string>;
  /** When the workflow began and, if it has, ended. */
  started: number;
  ended: number | null;
  now: number;
}

export function Waterfall({ nodes, critical, started, ended, now }: WaterfallProps) {
  const place = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const look = () => (setTop(Math.floor(element.scrollTop / ROW / AROUND) * AROUND), setHeight(element.clientHeight));
    look();
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, []);
  const rows = useMemo(() => [...nodes].sort((a, b) => begin(a) - begin(b)), [nodes]);
  const until = ended ?? now;
  const whole = Math.max(until - started, 1);
  const share = (time: number) => `${(Math.min(Math.max(time - started, 0), whole) / whole) * 100}%`;
  const shown = rows.slice(Math.max(top - AROUND, 0), top + Math.ceil(height / ROW) + AROUND * 2);
  return (
    <div class="waterfall">
      <div class="waterfall-axis" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75, 1].map((part) => (
          <span key={part} style={{ left: `${part * 100}%` }}>
            {span(whole * part)}
          </span>
        ))}
      </div>
      <div ref={place} class="waterfall-place" role="region" aria-label="When each task ran" tabIndex={0}>
        <ul style={{ height: `${rows.length * ROW}px` }}>
          {shown.map((node, at) => {
            const took = ran(node, now);
            const from = node.started ? millis(node.started) : null;
            const to = node.ended ? millis(node.ended) : until;
            const text = `${node.name}, ${stateWord(node.state)}${took === null ? "" : `, ran ${span(took)}`}`;
            return (
              <li key={node.id} style={{ top: `${(Math.max(top - AROUND, 0) + at) * ROW}px` }} class={`is-${node.state} ${critical.has(node.id) ? "is-critical" : ""}`}>
                <a href={`/tasks/${node.id}`} title={node.wait_reason ?? node.error ?? text}>
                  <StateIcon state={node.state} />
                  <span class="cut">{node.name}</span>
                </a>
                <div class="waterfall-lane" role="img" aria-label={text}>
                  <i class="is-wait" style={{ left: share(millis(node.submitted)), right: `calc(100% - ${share(from ?? to)})` }} />
                  {from !== null && <i class="is-run" style={{ left: share(from), right: `calc(100% - ${share(to)})` }} />}
                </div>
                <span class="waterfall-took">{took === null ? "–" : span(took)}</span>
              </li>
            );
          })}
        </ul>
      </div>
    </div>
  );
}

/** What has not begun stands last. */
function begin(node: GraphNode): number {
  return node.started ? millis(node.started) : millis(node.submitted) + 1e13;
}
