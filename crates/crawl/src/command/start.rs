//! `divvy crawl start`.

use anyhow::{Context as _, Result};
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use divvy_workload::view::{tell_started, wait_for};

use super::args::{Seen, Start};
use super::export;
use crate::crawls::view::CrawlView;
use crate::settings::{NewCrawl, Rules, SeenBy};

/// Starts a crawl, and waits for it if that is wanted.
pub(super) async fn run(args: &Start, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let reply = api.post(&["crawls"], &new(args)?).await?;
    let waits = args.wait || args.out.is_some();
    let crawl: CrawlView = tell_started(&reply, waits, &api, output)?;
    let id = &crawl.spec.id;
    if !crawl.spec.agent().has_contact() {
        output.note("without --user-agent only hosts on this machine are asked");
    }
    if !waits {
        return Ok(Code::Done);
    }
    let code = wait_for::<CrawlView>(&api, id, context).await?;
    if let Some(to) = &args.out {
        export::run(&api, id, to, &[], context).await?;
    }
    Ok(code)
}

fn new(args: &Start) -> Result<NewCrawl> {
    let mut seeds = args.urls.clone();
    if let Some(path) = &args.seeds {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let lines = text.lines().map(str::trim);
        seeds.extend(
            lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned),
        );
    }
    // People leave the scheme out.
    for seed in &mut seeds {
        if !seed.contains("://") {
            *seed = format!("https://{seed}");
        }
    }
    let usual = Rules::default();
    let rules = Rules {
        scope: args.scope,
        max_pages: args.max_pages,
        pages_per_second: args.rate,
        max_depth: args.max_depth.unwrap_or(usual.max_depth),
        delay_ms: args.delay.map_or(usual.delay_ms, |span| span.as_ms()),
        per_host: args.per_host.unwrap_or(usual.per_host),
        host_pages: args.host_pages.unwrap_or(usual.host_pages),
        retry_wait_ms: args.retry_wait.map_or(usual.retry_wait_ms, |span| span.as_ms()),
        user_agent: args.user_agent.clone(),
        render: args.render,
        extract: args.extract.iter().map(|rule| (rule.name.clone(), rule.css.clone())).collect(),
        formats: args.format.clone(),
        seen: match args.seen {
            Seen::Exact => SeenBy::Exact,
            Seen::Bloom => SeenBy::Bloom,
        },
        shards: args.shards.unwrap_or(usual.shards),
        recrawl_ms: args.recrawl.map(|span| span.as_ms()),
        allow_private: args.allow_private.clone(),
        resolve: args.resolve.clone(),
    };
    Ok(NewCrawl { name: args.name.clone(), seeds, rules })
}
