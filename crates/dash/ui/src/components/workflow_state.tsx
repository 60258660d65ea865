// How a workflow stands: colour, shape and word.
import type { WorkflowState } from "../api.gen";

const LOOK: Record<WorkflowState, [tone: string, word: string]> = {
  open: ["busy", "open"],
  succeeded: ["good", "succeeded"],
  failed: ["bad", "failed"],
};

export function WorkflowBadge({ state }: { state: WorkflowState }) {
  const [tone, word] = LOOK[state] ?? ["", state];
  return <span class={`chip ${tone}`}>{word}</span>;
}
