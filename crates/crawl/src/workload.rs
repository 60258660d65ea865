//! Crawls as a workload: everything that they bring to the binary, in one value.
//!
//! Decides nothing about crawls; it only says which part of this crate answers which question of the interface.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches};
use divvy::Worker;
use divvy_workload::confine;
use divvy_workload::console::exit::Code;
use divvy_workload::settings::{Row, Sources};
use divvy_workload::{
    BoxFuture, Context, DataFolders, Doing, Finding, Grade, Listing, Prepared, ServerContext,
    ServerPart, UpContext, WorkerContext, WorkerPart, Workload,
};

use crate::bench;
use crate::command::{self, args::CrawlCommand};
use crate::crawls::Crawls;
use crate::folder::CRAWLS;
use crate::render;
use crate::section::{CrawlFlags, CrawlSettings, NAME, TEMPLATE};
use crate::shard::task::{self, CAPABILITY};
use crate::web::Site;
use crate::web::metrics::Figures;

/// The web crawler.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrawlWorkload;

impl Workload for CrawlWorkload {
    fn name(&self) -> &'static str {
        NAME
    }

    fn template(&self) -> &'static str {
        TEMPLATE
    }

    fn settings(&self, sources: &Sources) -> Result<Vec<Row>> {
        Ok(CrawlSettings::read(sources)?.rows())
    }

    fn command(&self) -> Option<Command> {
        Some(CrawlCommand::command())
    }

    fn run<'a>(&'a self, matches: &'a ArgMatches, context: &'a Context) -> Doing<'a, Code> {
        Box::pin(async {
            command::run(CrawlCommand::from_arg_matches(matches)?.verb, context).await
        })
    }

    fn listing(&self, argument: &str) -> Option<Listing> {
        (argument == "id").then(|| Listing::new("crawls", "id"))
    }

    fn bench_command(&self) -> Option<Command> {
        Some(bench::Args::command())
    }

    fn inner_word(&self) -> Option<&'static str> {
        Some(confine::WORD)
    }

    fn run_inner(&self, arguments: &mut dyn Iterator<Item = OsString>) -> Code {
        confine::run_inner(arguments)
    }

    fn bench<'a>(&'a self, matches: &'a ArgMatches, context: &'a Context) -> Doing<'a, Code> {
        Box::pin(async {
            bench::run(&bench::Args::from_arg_matches(matches)?, &context.output).await?;
            Ok(Code::Done)
        })
    }

    fn examples(&self, command: &str) -> &'static str {
        match command {
            "" => "  divvy crawl start URL --wait   crawl a site politely, exactly resumable\n",
            _ => "",
        }
    }

    fn worker_flags(&self, command: Command) -> Command {
        CrawlFlags::augment_args(command)
    }

    fn worker<'a>(&'a self, context: &'a WorkerContext<'a>) -> Doing<'a, Option<WorkerPart>> {
        Box::pin(std::future::ready(worker(context)))
    }

    fn prepare<'a>(&'a self, up: &'a UpContext<'a>) -> Doing<'a, Prepared> {
        Box::pin(std::future::ready(prepare(up)))
    }

    fn serve<'a>(&'a self, context: &'a ServerContext) -> Doing<'a, ServerPart> {
        Box::pin(async {
            let agent = CrawlSettings::read(&context.sources)?.user_agent.value;
            let crawls = Crawls::open(context.client.clone(), &context.data, agent)?;
            let figures = Figures::default();
            let site = Site::new(crawls.clone(), context.shutdown.clone(), context.frame.clone());
            let keeping = crawls.keep(figures.clone(), context.shutdown.clone());
            Ok(ServerPart {
                routes: site.routes(),
                pages: Site::PAGES.to_vec(),
                background: vec![Box::pin(keeping)],
                metrics: Some(Box::new(|registry| figures.register(registry))),
            })
        })
    }

    fn data_folders(&self) -> DataFolders {
        DataFolders { kept: &[CRAWLS], scratch: &[] }
    }

    fn check<'a>(&'a self, context: &'a Context) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(std::future::ready(vec![check(context)]))
    }
}

/// What was said about shards, on the command line or in settings.
struct Choice {
    is_enabled: bool,
    folder: Option<PathBuf>,
    chromium: Option<PathBuf>,
}

impl Choice {
    fn new(matches: &ArgMatches, sources: &Sources) -> Result<Self> {
        let flags = CrawlFlags::from_arg_matches(matches)?;
        let settings = CrawlSettings::read(sources)?;
        Ok(Self {
            is_enabled: !flags.no_crawl && settings.enabled.value,
            folder: flags.crawls.or(settings.folder.value),
            chromium: flags.chromium.or(settings.chromium.value),
        })
    }

    /// The same as flags of a worker of this machine.
    fn arguments(self) -> Vec<String> {
        if !self.is_enabled {
            return vec!["--no-crawl".to_owned()];
        }
        let paths = [("--crawls", self.folder), ("--chromium", self.chromium)];
        let told = paths.into_iter().filter_map(|(flag, path)| Some((flag, path?)));
        told.flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]).collect()
    }
}

/// What local workers of `divvy up` are told, who read no settings.
fn prepare(up: &UpContext<'_>) -> Result<Prepared> {
    let worker_arguments = Choice::new(up.matches, &up.context.sources)?.arguments();
    Ok(Prepared { worker_arguments, ..Prepared::default() })
}

/// The kind of shards, if this worker takes any and can read the folder of crawls.
fn worker(context: &WorkerContext<'_>) -> Result<Option<WorkerPart>> {
    let choice = Choice::new(context.matches, context.sources)?;
    if !choice.is_enabled {
        return Ok(None);
    }
    let Some(folder) = context.shared_folder(choice.folder, CRAWLS) else {
        tracing::info!("takes no shards of crawls: --crawls names the server's folder of them");
        return Ok(None);
    };
    let chromium = browser(choice.chromium);
    let mut capabilities = vec![CAPABILITY.to_owned()];
    if chromium.is_some() {
        capabilities.push(render::CAPABILITY.to_owned());
    }
    tracing::info!("takes shards of crawls in {}", folder.display());
    let site = task::Site { folder, allow_private: context.allow_private, chromium };
    let worker = Worker::new(NAME).state(site).on(task::work);
    Ok(Some(WorkerPart { registry: worker.into_registry()?, capabilities }))
}

fn browser(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(render::find)
}

/// Whether pages that are made by scripts can be rendered here.
fn check(context: &Context) -> Finding {
    match CrawlSettings::read(&context.sources) {
        Err(error) => Finding::new(NAME, Grade::Fault, error.to_string()),
        Ok(settings) if !settings.enabled.value => {
            Finding::new(NAME, Grade::Note, "is switched off").cure("set crawl.enabled to true")
        }
        Ok(settings) => match browser(settings.chromium.value) {
            Some(program) => {
                Finding::new(NAME, Grade::Good, format!("renders with {}", program.display()))
            }
            None => Finding::new(NAME, Grade::Note, "crawls, but renders no pages: no chromium")
                .cure("install chromium, or set crawl.chromium, for crawls with --render"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(words: &[&str], yaml: &str) -> Choice {
        let command = CrawlFlags::augment_args(Command::new("work"));
        let matches = command.get_matches_from(["work"].iter().chain(words));
        let file = (PathBuf::from("/a/divvy.yaml"), yaml.to_owned());
        Choice::new(&matches, &Sources::new(Some(file), |_| None)).unwrap()
    }

    #[test]
    fn local_workers_get_what_was_said_about_crawls() {
        assert_eq!(choice(&[], "").arguments(), Vec::<String>::new());
        assert_eq!(choice(&["--no-crawl"], "").arguments(), ["--no-crawl"]);
        assert_eq!(choice(&[], "crawl: {enabled: false}").arguments(), ["--no-crawl"]);
        let said = choice(&["--crawls", "/c"], "crawl: {folder: f, chromium: bin/chrome}");
        assert_eq!(said.arguments(), ["--crawls", "/c", "--chromium", "/a/bin/chrome"]);
    }
}
