// Written by scripts/types.mjs from the OpenAPI document of the server. Do not edit.

/** The answer to a submission over HTTP, where the server may have made the ids. */
export interface Accepted {
  /** New tasks. */
  accepted: number;
  /** Tasks that were not taken, because another has their unique key. */
  conflicts?: Array<Conflict>;
  /** The ids of all its tasks, in their order; for one that was not taken, that of the task that has its unique key. */
  ids: Array<TaskId>;
  /** Tasks that were known already, with the same spec. */
  known: number;
  /** New tasks that are expected to miss their deadlines: the first [`LATE_LISTED_MAX`](crate::limits::LATE_LISTED_MAX) of them. */
  late?: Array<Late>;
  /** How many these are in all. */
  late_total?: number;
}

/** A rule about the health of a server, and how it stands now. */
export interface Alert {
  /** What to do about it, while it is broken. */
  cure?: string | null;
  /** The value at which the rule is broken. */
  fires_at: number;
  /** Whether it has been broken for as long as the rule asks, and is not over yet. */
  firing: boolean;
  /** Names the rule. */
  name: string;
  /** Whether it is broken, and not for long enough to fire. */
  pending: boolean;
  /** How bad that would be. */
  severity: Severity;
  /** Until when nobody is told of it. */
  silenced_until?: Timestamp | null;
  /** Since when it fires, or is broken while it is pending. */
  since?: Timestamp | null;
  /** What is the case. */
  text: string;
  /** What was measured. */
  value: number;
}

/** An alert fired or resolved. */
export interface AlertChange {
  /** When. */
  at: Timestamp;
  /** What to do about it. */
  cure?: string | null;
  /** Names the rule. */
  name: string;
  /** How bad it is. */
  severity: Severity;
  /** When it fired. */
  since: Timestamp;
  /** What became of it. */
  state: AlertState;
  /** What is the case. */
  text: string;
  /** What was measured. */
  value: number;
}

/** Somebody who is told of alerts. */
export interface AlertSink {
  /** What it is: `webhook` or `command`. */
  kind: string;
  /** Its name in the settings file. */
  name: string;
  /** Where it leads: the address without what may be secret in it, or the program. */
  to: string;
}

/** What became of an alert. */
export type AlertState = "fired" | "resolved" | "test";

/** The test that was sent to everybody who is told of alerts. */
export interface AlertTest {
  /** Each sink and the task that delivers to it. */
  sent: Array<AlertTestSent>;
}

/** One of them. */
export interface AlertTestSent {
  /** The name of the sink. */
  sink: string;
  /** The task that delivers to it. */
  task: TaskId;
}

/** Every rule. */
export interface Alerts {
  /** The rules, in a fixed order. */
  alerts: Array<Alert>;
  /** The latest alerts that fired and resolved, newest first. */
  history: Array<AlertChange>;
  /** Who is told, besides the log. */
  sinks: Array<AlertSink>;
  /** The time by the server's clock. */
  time: Timestamp;
}

/** What one policy would want. */
export interface Answer {
  /** Which one. */
  policy: Policy;
  /** Why, in words. */
  why: string;
  /** How many workers. */
  workers: number;
}

/** Who was told. */
export interface AskedWorker {
  /** Connections of that name that were asked. */
  asked: number;
  name: string;
}

/** An attempt that ended. */
export interface Attempt {
  /** When it ended. */
  at: Timestamp;
  /** Whether it counts against the retry limit. */
  counted: boolean;
  /** What went wrong; nothing if it finished the task. */
  error?: TaskError | null;
  /** The end of its log. */
  log?: string | null;
  /** When it presumably began; nothing if it ended before the last start of the server, or many attempts ago. */
  started?: Timestamp | null;
  /** Its token. */
  token: Token;
  /** Who ran it. */
  worker: string;
}

/** What kept a decision from more or fewer workers. */
export type Bound = "minimum" | "maximum" | "step" | "cool_down" | "window" | "billing" | "budget" | "set" | "paused";

/** What to do with each task. */
export type BulkAction = "cancel" | "retry" | "drop" | "reprioritise";

/** What became of it. */
export interface BulkReport {
  /** How many fit, by kind. */
  by_kind: Record<string, number>;
  /** How many fit, by the state they were in. */
  by_state: Record<string, number>;
  /** Tasks that were treated. */
  done: number;
  /** Why the others were not: the first few of them. */
  left?: Array<Left>;
  /** Tasks that fit. */
  matched: number;
  /** Where to go on, if there may be more. */
  next: string | null;
  /** Some of them. */
  sample: Array<TaskId>;
}

/** What to do with which tasks. */
export interface BulkRequest {
  action: BulkAction;
  after?: string | null;
  /** Must be said if the filter is empty, so that a request without one does nothing. */
  all?: boolean;
  dry_run?: boolean;
  filter?: Select;
  limit?: number | null;
  /** The new priority, for a reprioritise. */
  priority?: number | null;
  reason?: string | null;
}

/** Who asks, and what it may do. */
export interface Caller {
  /** Everything that the caller may do: whoever has `admin` is told all of them. */
  scopes: Scopes;
  /** The name of the token that was shown. Nothing if none was needed, or if it was the one that the server was started with. */
  token: string | null;
}

/** Why a task shall not run. */
export interface CancelTask {
  reason?: string | null;
}

/** Why a workflow shall not go on. */
export interface CancelWorkflow {
  reason?: string | null;
}

/** What became of a cancel. */
export interface CancelledWorkflow {
  /** Tasks that were cancelled, or whose workers were told to stop them. */
  cancelled: number;
  /** The workflow. */
  id: WorkflowId;
}

/** What it would mean to give a task to a worker. */
export interface Candidate {
  /** Whether it has a place free now. */
  free: boolean;
  /** What it lacks; nothing if it could run the task. */
  lacks?: Array<string>;
  /** Until when it is not given this kind. */
  quarantined_until?: Timestamp | null;
  /** The score, and its terms by name; absent if it cannot run the task. */
  score?: number | null;
  /** Whether it serves the kind and the queue. */
  serves: boolean;
  /** What the score is made of. */
  terms?: Array<ScoreTerm>;
  /** The worker. */
  worker: string;
}

/** How workers are matched to needs. */
export interface Capabilities {
  /** Whether workers are judged by how they did. */
  consider_history: boolean;
  /** How much that counts, from 0 to 1. */
  history_weight: number;
  /** For tasks that do not say. */
  matching_strategy: Matching;
}

/** How workers are matched to needs. */
export interface CapabilitiesInput {
  /** Whether workers are judged by how they did. */
  consider_history?: boolean;
  /** How much that counts, from 0 to 1. */
  history_weight?: number;
  /** For tasks that do not say. */
  matching_strategy?: Matching;
}

/** What becomes of ticks that were missed, because the server was down or its clock was set forward. */
export type CatchUp = "skip" | "last" | "all";

/** A change of the number of workers, for the history. */
export interface Change {
  /** When. */
  at: Timestamp;
  /** Workers before. */
  from: number;
  /** Why, in words. */
  reason: string;
  /** Workers after. */
  to: number;
}

/** A task that was not taken. */
export interface Conflict {
  /** The task that has its unique key. */
  first: TaskId;
  /** The task. */
  task: TaskId;
}

/** What a pool costs. Money is in the unit of the prices. */
export interface Costs {
  /** The energy so far in kilowatt hours; nothing where no type states watts. */
  energy_kwh: number | null;
  /** What a fleet that is always at the maximum would have cost. */
  fixed_total: number;
  /** What a fleet by the rules of Kubernetes with a target of 70 % would have cost. */
  hpa_total: number;
  /** What they have cost in this month of 30 days. */
  month: number;
  /** What the workers that are there cost per hour. */
  per_hour: number;
  /** Since when it is counted. */
  since: Timestamp;
  /** What they have cost so far. */
  total: number;
}

/** A token, told once with its secret. */
export interface CreatedToken {
  /** When it was made. */
  created_at: Timestamp;
  /** From when on it is refused; never, if nothing is said. */
  expires_at?: Timestamp | null;
  /** When it was shown last since the server started. */
  last_used_at?: Timestamp | null;
  /** What people call it. */
  name: string;
  /** What it allows. */
  scopes: Scopes;
  /** What callers show. It is not kept and cannot be told again. */
  secret: string;
}

/** A group of dead letters with alike errors. */
export interface DeadGroup {
  /** The sort of error. */
  class: ErrorClass;
  /** How many. */
  count: number;
  /** The error with numbers and ids blanked out. */
  error: string;
  /** When the first of them died. */
  first: Timestamp;
  /** The kind. */
  kind: string;
  /** When the last of them died. */
  last: Timestamp;
  /** One of them. */
  sample: TaskId;
  /** How many died in each of 24 equal parts of the time from the first to the last letter of all groups that were found with this one. */
  trend?: Array<number>;
}

/** Which dead letters, by id or by a filter, and how. At least one part must be given; several parts must all fit. */
export interface DeadSelection {
  /** All of them; must be said, so that an empty request does nothing. */
  all?: boolean;
  /** Only if the last error is of this class. */
  class?: ErrorClass | null;
  /** Only count. */
  dry_run?: boolean;
  /** Only ended at this time or later. */
  ended_since?: Timestamp | null;
  /** Only ended before this time. */
  ended_until?: Timestamp | null;
  /** Only if the last error contains this text, as it is or with `#` for its numbers, as groups of dead letters show it. */
  error?: string | null;
  /** Only these, by id or the beginning of one. */
  ids?: Array<string> | null;
  /** Only this kind; a trailing `*` matches any rest. */
  kind?: string | null;
  /** Only ended so long ago, or submitted if it is open. */
  older_than_ms?: number | null;
  /** Replays only: another payload, for one task. */
  payload?: Payload | null;
  /** Only in this queue. */
  queue?: string | null;
  /** Replays only: how fast, such as `10/s`; all at once unless given. */
  rate?: Rate | null;
  /** Only submitted at this time or later. */
  since?: Timestamp | null;
  /** Only in one of these states. */
  state?: Array<TaskState>;
  /** Only with this tag. */
  tag?: string | null;
  /** Only submitted before this time. */
  until?: Timestamp | null;
  /** Only what this worker runs or was the last to run. */
  worker?: string | null;
  /** Only of one of these workflows. */
  workflow?: Array<WorkflowId>;
  /** Only of workflows with this name; a trailing `*` matches any rest. */
  workflow_name?: string | null;
}

/** An edge to a task that must settle before this one may run. In JSON either an id, or an object with `task` and `optional`. */
export interface Dependency {
  /** Whether to run even if that task fails. A failed required dependency cancels its dependents. */
  optional?: boolean;
  /** The task to wait for, together with the children that it spawns. */
  task: TaskId;
}

export interface DependencyFields {
  optional?: boolean;
  task: TaskId;
}

/** An edge to a task that must settle before this one may run. In JSON either an id, or an object with `task` and `optional`. */
export type DependencyInput = TaskId | DependencyFields;

/** Waiting tasks that are due by a time. */
export interface Due {
  /** By when. */
  at: Timestamp;
  /** How many. */
  tasks: number;
}

/** The sorts of errors that people tell apart. */
export type ErrorClass = "failed" | "timeout" | "crashed" | "worker_lost" | "cancelled";

/** An experiment. */
export interface Experiment {
  /** The name by which it is run. */
  name: string;
  /** What it looks at, in one line. */
  summary: string;
  /** Where its times come from. */
  timing: LabTiming;
}

/** Why a pool has as many workers as it has. */
export interface Explanation {
  /** What each policy would want now, before bounds, paces and budgets. */
  answers: Array<Answer>;
  /** When the sample was taken that it speaks of. */
  at: Timestamp;
  /** What kept it from more or fewer, if anything did. */
  bound: Bound | null;
  /** What it costs. */
  costs: Costs;
  /** Whether the fleet goes up and down again and again. */
  flapping: Flapping | null;
  /** The forecasters. */
  forecast: ForecastView;
  /** What the pool is to reach, in words. */
  goal: string;
  /** What cannot be reached with these settings, and the cheapest that would do. */
  impossible: Array<Impossible>;
  /** The inputs as they were understood. */
  inputs: Inputs;
  /** The policy that decides. */
  policy: Policy;
  /** What was decided. */
  wanted: Record<string, number>;
  /** All of it in sentences, the most important first. */
  words: Array<string>;
}

/** What fair keys share. */
export type FairBy = "tasks" | "time";

/** A fleet that goes up and down again and again. */
export interface Flapping {
  /** The most. */
  high: number;
  /** The fewest workers meanwhile. */
  low: number;
  /** When the first of the turns was. */
  since: Timestamp;
  /** How often it turned from up to down or back. */
  turns: number;
  /** The same in words, with the cure. */
  words: string;
}

/** Workers of one type. */
export interface Fleet {
  /** Workers that end what they run and then leave; they can be called back. */
  draining: number;
  /** Of those that run: spot workers that were told that they will be taken away. */
  leaving: number;
  /** Workers that take tasks. */
  running: number;
  /** Workers that were asked for and do not take tasks yet. */
  starting: number;
}

/** What is expected at one time, in seconds of work per second. */
export interface ForecastPoint {
  /** When. */
  at: Timestamp;
  /** More is expected in one of ten cases. */
  high: number;
  /** Less is expected in one of ten cases. */
  low: number;
  /** The mean. */
  rate: number;
}

/** The forecasters and how well each did. */
export interface ForecastView {
  /** What it expects in the next two hours, in steps of five minutes; nothing before one has earned trust. */
  ahead?: Array<ForecastPoint>;
  /** The most work that it expects until a new worker would be there, in seconds per second. */
  expects: number | null;
  /** Each with its recent error. */
  forecasters: Array<ForecasterView>;
  /** The one that is believed; none before one has earned it. */
  trusted: string | null;
}

/** One forecaster. */
export interface ForecasterView {
  /** Its recent mean pinball loss, as a share of the load; nothing before it was tried. */
  error: number | null;
  /** Its name. */
  name: string;
  /** How many of its forecasts were compared with what came. */
  tried: number;
}

export type Goal = string;

/** One task comes after another. */
export interface GraphEdge {
  /** The earlier one. */
  from: TaskId;
  /** Whether the later one runs even if the earlier one fails. */
  optional: boolean;
  /** Whether the earlier one brought the later one into being, instead of being waited for. */
  spawned: boolean;
  /** The later one. */
  to: TaskId;
}

/** A group of a workflow. */
export interface GraphGroup {
  /** How many are where. */
  by_state: WorkflowCounts;
  /** Its name. */
  name: string;
  /** Its members. */
  total: number;
}

/** A task of a workflow. */
export interface GraphNode {
  /** Attempts that were begun and counted; nothing once it has ended. */
  attempt: number | null;
  /** When it ended. */
  ended: Timestamp | null;
  /** What went wrong, or why it was cancelled. */
  error: string | null;
  /** The group that it is in. */
  group: string | null;
  /** Its id. */
  id: TaskId;
  /** Its kind. */
  kind: string;
  /** What to call it: its first tag, or its kind. */
  name: string;
  /** What it is to the workflow. */
  role: WorkflowRole;
  /** When its last attempt began; nothing if none has, or if it ended before the last start of the server. */
  started: Timestamp | null;
  /** Where it is. */
  state: TaskState;
  /** When it was submitted. */
  submitted: Timestamp;
  /** Why it does not run, in words. */
  wait_reason: string | null;
  /** Who runs it. */
  worker: string | null;
}

/** An edge to all tasks of a group, whenever they come: while one of them has not settled, this one does not run. In JSON either the name of the group, or an object with `group` and `optional`. */
export interface GroupDependency {
  /** The group of the task's own workflow. */
  group: string;
  /** Whether to run even if tasks of the group fail. A failed one cancels whoever requires the group. */
  optional?: boolean;
}

/** An edge to all tasks of a group, whenever they come: while one of them has not settled, this one does not run. In JSON either the name of the group, or an object with `group` and `optional`. */
export type GroupDependencyInput = string | GroupFields;

export interface GroupFields {
  group: string;
  optional?: boolean;
}

/** How a server or one of its queues stood over a time, in equal steps. */
export interface History {
  /** When the first step begins. */
  from: Timestamp;
  /** The queue, if only one was asked for. */
  queue?: string | null;
  /** The figures of each step. */
  series: Series;
  /** The length of a step. */
  step_ms: number;
}

/** Something that the settings make impossible. */
export interface Impossible {
  /** The cheapest that would do. */
  cheapest: string;
  /** What is out of reach, and why. */
  problem: string;
}

/** The inputs of a decision as they were understood. Work is in seconds on one slot of speed 1, so a capacity of 8 does 8 seconds of work each second. */
export interface Inputs {
  /** Work that waits, in seconds. */
  backlog_sec: number;
  /** The time from asking for a worker until it takes tasks, in seconds. */
  boot_sec: number;
  /** Capacity of the workers that take tasks and will stay. */
  capacity: number;
  /** By kind. */
  kinds: Record<string, KindInputs>;
  /** Over how many seconds that was measured. */
  measured_sec: number;
  /** Capacity of the workers that are starting. */
  starting: number;
  /** How much of the workers is used, from 0 to 1; processors where that is known, else slots. */
  used: number;
  /** Work that arrives, in seconds per second. */
  work_rate: number;
}

/** What was understood of one kind. */
export interface KindInputs {
  /** Tasks that arrive per second. */
  per_second: number;
  /** Whether that was measured; else it is a guess from the goal. */
  run_known: boolean;
  /** How long one is taken to run, in seconds. */
  run_sec: number;
  /** Tasks that run. */
  running: number;
  /** Tasks that wait. */
  waiting: number;
}

/** What there is of one kind. */
export interface KindLoad {
  /** Tasks that became ready since the sample before. */
  arrived: number;
  /** Waiting tasks with a deadline, by rising deadline, in at most a few dozen steps. */
  due: Array<Due>;
  /** Tasks that ended since the sample before. */
  ended: number;
  /** How long the one that waits longest has waited, in seconds. */
  oldest_sec: number;
  /** The 95th percentile of the run time, likewise. */
  run_p95_sec: number | null;
  /** The mean run time of a task, in seconds on a worker of speed 1; nothing before one has ended. */
  run_sec: number | null;
  /** Tasks that run. */
  running: number;
  /** Tasks that are ready and wait. */
  waiting: number;
}

/** A kind of tasks: who runs it, and what there is of it. */
export interface KindStatus {
  /** What it is called. */
  name: string;
  /** How long they run on average, in milliseconds; nothing before one has ended. */
  run_mean_ms?: number | null;
  /** What 95 of 100 of them stay below, in milliseconds. */
  run_p95_ms?: number | null;
  /** Tasks that run. */
  running: number;
  /** Tasks of it that they run at once, if they run nothing else. */
  slots: number;
  /** Ready tasks that wait for a slot. */
  waiting: number;
  /** Connected workers that run it. */
  workers: number;
}

/** A cell of a table: a number, words, or nothing. */
export type LabCell = number | string | null;

/** What the cells of a column are. */
export type LabCellKind = "text" | {
    number: {
    /** Decimals. */
    precision: number;
  };
  };

/** A drawn chart. */
export interface LabChart {
  /** How to read it; may be empty. */
  note: string;
  /** An SVG element, whose colours are classes. */
  svg: string;
  /** What it shows. */
  title: string;
}

/** A column. */
export interface LabColumn {
  /** What its cells are. */
  kind: LabCellKind;
  /** Its name. */
  name: string;
  /** The unit of its numbers; may be empty. */
  unit: string;
}

/** One thing that an experiment ran with. */
export interface LabParameter {
  /** Its name. */
  name: string;
  /** Its value. */
  value: LabCell;
}

/** What an experiment found; `C` is a chart: its data, or its [`Drawing`]. */
export interface LabReport {
  /** Its drawings. */
  charts: Array<LabChart>;
  /** What the figures of this run say. */
  findings: Array<string>;
  /** What to take from it. */
  lessons: Array<string>;
  /** The name of the experiment. */
  name: string;
  /** What it ran with. */
  parameters: Array<LabParameter>;
  /** What it shows, in plain words. */
  shows: string;
  /** Its figures. */
  tables: Array<LabTable>;
  /** Its title. */
  title: string;
  /** Targets and whether this run met them. */
  verdicts: Array<LabVerdict>;
}

/** A run of an experiment or a plan. */
export interface LabRun {
  /** Parts that are done. */
  done: number;
  /** Why it failed. */
  error: string | null;
  /** Its id. */
  id: string;
  /** The experiment, or `plan`. */
  name: string;
  /** What it found, when it is done. Left out of lists. */
  report: LabReport | null;
  /** How it stands. */
  state: LabRunState;
  /** Parts in all; 0 before that is known. */
  total: number;
  /** What is done now. */
  what: string | null;
}

/** How a run stands. */
export type LabRunState = "running" | "done" | "failed" | "stopped";

/** A table with a caption. */
export interface LabTable {
  /** What it lists. */
  caption: string;
  /** What each column holds. */
  columns: Array<LabColumn>;
  /** The rows; each has a cell per column. */
  rows: Array<Array<LabCell>>;
}

/** Where the times of an experiment come from. */
export type LabTiming = "simulated" | "measured";

/** A target and what was measured. */
export interface LabVerdict {
  /** What was found. */
  measured: string;
  /** Whether the one meets the other. */
  met: boolean;
  /** What is wanted. */
  target: string;
  /** What is measured. */
  what: string;
}

/** A task that is expected to be done after its deadline. */
export interface Late {
  /** When it should be done. */
  deadline: Timestamp;
  /** When it is expected to be done, as things stood when it was submitted. */
  expected_end: Timestamp;
  /** The task. */
  task: TaskId;
}

/** A task that was not treated. */
export interface Left {
  /** The task. */
  task: TaskId;
  /** Why not, in words. */
  why: string;
}

/** A limit that tasks name: how often they may start, and how many may run at once. */
export interface Limit {
  /** Starts that may come at once after a pause; by default what the rate gives in a second, at least 1. */
  burst?: number | null;
  /** Tasks that may run at once, per key. */
  concurrency?: number | null;
  /** Starts per time and key, such as `10/s`, `100/m`, `5000/h`. */
  rate?: Rate | null;
  /** Tasks that may run at once, over all keys together. */
  total_concurrency?: number | null;
  /** Starts per time, over all keys together. */
  total_rate?: Rate | null;
}

/** A limit and how full it is. */
export interface LimitStatus {
  /** Keys that are in use. */
  keys: number;
  /** The level of each key, those that keep most first; the first ones of many. */
  levels: Array<LimitView>;
  /** What is set. */
  limit: Limit;
  /** Its name. */
  name: string;
  /** Tasks that run under it, over all keys. */
  running: number;
  /** Ready tasks that it keeps, over all keys. */
  waiting: number;
}

/** How full a limit is: one of its keys, or the total over all of them. */
export interface LimitView {
  /** Tasks that may run under it at once. */
  concurrency?: number | null;
  /** The key; nothing for tasks that give none, `*` for the total over all keys. */
  key?: string | null;
  /** The limit. */
  name: string;
  /** When its rate lets the next one start, if not now. */
  next_at?: Timestamp | null;
  /** Tasks that run under it. */
  running: number;
  /** Starts that its rate allows now. */
  tokens?: number | null;
  /** Ready tasks that it keeps. */
  waiting: number;
}

/** How tasks get to workers and move between them. */
export interface LoadBalancing {
  /** How workers are matched to needs. */
  capabilities: Capabilities;
  /** What high priority means. */
  priority: PriorityRules;
  /** How much else counts when a worker is chosen. */
  scores: Scores;
  /** Which ways of moving tasks are used. */
  strategy: Strategy;
  /** What counts as busy, idle and unbalanced. */
  thresholds: Thresholds;
  /** How tasks are stolen. */
  work_stealing: WorkStealing;
}

/** How tasks get to workers and move between them. */
export interface LoadBalancingInput {
  /** How workers are matched to needs. */
  capabilities?: CapabilitiesInput;
  /** What high priority means. */
  priority?: PriorityRulesInput;
  /** How much else counts when a worker is chosen. */
  scores?: ScoresInput;
  /** Which ways of moving tasks are used. */
  strategy?: Strategy;
  /** What counts as busy, idle and unbalanced. */
  thresholds?: ThresholdsInput;
  /** How tasks are stolen. */
  work_stealing?: WorkStealingInput;
}

/** The load at one moment. */
export interface LoadSample {
  /** When. */
  at: Timestamp;
  /** Dead letters since the start of the server. */
  dead: number;
  /** The queue of each worker; of many workers, the longest queues. */
  queue_lengths: Record<string, number>;
  /** Tasks that waited for a worker. */
  ready: number;
  /** How much of all slots was in use, from 0 to 1. */
  utilisation: number;
}

/** How the load is spread. */
export interface LoadView {
  /** Connected workers. */
  agent_count: number;
  /** The mean wait of a task from ready to granted, in seconds, since the start. */
  avg_task_wait_time: number;
  /** Workers above the busy threshold. */
  busy_agents: number;
  /** Those that it had begun already. */
  failed_steals: number;
  /** Workers below the idle threshold. */
  idle_agents: number;
  /** The variance of the workers' queue lengths. */
  queue_variance: number;
  /** Looks at which the scheduler moved something. */
  rebalance_cycles: number;
  /** The last half hour in which workers said something, oldest first. */
  samples: Array<LoadSample>;
  /** `successful_steals` over those that were answered; 1 before the first. */
  success_rate: number;
  /** Those that it gave back. */
  successful_steals: number;
  /** Tasks that another worker got after they were given back. */
  tasks_migrated: number;
  /** Tasks that wait for a worker or in a worker's queue. */
  total_queued: number;
  /** Tasks that were asked back from a worker. */
  total_steals: number;
  /** How much of all slots is in use, from 0 to 1. */
  utilisation: number;
  /** Every worker. */
  workers: Array<WorkerLoad>;
}

/** What to do when no worker has all that a task needs. */
export type Matching = "exact" | "best_fit" | "fallback";

/** A task that a rebalance would move. */
export interface Move {
  /** Who has it. */
  from: string;
  /** Its kind. */
  kind: string;
  /** The task. */
  task: TaskId;
  /** Who would get it. */
  to: string;
}

/** Where a task is after something was done to it. */
export interface MovedTask {
  id: TaskId;
  state: TaskState;
}

/** For how long nobody is told of an alert. */
export interface NewSilence {
  /** In seconds; a month at most. */
  for_sec: number;
}

/** One unit of work. What most tasks leave alone is in its [`Terms`], whose fields are read and set like its own. */
export interface NewTask {
  /** Tasks with the same key run on the same worker where that costs no waiting. */
  affinity?: string | null;
  /** Tasks that must settle first. */
  after?: Array<DependencyInput>;
  /** Groups of its workflow of which every task must settle first. */
  after_groups?: Array<GroupDependencyInput>;
  /** How large it is, in any unit that grows with its run time (bytes, frames); makes estimates better. */
  cost_hint?: number | null;
  /** When it should be done: of tasks with equal priority, the one with the least time to spare goes first. */
  deadline?: Timestamp | null;
  /** Whose share of its queue it uses. */
  fair_key?: string | null;
  /** The group of that workflow that it belongs to. */
  group?: string | null;
  id?: TaskId | null;
  /** Which handler runs it, such as `video.probe`. */
  kind: string;
  /** Limits that it runs under: `name` or `name/key`; `{field}` in a key stands for that field of the payload. */
  limits?: Array<string>;
  /** What to do when no worker has all of that; the server's setting unless given. */
  matching?: Matching | null;
  /** What the worker must have: `gpu`, `region=eu`, `memory_gb>=16`; see [`crate::need`]. */
  needs?: Array<string>;
  /** What the handler gets. */
  payload?: Payload;
  priority?: number | null;
  queue?: string | null;
  /** What happens after a failed attempt. */
  retry?: RetryPolicyInput;
  /** Not before this time. */
  run_at?: Timestamp | null;
  /** Labels to find it by. They change nothing about when and where it runs. */
  tags?: Array<string>;
  /** How long one attempt may take, in milliseconds. */
  timeout_ms?: number | null;
  /** Only one such task at a time, or within a window. */
  unique?: UniqueInput | null;
  /** The workflow that it belongs to. */
  workflow?: WorkflowInput | null;
}

/** A batch as it is sent. */
export interface NewTasks {
  tasks: Array<NewTask>;
}

/** What is asked for. */
export interface NewToken {
  /** From when on it is refused; never, if nothing is said. */
  expires_at?: Timestamp | null;
  /** What people call it. */
  name: string;
  /** What it allows. */
  scopes: Scopes;
}

/** An empty object: the body of an action that needs no more words. */
export type NoFields = Record<string, unknown>;

/** What becomes of a second task with a unique key. */
export type OnConflict = "skip" | "replace" | "refuse";

/** Whose turn it is. */
export interface Ordering {
  /** How much waiting makes up for one step of priority, in seconds. */
  ageing_sec: number;
  /** A task without a deadline counts as if it had one so many seconds after it became ready. */
  patience_sec: number;
}

/** Whose turn it is. */
export interface OrderingInput {
  /** How much waiting makes up for one step of priority, in seconds. */
  ageing_sec?: number;
  /** A task without a deadline counts as if it had one so many seconds after it became ready. */
  patience_sec?: number;
}

/** What becomes of a tick while the task of the last one is open. */
export type Overlap = "allow" | "skip";

/** How a server stands, in the numbers that are looked at first. */
export interface Overview {
  /** Rules about the health of the server that are broken now: alerts that fire, and those that are pending because it has not been so for long enough. */
  alerts: Array<Alert>;
  /** What the workers of all pools cost in an hour; nothing if no pool has a price. */
  cost_per_hour: number | null;
  /** Dead letters that are kept. */
  dead: number;
  /** Tasks that were done in the last minute. */
  done_per_min: number;
  /** The share of attempts that failed, of those that ended in the last five minutes, from 0 to 1; 0 if none ended. */
  failed_share: number;
  /** How long the oldest task that waits for a worker has done so; nothing if none does. */
  oldest_wait_ms: number | null;
  /** Tasks that run. */
  running: number;
  /** Tasks that all connected workers together run at once. */
  slots: number;
  /** How many tasks are kept in each state. */
  states: Record<string, number>;
  /** The time by the server's clock. */
  time: Timestamp;
  /** Tasks that wait for a slot: for a worker, or at their worker. */
  waiting: number;
  /** Connected workers. */
  workers: number;
  /** Workers that all pools together want; nothing without pools. */
  workers_wanted: number | null;
}

/** A page of a list, and where the next one starts. */
export interface Page {
  /** The rows. */
  items: Array<TaskSummary>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page10 {
  /** The rows. */
  items: Array<LimitStatus>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page11 {
  /** The rows. */
  items: Array<Experiment>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page12 {
  /** The rows. */
  items: Array<LabRun>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page13 {
  /** The rows. */
  items: Array<TokenView>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page2 {
  /** The rows. */
  items: Array<DeadGroup>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page3 {
  /** The rows. */
  items: Array<WorkflowSummary>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page4 {
  /** The rows. */
  items: Array<QueueStatus>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page5 {
  /** The rows. */
  items: Array<KindStatus>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page6 {
  /** The rows. */
  items: Array<ScheduleView>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page7 {
  /** The rows. */
  items: Array<WorkerView>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page8 {
  /** The rows. */
  items: Array<PoolStatus>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** A page of a list, and where the next one starts. */
export interface Page9 {
  /** The rows. */
  items: Array<Change>;
  /** Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is at least one more row. */
  next?: string | null;
  /** Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none. */
  partial?: boolean;
}

/** What became of a pause or resume. */
export interface PausedQueue {
  name: string;
  paused: boolean;
}

/** Any JSON. Bytes are written as an object with `content_type` and `base64`. */
export type Payload = unknown;

/** Which side waited for the other. */
export type PlacedBy = "turn" | "score";

/** How a worker was chosen. */
export interface Placement {
  /** When. */
  at: Timestamp;
  /** Whether the worker had a place free and the task was the next for it, or the task came and this worker had the best score. */
  by: PlacedBy;
  /** Who else was compared, best first. */
  compared?: Array<Scored>;
  /** Who was chosen. */
  worker: string;
}

/** How many lost workers make a task a dead letter. */
export type PoisonAfter = number;

/** How the number of workers is found. */
export type Policy = "objective" | "queue" | "predictive" | "target" | "reactive" | "hpa" | "fixed";

/** Why a pool has as many workers as it has. */
export interface PoolExplained {
  /** How the decision came about; nothing before the first sample. */
  explanation: Explanation | null;
  /** What else is to be known of how it counts, in words. */
  notes: Array<string>;
  /** What was seen last. */
  sample: Sample;
  /** The pool. */
  status: PoolStatus;
  /** Its workers. */
  workers: Array<PoolWorker>;
}

/** How many workers to hold. */
export interface PoolSize {
  /** So many, from the minimum to the maximum of the pool; nothing lets the pool decide again. */
  workers?: number | null;
}

/** A pool at one moment. */
export interface PoolStatus {
  /** What kept it from more or fewer, if anything did. */
  bound: Bound | null;
  /** What it costs. */
  costs: Costs;
  /** When it was decided how many are wanted. */
  decided_at: Timestamp;
  /** Workers that end what they run and then leave. */
  draining: number;
  /** Who starts and stops its workers: `local`, `print`, `exec` or `kubernetes`. */
  driver: string;
  /** What is to be reached. */
  goal: Goal;
  /** Workers that there are at most. */
  max: number;
  /** Workers that are always there. */
  min: number;
  /** Its name. */
  name: string;
  /** Whether the scaling is paused. */
  paused: boolean;
  /** How the number of workers is found. */
  policy: Policy;
  /** What is wrong with its driver or its goal, if anything is. */
  problem: string | null;
  /** Why so many, in words. */
  reason: string;
  /** Workers that take tasks. */
  running: number;
  /** The number that was set by hand. */
  set: number | null;
  /** Workers that were asked for and do not take tasks yet. */
  starting: number;
  /** Tasks that run which the pool can run. */
  tasks_running: number;
  /** Tasks that wait which the pool can run. */
  tasks_waiting: number;
  /** Workers that are wanted, by type. */
  wanted: Record<string, number>;
}

/** A connected worker of a pool. */
export interface PoolWorker {
  /** Affinity keys whose last task it had. */
  affinity_keys: number;
  /** Whether it takes no more tasks. */
  draining: boolean;
  /** Its name. */
  name: string;
  /** Tasks that wait at it. */
  queued: number;
  /** Tasks that it runs. */
  running: number;
  /** Its type. */
  worker_type: string;
}

/** What high priority means. */
export interface PriorityRules {
  /** From this priority on it is high. */
  high_priority_threshold: number;
  /** Whether tasks of high priority are never stolen. */
  preserve_high_priority: boolean;
}

/** What high priority means. */
export interface PriorityRulesInput {
  /** From this priority on it is high. */
  high_priority_threshold?: number;
  /** Whether tasks of high priority are never stolen. */
  preserve_high_priority?: boolean;
}

/** How far a running task is. */
export interface Progress {
  /** Units done. */
  done: number;
  /** What it does at the moment. */
  message?: string;
  /** Units in all; 0 if not known. */
  total: number;
}

/** What is special about a queue. */
export interface QueueSettingsInput {
  /** What fair keys share in it. */
  fair_by?: FairBy;
  /** Weights of fair keys; 1 for those that are not listed. */
  fair_weights?: Record<string, unknown>;
  /** Its share against other queues; 1 for those that have none. If no queue has one, queues are served by age. */
  weight?: number | null;
}

/** A queue and what is set about it. */
export interface QueueStatus {
  /** Tasks that wait for dependencies. */
  blocked: number;
  /** What fair keys share in it. */
  fair_by: FairBy;
  /** Weights of fair keys. */
  fair_weights?: Record<string, number>;
  /** Tasks that workers have: they run, or are `queued`. */
  leased: number;
  /** Its name. */
  name: string;
  /** How long the oldest ready task has waited. */
  oldest_ready_ms?: number | null;
  /** Whether it is paused. */
  paused: boolean;
  /** Of these, tasks that wait at their worker for a free slot. */
  queued: number;
  /** Tasks that wait for a worker. */
  ready: number;
  /** How many of the ready tasks have each priority, from the lowest on; nothing if none is ready. */
  ready_by_priority?: Array<number>;
  /** Tasks that wait for a time. */
  scheduled: number;
  /** Its share against other queues with a weight. */
  weight?: number | null;
}

/** So many per second, minute, hour or day, such as 10/s. */
export type Rate = string;

/** What a rebalance moved, or would move. */
export interface Rebalance {
  /** Whether nothing was done. */
  dry_run: boolean;
  /** What is moved. */
  moves: Array<Move>;
}

/** A tick whose task was refused. */
export interface RefusedTick {
  /** Which tick. */
  at: Timestamp;
  /** What was wrong with the task. */
  problem: string;
}

/** What became of a removal. */
export interface RemovedLimit {
  name: string;
  removed: boolean;
}

/** What became of a removal. */
export interface RemovedSchedule {
  name: string;
  removed: boolean;
}

/** Which priority a task shall have. */
export interface ReprioritiseTask {
  priority: number;
}

/** What shall be put back. */
export interface ResumeWorkflow {
  include_cancelled?: boolean;
}

/** What became of a resume. */
export interface ResumedWorkflow {
  /** Tasks that were put back to wait for its end. */
  callbacks: number;
  /** The workflow. */
  id: WorkflowId;
  /** Members that have failed and stay so: people cancelled them, they depend on one that stays failed, or there were too many for one resume. */
  left: number;
  /** Members that were put back. */
  resumed: number;
}

/** Retries with exponential backoff: `base_ms`, doubled each time up to `cap_ms`, each wait spread by `jitter`. */
export interface RetryPolicy {
  /** The first wait, in milliseconds. */
  base_ms: number;
  /** The longest wait, in milliseconds. */
  cap_ms: number;
  /** How far a wait may be spread around its value, in percent of it. */
  jitter_percent: number;
  /** Attempts after the first; 0 means that the first failure is final. */
  limit: number;
  /** Errors that are treated otherwise; the first rule that fits holds. */
  rules?: Array<RetryRule>;
}

/** Retries with exponential backoff: `base_ms`, doubled each time up to `cap_ms`, each wait spread by `jitter`. */
export interface RetryPolicyInput {
  /** The first wait, in milliseconds. */
  base_ms?: number;
  /** The longest wait, in milliseconds. */
  cap_ms?: number;
  /** How far a wait may be spread around its value, in percent of it. */
  jitter_percent?: number;
  /** Attempts after the first; 0 means that the first failure is final. */
  limit?: number;
  /** Errors that are treated otherwise; the first rule that fits holds. */
  rules?: Array<RetryRule>;
}

/** How one sort of error is treated. What it leaves out is as in the policy. */
export interface RetryRule {
  /** The first wait, in milliseconds. */
  base_ms?: number | null;
  /** The longest wait, in milliseconds. */
  cap_ms?: number | null;
  /** Only errors of this class. */
  class?: ErrorClass | null;
  /** Only errors whose message contains this. */
  contains?: string | null;
  /** Attempts after the first; 0 makes such an error final. */
  limit?: number | null;
}

/** How an experiment is run. */
export interface RunExperiment {
  /** Whether a rough answer in seconds is wanted rather than a firm one. */
  quick?: boolean;
  /** Where all chance comes from. */
  seed?: number;
}

/** What is planned. */
export interface RunPlan {
  /** Days to simulate, instead of those of the plan. */
  days?: number | null;
  /** The plan, as it stands in a file: YAML or JSON. It cannot name other files. */
  plan: string;
  /** Seeds to try, instead of those of the plan. */
  seeds?: number | null;
}

/** What was seen of a pool. */
export interface Sample {
  /** When. */
  at: Timestamp;
  /** Slots that run a task. */
  busy_slots: number;
  /** How busy the processors of the workers are, from 0 to 1, where that is known. */
  cpu: number | null;
  /** Who works, by type of worker. */
  fleet: Record<string, Fleet>;
  /** What there is of each kind that the pool can run. */
  kinds: Record<string, KindLoad>;
  /** How full their memory is, from 0 to 1, where that is known. */
  memory: number | null;
  /** The 95th percentile of answer times in seconds, for such pools. */
  p95_sec: number | null;
  /** Requests per second. They are work for pools that serve requests rather than tasks; where there are `kinds`, only told. */
  requests_per_second: number | null;
}

/** A task that is submitted at every tick of a calendar. */
export interface Schedule {
  /** What becomes of ticks that were missed. */
  catch_up: CatchUp;
  /** When: a cron expression, a macro such as `@daily`, or `@every 90s`. */
  cron: string;
  /** No tick after this time. */
  end?: Timestamp | null;
  /** Each task comes up to so many milliseconds after its tick, always the same for the same tick, so that many schedules of one time do not come at once. */
  jitter_ms?: number;
  /** What becomes of a tick while the task of the last one is open. */
  overlap: Overlap;
  /** Whether it rests. Not given, a schedule that is set again stays as it was. */
  paused?: boolean | null;
  /** No tick before this time. */
  start?: Timestamp | null;
  /** What is submitted. */
  task: Template;
  /** On the clocks of which IANA time zone. */
  zone: string;
}

/** A task that is submitted at every tick of a calendar. */
export interface ScheduleInput {
  /** What becomes of ticks that were missed. */
  catch_up?: CatchUp;
  /** When: a cron expression, a macro such as `@daily`, or `@every 90s`. */
  cron: string;
  /** No tick after this time. */
  end?: Timestamp | null;
  /** Each task comes up to so many milliseconds after its tick, always the same for the same tick, so that many schedules of one time do not come at once. */
  jitter_ms?: number;
  /** What becomes of a tick while the task of the last one is open. */
  overlap?: Overlap;
  /** Whether it rests. Not given, a schedule that is set again stays as it was. */
  paused?: boolean | null;
  /** No tick before this time. */
  start?: Timestamp | null;
  /** What is submitted. */
  task: TemplateInput;
  /** On the clocks of which IANA time zone. */
  zone?: string;
}

/** When a schedule would tick. */
export interface SchedulePreview {
  /** The next ticks; none after its end. */
  next: Array<Tick>;
  /** When it would tick, in words. */
  words: string;
}

/** What people see of a schedule. */
export interface ScheduleView {
  /** The task that it submitted last. */
  last_task?: TaskId | null;
  /** Its name. */
  name: string;
  /** The next ticks; none while it is paused or after its end. */
  next: Array<Tick>;
  /** Why its last tick submitted no task, if that was refused. */
  refused?: RefusedTick | null;
  /** What was said about it. */
  schedule: Schedule;
  /** When it was set. */
  set_at: Timestamp;
  /** Up to when its ticks have been dealt with. */
  upto: Timestamp;
  /** When it ticks, in words. */
  words: string;
}

/** One thing that a caller may do. */
export type Scope = "read" | "submit" | "work" | "admin";

export type Scopes = Array<Scope>;

/** One term of a score. */
export interface ScoreTerm {
  /** Its name, such as `skill_match`. */
  name: string;
  /** What it adds. */
  value: number;
}

/** A worker and its score at the time. */
export interface Scored {
  /** The score. */
  score: number;
  /** The worker. */
  worker: string;
}

/** How much else counts when a worker is chosen; 0 leaves a term out. */
export interface Scores {
  /** That the worker ran tasks with the same affinity key. */
  affinity: number;
  /** What it costs there: capabilities `price_hour` and `speed`. */
  cost: number;
  /** What energy it takes there: capabilities `watts_busy`, `watts_idle` and `speed`. */
  energy: number;
  /** How long it is expected to take there, against the fastest. */
  run_time: number;
}

/** How much else counts when a worker is chosen; 0 leaves a term out. */
export interface ScoresInput {
  /** That the worker ran tasks with the same affinity key. */
  affinity?: number;
  /** What it costs there: capabilities `price_hour` and `speed`. */
  cost?: number;
  /** What energy it takes there: capabilities `watts_busy`, `watts_idle` and `speed`. */
  energy?: number;
  /** How long it is expected to take there, against the fastest. */
  run_time?: number;
}

/** Which tasks; a part that is absent fits all. */
export interface Select {
  /** Only if the last error is of this class. */
  class?: ErrorClass | null;
  /** Only ended at this time or later. */
  ended_since?: Timestamp | null;
  /** Only ended before this time. */
  ended_until?: Timestamp | null;
  /** Only if the last error contains this text, as it is or with `#` for its numbers, as groups of dead letters show it. */
  error?: string | null;
  /** Only this kind; a trailing `*` matches any rest. */
  kind?: string | null;
  /** Only ended so long ago, or submitted if it is open. */
  older_than_ms?: number | null;
  /** Only in this queue. */
  queue?: string | null;
  /** Only submitted at this time or later. */
  since?: Timestamp | null;
  /** Only in one of these states. */
  state?: Array<TaskState>;
  /** Only with this tag. */
  tag?: string | null;
  /** Only submitted before this time. */
  until?: Timestamp | null;
  /** Only what this worker runs or was the last to run. */
  worker?: string | null;
  /** Only of one of these workflows. */
  workflow?: Array<WorkflowId>;
  /** Only of workflows with this name; a trailing `*` matches any rest. */
  workflow_name?: string | null;
}

/** Figures of equal steps, oldest first; nothing where nothing is known, because the server did not run. */
export interface Series {
  /** Tasks done, per minute. */
  done: Array<number | null>;
  /** Tasks that failed for good, per minute. */
  failed: Array<number | null>;
  /** Attempts that failed and are tried again, per minute. */
  retried: Array<number | null>;
  /** Tasks that ran. */
  running: Array<number | null>;
  /** Tasks accepted, per minute. */
  submitted: Array<number | null>;
  /** What half of the tasks that were given to workers had waited at most; nothing if none was. */
  wait_p50_ms: Array<number | null>;
  /** The same for 95 of 100. */
  wait_p95_ms: Array<number | null>;
  /** The same for 99 of 100. */
  wait_p99_ms: Array<number | null>;
  /** Tasks that waited for a slot, at the end of the step. */
  waiting: Array<number | null>;
  /** Connected workers; of a queue, nothing. */
  workers: Array<number | null>;
}

/** All settings of scheduling. */
export interface Settings {
  /** What is special about a kind, by its name. */
  kinds?: Record<string, unknown>;
  /** Limits by name. */
  limits?: Record<string, unknown>;
  /** How tasks get to workers and move between them. */
  load_balancing: LoadBalancing;
  /** Whose turn it is. */
  ordering: Ordering;
  /** A task that was lost with so many different workers while it ran is a dead letter, whatever its retries. */
  poison_after: PoisonAfter;
  /** Pools of workers, by name. */
  pools?: Record<string, unknown>;
  /** What is special about a queue, by its name. */
  queues?: Record<string, unknown>;
}

/** All settings of scheduling. */
export interface SettingsInput {
  /** What is special about a kind, by its name. */
  kinds?: Record<string, unknown>;
  /** Limits by name. */
  limits?: Record<string, unknown>;
  /** How tasks get to workers and move between them. */
  load_balancing?: LoadBalancingInput;
  /** Whose turn it is. */
  ordering?: OrderingInput;
  /** A task that was lost with so many different workers while it ran is a dead letter, whatever its retries. */
  poison_after?: PoisonAfter;
  /** Pools of workers, by name. */
  pools?: Record<string, unknown>;
  /** What is special about a queue, by its name. */
  queues?: Record<string, unknown>;
}

/** The settings that hold, and where they come from. */
export interface SettingsView {
  /** The file that the server watches. */
  file?: string | null;
  /** Sections that the file sets; the API cannot change these. */
  file_sections: Array<string>;
  /** What was wrong with the file when it was read last; what held before still holds. */
  reload_error?: string | null;
  /** When the file was last read and held. */
  reloaded_at?: Timestamp | null;
  /** What holds. */
  settings: Settings;
}

/** How bad it is. */
export type Severity = "warning" | "fault";

/** What became of a silence. */
export interface Silenced {
  /** Names the rule. */
  name: string;
  /** Until when nobody is told of it; nothing if others are told again. */
  silenced_until?: Timestamp | null;
}

/** What a pool would have wanted over the samples that were kept. */
export interface Simulated {
  /** Changes of what is wanted. */
  changes: number;
  /** What it would have cost. */
  costs: Costs;
  /** The maximum that was tried. */
  max: number;
  /** The minimum that was tried. */
  min: number;
  /** The policy that was tried. */
  policy: Policy;
  /** The samples, oldest first. */
  steps: Array<SimulatedStep>;
}

/** One sample and what would have been wanted at it. */
export interface SimulatedStep {
  /** When. */
  at: Timestamp;
  /** Work that the workers that there were could do, in seconds per second. */
  capacity: number;
  /** Why. */
  reason: string;
  /** Tasks that waited. */
  waiting: number;
  /** Workers that would have been wanted. */
  wanted: number;
  /** Work that arrived, in seconds per second. */
  work_rate: number;
  /** Workers that there were. */
  workers: number;
  /** Tasks that would have waited, with the workers that would have been there. */
  would_wait: number;
  /** Workers that would have been there: those wanted before, after their boot time. */
  would_work: number;
}

/** How a worker does with one kind. */
export interface SkillView {
  /** Attempts that were counted. */
  attempts: number;
  /** The kind. */
  kind: string;
  /** Until when it is not given this kind, because it keeps failing it. */
  quarantined_until?: Timestamp | null;
  /** How long such a task is expected to run there, in milliseconds, where known. */
  run_ms?: number | null;
  /** The moving share of them that worked. */
  success_rate: number;
}

/** The counters at one moment, and how many tasks were open then. */
export interface Snapshot {
  /** Tasks that wait for dependencies. */
  blocked: number;
  /** Tasks cancelled. */
  cancelled: number;
  /** How far the machine's clock was set away from the time that tasks go by, in milliseconds; 0 if they agree. */
  clock_away_ms: number;
  /** The longest commit, in microseconds. */
  commit_us_max: number;
  /** Time spent in commits, in microseconds. */
  commit_us_total: number;
  /** Tasks that became dead letters. */
  dead: number;
  /** 1 while new tasks are refused because the disk is nearly full. */
  disk_full: number;
  /** Facts committed. */
  facts: number;
  /** Attempts that failed and will be retried. */
  failed_attempts: number;
  /** What the last of these met. */
  failed_read: string | null;
  /** Requests that could not be answered because what they asked for could not be read. */
  failed_reads: number;
  /** Tasks done. */
  finished: number;
  /** Leases given out. */
  granted: number;
  /** Groups committed. */
  groups: number;
  /** Tasks that workers have: they run, or are `queued`. */
  leased: number;
  /** Of these, tasks that wait at their worker for a free slot. */
  queued: number;
  /** Tasks that wait for a worker, those in the store included. */
  ready: number;
  /** Reports refused because their token was not valid. */
  refused_reports: number;
  /** How far the time by which old tasks are deleted is behind that, in milliseconds. */
  retention_behind_ms: number;
  /** Tasks that wait for a time. */
  scheduled: number;
  /** Ready tasks that wait in the store because the window is full. */
  spilled: number;
  /** Why nothing is recorded at present, if that is so. */
  store_problem: string | null;
  /** Tasks accepted. */
  submitted: number;
  /** Connected workers. */
  workers: number;
}

/** The server at one moment. */
export interface Statistics {
  address: string;
  /** Counters since the start and the open tasks. */
  engine: Snapshot;
  /** Tasks that are kept in each final state. */
  final: Record<string, number>;
  lease_ms: number;
  uptime_ms: number;
  version: string;
}

/** Which ways of moving tasks are used. */
export type Strategy = "none" | "pull" | "push" | "hybrid";

/** A task, or a batch, as the document tells it: only its schema is used. */
export type Submission = NewTask | NewTasks;

/** A task whole. */
export interface TaskDetail {
  /** Tasks with the same key run on the same worker where that costs no waiting. */
  affinity?: string | null;
  /** Tasks that must settle first. */
  after?: Array<Dependency>;
  /** Groups of its workflow of which every task must settle first. */
  after_groups?: Array<GroupDependency>;
  /** Attempts that were begun and counted. */
  attempts: number;
  /** How large it is, in any unit that grows with its run time (bytes, frames); makes estimates better. */
  cost_hint?: number | null;
  /** When it should be done: of tasks with equal priority, the one with the least time to spare goes first. */
  deadline?: Timestamp | null;
  /** When it became final. */
  ended_at?: Timestamp | null;
  /** The last error, or why it was cancelled. */
  error?: TaskError | null;
  /** Whose share of its queue it uses. */
  fair_key?: string | null;
  /** The group of that workflow that it belongs to. */
  group?: string | null;
  /** Attempts that ended, oldest first. */
  history: Array<Attempt>;
  /** Its id. */
  id: TaskId;
  /** Its kind. */
  kind: string;
  /** Limits that it runs under: `name` or `name/key`; `{field}` in a key stands for that field of the payload. */
  limits?: Array<string>;
  /** What to do when no worker has all of that; the server's setting unless given. */
  matching?: Matching | null;
  /** What the worker must have: `gpu`, `region=eu`, `memory_gb>=16`; see [`crate::need`]. */
  needs?: Array<string>;
  /** What the handler gets. */
  payload: Payload;
  /** Its priority. */
  priority: number;
  /** How far it is. */
  progress?: Progress | null;
  /** Its queue. */
  queue: string;
  /** What it returned. */
  result?: Payload | null;
  /** What happens after a failed attempt. */
  retry?: RetryPolicy;
  /** Not before this time. */
  run_at?: Timestamp | null;
  /** The task whose finish spawned it. */
  spawned_by?: TaskId | null;
  /** When the attempt that runs presumably began. */
  started?: Timestamp | null;
  /** Where it is. */
  state: TaskState;
  /** When it was accepted. */
  submitted_at: Timestamp;
  /** Labels to find it by. They change nothing about when and where it runs. */
  tags?: Array<string>;
  /** How long one attempt may take, in milliseconds. */
  timeout_ms?: number | null;
  /** Only one such task at a time, or within a window. */
  unique?: Unique | null;
  /** Why it does not run, while it is not final. A leased task has one only while it waits for a slot of its worker. */
  wait?: WaitReason | null;
  /** The same in words. */
  wait_text?: string | null;
  /** Who runs it or ran it last. */
  worker?: string | null;
  /** The workflow that it belongs to. */
  workflow?: Workflow | null;
}

/** What went wrong in an attempt. */
export interface TaskError {
  /** The sort of error. */
  class: ErrorClass;
  /** The words of the handler, cut to [`ERROR_BYTES_MAX`]. */
  message: string;
}

/** A task and why it is where it is. */
export interface TaskExplanation {
  /** What it waits or waited for. */
  after?: Array<Dependency>;
  /** Attempts that were begun and counted. */
  attempts: number;
  /** Attempts that it has in all. */
  attempts_max: number;
  /** Every worker, or the first ones of many, and what it would mean to give it the task now. */
  candidates?: Array<Candidate>;
  /** When it should be done. */
  deadline?: Timestamp | null;
  /** When it became final. */
  ended_at?: Timestamp | null;
  /** The last error, or why it was cancelled. */
  error?: TaskError | null;
  /** How long it is expected to run, in milliseconds. */
  estimated_run_ms?: number | null;
  /** When it is expected to start. */
  estimated_start?: Timestamp | null;
  /** Attempts that ended, oldest first, without their logs. */
  history: Array<Attempt>;
  /** Its id. */
  id: TaskId;
  /** Its kind. */
  kind: string;
  /** Whether it is expected to be late. */
  late: boolean;
  /** Who has it, and how that was decided; while it runs, or shortly after. */
  placement?: Placement | null;
  /** How many tasks are expected to start before it. */
  position?: number | null;
  /** Its priority. */
  priority: number;
  /** How far it is. */
  progress?: Progress | null;
  /** Its queue. */
  queue: string;
  /** Where it is. */
  state: TaskState;
  /** When it was accepted. */
  submitted_at: Timestamp;
  /** Why it does not run, while it is not final. A leased task has one only while it waits for a slot of its worker. */
  wait?: WaitReason | null;
  /** The same in words. */
  wait_text?: string | null;
  /** Who runs it or ran it last. */
  worker?: string | null;
  /** The workflow that it belongs to. */
  workflow?: Workflow | null;
}

/** The id of a task. */
export type TaskId = string;

/** The seven places a task can be in. */
export type TaskState = "blocked" | "scheduled" | "ready" | "leased" | "done" | "dead" | "cancelled";

/** A task in a list. */
export interface TaskSummary {
  /** Attempts that were begun and counted. */
  attempts: number;
  /** When it became final. */
  ended_at?: Timestamp | null;
  /** The last error, or why it was cancelled. */
  error?: TaskError | null;
  /** Its id. */
  id: TaskId;
  /** Its kind. */
  kind: string;
  /** Its priority. */
  priority: number;
  /** How far it is. */
  progress?: Progress | null;
  /** Its queue. */
  queue: string;
  /** Where it is. */
  state: TaskState;
  /** When it was accepted. */
  submitted_at: Timestamp;
  /** Why it does not run, while it is not final. A leased task has one only while it waits for a slot of its worker. */
  wait?: WaitReason | null;
  /** The same in words. */
  wait_text?: string | null;
  /** Who runs it or ran it last. */
  worker?: string | null;
  /** The workflow that it belongs to. */
  workflow?: Workflow | null;
}

/** The task of a schedule: a spec without what differs from tick to tick. */
export interface Template {
  /** Tasks with the same key run on the same worker where that costs no waiting. */
  affinity?: string | null;
  /** How large it is, in any unit that grows with its run time (bytes, frames); makes estimates better. */
  cost_hint?: number | null;
  /** When it should be done, in milliseconds after its tick. */
  deadline_ms?: number | null;
  /** Whose share of its queue it uses. */
  fair_key?: string | null;
  /** Which handler runs it. */
  kind: string;
  /** Limits that it runs under: `name` or `name/key`; `{field}` in a key stands for that field of the payload. */
  limits?: Array<string>;
  /** What to do when no worker has all of that; the server's setting unless given. */
  matching?: Matching | null;
  /** What the worker must have: `gpu`, `region=eu`, `memory_gb>=16`; see [`crate::need`]. */
  needs?: Array<string>;
  /** What the handler gets. */
  payload?: Payload;
  priority?: number | null;
  queue?: string | null;
  /** What happens after a failed attempt. */
  retry?: RetryPolicy;
  /** Labels to find it by. They change nothing about when and where it runs. */
  tags?: Array<string>;
  /** How long one attempt may take, in milliseconds. */
  timeout_ms?: number | null;
}

/** The task of a schedule: a spec without what differs from tick to tick. */
export interface TemplateInput {
  /** Tasks with the same key run on the same worker where that costs no waiting. */
  affinity?: string | null;
  /** How large it is, in any unit that grows with its run time (bytes, frames); makes estimates better. */
  cost_hint?: number | null;
  /** When it should be done, in milliseconds after its tick. */
  deadline_ms?: number | null;
  /** Whose share of its queue it uses. */
  fair_key?: string | null;
  /** Which handler runs it. */
  kind: string;
  /** Limits that it runs under: `name` or `name/key`; `{field}` in a key stands for that field of the payload. */
  limits?: Array<string>;
  /** What to do when no worker has all of that; the server's setting unless given. */
  matching?: Matching | null;
  /** What the worker must have: `gpu`, `region=eu`, `memory_gb>=16`; see [`crate::need`]. */
  needs?: Array<string>;
  /** What the handler gets. */
  payload?: Payload;
  priority?: number | null;
  queue?: string | null;
  /** What happens after a failed attempt. */
  retry?: RetryPolicyInput;
  /** Labels to find it by. They change nothing about when and where it runs. */
  tags?: Array<string>;
  /** How long one attempt may take, in milliseconds. */
  timeout_ms?: number | null;
}

/** What counts as busy, idle and unbalanced. A worker's queue is what it was given and has not begun. */
export interface Thresholds {
  /** A longer queue is busy. */
  busy_threshold: number;
  /** A shorter queue is idle. */
  idle_threshold: number;
  /** How often the scheduler looks, in seconds. */
  rebalance_interval_sec: number;
  /** The longest over the shortest queue from which on it acts. */
  severe_imbalance_ratio: number;
}

/** What counts as busy, idle and unbalanced. A worker's queue is what it was given and has not begun. */
export interface ThresholdsInput {
  /** A longer queue is busy. */
  busy_threshold?: number;
  /** A shorter queue is idle. */
  idle_threshold?: number;
  /** How often the scheduler looks, in seconds. */
  rebalance_interval_sec?: number;
  /** The longest over the shortest queue from which on it acts. */
  severe_imbalance_ratio?: number;
}

/** One tick. */
export interface Tick {
  /** When. */
  at: Timestamp;
  /** The same on the clocks of its zone, in RFC 3339. */
  local: string;
}

/** Kinds of a worker that share slots. */
export interface TierView {
  /** Tasks of these that the worker takes at once. */
  credit: number;
  /** Attempts that failed on it since it connected. */
  failed: number;
  /** Tasks that it finished since it connected. */
  finished: number;
  /** The kinds. */
  kinds: Array<string>;
  /** Tasks of these that it holds. */
  leased: number;
  /** Those of them that it has presumably not begun. */
  queue_length: number;
  /** Tasks of these that it runs at once. */
  slots: number;
}

/** A time by RFC 3339, at or after 1970. */
export type Timestamp = string;

/** Fences an attempt: every grant carries a token greater than any earlier one, over restarts too. The upper bits count the starts of the server, the lower bits count its grants (see [`Token::new`]). */
export type Token = number;

/** What is told of a token; never its secret. */
export interface TokenView {
  /** When it was made. */
  created_at: Timestamp;
  /** From when on it is refused; never, if nothing is said. */
  expires_at?: Timestamp | null;
  /** When it was shown last since the server started. */
  last_used_at?: Timestamp | null;
  /** What people call it. */
  name: string;
  /** What it allows. */
  scopes: Scopes;
}

/** What became of a selection. */
export interface TreatedDead {
  done: number;
  /** When the last one is due, if a rate was given. */
  last_due?: Timestamp | null;
  matched: number;
}

/** What to try with the samples of a pool; what is left out is as it is. */
export interface Trial {
  /** Another goal. */
  goal?: Goal | null;
  /** Another maximum. */
  max?: number | null;
  /** Another minimum. */
  min?: number | null;
  /** Another policy. */
  policy?: Policy | null;
}

/** What became of a trigger. */
export interface TriggeredSchedule {
  name: string;
  task: TaskId;
}

/** Only one such task at a time. */
export interface Unique {
  /** What makes it the same. */
  key: string;
  /** What becomes of a second one. */
  on_conflict: OnConflict;
  /** For how long after its submission, in milliseconds, even if it ends sooner. Without: while it is open. */
  window_ms?: number | null;
}

/** Only one such task at a time. */
export interface UniqueInput {
  /** What makes it the same. */
  key: string;
  /** What becomes of a second one. */
  on_conflict?: OnConflict;
  /** For how long after its submission, in milliseconds, even if it ends sooner. Without: while it is open. */
  window_ms?: number | null;
}

/** What a task that is not running waits for. */
export type WaitReason = {
    /** One that is missing, where it is at hand. */
    first: TaskId | null;
    /** How many are missing. */
    missing: number;
    reason: "dependencies";
    /** How many there are in all. */
    total: number;
  } | {
    /** The group. */
    group: string;
    /** How many. */
    open: number;
    reason: "group_open";
  } | {
    reason: "scheduled";
    /** When it becomes ready. */
    until: Timestamp;
  } | {
    /** How many attempts were made. */
    attempts: number;
    /** Whether it waits for as long as its policy allows, because the retries of its kind are spent. */
    budget_spent?: boolean;
    reason: "backoff";
    /** When it becomes ready. */
    until: Timestamp;
  } | {
    /** The queue. */
    queue: string;
    reason: "queue_paused";
  } | {
    /** The kind. */
    kind: string;
    /** The queue. */
    queue: string;
    reason: "no_worker";
    /** Workers that are connected, whatever they serve. */
    workers: number;
  } | {
    /** What the nearest worker lacks. */
    missing: Array<string>;
    /** The nearest worker. */
    nearest: string;
    reason: "missing_capability";
  } | {
    /** How many tasks of its priority and class are before it, where that is known. */
    position: number | null;
    reason: "workers_busy";
    /** How many workers could run it. */
    workers: number;
  } | {
    reason: "at_worker";
    /** The worker. */
    worker: string;
  } | {
    /** Tasks that may run under it at once, if that is what keeps it. */
    concurrency: number | null;
    /** The limit with its key, such as `api/acme`. */
    limit: string;
    reason: "limit";
    /** Tasks that run under it. */
    running: number;
    /** When the next may start, if its rate keeps it. */
    until: Timestamp | null;
  } | {
    /** The kind. */
    kind: string;
    reason: "quarantined";
    /** When the first of them is tried again. */
    until: Timestamp;
    /** Workers with a place free that rest from the kind. */
    workers: number;
  } | {
    reason: "elsewhere";
    /** From when on that one may have it too. */
    until: Timestamp;
    /** The worker that it failed on. */
    worker: string;
  } | {
    /** How many. */
    open: number;
    reason: "workflow_open";
  };

/** How tasks are stolen. */
export interface WorkStealing {
  /** Whether tasks that have begun may move too; they start again elsewhere, from their checkpoint if they have one. */
  allow_task_migration: boolean;
  /** Tasks that one steal or one look moves at most. */
  max_steal_per_cycle: number;
  /** Whether the scheduler moves tasks ahead of time, by how long they are expected to run. */
  predictive: boolean;
  /** The last task that was given goes first (LIFO), or the first (FIFO). */
  prefer_recent_tasks: boolean;
}

/** How tasks are stolen. */
export interface WorkStealingInput {
  /** Whether tasks that have begun may move too; they start again elsewhere, from their checkpoint if they have one. */
  allow_task_migration?: boolean;
  /** Tasks that one steal or one look moves at most. */
  max_steal_per_cycle?: number;
  /** Whether the scheduler moves tasks ahead of time, by how long they are expected to run. */
  predictive?: boolean;
  /** The last task that was given goes first (LIFO), or the first (FIFO). */
  prefer_recent_tasks?: boolean;
}

/** What one worker carries. */
export interface WorkerLoad {
  /** Whether it takes no more. */
  draining: boolean;
  /** Names the connection. */
  key: number;
  /** Tasks that it holds. */
  leased: number;
  /** Its name. */
  name: string;
  /** Whether somebody lets it rest. */
  paused?: boolean;
  /** Tasks that it holds and has presumably not begun. */
  queue_length: number;
  /** Tasks that it runs at once. */
  slots: number;
}

/** A connected worker. */
export interface WorkerView {
  /** Its connection broke; until then it keeps what it holds, and may come back to it. */
  away_until?: Timestamp | null;
  /** What it has. */
  capabilities: Array<string>;
  /** When it connected. */
  connected_at: Timestamp;
  /** Tasks that it takes at once. */
  credit: number;
  /** Whether it takes no more. */
  draining: boolean;
  /** Attempts that failed on it since it connected. */
  failed: number;
  /** Tasks that it finished since it connected. */
  finished: number;
  /** Names the connection. */
  key: number;
  /** Kinds that it can run. */
  kinds: Array<string>;
  /** Tasks that it holds. */
  leased: number;
  /** Its name. */
  name: string;
  /** Whether somebody lets it rest: it ends what it holds and takes nothing until that is undone. */
  paused?: boolean;
  /** Tasks that it was given and has presumably not begun. */
  queue_length: number;
  /** Queues that it serves; none means all. */
  queues: Array<string>;
  /** When it was last heard of. */
  seen_at: Timestamp;
  /** How it does, kind by kind. */
  skills?: Array<SkillView>;
  /** Tasks that it runs at once. */
  slots: number;
  /** The moving share of its attempts that worked, over all kinds; 1 before the first. */
  success_rate: number;
  /** The same, by kinds that share slots. */
  tiers: Array<TierView>;
}

/** A label that ties tasks together. */
export interface Workflow {
  /** Names the workflow. */
  id: WorkflowId;
  /** What people call it. */
  name: string;
  /** What the task is to the workflow. */
  role?: WorkflowRole;
}

/** How many members of a workflow are in each state. */
export interface WorkflowCounts {
  /** Wait for others. */
  blocked: number;
  /** Were cancelled. */
  cancelled: number;
  /** Failed for good. */
  dead: number;
  /** Are done. */
  done: number;
  /** Are at a worker: they run, or are `queued`. */
  leased: number;
  /** Of these, wait there for a free slot. */
  queued: number;
  /** Wait for a worker. */
  ready: number;
  /** Wait for a time. */
  scheduled: number;
}

/** The tasks of a workflow and what they wait for, in one answer. */
export interface WorkflowGraph {
  /** What waits for what. Both ends are among the nodes. */
  edges: Array<GraphEdge>;
  /** When its last member ended, if none is open. */
  ended: Timestamp | null;
  /** Its groups, by name; all members are counted, also those that are not among the nodes. */
  groups: Array<GraphGroup>;
  /** The workflow. */
  id: WorkflowId;
  /** What people call it. */
  name: string;
  /** Its tasks, oldest first; those that run when it has ended are among them. */
  nodes: Array<GraphNode>;
  /** When its first task was submitted. */
  started: Timestamp;
  /** How it stands. */
  state: WorkflowState;
  /** Whether there are more tasks or edges than are told. */
  truncated: boolean;
}

/** The id of a workflow. */
export type WorkflowId = string;

/** A label that ties tasks together. */
export interface WorkflowInput {
  /** Names the workflow. */
  id: WorkflowId;
  /** What people call it. */
  name?: string;
  /** What the task is to the workflow. */
  role?: WorkflowRole;
}

/** What a task is to its workflow. */
export type WorkflowRole = "member" | "on_success" | "on_failure";

/** How a workflow stands. */
export type WorkflowState = "open" | "succeeded" | "failed";

/** A workflow in a list. */
export interface WorkflowSummary {
  /** When its last member ended, if none is open. */
  ended_at?: Timestamp | null;
  /** Members that are dead or cancelled. */
  failed: number;
  /** Its id. */
  id: WorkflowId;
  /** What people call it. */
  name: string;
  /** Members that have not ended. */
  open: number;
  /** How much of it is over, in percent of the members that are known. */
  percent: number;
  /** When its first task was submitted. */
  started_at: Timestamp;
  /** How it stands. */
  state: WorkflowState;
  /** How many members it has, spawned ones included. */
  total: number;
}

/** A task of a workflow, in short. */
export interface WorkflowTask {
  /** What went wrong, or why it was cancelled. */
  error?: TaskError | null;
  /** Its id. */
  id: TaskId;
  /** Its kind. */
  kind: string;
  /** What it is to the workflow. */
  role: WorkflowRole;
  /** Where it is. */
  state: TaskState;
}

/** A workflow whole. */
export interface WorkflowView {
  /** Tasks that run when it has ended. */
  callbacks: Array<WorkflowTask>;
  /** How many members are where. */
  counts: WorkflowCounts;
  /** When its last member ended, if none is open. */
  ended_at?: Timestamp | null;
  /** The first members that failed: dead ones before those that were cancelled. */
  failed: Array<WorkflowTask>;
  /** Its id. */
  id: WorkflowId;
  /** What people call it. */
  name: string;
  /** How much of it is over, in percent of the members that are known. */
  percent: number;
  /** When its first task was submitted. */
  started_at: Timestamp;
  /** How it stands. */
  state: WorkflowState;
  /** How many members it has, spawned ones included. Tasks that run when it has ended are no members. */
  total: number;
}

/** What each address answers. */
export interface Answers {
  "GET /alerts": Alerts;
  "POST /alerts/test": AlertTest;
  "DELETE /alerts/{name}/silence": Silenced;
  "POST /alerts/{name}/silence": Silenced;
  "GET /dead": Page2;
  "POST /dead/drop": TreatedDead;
  "POST /dead/replay": TreatedDead;
  "GET /events": string;
  "GET /history": History;
  "GET /kinds": Page5;
  "GET /lab": Page11;
  "GET /lab/runs": Page12;
  "DELETE /lab/runs/{id}": LabRun;
  "GET /lab/runs/{id}": LabRun;
  "POST /lab/{name}": LabRun;
  "GET /limits": Page10;
  "DELETE /limits/{name}": RemovedLimit;
  "PUT /limits/{name}": LimitStatus;
  "GET /load": LoadView;
  "GET /me": Caller;
  "GET /openapi.json": Record<string, unknown>;
  "GET /overview": Overview;
  "POST /plan": LabRun;
  "GET /pool-events": string;
  "GET /pools": Page8;
  "GET /pools/{name}": PoolStatus;
  "GET /pools/{name}/explain": PoolExplained;
  "GET /pools/{name}/history": Page9;
  "POST /pools/{name}/pause": PoolStatus;
  "POST /pools/{name}/resume": PoolStatus;
  "POST /pools/{name}/simulate": Simulated;
  "PUT /pools/{name}/workers": PoolStatus;
  "GET /pulse": string;
  "GET /queues": Page4;
  "GET /queues/{name}": QueueStatus;
  "PUT /queues/{name}": QueueStatus;
  "POST /queues/{name}/pause": PausedQueue;
  "POST /queues/{name}/resume": PausedQueue;
  "POST /rebalance": Rebalance;
  "GET /schedules": Page6;
  "POST /schedules/preview": SchedulePreview;
  "DELETE /schedules/{name}": RemovedSchedule;
  "GET /schedules/{name}": ScheduleView;
  "PUT /schedules/{name}": ScheduleView;
  "POST /schedules/{name}/pause": ScheduleView;
  "POST /schedules/{name}/resume": ScheduleView;
  "POST /schedules/{name}/trigger": TriggeredSchedule;
  "GET /settings": SettingsView;
  "PATCH /settings": SettingsView;
  "PUT /settings": SettingsView;
  "GET /stats": Statistics;
  "GET /tasks": Page;
  "POST /tasks": Accepted;
  "POST /tasks/bulk": BulkReport;
  "GET /tasks/{id}": TaskDetail;
  "POST /tasks/{id}/cancel": MovedTask;
  "GET /tasks/{id}/explain": TaskExplanation;
  "GET /tasks/{id}/log": string;
  "POST /tasks/{id}/reprioritise": MovedTask;
  "POST /tasks/{id}/retry": MovedTask;
  "GET /tokens": Page13;
  "POST /tokens": CreatedToken;
  "DELETE /tokens/{name}": TokenView;
  "GET /workers": Page7;
  "GET /workers/{name}": Page7;
  "POST /workers/{name}/drain": AskedWorker;
  "POST /workers/{name}/pause": AskedWorker;
  "POST /workers/{name}/resume": AskedWorker;
  "GET /workflows": Page3;
  "GET /workflows/{id}": WorkflowView;
  "POST /workflows/{id}/cancel": CancelledWorkflow;
  "GET /workflows/{id}/graph": WorkflowGraph;
  "POST /workflows/{id}/resume": ResumedWorkflow;
}

/** What each address takes. */
export interface Bodies {
  "POST /alerts/{name}/silence": NewSilence;
  "POST /dead/drop": DeadSelection;
  "POST /dead/replay": DeadSelection;
  "POST /lab/{name}": RunExperiment;
  "PUT /limits/{name}": Limit;
  "POST /plan": RunPlan;
  "POST /pools/{name}/simulate": Trial;
  "PUT /pools/{name}/workers": PoolSize;
  "PUT /queues/{name}": QueueSettingsInput;
  "POST /rebalance": NoFields;
  "POST /schedules/preview": ScheduleInput;
  "PUT /schedules/{name}": ScheduleInput;
  "PATCH /settings": Record<string, unknown>;
  "PUT /settings": SettingsInput;
  "POST /tasks": Submission;
  "POST /tasks/bulk": BulkRequest;
  "POST /tasks/{id}/cancel": CancelTask;
  "POST /tasks/{id}/reprioritise": ReprioritiseTask;
  "POST /tasks/{id}/retry": NoFields;
  "POST /tokens": NewToken;
  "POST /workflows/{id}/cancel": CancelWorkflow;
  "POST /workflows/{id}/resume": ResumeWorkflow;
}

/** What may stand in the query of an address. */
export interface Queries {
  "GET /dead": { after?: string; class?: ErrorClass; ended_since?: Timestamp; ended_until?: Timestamp; error?: string; kind?: string; older_than_ms?: number; queue?: string; since?: Timestamp; state?: Array<TaskState>; tag?: string; until?: Timestamp; worker?: string; workflow?: Array<WorkflowId>; workflow_name?: string };
  "GET /events": { kind?: string; progress?: boolean; queue?: string; state?: Array<TaskState>; task?: Array<string>; workflow?: WorkflowId };
  "GET /history": { from?: Timestamp; points?: number; queue?: string; to?: Timestamp };
  "GET /kinds": { after?: string; limit?: number };
  "GET /queues": { after?: string; limit?: number };
  "POST /rebalance": { dry_run?: boolean };
  "GET /tasks": { after?: string; class?: ErrorClass; ended_since?: Timestamp; ended_until?: Timestamp; error?: string; kind?: string; limit?: number; older_than_ms?: number; queue?: string; since?: Timestamp; state?: Array<TaskState>; tag?: string; until?: Timestamp; worker?: string; workflow?: Array<WorkflowId>; workflow_name?: string };
  "POST /tasks": { strict?: boolean };
  "GET /tasks/{id}/log": { follow?: boolean };
  "GET /workflows": { after?: string; limit?: number; name?: string; state?: Array<WorkflowState> };
}
