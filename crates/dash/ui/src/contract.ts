// What the API answers and the generated types do not have yet.
import type { Alert, TaskState } from "./api.gen";

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
  failed_share: number | null;
  dead: number;
  workers: number;
  workers_wanted: number | null;
  cost_per_hour: number | null;
  alerts: Alert[];
  states: Partial<Record<TaskState, number>>;
}

export type SeriesName =
  | "done" | "failed" | "retried" | "submitted"
  | "wait_p50_ms" | "wait_p95_ms" | "wait_p99_ms"
  | "waiting" | "running" | "workers";

export interface History {
  step_ms: number;
  from: string;
  series: Record<SeriesName, Array<number | null>>;
}

export interface GraphNode {
  id: string;
  name: string;
  kind: string;
  state: TaskState;
  group: string | null;
  started: string | null;
  ended: string | null;
  attempt: number;
  wait_reason: string | null;
}

export interface GraphEdge {
  from: string;
  to: string;
  optional: boolean;
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  groups: Array<{ name: string; total: number; by_state: Partial<Record<TaskState, number>> }>;
  truncated: boolean;
}

declare module "./api.gen" {
  interface Answers {
    "GET /me": Me;
    "GET /pulse": string;
    "GET /overview": Overview;
    "GET /history": History;
    "GET /workflows/{id}/graph": Graph;
  }
  interface Queries {
    "GET /history": { from?: string; to?: string; points?: number; queue?: string };
  }
}
