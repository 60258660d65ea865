//! `divvy crawl demo`: serves a [web](divvy_shards::web) on this machine, to try crawls out.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use divvy_shards::web::{ENDING, NETWORK, Served, Site};
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use divvy_workload::console::values::Span;
use serde_json::json;

/// The demo web.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Hosts that it has
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) hosts: u32,
    /// Pages of each host
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) pages: u32,
    /// Bytes of a page, about
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(500..=1_000_000))]
    pub(crate) page_bytes: u32,
    /// Leave out redirects, traps and errors
    #[arg(long)]
    pub(crate) plain: bool,
    /// How long one page in eight takes
    #[arg(long, value_name = "SPAN", default_value = "0s")]
    pub(crate) slow: Span,
    /// The port; 0 means any that is free
    #[arg(long, default_value_t = 8470)]
    pub(crate) port: u16,
    /// Write a line per request to this file: when it came, when it was
    /// answered, how many of its host were in work, host, path, status
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// Serves it until it is interrupted.
pub(crate) async fn run(args: &Demo, context: &Context) -> Result<Code> {
    let site = Site {
        hosts: args.hosts,
        pages: args.pages,
        page_bytes: args.page_bytes as usize,
        traps: !args.plain,
        slow: args.slow.0,
        port: args.port,
    };
    let served = Served::bind(site, args.log.as_deref()).await?;
    let (start, resolve) = (served.site.start(), format!("*{ENDING}={NETWORK}"));
    let output = &context.output;
    if output.is_json() {
        output.object(&json!({
            "url": start, "port": served.site.port, "resolve": resolve, "allow_private": NETWORK,
            "hosts": args.hosts, "pages": args.pages,
        }))?;
    } else {
        output.data(format_args!("a web of {} hosts is at {start}", args.hosts))?;
        output.note(format_args!(
            "crawl it from another terminal:\n  divvy crawl start {start} --scope any --delay 200ms \
             --max-pages 500 \\\n    --resolve '{resolve}' --allow-private {NETWORK} --wait"
        ));
    }
    context.on_interrupt("; the demo web is gone", None);
    served.run().await;
    Ok(Code::Done)
}
