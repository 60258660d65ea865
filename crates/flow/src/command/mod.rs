//! `divvy flow`: starts jobs, watches and steers them.
//!
//! Everything goes over the API of a server. Ctrl-C while it waits ends this command only; the job goes on. The
//! arguments of each kind of job are in a file of its own.

mod aggregate;
pub(crate) mod args;
mod feed;
mod follow;
mod generate;
mod graph;
mod mapreduce;
mod results;
mod sort;
pub(crate) mod start;
mod stream;
mod words;

use anyhow::Result;
use divvy::api::{Api, parse_rows};
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use serde_json::json;

use crate::jobs::ID_LEN;
use crate::jobs::state::JobState;
use crate::jobs::view::JobView;
use crate::web::Explained;
use args::{One, Status, Verb};

/// Jobs of one list.
const LIST_MAX: usize = 100;

/// Does what is asked.
pub(crate) async fn run(verb: Verb, context: &Context) -> Result<Code> {
    match verb {
        Verb::MapReduce(args) => mapreduce::run(&args, context).await,
        Verb::Aggregate(args) => aggregate::run(&args, context).await,
        Verb::Sort(args) => sort::run(&args, context).await,
        Verb::Graph(args) => graph::run(&args, context).await,
        Verb::Stream(args) => stream::run(&args, context).await,
        Verb::Gen(args) => generate::run(&args, context),
        Verb::List => list(context).await,
        Verb::Status(args) => status(&args, context).await,
        Verb::Cancel(One { id }) => cancel(&id, context).await,
        Verb::Remove(One { id }) => remove(&id, context).await,
        Verb::Explain(One { id }) => explain(&id, context).await,
    }
}

/// The whole id of a job that is named by it or by a start of it.
async fn resolve(api: &Api, text: &str) -> Result<String> {
    if text.len() == ID_LEN {
        return Ok(text.to_owned());
    }
    let query = [("id", text.to_owned()), ("limit", LIST_MAX.to_string())];
    let found: Vec<JobView> = parse_rows(&api.get(&["flows"], &query).await?.rows()?.items)?;
    match found.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => {
            let text = format!("no job has an id that starts with `{text}`");
            let failure = Failure::new(Code::NotFound, text);
            Err(failure.cure("divvy flow list shows which there are").into())
        }
        several => {
            let ids: Vec<&str> = several.iter().take(5).map(|job| job.id.as_str()).collect();
            let text = format!("`{text}` fits {} jobs: {}", several.len(), ids.join(", "));
            Err(Failure::usage(text).cure("write more of the id").into())
        }
    }
}

async fn list(context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let page = api.get(&["flows"], &[("limit", LIST_MAX.to_string())]).await?.rows()?;
    let jobs: Vec<JobView> = parse_rows(&page.items)?;
    if output.is_json() {
        jobs.iter().try_for_each(|job| output.object(job))?;
    } else if output.is_quiet() {
        jobs.iter().try_for_each(|job| output.data(&job.id))?;
    } else if jobs.is_empty() {
        output.note("no jobs; start one with, for example: divvy flow sort --input FILE");
    } else {
        words::table(&jobs).print(output)?;
    }
    Ok(Code::Done)
}

async fn status(args: &Status, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = match &args.id {
        Some(id) => resolve(&api, id).await?,
        None => latest(&api).await?,
    };
    let code = if args.wait {
        wait_for(&api, &id, context).await?
    } else {
        let job: JobView = api.get(&["flows", &id], &[]).await?.parse()?;
        if output.is_json() {
            output.object(&job)?;
        } else {
            words::summary(&job, output)?;
            output.note(format_args!("watch it: {}/flows/{id}", api.server()));
        }
        Code::Done
    };
    if let Some(file) = &args.timeline {
        results::timeline(&api, &id, file, output).await?;
    }
    Ok(code)
}

async fn latest(api: &Api) -> Result<String> {
    let page = api.get(&["flows"], &[("limit", "1".to_owned())]).await?.rows()?;
    let jobs: Vec<JobView> = parse_rows(&page.items)?;
    let first = jobs.into_iter().next();
    Ok(first.map(|job| job.id).ok_or_else(|| {
        Failure::new(Code::NotFound, "there are no jobs").cure("divvy flow --help")
    })?)
}

/// Waits until a job has ended, with live figures, and says how.
async fn wait_for(api: &Api, id: &str, context: &Context) -> Result<Code> {
    context.on_interrupt(
        "; the job goes on without this command",
        Some(format!("come back with: divvy flow status {id} --wait")),
    );
    let job = follow::until_final(api, &context.output, id).await?;
    context.on_interrupt("", None);
    if context.output.is_json() {
        context.output.object(&job)?;
    } else if !context.output.is_quiet() {
        words::summary(&job, &context.output)?;
    }
    Ok(if job.state == JobState::Done { Code::Done } else { Code::Failed })
}

async fn cancel(id: &str, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve(&api, id).await?;
    let reply = api.post(&["flows", &id, "cancel"], &json!({})).await?;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(&id)?;
    } else {
        let job: JobView = reply.parse()?;
        output.data(format_args!("{id}  {}", job.state.as_str()))?;
    }
    Ok(Code::Done)
}

async fn remove(id: &str, context: &Context) -> Result<Code> {
    let api = context.api()?;
    let id = resolve(&api, id).await?;
    let reply = api.delete(&["flows", &id]).await?;
    if context.output.is_json() {
        context.output.raw(reply.text())?;
    } else {
        context.output.data(format_args!("{id}  removed"))?;
    }
    Ok(Code::Done)
}

async fn explain(id: &str, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve(&api, id).await?;
    let reply = api.get(&["flows", &id, "explain"], &[]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let explained: Explained = reply.parse()?;
    explained.lines.iter().try_for_each(|line| output.data(line))?;
    Ok(Code::Done)
}
