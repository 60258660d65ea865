//! What can be typed. What it means is decided in the file of each command.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use divvy::Target;

use crate::cluster::Address;
use crate::format::Format;

/// The name of a cluster unless another is said.
const NAME: &str = "main";

const AFTER: &str = "\
Exit codes: 0 done, 1 the query failed, 2 usage or SQL, 3 no server or cluster answers,
4 no such file, table or cluster, 5 refused, 6 timed out, 130 interrupted.

Examples:
  divvy-sql up --executors 2
  divvy-sql run -e 'select k, count(*) from t group by k' --table 't=data/*.csv'
  divvy-sql run report.sql --table t=data/t.parquet --out report.parquet
  divvy-sql run report.sql --table t=data/t.parquet --cluster df://10.0.0.5:50050
  divvy-sql down";

/// SQL on an Apache Ballista cluster that divvy keeps alive
#[derive(Debug, Parser)]
#[command(name = "divvy-sql", version, after_help = AFTER, max_term_width = 100)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print results only, and no notes
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a query: as a durable task, or at once on an existing cluster
    Run(Run),
    /// Run a cluster as tasks of a divvy server, so that what dies comes back; Ctrl-C takes it down
    Up(Up),
    /// Look after a part of a cluster from this machine, until Ctrl-C
    Worker(Worker),
    /// Take a cluster down
    Down(Down),
    #[command(hide = true)]
    Scheduler(Scheduler),
    #[command(hide = true)]
    Executor(Executor),
}

impl Command {
    /// Whether it is a process of a cluster, and no command of a person.
    pub(crate) fn is_role(&self) -> bool {
        matches!(self, Self::Scheduler(_) | Self::Executor(_))
    }
}

/// Where the divvy server is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Server {
    /// The divvy server [env: DIVVY_SERVER] [default: http://127.0.0.1:7171]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The server's bearer token [env: DIVVY_TOKEN]
    #[arg(long)]
    token: Option<String>,
    /// Trust only the authorities in this PEM file at https:// [env: DIVVY_CA]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Server {
    /// The server, with what was not typed from the environment.
    pub(crate) fn target(&self) -> Target {
        let usual = Target::from_env();
        Target {
            server: self.server.clone().unwrap_or(usual.server),
            token: self.token.clone().or(usual.token),
            ca: self.ca.clone().or(usual.ca),
        }
    }
}

/// The cluster that is meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cluster {
    /// The name of the cluster
    #[arg(long, default_value = NAME, value_parser = cluster_name)]
    pub(crate) name: String,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// A file with the query; `-` reads it from stdin
    #[arg(value_name = "QUERY.sql", required_unless_present = "execute")]
    pub(crate) file: Option<PathBuf>,
    /// The query itself
    #[arg(short, long, value_name = "SQL", conflicts_with = "file")]
    pub(crate) execute: Option<String>,
    /// A table and where its data is: a file, a folder or a pattern of .csv, .json, .jsonl or .parquet
    #[arg(long = "table", value_name = "NAME=PATH")]
    pub(crate) tables: Vec<Table>,
    /// Write the result to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// How the result is written; otherwise the ending of --out says it, or it is a table
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Run it at once on this cluster, without a divvy server: df://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with_all = ["server", "name"])]
    pub(crate) cluster: Option<Address>,
    #[command(flatten)]
    pub(crate) target: Server,
    #[command(flatten)]
    pub(crate) owner: Cluster,
}

#[derive(Args, Debug)]
pub(crate) struct Up {
    /// How many executors
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) executors: u32,
    /// Cores that each executor uses [default: those of this machine, shared by the executors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) cores: Option<u32>,
    /// The port of the scheduler [default: a free one, which it keeps]
    #[arg(long)]
    pub(crate) port: Option<u16>,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Args, Debug)]
pub(crate) struct Worker {
    /// How many executors this machine takes at most
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) executors: u32,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// A machine that runs processes of a cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct Place {
    /// The address of this machine that the others reach; nothing guards the ports that are opened there
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Where executors put parts of results, and what does not fit into memory [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) target: Server,
    #[command(flatten)]
    pub(crate) owner: Cluster,
}

#[derive(Args, Debug)]
pub(crate) struct Down {
    #[command(flatten)]
    pub(crate) target: Server,
    #[command(flatten)]
    pub(crate) owner: Cluster,
}

/// A scheduler, started by a worker.
#[derive(Args, Debug)]
pub(crate) struct Scheduler {
    #[arg(long)]
    pub(crate) host: IpAddr,
    #[arg(long)]
    pub(crate) port: u16,
    /// The process without which it ends.
    #[arg(long)]
    pub(crate) parent: i32,
}

/// An executor, started by a worker.
#[derive(Args, Debug)]
pub(crate) struct Executor {
    #[arg(long)]
    pub(crate) host: IpAddr,
    #[arg(long)]
    pub(crate) scheduler: Address,
    #[arg(long)]
    pub(crate) cores: u32,
    /// How many executors share the memory of a machine.
    #[arg(long)]
    pub(crate) share: u32,
    #[arg(long)]
    pub(crate) work: PathBuf,
    /// The process without which it ends.
    #[arg(long)]
    pub(crate) parent: i32,
}

/// A table as it is typed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Table {
    /// What SQL calls it.
    pub(crate) name: String,
    /// A file, a folder or a pattern.
    pub(crate) path: String,
}

impl FromStr for Table {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(Self { name: name.to_owned(), path: path.to_owned() })
            }
            _ => Err("is not NAME=PATH, such as orders=data/orders.csv".to_owned()),
        }
    }
}

/// A name becomes a part of capabilities, keys and tags.
fn cluster_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if text.is_empty() || text.len() > 32 || !text.chars().all(fits) {
        return Err("a name has 1 to 32 letters, digits, `-` and `_`".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_name_and_a_path() {
        let table: Table = "t=data/a=b.csv".parse().unwrap();
        assert_eq!((table.name.as_str(), table.path.as_str()), ("t", "data/a=b.csv"));
        for bad in ["t", "=a", "t="] {
            assert!(bad.parse::<Table>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_query_comes_from_one_place_and_goes_to_one() {
        let parse = |words: &[&str]| Line::try_parse_from(words).map_err(|error| error.kind());
        assert!(parse(&["divvy-sql", "run", "-e", "select 1"]).is_ok());
        assert!(parse(&["divvy-sql", "run", "-"]).is_ok());
        assert!(parse(&["divvy-sql", "run"]).is_err());
        assert!(parse(&["divvy-sql", "run", "a.sql", "-e", "select 1"]).is_err());
        let both = ["divvy-sql", "run", "a.sql", "--cluster", "df://a:1", "--server", "http://b"];
        assert!(parse(&both).is_err());
        assert!(parse(&["divvy-sql", "up", "--executors", "0"]).is_err());
        assert!(parse(&["divvy-sql", "up", "--name", "a b"]).is_err());
    }
}
