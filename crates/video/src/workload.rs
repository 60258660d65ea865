//! Videos as a workload: everything that the platform brings to the binary, in one value.
//!
//! Decides nothing about videos; it only says which part of this crate answers which question of the interface.

pub(crate) mod choice;
pub(crate) mod settings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches};
use divvy::types::WorkflowId;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::provider::command::with_examples;
use divvy_workload::settings::{Row, Sources};
use divvy_workload::{
    BoxFuture, Context, DataFolders, Doing, Finding, Grade, Listing, Prepared, SampleContext,
    ServerContext, ServerPart, UpContext, WorkerContext, WorkerPart, Workload, confine,
};
use serde_json::{Value, json};

use crate::bench;
use crate::command::args::{PROVIDER_EXAMPLES, VideoCommand};
use crate::command::{self, showcase};
use crate::library::{FIRST_AFTER, Library};
use crate::web::Site;
use crate::web::metrics::Figures;
use choice::{SCRATCH, VideoChoice, VideoFlags, offer};
use settings::{NAME, TEMPLATE, VideoSettings};

/// The video platform.
#[derive(Clone, Copy, Debug, Default)]
pub struct VideoWorkload;

/// Flags of `divvy up` alone.
#[derive(Args, Debug)]
#[command(next_help_heading = "Video")]
struct VideoUpFlags {
    /// Take this video as the sample
    #[arg(long, value_name = "FILE", requires = "sample")]
    video: Option<PathBuf>,
}

impl Workload for VideoWorkload {
    fn name(&self) -> &'static str {
        NAME
    }

    fn template(&self) -> &'static str {
        TEMPLATE
    }

    fn listing(&self, argument: &str) -> Option<Listing> {
        matches!(argument, "id" | "ids").then(|| Listing::new("videos", "id"))
    }

    fn settings(&self, sources: &Sources) -> Result<Vec<Row>> {
        Ok(VideoSettings::read(sources)?.rows())
    }

    fn command(&self) -> Option<Command> {
        Some(with_examples(VideoCommand::command(), PROVIDER_EXAMPLES))
    }

    fn run<'a>(&'a self, matches: &'a ArgMatches, context: &'a Context) -> Doing<'a, Code> {
        Box::pin(async {
            command::run(VideoCommand::from_arg_matches(matches)?.verb, context).await
        })
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

    fn inner_word(&self) -> Option<&'static str> {
        Some(confine::WORD)
    }

    fn run_inner(&self, arguments: &mut dyn Iterator<Item = OsString>) -> Code {
        confine::run_inner(arguments)
    }

    fn examples(&self, command: &str) -> &'static str {
        match command {
            "" => "  divvy video add FILE --wait    split a video over all workers\n",
            "up" => "  divvy up --sample --video film.mp4       process this video\n",
            "work" => "  divvy work --speech whisper --cache /fast/divvy --cache-size 100GB\n",
            _ => "",
        }
    }

    fn worker_flags(&self, command: Command) -> Command {
        VideoFlags::augment_args(command)
    }

    fn worker<'a>(&'a self, context: &'a WorkerContext<'a>) -> Doing<'a, Option<WorkerPart>> {
        Box::pin(worker(context))
    }

    fn up_flags(&self, command: Command) -> Command {
        VideoUpFlags::augment_args(command)
    }

    fn prepare<'a>(&'a self, up: &'a UpContext<'a>) -> Doing<'a, Prepared> {
        Box::pin(prepare(up))
    }

    fn try_out<'a>(
        &'a self,
        file: &'a Path,
        context: &'a Context,
    ) -> Doing<'a, Option<WorkflowId>> {
        Box::pin(async { command::try_out(file, context).await.map(Some) })
    }

    fn sample_about(&self) -> Option<&'static str> {
        Some("a clip that is made here")
    }

    fn sample<'a>(&'a self, sample: &'a SampleContext<'a>) -> Doing<'a, ()> {
        Box::pin(async {
            let mut video = chosen(sample.matches, &sample.context.sources)?;
            video.use_installed_providers();
            let file = VideoUpFlags::from_arg_matches(sample.matches)?.video;
            let (context, data) = (sample.context, sample.data);
            let client = context.client()?;
            showcase::Sample {
                client: &client,
                context,
                video: &video,
                data,
                file: file.as_deref(),
            }
            .run()
            .await
        })
    }

    fn serve<'a>(&'a self, context: &'a ServerContext) -> Doing<'a, ServerPart> {
        Box::pin(async {
            let library = Library::new(context.client.clone(), context.objects.clone());
            let site = Site::new(library.clone(), context.shutdown.clone());
            let figures = Figures::default();
            let counting = figures.clone().count_always(library.clone(), context.shutdown.clone());
            let collecting = library.collect_always(FIRST_AFTER, context.shutdown.clone());
            Ok(ServerPart {
                routes: site.with_frame(context.frame.clone()).routes(),
                pages: Site::PAGES.to_vec(),
                background: vec![Box::pin(collecting), Box::pin(counting)],
                metrics: Some(Box::new(|registry| figures.register(registry))),
            })
        })
    }

    fn data_folders(&self) -> DataFolders {
        // The library itself is records and blobs.
        DataFolders { kept: &[], scratch: &[SCRATCH] }
    }

    fn check<'a>(&'a self, context: &'a Context) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(async { vec![check(context).await] })
    }
}

/// Flags over settings.
fn chosen(matches: &ArgMatches, sources: &Sources) -> Result<VideoChoice> {
    let flags = VideoFlags::from_arg_matches(matches)?;
    Ok(VideoChoice::new(&flags, &VideoSettings::read(sources)?))
}

/// The kinds of videos, if this worker takes any and the tools are there.
async fn worker(context: &WorkerContext<'_>) -> Result<Option<WorkerPart>> {
    let choice = chosen(context.matches, context.sources)?;
    if !choice.enabled {
        return Ok(None);
    }
    let tools = match choice.find().await {
        Ok(tools) => tools,
        Err(error) => {
            tracing::warn!("takes no video tasks: {error}; --no-video is silent about it");
            return Ok(None);
        }
    };
    tracing::info!("takes video tasks: {}", offer(&tools));
    for problem in tools.problems() {
        tracing::warn!("videos will be degraded: {problem}");
    }
    let Some(client) = context.connect().await? else { return Ok(None) };
    let capabilities = tools.capabilities();
    let studio = choice.studio(tools, client, context)?;
    Ok(Some(WorkerPart { registry: crate::tasks::registry(studio)?, capabilities }))
}

/// What video tasks can be done with here, in words. Where they cannot, the workers need not look for it again.
async fn prepare(up: &UpContext<'_>) -> Result<Prepared> {
    let mut choice = chosen(up.matches, &up.context.sources)?;
    if up.is_sample && !choice.enabled {
        return Err(Failure::usage("--sample is a video, and --no-video takes none")
            .cure("leave one of them out, or take --sample primes")
            .into());
    }
    if up.is_sample {
        // A sample shows all that this machine can do.
        choice.use_installed_providers();
    }
    let mut prepared = Prepared { json: Value::Null, ..Prepared::default() };
    if choice.enabled {
        match choice.try_out().await {
            Ok(tools) => {
                for problem in tools.problems() {
                    up.context.output.note(format_args!("videos will be degraded: {problem}"));
                }
                prepared.json = json!(offer(&tools));
                prepared.lines = vec![(NAME, offer(&tools))];
                prepared.pages = vec![("library", "/videos")];
            }
            Err(error) if up.is_sample => {
                return Err(Failure::new(Code::Failed, error.to_string())
                    .cure("without it there is: divvy up --sample primes")
                    .into());
            }
            Err(error) => {
                up.context.output.note(format_args!("no video tasks here: {error}"));
                choice.enabled = false;
            }
        }
    }
    prepared.worker_arguments = choice.arguments(up.data);
    Ok(prepared)
}

/// Whether video tasks can run here, and with what.
async fn check(context: &Context) -> Finding {
    let settings = match VideoSettings::read(&context.sources) {
        Ok(settings) => settings,
        Err(error) => return Finding::new(NAME, Grade::Fault, error.to_string()),
    };
    let choice = VideoChoice::new(&VideoFlags::default(), &settings);
    if !choice.enabled {
        return Finding::new(NAME, Grade::Note, "is switched off")
            .cure("set video.enabled to true");
    }
    match choice.find().await {
        Ok(tools) if tools.problems().is_empty() => Finding::new(NAME, Grade::Good, offer(&tools)),
        Ok(tools) => {
            let text = format!("{}; {}", offer(&tools), tools.problems().join("; "));
            Finding::new(NAME, Grade::Note, text)
                .cure("videos that want it will be degraded: install it, or choose `none`")
        }
        Err(error) => Finding::new(NAME, Grade::Note, format!("no video tasks: {error}")).cure(
            "install ffmpeg and bubblewrap (Debian: apt-get install ffmpeg bubblewrap), or set video.ffmpeg",
        ),
    }
}
