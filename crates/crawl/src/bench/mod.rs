//! What a crawled page costs, in one run on one synthetic web: the crawler with its durable frontier, a bare client that only
//! fetches, and Scrapy where it is installed. Besides: what a queued address and a remembered one take in memory, what a
//! shard costs that wakes for nothing, and what a crawl at a million pages a day takes of a core.
//!
//! The web is another process, so that only those who fetch are measured.

mod crawler;
mod memory;
mod scrapy;
mod wake;

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use divvy_frontier::seen::trial::{self, Trial};
use divvy_shards::bare;
use divvy_shards::web::Site;
use divvy_workload::console::output::Output;
use divvy_workload::console::output::table::Table;
use divvy_workload::private::{Place, rounded};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  divvy bench crawl --json                    about two minutes
  divvy bench crawl --seed-seconds 600        a million pages a day, for 10 minutes
  divvy bench crawl --hosts 100 --filter-keys 1000000 --seed-seconds 0";

/// What a crawled page costs, against a client that only fetches and against Scrapy.
#[derive(Debug, clap::Parser)]
#[command(name = "crawl", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Hosts of the web
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    hosts: u32,
    /// Pages of each host
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    pages: u32,
    /// Bytes of a page, about
    #[arg(long, default_value_t = 15_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    page_bytes: u32,
    /// Keys of the filter
    #[arg(long, default_value_t = 100_000_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    filter_keys: u64,
    /// Seconds at 11.6 pages/s with a delay of 1 s and 1,000 hosts; 0 leaves
    /// it out
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    seed_seconds: u64,
    #[command(flatten)]
    place: Place,
}

/// What some pages cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    pages: u64,
    seconds: f64,
    pages_per_s: f64,
    cpu_us_per_page: f64,
}

impl Cost {
    pub(crate) fn new(pages: u64, seconds: f64, cpu_s: f64) -> Self {
        Self {
            pages,
            seconds: rounded(seconds),
            pages_per_s: rounded(pages as f64 / seconds.max(1e-9)),
            cpu_us_per_page: rounded(cpu_s * 1e6 / pages.max(1) as f64),
        }
    }
}

/// The figures.
#[derive(Debug, Serialize)]
struct Figures {
    hosts: u32,
    pages_per_host: u32,
    page_bytes: u32,
    bare_hyper: Cost,
    crawler: Cost,
    crawler_rss_mb: u64,
    crawler_to_bare: f64,
    scrapy: Option<Cost>,
    scrapy_to_crawler: Option<f64>,
    bytes_per_queued: memory::PerAddress,
    turn: wake::Turn,
    filter: Trial,
    seed_rate: Option<SeedRate>,
}

/// What a million pages a day take.
#[derive(Debug, Serialize)]
struct SeedRate {
    seconds: f64,
    pages_per_s: f64,
    percent_of_a_core: f64,
}

/// What a client that only fetches costs.
async fn bare_client(web: &Web, hosts: u32, pages: u32) -> Result<Cost> {
    let first: IpAddr = web.network.split('/').next().unwrap_or_default().parse()?;
    let address = SocketAddr::new(first, web.port);
    let hosts = (0..hosts).map(Site::host).collect();
    let (began, cpu) = (Instant::now(), cpu_s());
    let total = bare::fetch_all(address, hosts, pages).await?;
    Ok(Cost::new(total, began.elapsed().as_secs_f64(), cpu_s() - cpu))
}

/// Measures and shows the figures.
pub(crate) async fn run(args: &Args, output: &Output) -> Result<()> {
    let folder = args.place.folder()?;
    output.note("turns of a shard …");
    let turn = wake::turn(folder.path().join("wake")).await?;
    let web = Web::start(args.hosts, args.pages, args.page_bytes)?;
    output.note("a bare client …");
    let bare = bare_client(&web, args.hosts, args.pages).await?;
    output.note("the crawler …");
    let total = u64::from(args.hosts) * u64::from(args.pages);
    let crawled =
        crawler::run(&folder.path().join("crawl"), &web, &crawler::Wish::all(total)).await?;
    let rss = divvy_workload::private::rss_mb("self")?.0;
    let scrapy = scrapy::run(folder.path(), &web, output)?;
    drop(web);
    output.note("queues and the filter …");
    let bytes_per_queued = memory::per_address();
    let filter = trial::measure(args.filter_keys, 0.01, 10_000_000.min(args.filter_keys), 7);
    let seed_rate = match args.seed_seconds {
        0 => None,
        seconds => Some(seed_rate(args, &folder.path().join("seed"), seconds, output).await?),
    };
    let figures = Figures {
        hosts: args.hosts,
        pages_per_host: args.pages,
        page_bytes: args.page_bytes,
        crawler_to_bare: rounded(crawled.cpu_us_per_page / bare.cpu_us_per_page.max(1e-9)),
        scrapy_to_crawler: scrapy
            .map(|scrapy| rounded(scrapy.cpu_us_per_page / crawled.cpu_us_per_page.max(1e-9))),
        bare_hyper: bare,
        crawler: crawled,
        crawler_rss_mb: rss,
        scrapy,
        bytes_per_queued,
        turn,
        filter,
        seed_rate,
    };
    if output.is_json() { output.object(&figures) } else { figures.print(output) }
}

/// A crawl at the rate of a million pages a day.
async fn seed_rate(
    args: &Args,
    folder: &std::path::Path,
    seconds: u64,
    output: &Output,
) -> Result<SeedRate> {
    output.note(format_args!("11.6 pages/s for {seconds} s …"));
    let web = Web::start(1_000, args.pages.max(20), args.page_bytes)?;
    let cost = crawler::run(folder, &web, &crawler::Wish::at_rate(11.6, seconds)).await?;
    let cpu_s = cost.cpu_us_per_page * cost.pages as f64 / 1e6;
    Ok(SeedRate {
        seconds: cost.seconds,
        pages_per_s: (cost.pages as f64 * 10.0 / cost.seconds.max(1e-9)).round() / 10.0,
        percent_of_a_core: rounded(cpu_s * 100.0 / cost.seconds.max(1e-9)),
    })
}

impl Figures {
    fn print(&self, output: &Output) -> Result<()> {
        let mut table = Table::new(&["CLIENT", ">PAGES", ">PAGES/S", ">CPU µs/PAGE"]);
        let rows = [
            ("bare hyper", Some(self.bare_hyper)),
            ("divvy", Some(self.crawler)),
            ("scrapy", self.scrapy),
        ];
        for (name, cost) in rows.into_iter().filter_map(|(name, cost)| Some((name, cost?))) {
            table.row([
                name.into(),
                cost.pages.to_string().into(),
                cost.pages_per_s.to_string().into(),
                cost.cpu_us_per_page.to_string().into(),
            ]);
        }
        table.print(output)?;
        output.data(format_args!(
            "crawler / bare client: {} x CPU, {} MB resident",
            self.crawler_to_bare, self.crawler_rss_mb
        ))?;
        let PerFigures { memory, spilled } = PerFigures::of(&self.bytes_per_queued);
        output
            .data(format_args!("queued address: {memory} B in memory, {spilled} B when spilled"))?;
        output.data(format_args!(
            "turn of an idle shard that has seen {}: {} ms of CPU, {} ms when it wakes again",
            self.turn.seen, self.turn.first_cpu_ms, self.turn.next_cpu_ms
        ))?;
        output.data(format_args!(
            "filter: {} keys in {} MB, {:.3} % false positives",
            self.filter.keys,
            self.filter.bytes / 1_000_000,
            self.filter.rate * 100.0
        ))?;
        if let Some(seed) = &self.seed_rate {
            output.data(format_args!(
                "{} pages/s for {} s: {} % of a core",
                seed.pages_per_s, seed.seconds, seed.percent_of_a_core
            ))?;
        }
        Ok(())
    }
}

struct PerFigures {
    memory: f64,
    spilled: f64,
}

impl PerFigures {
    fn of(per: &memory::PerAddress) -> Self {
        Self { memory: per.in_memory, spilled: per.spilled }
    }
}

/// The web, in a process of its own that ends with this.
pub(crate) struct Web {
    child: Child,
    /// Where a crawl begins.
    pub(crate) start: String,
    /// Its port.
    pub(crate) port: u16,
    /// What its names stand for.
    pub(crate) resolve: String,
    /// The network of its addresses.
    pub(crate) network: String,
}

impl Web {
    fn start(hosts: u32, pages: u32, page_bytes: u32) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--json", "crawl", "demo", "--plain", "--port", "0"])
            .args(["--hosts", &hosts.to_string(), "--pages", &pages.to_string()])
            .args(["--page-bytes", &page_bytes.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the web")?;
        let stdout = child.stdout.take().context("the web has no output")?;
        let mut web = Self {
            child,
            start: String::new(),
            port: 0,
            resolve: String::new(),
            network: String::new(),
        };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let told: serde_json::Value =
            serde_json::from_str(&line).with_context(|| format!("the web said {line:?}"))?;
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        web.start = text("url");
        web.resolve = text("resolve");
        web.network = text("allow_private");
        web.port = u16::try_from(told["port"].as_u64().unwrap_or(0)).unwrap_or(0);
        Ok(web)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of this process so far, in seconds.
pub(crate) fn cpu_s() -> f64 {
    let micros = |who| {
        getrusage(who).map_or(0, |usage| {
            usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
        })
    };
    micros(UsageWho::RUSAGE_SELF) as f64 / 1e6
}
