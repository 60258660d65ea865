//! Dataflow as a workload: everything that it brings to the binary, in one value.
//!
//! Decides nothing about jobs; it only says which part of this crate answers which question of the interface.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches};
use divvy::api::Patience;
use divvy::{Client, Worker};
use divvy_workload::console::exit::Code;
use divvy_workload::provider::command::with_examples;
use divvy_workload::settings::{Row, Sources};
use divvy_workload::{
    BoxFuture, Context, DataFolders, Doing, Finding, Grade, Listing, Prepared, Scratch,
    ServerContext, ServerPart, UpContext, WorkerContext, WorkerPart, Workload, confine,
};

use serde::Deserialize;

use crate::bench;
use crate::command::providers::EXAMPLES;
use crate::command::{self, args::FlowCommand};
use crate::duckdb::{self, Duckdb};
use crate::job::folder::FLOWS;
use crate::job::remote::AtServer;
use crate::job::tasks::{self, CAPABILITY, COMMANDS, JobsAt, Site as WorkerSite};
use crate::jobs::Jobs;
use crate::jobs::remote::{self, Readable};
use crate::settings::{FlowFlags, FlowSettings, NAME, TEMPLATE, readable};
use crate::web::Site;
use crate::web::metrics::Figures;

/// The folder of crawls beside that of jobs, whose link graphs jobs may read.
const CRAWLS: &str = "crawls";

/// MapReduce, aggregation, sort, graphs and streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowWorkload;

impl Workload for FlowWorkload {
    fn name(&self) -> &'static str {
        NAME
    }

    fn template(&self) -> &'static str {
        TEMPLATE
    }

    fn settings(&self, sources: &Sources) -> Result<Vec<Row>> {
        Ok(FlowSettings::read(sources)?.rows())
    }

    fn command(&self) -> Option<Command> {
        Some(with_examples(FlowCommand::command(), EXAMPLES))
    }

    fn run<'a>(&'a self, matches: &'a ArgMatches, context: &'a Context) -> Doing<'a, Code> {
        Box::pin(async {
            command::run(FlowCommand::from_arg_matches(matches)?.verb, context).await
        })
    }

    fn listing(&self, argument: &str) -> Option<Listing> {
        (argument == "id").then(|| Listing::new("flows", "id"))
    }

    fn inner_word(&self) -> Option<&'static str> {
        Some(confine::WORD)
    }

    fn run_inner(&self, arguments: &mut dyn Iterator<Item = OsString>) -> Code {
        confine::run_inner(arguments)
    }

    fn bench_command(&self) -> Option<Command> {
        Some(bench::Args::command())
    }

    fn bench<'a>(&'a self, matches: &'a ArgMatches, context: &'a Context) -> Doing<'a, Code> {
        Box::pin(async {
            bench::run(&bench::Args::from_arg_matches(matches)?, &context.output).await?;
            Ok(Code::Done)
        })
    }

    fn examples(&self, command: &str) -> &'static str {
        match command {
            "" => "  divvy flow sort --input FILE --wait   sort more than fits into memory\n",
            _ => "",
        }
    }

    fn worker_flags(&self, command: Command) -> Command {
        FlowFlags::augment_args(command)
    }

    fn worker<'a>(&'a self, context: &'a WorkerContext<'a>) -> Doing<'a, Option<WorkerPart>> {
        Box::pin(worker(context))
    }

    fn prepare<'a>(&'a self, up: &'a UpContext<'a>) -> Doing<'a, Prepared> {
        Box::pin(std::future::ready(prepare(up)))
    }

    fn serve<'a>(&'a self, context: &'a ServerContext) -> Doing<'a, ServerPart> {
        Box::pin(async {
            let jobs = Jobs::open(context.client.clone(), &context.data)?;
            let figures = Figures::default();
            let mut folders = readable(&FlowSettings::read(&context.sources)?.read.value);
            folders.extend(beside_folder(&context.data.join(FLOWS)));
            let (shutdown, frame) = (context.shutdown.clone(), context.frame.clone());
            let site = Site::new(jobs.clone(), Readable::new(folders), shutdown, frame);
            let keeping = jobs.keep(figures.clone(), context.shutdown.clone());
            Ok(ServerPart {
                routes: site.routes(),
                pages: Site::PAGES.to_vec(),
                background: vec![Box::pin(keeping)],
                metrics: Some(Box::new(|registry| figures.register(registry))),
            })
        })
    }

    fn data_folders(&self) -> DataFolders {
        DataFolders { kept: &[FLOWS], scratch: &[] }
    }

    fn check<'a>(&'a self, context: &'a Context) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(async { vec![check(context), check_parquet().await] })
    }
}

/// What was said about parts of jobs, on the command line or in settings.
struct Choice {
    is_enabled: bool,
    folder: Option<PathBuf>,
    /// Folders that jobs may read; none means where the worker is started.
    read: Vec<PathBuf>,
    /// Where parts spill that do not see the folder of jobs.
    scratch: Option<PathBuf>,
    commands: bool,
}

impl Choice {
    fn new(matches: &ArgMatches, sources: &Sources) -> Result<Self> {
        let flags = FlowFlags::from_arg_matches(matches)?;
        let settings = FlowSettings::read(sources)?;
        Ok(Self {
            is_enabled: !flags.no_flow && settings.enabled.value,
            folder: flags.flows.or(settings.folder.value),
            read: if flags.flow_read.is_empty() { settings.read.value } else { flags.flow_read },
            scratch: flags.flow_scratch.or(settings.scratch.value),
            commands: flags.flow_commands || settings.commands.value,
        })
    }

    /// The same as flags of a worker of this machine.
    fn arguments(self) -> Vec<String> {
        if !self.is_enabled {
            return vec!["--no-flow".to_owned()];
        }
        let read = readable(&self.read).into_iter().map(|folder| ("--flow-read", folder));
        let told = self.folder.map(|folder| ("--flows", folder)).into_iter().chain(read);
        let mut arguments: Vec<String> =
            told.flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]).collect();
        arguments.extend(self.commands.then(|| "--flow-commands".to_owned()));
        arguments
    }
}

/// What local workers of `divvy up` are told, who read no settings.
fn prepare(up: &UpContext<'_>) -> Result<Prepared> {
    let choice = Choice::new(up.matches, &up.context.sources)?;
    let mut prepared = Prepared::default();
    if choice.is_enabled && duckdb::is_installed() {
        // Each worker tries it out, and says if that fails.
        prepared.lines = vec![(NAME, "reads Parquet with DuckDB".to_owned())];
    }
    prepared.worker_arguments = choice.arguments();
    Ok(prepared)
}

/// The kinds of parts, if this worker takes any.
async fn worker(context: &WorkerContext<'_>) -> Result<Option<WorkerPart>> {
    let choice = Choice::new(context.matches, context.sources)?;
    if !choice.is_enabled {
        return Ok(None);
    }
    let found = async {
        let Some(client) = context.connect().await? else { return Ok(None) };
        let identity = identity_of(&client).await?;
        anyhow::Ok(Some((client, identity)))
    };
    let (client, theirs) = match found.await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        // Who is not let in hears of it from the worker itself, which goes on trying.
        Err(error) => {
            tracing::warn!(
                "takes no parts of jobs: the server does not say where they are: {error}"
            );
            return Ok(None);
        }
    };
    let mut capabilities = vec![CAPABILITY.to_owned()];
    if choice.commands {
        capabilities.push(COMMANDS.to_owned());
    }
    let seen = context.shared_folder(choice.folder.clone(), FLOWS);
    let site = match seen.filter(|folder| remote::identity(folder).as_ref() == Some(&theirs)) {
        Some(folder) => in_folder(choice, folder, &mut capabilities).await,
        None => at_server(choice, &client)?,
    };
    let worker = tasks::serve(Worker::new(NAME).state(site));
    Ok(Some(WorkerPart { registry: worker.into_registry()?, capabilities }))
}

/// Which folder of jobs the server has.
async fn identity_of(client: &Client) -> Result<String, divvy::Error> {
    #[derive(Deserialize)]
    struct About {
        identity: String,
    }
    let mut patience = Patience::endless();
    loop {
        match client.api().get(&["flows", "folder"], &[]).await {
            Ok(reply) => return Ok(reply.parse::<About>()?.identity),
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// A worker that does not see the server's folder of jobs.
fn at_server(choice: Choice, client: &Client) -> Result<WorkerSite> {
    let api = client.api().clone();
    let why = match &choice.folder {
        Some(folder) => format!("{} is not the server's folder of them", folder.display()),
        None => "the server's folder of them is not seen from here".to_owned(),
    };
    tracing::info!("takes parts of jobs over HTTP from {}: {why}", api.server());
    let scratch = std::path::absolute(choice.scratch.unwrap_or_else(std::env::temp_dir))?;
    let opened = std::fs::create_dir_all(&scratch).and_then(|()| Scratch::open(&scratch, NAME));
    let scratch = opened.with_context(|| {
        let scratch = scratch.display();
        format!("cannot work in {scratch}; name another folder with --flow-scratch")
    })?;
    let server = AtServer::new(api, tokio::runtime::Handle::current(), scratch);
    let jobs = JobsAt::Server(Arc::new(server));
    // What reads Parquet wants a file of this machine.
    Ok(WorkerSite { jobs, readable: [].into(), commands: choice.commands, duckdb: None })
}

/// A worker that sees the server's folder of jobs.
async fn in_folder(choice: Choice, folder: PathBuf, capabilities: &mut Vec<String>) -> WorkerSite {
    let mut readable = readable(&choice.read);
    readable.extend(beside_folder(&folder));
    tracing::info!("takes parts of jobs in {}", folder.display());
    capabilities.push(tasks::FOLDER.to_owned());
    let duckdb = find_duckdb().await.unwrap_or_else(|problem| {
        tracing::warn!("reads no Parquet: {problem}");
        None
    });
    if let Some(duckdb) = &duckdb {
        tracing::info!("reads Parquet with {}", duckdb.words());
        capabilities.push(duckdb.capability());
    }
    let jobs = JobsAt::Folder(folder);
    WorkerSite { jobs, readable: readable.into(), commands: choice.commands, duckdb }
}

/// The DuckDB that is installed here, tried out.
async fn find_duckdb() -> Result<Option<Duckdb>, String> {
    let found = tokio::task::spawn_blocking(Duckdb::find).await;
    found.unwrap_or_else(|error| Err(error.to_string()))
}

/// What jobs may read in any case: results of other jobs, and what crawls found.
fn beside_folder(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let flows = folder.canonicalize().ok();
    let crawls = folder.parent().and_then(|data| data.join(CRAWLS).canonicalize().ok());
    flows.into_iter().chain(crawls)
}

/// Whether workers of this machine take parts, and what jobs may do there.
fn check(context: &Context) -> Finding {
    match FlowSettings::read(&context.sources) {
        Err(error) => Finding::new(NAME, Grade::Fault, error.to_string()),
        Ok(settings) if !settings.enabled.value => {
            Finding::new(NAME, Grade::Note, "is switched off").cure("set flow.enabled to true")
        }
        Ok(settings) if settings.commands.value => {
            Finding::new(NAME, Grade::Note, "lets jobs run any program, with the worker's rights")
                .cure("set flow.commands to false unless everybody who may submit is trusted")
        }
        Ok(_) => {
            Finding::new(NAME, Grade::Good, "takes parts of jobs, and runs no programs of theirs")
        }
    }
}

/// Whether workers of this machine read Parquet.
async fn check_parquet() -> Finding {
    match find_duckdb().await {
        Ok(Some(duckdb)) => Finding::new("parquet", Grade::Good, duckdb.words()),
        Ok(None) => {
            Finding::new("parquet", Grade::Note, "is not read: no provider is installed here")
                .cure("divvy flow provider install duckdb")
        }
        Err(problem) => Finding::new("parquet", Grade::Note, format!("is not read: {problem}"))
            .cure("apt-get install bubblewrap, or divvy flow provider install duckdb"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_workers_get_what_was_said_about_jobs() {
        let arguments = |words: &[&str], yaml: &str| {
            let command = FlowFlags::augment_args(Command::new("work"));
            let matches = command.get_matches_from(["work"].iter().chain(words));
            let file = (PathBuf::from("/a/divvy.yaml"), yaml.to_owned());
            Choice::new(&matches, &Sources::new(Some(file), |_| None)).unwrap().arguments()
        };
        assert_eq!(arguments(&["--no-flow"], "flow: {commands: true}"), ["--no-flow"]);
        assert_eq!(arguments(&[], "flow: {enabled: false}"), ["--no-flow"]);
        let said = ["--flows", "/f", "--flow-read", "/", "--flow-commands"];
        assert_eq!(arguments(&said, ""), said);
        assert_eq!(arguments(&["--flow-read", "/"], "flow: {folder: f}")[..2], ["--flows", "/a/f"]);
    }
}
