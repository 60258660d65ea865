// What the lab answers and the generated types do not have yet.
export interface Experiment {
  name: string;
  summary: string;
  timing: "simulated" | "measured";
}

export type ReportCell = string | number | null;

export interface ReportTable {
  caption: string;
  columns: Array<{ name: string; unit: string; kind: "text" | { number: { precision: number } } }>;
  rows: ReportCell[][];
}

export interface ReportChart {
  title: string;
  note: string;
  /** The drawing; its colours are classes. */
  svg: string;
}

export interface Report {
  name: string;
  title: string;
  shows: string;
  parameters: Array<{ name: string; value: ReportCell }>;
  tables: ReportTable[];
  charts: ReportChart[];
  findings: string[];
  lessons: string[];
  verdicts: Array<{ what: string; target: string; measured: string; met: boolean }>;
}

export interface LabRun {
  id: string;
  name: string;
  state: "running" | "done" | "failed" | "stopped";
  /** What is done now. */
  what?: string | null;
  done?: number;
  total?: number;
  error?: string | null;
  report?: Report | null;
}

declare module "./api.gen" {
  interface Answers {
    "GET /lab": { items: Experiment[] };
    "POST /lab/{name}": LabRun;
    "GET /lab/runs": { items: LabRun[] };
    "GET /lab/runs/{id}": LabRun;
    "DELETE /lab/runs/{id}": LabRun;
    "POST /plan": LabRun;
  }
  interface Bodies {
    "POST /lab/{name}": { seed?: number; quick?: boolean };
    "POST /plan": { plan: string; days?: number; seeds?: number };
  }
}
