//! `divvy crawl robots`: fetches the robots.txt of a page's host, by the crawler's own rules, and says what it means.

use anyhow::Result;
use divvy_frontier::address::{Address, Rules as AddressRules};
use divvy_frontier::robots::Permission;
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use serde_json::json;

use super::args::RobotsOf;
use crate::fetch::Session;
use crate::settings::{NewCrawl, Rules};
use crate::shard::clock::Clock;
use crate::shard::gear::Gear;
use crate::shard::robots::{self, Reply};
use crate::shard::task::Site;

/// Asks and tells.
pub(super) async fn run(args: &RobotsOf, context: &Context) -> Result<Code> {
    let address = Address::read(&args.url, &AddressRules::default())
        .map_err(|refusal| Failure::usage(format!("{}: {refusal}", args.url)))?;
    let rules = Rules {
        user_agent: args.user_agent.clone(),
        allow_private: args.allow_private.clone(),
        resolve: args.resolve.clone(),
        ..Rules::default()
    };
    let new = NewCrawl { seeds: vec![address.as_str().to_owned()], rules, ..NewCrawl::default() };
    let (spec, _) = new
        .check(String::new(), 0)
        .map_err(|wrong| Failure::usage(format!("{} {}", wrong.field, wrong.problem)))?;
    let site = Site { allow_private: !args.allow_private.is_empty(), ..Site::default() };
    let gear = Gear::new(&spec, &site, Clock::start()).await?;
    let mut session = Session::default();
    let asked = robots::ask(&gear, address.origin(), &mut session).await;
    let path = address.path_and_query();
    let (is_allowed, why) = match asked.standing.permission(asked.ended_ms, path) {
        Permission::Allowed(Some(rule)) => {
            (true, format!("line {}: Allow: {}", rule.line, rule.pattern))
        }
        Permission::Allowed(None) => (true, "no rule forbids it".to_owned()),
        Permission::Disallowed(rule) => {
            (false, format!("line {}: Disallow: {}", rule.line, rule.pattern))
        }
        Permission::Ask | Permission::Wait { .. } => {
            let why = match &asked.last {
                Reply::Nothing { text, .. } => text.as_str(),
                _ => "robots.txt cannot be had, so nothing is fetched",
            };
            (false, why.to_owned())
        }
    };
    let robots = asked.standing.robots(asked.ended_ms);
    let delay_ms = robots.and_then(|robots| robots.delay_ms());
    let sitemaps: Vec<String> = robots
        .map(|robots| robots.sitemaps().iter().map(|text| text.to_string()).collect())
        .unwrap_or_default();
    let status = match asked.last {
        Reply::Answer { status, .. } | Reply::Redirect { status, .. } => Some(status),
        Reply::Nothing { .. } => None,
    };
    let output = &context.output;
    if output.is_json() {
        output.object(&json!({
            "url": address.as_str(), "robots": format!("{}/robots.txt", address.origin()),
            "status": status, "allowed": is_allowed, "why": why, "delay_ms": delay_ms,
            "sitemaps": sitemaps, "product": gear.agent.product(),
        }))?;
        return Ok(Code::Done);
    }
    let verdict = if is_allowed { "allowed" } else { "not allowed" };
    output.data(format_args!("{verdict} for {}: {why}", gear.agent.product()))?;
    let status = status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    output.data(format_args!("  robots   {}/robots.txt, {status}", address.origin()))?;
    if let Some(delay) = delay_ms {
        output.data(format_args!("  delay    {delay} ms"))?;
    }
    for sitemap in sitemaps {
        output.data(format_args!("  sitemap  {sitemap}"))?;
    }
    Ok(Code::Done)
}
