//! `divvy crawl`: starts crawls, watches and steers them, and writes what they found.
//!
//! Everything goes over the API of a server, except `robots` and `demo`, which need none. Ctrl-C while it waits ends this
//! command only; the crawl goes on.

pub(crate) mod args;
mod export;
mod parquet;
mod robots;
mod start;
mod words;

use anyhow::Result;
use divvy::api::parse_rows;
use divvy_workload::console::exit::Code;
use divvy_workload::console::output::Output;
use divvy_workload::console::output::table::Table;
use divvy_workload::view::{self, list, remove, resolve, resolve_or_latest, wait_for};
use divvy_workload::{Context, View};
use serde_json::{Value, json};

use crate::crawls::explain::Explained;
use crate::crawls::view::CrawlView;
use crate::folder::control::CrawlState;
use crate::folder::status::{HostRow, PageRow};
use crate::web::Scene;
use args::{Block, Explain, One, Status, Verb};

/// Does what is asked.
pub(crate) async fn run(verb: Verb, context: &Context) -> Result<Code> {
    match verb {
        Verb::Start(args) => start::run(&args, context).await,
        Verb::List => list::<CrawlView>(context).await,
        Verb::Status(args) => status(&args, context).await,
        Verb::Pause(One { id }) => wish(&id, "pause", json!({}), context).await,
        Verb::Resume(One { id }) => wish(&id, "resume", json!({}), context).await,
        Verb::Stop(One { id }) => wish(&id, "stop", json!({}), context).await,
        Verb::Retry(One { id }) => wish(&id, "retry", json!({}), context).await,
        Verb::Add(args) => wish(&args.id, "add", json!({ "seeds": args.urls }), context).await,
        Verb::Block(Block { id, hosts, undo }) => {
            wish(&id, "block", json!({ "hosts": hosts, "undo": undo }), context).await
        }
        Verb::Explain(args) => explain(&args, context).await,
        Verb::Robots(args) => robots::run(&args, context).await,
        Verb::Export(args) => {
            let api = context.api()?;
            let id = resolve::<CrawlView>(&api, &args.id).await?;
            export::run(&api, &id, &args.to, &args.format, context).await
        }
        Verb::Remove(One { id }) => remove::<CrawlView>(&id, context).await,
        Verb::Demo(args) => crate::demo::run(&args, context).await,
    }
}

async fn wish(id: &str, verb: &str, body: Value, context: &Context) -> Result<Code> {
    view::wish::<CrawlView>(id, verb, &body, context).await
}

async fn status(args: &Status, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve_or_latest::<CrawlView>(&api, args.id.as_deref()).await?;
    if args.wait {
        return wait_for::<CrawlView>(&api, &id, context).await;
    }
    let crawl: CrawlView = api.get(&["crawls", &id], &[]).await?.parse()?;
    if output.is_json() {
        output.object(&crawl)?;
        return Ok(Code::Done);
    }
    words::summary(&crawl, output)?;
    if args.hosts {
        let rows = api.get(&["crawls", &id, "hosts"], &[]).await?.rows()?;
        words::hosts(&parse_rows::<HostRow>(&rows.items)?).print(output)?;
    }
    if args.pages {
        let rows = api.get(&["crawls", &id, "pages"], &[]).await?.rows()?;
        words::pages(&parse_rows::<PageRow>(&rows.items)?).print(output)?;
    }
    view::tell_page::<CrawlView>(&api, &id, output);
    Ok(Code::Done)
}

async fn explain(args: &Explain, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve::<CrawlView>(&api, &args.id).await?;
    let query = [("url", args.url.clone())];
    let reply = api.get(&["crawls", &id, "explain"], &query).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let explained: Explained = reply.parse()?;
    output.data(format_args!("{}", explained.text))?;
    output.data(format_args!("  rule   {}", explained.rule))?;
    output.data(format_args!("  shard  {}", explained.shard))?;
    for detail in &explained.details {
        output.data(format_args!("  note   {detail}"))?;
    }
    Ok(Code::Done)
}

impl From<Scene> for CrawlView {
    fn from(scene: Scene) -> Self {
        scene.crawl
    }
}

impl View for CrawlView {
    const PLACE: &'static str = "crawls";
    const NOUN: &'static str = "crawl";
    const COMMAND: &'static str = "divvy crawl";
    const START: &'static str = "divvy crawl start URL";
    type Event = Scene;

    fn id(&self) -> &str {
        &self.spec.id
    }

    fn state(&self) -> &'static str {
        self.state.as_str()
    }

    fn is_final(&self) -> bool {
        self.state.is_final()
    }

    fn is_good(&self) -> bool {
        matches!(self.state, CrawlState::Done | CrawlState::Stopped)
    }

    fn line(&self) -> String {
        words::line(self)
    }

    fn summary(&self, output: &Output) -> Result<()> {
        words::summary(self, output)
    }

    fn table(crawls: &[Self]) -> Table {
        words::table(crawls)
    }
}
