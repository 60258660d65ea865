//! What `divvy config init` writes: every field with its meaning and its default, all commented out. A setting has its
//! `#` right before it, a sentence has a space between, so that a test can switch all settings on.

use crate::workloads::Workloads;

/// The text of the file.
pub(crate) fn text(workloads: &Workloads) -> String {
    let theirs = workloads.iter().map(|workload| format!("{}\n", workload.template()));
    [BEGINNING.to_owned(), theirs.collect(), END.to_owned()].concat()
}

/// What comes before the sections of the workloads.
const BEGINNING: &str = "\
# Settings of divvy. Flags and DIVVY_* variables come before this file; what is
# not set here has the value shown. See them all: divvy config show --origin

# The server that commands and workers talk to.
#server: http://127.0.0.1:7171
# The bearer token that a server asks for and clients send. It is better kept
# out of files: set DIVVY_TOKEN, and DIVVY_SERVER beside it, because a token
# goes only to a server that was named with it.
#token: change-me
# A PEM file with the certificates of the only authorities that clients and
# workers trust at https://. Without it those of this machine are trusted.
#ca: authority.pem
# Colours: auto, always or never.
#color: auto

# The server itself (divvy up, divvy serve).
#serve:
# The address to listen on. Another than loopback needs a token.
#  listen: 127.0.0.1:7171
# The data folder, relative to this file.
#  data: divvy-data
# Names under which browsers may reach the server besides loopback.
#  allowed_hosts: []
# The certificate with which the server speaks TLS and its private key, as PEM
# files relative to this one; `divvy cert new` makes both. Read again when they
# change. Without them it speaks plain HTTP.
#  tls_cert: server.pem
#  tls_key: server-key.pem
# A collector of OpenTelemetry that traces of workflows and tasks are sent to,
# over OTLP/HTTP. Without it there are none.
#  otlp: http://127.0.0.1:4318
# Silence of a worker for this long loses its tasks.
#  lease: 30s
# A worker whose connection broke keeps its tasks for this long, at most for the lease.
#  grace: 10s
# Days that finished tasks are kept.
#  retention_days: 7

# What divvy up adds to the server.
#up:
# Local worker processes: auto (from 1 to as many as there are cores, as the
# work needs them) or a number.
#  workers: auto

# Workers (divvy up, divvy work).
#work:
# Queues to serve; an empty list is all of them.
#  queues: []
# What this worker has; tasks name what they need.
#  capabilities: []
# Tasks at once, per tier. Without this: by the number of cores.
#  slots: {async: 64, blocking: 8, cpu: 2, process: 2}
# Tasks that each tier takes ahead, so that the next is at hand when a slot
# becomes free. Without this: as many as the tier has slots.
#  prefetch: 8
# Programs that tasks may run, by kind, without a shell.
#  exec:
#    example.echo: cat
# Programs to which tasks of kind exec may give arguments.
#  exec_args: []
# What programs may use; none lifts a limit.
#  exec_limits: files=4096,processes=16384,memory=none
# Whether http tasks may call private addresses.
#  allow_private: false
# Addresses that http tasks may call whatever they are, link-local ones and
# those of cloud metadata too.
#  allow_address: []
# How long a stopping worker waits for its tasks.
#  drain_timeout: 30s

";

/// What follows those of the workloads.
const END: &str = "\
# The sections below are read again while the server runs: when this file
# changes, and on SIGHUP. A section that is here is exactly what it says here;
# one that is not can be set with `divvy limit`, `divvy queue set` and the API.

# How tasks get to workers and move between them.
#load_balancing:
# none, pull (idle workers steal), push (the scheduler moves tasks), or hybrid.
#  strategy: hybrid
#  thresholds:
# A worker with a longer queue is busy, one with a shorter queue is idle.
#    busy_threshold: 5
#    idle_threshold: 2
# How often the scheduler looks, and the longest over the shortest queue from
# which on it moves tasks.
#    rebalance_interval_sec: 30
#    severe_imbalance_ratio: 3.0
#  work_stealing:
#    max_steal_per_cycle: 3
# The last task that was given goes first (true), or the first (false).
#    prefer_recent_tasks: true
# Whether tasks that have begun may move too; they start again elsewhere.
#    allow_task_migration: false
# Whether tasks move ahead of time, by how long they are expected to run.
#    predictive: false
#  capabilities:
# For tasks that do not say: exact, best_fit or fallback.
#    matching_strategy: best_fit
# Whether workers are judged by how they did, and how much that counts (0 to 1).
#    consider_history: true
#    history_weight: 0.3
#  priority:
# Tasks of this priority and above are never stolen, unless preserve is false.
#    high_priority_threshold: 4
#    preserve_high_priority: true
# How much else counts when a worker is chosen; 0 leaves a term out.
#  scores: {affinity: 0.5, run_time: 0, cost: 0, energy: 0}

# Whose turn it is.
#ordering:
# How much waiting makes up for one step of priority, in seconds.
#  ageing_sec: 60
# A task without a deadline counts as if it had one this much later.
#  patience_sec: 600

# Limits that tasks name, such as api or api/acme: starts per time and tasks at
# once, per key and in total. For example:
#limits:
#  api: {rate: 10/s, burst: 20, concurrency: 4, total_concurrency: 40}

# What is special about queues: their share, and that of fair keys in them. For
# example:
#queues:
#  reports: {weight: 3, fair_by: time, fair_weights: {acme: 5}}

# What is special about kinds. For example:
#kinds:
#  http: {timeout_ms: 60000, limits: [api], retry_budget: {share: 0.2}}

# Pools of workers that grow and shrink with the work. Their driver is local
# (processes of divvy up), print, {exec: {command: [./scale.sh]}} or
# {kubernetes: {namespace: media, resource: deployments, name: encoders}}.
# Their workers have the capabilities pool=NAME and type=TYPE. For example:
#pools:
#  encoders:
#    driver: print
#    kinds: [video.encode]
#    min: 0
#    max: 20
#    types: [{name: small, slots: 4, price_hour: 0.17, boot_sec: 60}]
#    goal: p95 start within 30 s
#    policy: objective
#    down: {cool_down_sec: 30, window_sec: 120}
#    budget: {hour: 5}

# A task whose worker went away so many times while it ran is a dead letter.
#poison_after: 3

# The rules about the health of the server, and who is told when one is broken.
# All rules are on; `divvy alert list --all` shows them. Who is told: the log of
# the server, webhooks (signed, see standardwebhooks.com) and programs, which
# get JSON on their standard input. Try them out: divvy alert test. For example:
#alerts:
#  rules:
# Broken at fires_at for for_sec seconds, over at resolves_at for calm_sec.
#    oldest_wait: {fires_at: 300, resolves_at: 150, for_sec: 60, calm_sec: 60}
#    queue_variance: {enabled: false}
#  sinks:
#    ops:
#      webhook: {url: https://ops.example/hook, secret_env: ALERTS_SECRET}
#    pager:
#      command: {run: [./page-me.sh]}
";
