// What the API answers to these pages and the generated types do not have yet.
import type { Alert, ForecastView, Severity, SimulatedStep } from "./api.gen";

export interface AlertChange {
  name: string;
  state: "fired" | "resolved" | "test";
  severity: Severity;
  at: string;
  since: string;
  value: number;
  text: string;
  cure?: string | null;
}

export interface AlertSink {
  name: string;
  kind: string;
  to: string;
}

export interface AlertTest {
  sent: Array<{ sink: string; task: string }>;
}

export interface Silenced {
  name: string;
  silenced_until?: string | null;
}

declare module "./api.gen" {
  interface Alert {
    pending?: boolean;
    value?: number;
    fires_at?: number;
    since?: string | null;
    silenced_until?: string | null;
  }
  interface Alerts {
    history?: AlertChange[];
    sinks?: AlertSink[];
  }
  interface ForecastView {
    ahead?: Array<{ at: string; rate: number; low: number; high: number }>;
  }
  interface SimulatedStep {
    work_rate: number;
    capacity: number;
  }
  interface Answers {
    "POST /alerts/{name}/silence": Silenced;
    "DELETE /alerts/{name}/silence": Silenced;
    "POST /alerts/test": AlertTest;
  }
  interface Bodies {
    "POST /alerts/{name}/silence": { for_sec: number };
    "POST /alerts/test": Record<string, never>;
  }
}

export type { Alert, ForecastView, SimulatedStep };
