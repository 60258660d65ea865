//! `divvy crawl`: starts crawls, watches and steers them, and writes what they found.
//!
//! Everything goes over the API of a server, except `robots` and `demo`, which need none. Ctrl-C while it waits ends this
//! command only; the crawl goes on.

pub(crate) mod args;
mod export;
mod follow;
mod robots;
mod start;
mod words;

use anyhow::Result;
use divvy::api::{Api, parse_rows};
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use serde_json::{Value, json};

use crate::crawls::explain::Explained;
use crate::crawls::is_good;
use crate::crawls::view::CrawlView;
use crate::folder::status::{HostRow, PageRow};
use args::{Block, Explain, One, Status, Verb};

/// How long a whole id is.
const ID_LEN: usize = 12;
/// Crawls of one list.
const LIST_MAX: usize = 100;

/// Does what is asked.
pub(crate) async fn run(verb: Verb, context: &Context) -> Result<Code> {
    match verb {
        Verb::Start(args) => start::run(&args, context).await,
        Verb::List => list(context).await,
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
            let id = resolve(&api, &args.id).await?;
            export::run(&api, &id, &args.to, context).await
        }
        Verb::Remove(One { id }) => remove(&id, context).await,
        Verb::Demo(args) => crate::demo::run(&args, context).await,
    }
}

/// The whole id of a crawl that is named by it or by a start of it.
async fn resolve(api: &Api, text: &str) -> Result<String> {
    if text.len() == ID_LEN {
        return Ok(text.to_owned());
    }
    let query = [("id", text.to_owned()), ("limit", LIST_MAX.to_string())];
    let found: Vec<CrawlView> = parse_rows(&api.get(&["crawls"], &query).await?.rows()?.items)?;
    match found.as_slice() {
        [one] => Ok(one.spec.id.clone()),
        [] => Err(Failure::new(
            Code::NotFound,
            format!("no crawl has an id that starts with `{text}`"),
        )
        .cure("divvy crawl list shows which there are")
        .into()),
        several => {
            let ids: Vec<&str> =
                several.iter().take(5).map(|crawl| crawl.spec.id.as_str()).collect();
            let text = format!("`{text}` fits {} crawls: {}", several.len(), ids.join(", "));
            Err(Failure::usage(text).cure("write more of the id").into())
        }
    }
}

async fn list(context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let page = api.get(&["crawls"], &[("limit", LIST_MAX.to_string())]).await?.rows()?;
    let crawls: Vec<CrawlView> = parse_rows(&page.items)?;
    if output.is_json() {
        crawls.iter().try_for_each(|crawl| output.object(crawl))?;
    } else if output.is_quiet() {
        crawls.iter().try_for_each(|crawl| output.data(&crawl.spec.id))?;
    } else if crawls.is_empty() {
        output.note("no crawls; start one with: divvy crawl start URL");
    } else {
        words::table(&crawls).print(output)?;
    }
    Ok(Code::Done)
}

async fn status(args: &Status, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = match &args.id {
        Some(id) => resolve(&api, id).await?,
        None => latest(&api).await?,
    };
    if args.wait {
        return wait_for(&api, &id, context).await;
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
    output.note(format_args!("watch it: {}/crawls/{id}", api.server()));
    Ok(Code::Done)
}

async fn latest(api: &Api) -> Result<String> {
    let page = api.get(&["crawls"], &[("limit", "1".to_owned())]).await?.rows()?;
    let crawls: Vec<CrawlView> = parse_rows(&page.items)?;
    let first = crawls.into_iter().next();
    Ok(first.map(|crawl| crawl.spec.id).ok_or_else(|| {
        Failure::new(Code::NotFound, "there are no crawls").cure("divvy crawl start URL")
    })?)
}

/// Waits until a crawl has ended, with live figures, and says how.
async fn wait_for(api: &Api, id: &str, context: &Context) -> Result<Code> {
    context.on_interrupt(
        "; the crawl goes on without this command",
        Some(format!("come back with: divvy crawl status {id} --wait")),
    );
    let crawl = follow::until_final(api, &context.output, id).await?;
    context.on_interrupt("", None);
    if context.output.is_json() {
        context.output.object(&crawl)?;
    } else if !context.output.is_quiet() {
        words::summary(&crawl, &context.output)?;
    }
    Ok(if is_good(crawl.state) { Code::Done } else { Code::Failed })
}

async fn wish(id: &str, verb: &str, body: Value, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve(&api, id).await?;
    let reply = api.post(&["crawls", &id, verb], &body).await?;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(&id)?;
    } else {
        let crawl: CrawlView = reply.parse()?;
        output.data(format_args!("{id}  {}", crawl.state.as_str()))?;
    }
    Ok(Code::Done)
}

async fn remove(id: &str, context: &Context) -> Result<Code> {
    let api = context.api()?;
    let id = resolve(&api, id).await?;
    let reply = api.delete(&["crawls", &id]).await?;
    if context.output.is_json() {
        context.output.raw(reply.text())?;
    } else {
        context.output.data(format_args!("{id}  removed"))?;
    }
    Ok(Code::Done)
}

async fn explain(args: &Explain, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve(&api, &args.id).await?;
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
