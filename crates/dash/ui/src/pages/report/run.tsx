// A run of the lab while it goes on: how far it is, what went wrong, and at the end its report.
import { useEffect, useState } from "preact/hooks";

import { ask } from "../../api";
import type { LabRun } from "../../api.gen";
import { ErrorPanel } from "../../components/notices";
import { may } from "../../me";
import { complain } from "../../toast";
import { Report } from "./report";

/** How often a run is asked how far it is. */
const LOOK_MS = 400;

/** Follows a run until it has ended. Without an id it is the last one of this name, if there is one. */
export function useRun(name: string, asked: string | null): { run: LabRun | null; error: Error | null } {
  const [last, setLast] = useState<string | null>(null);
  useEffect(() => {
    if (asked !== null) return;
    void ask("GET /lab/runs").then(
      ({ items }) => setLast(items.find((run) => run.name === name)?.id ?? null),
      () => setLast(null),
    );
  }, [name, asked]);
  return useRunOf(asked ?? last);
}

function useRunOf(id: string | null): { run: LabRun | null; error: Error | null } {
  const [shown, setShown] = useState<{ run: LabRun | null; error: Error | null }>({ run: null, error: null });
  useEffect(() => {
    setShown({ run: null, error: null });
    if (id === null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      try {
        const run = await ask("GET /lab/runs/{id}", { path: { id }, signal: stop.signal });
        if (stop.signal.aborted) return;
        setShown({ run, error: null });
        if (run.state === "running") timer = setTimeout(() => void look(), LOOK_MS);
      } catch (error) {
        if (!stop.signal.aborted) setShown((before) => ({ ...before, error: error as Error }));
      }
    };
    void look();
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [id]);
  return shown;
}

export function Run({ run, error }: { run: LabRun | null; error: Error | null }) {
  if (error) return <ErrorPanel error={error} />;
  if (!run) return null;
  if (run.state === "running") return <Progress run={run} />;
  if (run.report) {
    return (
      <section class="card">
        <Report report={run.report} />
      </section>
    );
  }
  return <ErrorPanel error={new Error(run.error ?? "The run was stopped.")} />;
}

function Progress({ run }: { run: LabRun }) {
  const share = run.total ? (run.done ?? 0) / run.total : 0;
  return (
    <section class="card" aria-live="polite">
      <div class="card-head">
        <h2>{run.name} runs</h2>
        {may("admin") && (
          <button type="button" class="button small right-end" onClick={() => void stop(run)}>
            Stop
          </button>
        )}
      </div>
      <div class="bar" role="progressbar" aria-label={`${run.name} runs`} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)}>
        <div style={{ width: `${share * 100}%` }} />
      </div>
      <p class="note">{run.what ?? "It begins."}</p>
    </section>
  );
}

async function stop(run: LabRun): Promise<void> {
  try {
    await ask("DELETE /lab/runs/{id}", { path: { id: run.id } });
  } catch (error) {
    complain(error);
  }
}
