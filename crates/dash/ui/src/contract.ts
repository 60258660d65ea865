// What the API answers and the generated types do not have yet.
import type { Alert, TaskState, WorkflowCounts, WorkflowRole, WorkflowState } from "./api.gen";

export interface Me {
  scopes: string[];
  token: string | null;
}

export interface Overview {
  time: string;
  waiting: number;
  oldest_wait_ms: number | null;
  running: number;
  slots: number;
  done_per_min: number;
  failed_share: number;
  dead: number;
  workers: number;
  workers_wanted: number | null;
  cost_per_hour: number | null;
  alerts: Alert[];
  states: Record<string, number>;
}

export interface Series {
  done: Array<number | null>;
  failed: Array<number | null>;
  retried: Array<number | null>;
  submitted: Array<number | null>;
  wait_p50_ms: Array<number | null>;
  wait_p95_ms: Array<number | null>;
  wait_p99_ms: Array<number | null>;
  waiting: Array<number | null>;
  running: Array<number | null>;
  workers: Array<number | null>;
}

export interface History {
  step_ms: number;
  from: string;
  series: Series;
}

export type HistoryPoint = { at: string; step_ms: number } & { [name in keyof Series]: number | null };

export interface Pulse {
  overview: Overview;
  point: HistoryPoint | null;
}

export interface GraphNode {
  id: string;
  name: string;
  kind: string;
  role: WorkflowRole;
  state: TaskState;
  group: string | null;
  submitted: string;
  started: string | null;
  ended: string | null;
  attempt: number | null;
  wait_reason: string | null;
  error: string | null;
  worker: string | null;
}

export interface GraphEdge {
  from: string;
  to: string;
  optional: boolean;
  spawned: boolean;
}

export interface WorkflowGraph {
  id: string;
  name: string;
  state: WorkflowState;
  started: string;
  ended: string | null;
  nodes: GraphNode[];
  edges: GraphEdge[];
  groups: Array<{ name: string; total: number; by_state: WorkflowCounts }>;
  truncated: boolean;
}

declare module "./api.gen" {
  interface Answers {
    "GET /me": Me;
    "GET /pulse": string;
    "GET /overview": Overview;
    "GET /history": History;
    "GET /workflows/{id}/graph": WorkflowGraph;
  }
  interface BulkRequest {
    priority?: number | null;
  }
  interface Queries {
    "GET /history": { from?: string; to?: string; points?: number; queue?: string };
  }
}
