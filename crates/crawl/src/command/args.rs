//! What can be typed about crawls.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use divvy_frontier::address::Reach;
use divvy_workload::console::values::Span;

use crate::demo::Demo;
use crate::output::Format;
use crate::render::Mode;

const EXAMPLES: &str = "\
Examples:
  divvy crawl demo                              a small web on this machine, to try
  divvy crawl start https://example.org --user-agent 'examplebot/1.0 (+https://example.org/bot)'
  divvy crawl status 7f3a                       a start of the id is enough
  divvy crawl explain 7f3a https://example.org/page
  divvy crawl export 7f3a out/";
const START_EXAMPLES: &str = "\
Examples:
  divvy crawl start https://example.org --max-pages 1000 --wait
  divvy crawl start --seeds hosts.txt --scope host --delay 2s --format jsonl,warc
  divvy crawl start https://example.org/docs/ --scope prefix --extract price=.price
  divvy crawl start https://example.org --recrawl 1d      look at pages again

Whatever is not on this machine is asked only with --user-agent, which names
who crawls and where to complain. Private addresses are reached only if both
the crawl (--allow-private) and the worker (divvy up --allow-private) say so.
Ctrl-C while waiting leaves the crawl running.";

/// Crawl the web politely: hosts are spread over workers, nothing is lost by a crash
#[derive(Debug, Parser)]
#[command(name = "crawl", alias = "crawls", after_help = EXAMPLES)]
pub(crate) struct CrawlCommand {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Verbs of crawls.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start a crawl
    #[command(after_help = START_EXAMPLES)]
    Start(Box<Start>),
    /// List crawls, latest first
    #[command(visible_alias = "ls", after_help = EXAMPLES)]
    List,
    /// Show how far a crawl is: pages, queue, hosts, answers
    #[command(after_help = EXAMPLES)]
    Status(Status),
    /// Fetch nothing for now
    #[command(after_help = EXAMPLES)]
    Pause(One),
    /// Go on after a pause, a stop or the end
    #[command(after_help = EXAMPLES)]
    Resume(One),
    /// End what is begun and fetch nothing more; what is queued stays
    #[command(after_help = EXAMPLES)]
    Stop(One),
    /// Try again the addresses and hosts that were given up
    #[command(after_help = EXAMPLES)]
    Retry(One),
    /// Begin at more addresses
    #[command(after_help = EXAMPLES)]
    Add(Add),
    /// Leave hosts alone
    #[command(after_help = EXAMPLES)]
    Block(Block),
    /// Say whether an address would be fetched, when, and which rule decides
    #[command(after_help = EXAMPLES)]
    Explain(Explain),
    /// Fetch the robots.txt of a page's host and say what it means for the page
    #[command(after_help = ROBOTS_EXAMPLES)]
    Robots(RobotsOf),
    /// Write what a crawl has found to a folder, or as JSON lines to `-`
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Export),
    /// Remove a crawl that has ended, with all that it made
    #[command(after_help = EXAMPLES)]
    Remove(One),
    /// Serve a small web on this machine, to try crawls out
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(Demo),
}

const ROBOTS_EXAMPLES: &str = "\
Examples:
  divvy crawl robots https://example.org/page --user-agent 'examplebot/1.0 (+https://example.org/bot)'";
const EXPORT_EXAMPLES: &str = "\
Examples:
  divvy crawl export 7f3a out/             pages.jsonl, links.tsv, WARC files
  divvy crawl export 7f3a out/ --format parquet
  divvy crawl export 7f3a - | jq .title";
const DEMO_EXAMPLES: &str = "\
Examples:
  divvy crawl demo
  divvy crawl demo --hosts 200 --pages 50 --plain --port 9000";

/// A crawl to start.
#[derive(Args, Debug)]
pub(crate) struct Start {
    /// Where it begins
    #[arg(value_name = "URL", required_unless_present = "seeds")]
    pub(crate) urls: Vec<String>,
    /// A file with more of them, one per line
    #[arg(long, value_name = "FILE")]
    pub(crate) seeds: Option<PathBuf>,
    /// What people call it [default: the first host]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// How far from the seeds it goes: domain, host, prefix or any
    #[arg(long, value_name = "SCOPE", default_value = "domain")]
    pub(crate) scope: Reach,
    /// Pages in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_pages: Option<u64>,
    /// Pages per second in all, at most
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
    /// Links from a seed at most [default: 32]
    #[arg(long, value_name = "N")]
    pub(crate) max_depth: Option<u8>,
    /// The least gap between two requests of a host [default: 1s]
    #[arg(long, value_name = "SPAN")]
    pub(crate) delay: Option<Span>,
    /// Requests of a host at once [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(crate) per_host: Option<u16>,
    /// Addresses of a host that are ever queued [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) host_pages: Option<u32>,
    /// The first wait before something that failed is tried again [default:
    /// 60s]
    #[arg(long, value_name = "SPAN")]
    pub(crate) retry_wait: Option<Span>,
    /// Who crawls: a name and where its owner can be reached
    #[arg(long, value_name = "TEXT")]
    pub(crate) user_agent: Option<String>,
    /// Which pages a browser makes: off, auto or always
    #[arg(long, value_name = "MODE", default_value = "off")]
    pub(crate) render: Mode,
    /// Take this out of every page, such as price=.price or
    /// image=img.main@src; may be given several times
    #[arg(long, value_name = "NAME=CSS")]
    pub(crate) extract: Vec<Extract>,
    /// What is written: jsonl, warc, graph
    #[arg(long, value_name = "FORMAT,…", value_delimiter = ',', default_value = "jsonl")]
    pub(crate) format: Vec<Format>,
    /// How addresses that were seen are remembered: exact or bloom
    #[arg(long, value_name = "HOW", default_value = "exact")]
    pub(crate) seen: Seen,
    /// Into how many parts the hosts are divided [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) shards: Option<u32>,
    /// Look at pages again, the first time after so long
    #[arg(long, value_name = "SPAN")]
    pub(crate) recrawl: Option<Span>,
    /// A network that is not public and may be reached all the same; may be
    /// given several times
    #[arg(long, value_name = "NETWORK")]
    pub(crate) allow_private: Vec<String>,
    /// What a name stands for, before anybody else is asked; may be given
    /// several times
    #[arg(long, value_name = "NAME=ADDRESS|*.ENDING=NETWORK")]
    pub(crate) resolve: Vec<String>,
    /// Wait until it has ended, with live figures
    #[arg(long, short)]
    pub(crate) wait: bool,
    /// Wait, and write what it has found to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// `name=css`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extract {
    pub(crate) name: String,
    pub(crate) css: String,
}

impl FromStr for Extract {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, css)) if !name.is_empty() && !css.is_empty() => {
                Ok(Self { name: name.to_owned(), css: css.to_owned() })
            }
            _ => Err(format!("`{text}` is not a name and a selector, such as price=.price")),
        }
    }
}

/// How addresses that were seen are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Seen {
    /// Nothing is lost.
    Exact,
    /// The filter alone.
    Bloom,
}

/// One crawl.
#[derive(Args, Debug)]
pub(crate) struct One {
    /// Its id, or a start of it
    pub(crate) id: String,
}

/// A look at a crawl.
#[derive(Args, Debug)]
pub(crate) struct Status {
    /// Its id, or a start of it [default: the latest]
    pub(crate) id: Option<String>,
    /// Stay until it has ended, with live figures
    #[arg(long, short)]
    pub(crate) wait: bool,
    /// Show the hosts with the longest queues too
    #[arg(long)]
    pub(crate) hosts: bool,
    /// Show the latest pages too
    #[arg(long)]
    pub(crate) pages: bool,
}

/// Addresses to begin at too.
#[derive(Args, Debug)]
pub(crate) struct Add {
    /// The crawl's id, or a start of it
    pub(crate) id: String,
    /// The addresses
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Hosts to leave alone.
#[derive(Args, Debug)]
pub(crate) struct Block {
    /// The crawl's id, or a start of it
    pub(crate) id: String,
    /// The hosts; a name without a port means all its ports
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// Ask them again
    #[arg(long)]
    pub(crate) undo: bool,
}

/// An address to explain.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The crawl's id, or a start of it
    pub(crate) id: String,
    /// The address
    pub(crate) url: String,
}

/// A page whose robots.txt is asked for.
#[derive(Args, Debug)]
pub(crate) struct RobotsOf {
    /// The page
    pub(crate) url: String,
    /// Who asks: a name and where its owner can be reached
    #[arg(long, value_name = "TEXT")]
    pub(crate) user_agent: Option<String>,
    /// A network that is not public and may be reached all the same
    #[arg(long, value_name = "NETWORK")]
    pub(crate) allow_private: Vec<String>,
    /// What a name stands for, before anybody else is asked
    #[arg(long, value_name = "NAME=ADDRESS|*.ENDING=NETWORK")]
    pub(crate) resolve: Vec<String>,
}

/// Where findings go.
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// The crawl's id, or a start of it
    pub(crate) id: String,
    /// The folder, or `-` for JSON lines on the output
    pub(crate) to: PathBuf,
    /// Only these: what the crawl kept of jsonl, warc and graph, and parquet, which DuckDB makes of jsonl
    /// [default: all that it kept]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) format: Vec<ExportFormat>,
}

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A line of JSON for each page
    Jsonl,
    /// Archives with their indexes
    Warc,
    /// Which page leads to which
    Graph,
    /// A row for each page, with typed columns
    Parquet,
}
