//! `divvy flow`: starts jobs, watches and steers them.
//!
//! Everything goes over the API of a server. Ctrl-C while it waits ends this command only; the job goes on. The
//! arguments of each kind of job are in a file of its own.

mod aggregate;
pub(crate) mod args;
mod feed;
mod generate;
mod graph;
mod mapreduce;
pub(crate) mod providers;
mod results;
mod sort;
pub(crate) mod start;
mod stream;
mod words;

use anyhow::Result;
use divvy_workload::console::exit::Code;
use divvy_workload::console::output::Output;
use divvy_workload::console::output::table::Table;
use divvy_workload::view::{self, list, remove, resolve, resolve_or_latest, wait_for};
use divvy_workload::{Context, View};
use serde_json::json;

use crate::jobs::state::JobState;
use crate::jobs::view::JobView;
use crate::web::Explained;
use args::{Fetch, One, Status, Verb};

/// Does what is asked.
pub(crate) async fn run(verb: Verb, context: &Context) -> Result<Code> {
    match verb {
        Verb::MapReduce(args) => mapreduce::run(&args, context).await,
        Verb::Aggregate(args) => aggregate::run(&args, context).await,
        Verb::Sort(args) => sort::run(&args, context).await,
        Verb::Graph(args) => graph::run(&args, context).await,
        Verb::Stream(args) => stream::run(&args, context).await,
        Verb::Gen(args) => generate::run(&args, context),
        Verb::List => list::<JobView>(context).await,
        Verb::Status(args) => status(&args, context).await,
        Verb::Output(args) => output(&args, context).await,
        Verb::Stop(One { id }) => view::wish::<JobView>(&id, "stop", &json!({}), context).await,
        Verb::Cancel(One { id }) => view::wish::<JobView>(&id, "cancel", &json!({}), context).await,
        Verb::Remove(One { id }) => remove::<JobView>(&id, context).await,
        Verb::Explain(One { id }) => explain(&id, context).await,
        Verb::Provider(verb) => providers::run(verb, context).await,
    }
}

async fn status(args: &Status, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve_or_latest::<JobView>(&api, args.id.as_deref()).await?;
    let code = if args.wait {
        wait_for::<JobView>(&api, &id, context).await?
    } else {
        let job: JobView = api.get(&["flows", &id], &[]).await?.parse()?;
        if output.is_json() {
            output.object(&job)?;
        } else {
            words::summary(&job, output)?;
            view::tell_page::<JobView>(&api, &id, output);
        }
        Code::Done
    };
    if let Some(file) = &args.timeline {
        results::timeline(&api, &id, file, output).await?;
    }
    Ok(code)
}

async fn output(args: &Fetch, context: &Context) -> Result<Code> {
    let api = context.api()?;
    let id = resolve_or_latest::<JobView>(&api, args.id.as_deref()).await?;
    match &args.out {
        Some(folder) => results::fetch(&api, &id, folder, &context.output).await?,
        None => results::print(&api, &id).await?,
    }
    Ok(Code::Done)
}

async fn explain(id: &str, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve::<JobView>(&api, id).await?;
    let reply = api.get(&["flows", &id, "explain"], &[]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let explained: Explained = reply.parse()?;
    explained.lines.iter().try_for_each(|line| output.data(line))?;
    Ok(Code::Done)
}

impl View for JobView {
    const PLACE: &'static str = "flows";
    const NOUN: &'static str = "job";
    const COMMAND: &'static str = "divvy flow";
    const START: &'static str = "divvy flow sort --input FILE";
    type Event = Self;

    fn id(&self) -> &str {
        &self.id
    }

    fn state(&self) -> &'static str {
        self.state.as_str()
    }

    fn is_final(&self) -> bool {
        self.state.is_final()
    }

    fn is_good(&self) -> bool {
        self.state == JobState::Done
    }

    fn line(&self) -> String {
        words::line(self)
    }

    fn steps(&self) -> Vec<String> {
        let done = self.stages.iter().filter(|stage| stage.ended_at_ms.is_some());
        done.map(words::stage_line).collect()
    }

    fn summary(&self, output: &Output) -> Result<()> {
        words::summary(self, output)
    }

    fn table(jobs: &[Self]) -> Table {
        words::table(jobs)
    }
}
