//! `up`, `serve` and `work`: the long-running commands.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::values::{
    Addresses, Names, Prefetch, Program, ProgramLimits, SlotCounts, Span, Workers,
};

pub(crate) const UP_EXAMPLES: &str = "\
Examples:
  divvy up                                 server and workers, until Ctrl-C
  divvy up --sample                        also run a sample
  divvy up --sample primes                 one that needs no other program
  divvy up --workers 2 --exec hash=sha256sum
  divvy up --listen 127.0.0.1:0 --json     any free port, address as JSON
";
pub(crate) const UP_NOTE: &str = "
Ctrl-C drains: running tasks finish first. A second Ctrl-C stops now.";

pub(crate) const SERVE_EXAMPLES: &str = "\
Examples:
  divvy serve --data /var/lib/divvy
  divvy token create ops --scope admin --data /var/lib/divvy
  divvy serve --data /var/lib/divvy --listen 0.0.0.0:7171 \\
    --tls-cert server.pem --tls-key server-key.pem";

pub(crate) const WORK_EXAMPLES: &str = "\
Examples:
  divvy work --queues mail,reports --slots async=64,cpu=2
  divvy work --exec resize=./resize.py --caps gpu
  divvy work --kinds http,sleep
  divvy work --exec encode=./encode.sh --slots process=1 --prefetch 0
  divvy work --server http://10.0.0.5:7171 --name encoder-1
";

/// A server with local workers.
#[derive(Args, Debug)]
pub(crate) struct Up {
    /// Local worker processes: auto (1 to the number of cores) or a number
    #[arg(long, value_name = "auto|N", env = "DIVVY_WORKERS", hide_env_values = true)]
    pub(crate) workers: Option<Workers>,
    /// Run a sample; the workloads of the binary say which there are
    #[arg(long, value_name = "WHICH", num_args = 0..=1, hide_possible_values = true)]
    pub(crate) sample: Option<String>,
    /// Exit after the sample
    #[arg(long, requires = "sample")]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) server: ServerFlags,
    #[command(flatten)]
    pub(crate) worker: WorkerFlags,
}

/// A server alone.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) server: ServerFlags,
}

/// A worker.
#[derive(Args, Debug)]
pub(crate) struct Work {
    /// What people call this worker [default: host name and process id]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Of the kinds that it knows, run only these [default: all]
    #[arg(long, value_name = "a,b")]
    pub(crate) kinds: Option<Names>,
    #[command(flatten)]
    pub(crate) worker: WorkerFlags,
    /// Stop when standard input ends, which happens when the parent dies
    #[arg(long, hide = true)]
    pub(crate) stop_with_stdin: bool,
    /// The server's own folder of objects (DATA/objects), on the same machine
    #[arg(long, value_name = "DIR")]
    pub(crate) objects: Option<PathBuf>,
}

/// Flags of a server.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerFlags {
    /// Address to listen on [default: 127.0.0.1:7171]
    #[arg(long, value_name = "ADDRESS", env = "DIVVY_LISTEN", hide_env_values = true)]
    pub(crate) listen: Option<SocketAddr>,
    /// Data folder [default: divvy-data]
    #[arg(long, value_name = "DIR", env = "DIVVY_DATA", hide_env_values = true)]
    pub(crate) data: Option<PathBuf>,
    /// Host names of this server besides loopback
    #[arg(long, value_name = "a,b", env = "DIVVY_ALLOWED_HOSTS", hide_env_values = true)]
    pub(crate) allowed_hosts: Option<Names>,
    /// PEM file of the certificate: speak TLS (`divvy cert new` makes one)
    #[arg(long, value_name = "FILE", env = "DIVVY_TLS_CERT", hide_env_values = true)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's private key
    #[arg(long, value_name = "FILE", env = "DIVVY_TLS_KEY", hide_env_values = true)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Send traces to this collector, over OTLP/HTTP
    #[arg(long, value_name = "URL", env = "DIVVY_OTLP", hide_env_values = true)]
    pub(crate) otlp: Option<String>,
    /// Silence of a worker that loses its tasks [default: 30s]
    #[arg(long, value_name = "SPAN", env = "DIVVY_LEASE", hide_env_values = true)]
    pub(crate) lease: Option<Span>,
    /// Time to come back after a broken connection, at most the lease [default: 10s]
    #[arg(long, value_name = "SPAN", env = "DIVVY_GRACE", hide_env_values = true)]
    pub(crate) grace: Option<Span>,
    /// Days that finished tasks are kept [default: 7]
    #[arg(long, value_name = "DAYS", env = "DIVVY_RETENTION_DAYS", hide_env_values = true)]
    pub(crate) retention_days: Option<u32>,
}

/// Flags of a worker.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkerFlags {
    /// Queues to serve [default: all]
    #[arg(long, value_name = "a,b", env = "DIVVY_QUEUES", hide_env_values = true)]
    pub(crate) queues: Option<Names>,
    /// Capabilities of this worker, such as gpu,ffmpeg
    #[arg(long, value_name = "a,b", env = "DIVVY_CAPS", hide_env_values = true)]
    pub(crate) caps: Option<Names>,
    /// Tasks at once per tier: async, blocking, cpu, process
    #[arg(long, value_name = "TIER=N,…", env = "DIVVY_SLOTS", hide_env_values = true)]
    pub(crate) slots: Option<SlotCounts>,
    /// Tasks that each tier takes ahead of its free slots [default: as many as
    /// it has slots]
    #[arg(long, value_name = "N", env = "DIVVY_PREFETCH", hide_env_values = true)]
    pub(crate) prefetch: Option<Prefetch>,
    /// Let tasks of this kind run this program; may be repeated
    #[arg(long, value_name = "KIND=PROGRAM")]
    pub(crate) exec: Vec<Program>,
    /// Programs of --exec to which tasks of kind exec may give arguments
    #[arg(long, value_name = "a,b", env = "DIVVY_EXEC_ARGS", hide_env_values = true)]
    pub(crate) exec_args: Option<Names>,
    /// What programs may use: files, processes, memory, each a number or none
    /// [default: files=4096,processes=16384,memory=none]
    #[arg(long, value_name = "NAME=N,…", env = "DIVVY_EXEC_LIMITS", hide_env_values = true)]
    pub(crate) exec_limits: Option<ProgramLimits>,
    /// Let http tasks call private addresses
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// Let http tasks call these, be they link-local or cloud metadata
    #[arg(long, value_name = "IP,…", env = "DIVVY_ALLOW_ADDRESS", hide_env_values = true)]
    pub(crate) allow_address: Option<Addresses>,
    /// How long a stop waits for running tasks [default: 30s]
    #[arg(long, value_name = "SPAN", env = "DIVVY_DRAIN_TIMEOUT", hide_env_values = true)]
    pub(crate) drain_timeout: Option<Span>,
}
