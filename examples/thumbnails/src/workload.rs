//! The workload: everything that thumbnails bring, in one value.

use anyhow::Result;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use divvy::Worker;
use divvy::objects::{Objects, Reach};
use divvy_workload::console::exit::Code;
use divvy_workload::settings::{Row, Sources};
use divvy_workload::{
    BoxFuture, Context, Doing, Finding, Grade, ServerContext, ServerPart, WorkerContext,
    WorkerPart, Workload,
};

use crate::command::{self, ThumbnailsCommand};
use crate::settings::{NAME, Settings, TEMPLATE};
use crate::tasks::{self, Darkroom};
use crate::web::Gallery;

/// Thumbnails of pictures, as a workload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thumbnails;

impl Workload for Thumbnails {
    fn name(&self) -> &'static str {
        NAME
    }

    fn template(&self) -> &'static str {
        TEMPLATE
    }

    fn settings(&self, sources: &Sources) -> Result<Vec<Row>> {
        Ok(Settings::read(sources)?.rows())
    }

    fn command(&self) -> Option<Command> {
        Some(ThumbnailsCommand::command())
    }

    fn run<'a>(&'a self, matches: &'a ArgMatches, context: &'a Context) -> Doing<'a, Code> {
        Box::pin(async {
            command::run(ThumbnailsCommand::from_arg_matches(matches)?, context).await
        })
    }

    fn worker<'a>(&'a self, context: &'a WorkerContext<'a>) -> Doing<'a, Option<WorkerPart>> {
        Box::pin(worker(context))
    }

    fn serve<'a>(&'a self, context: &'a ServerContext) -> Doing<'a, ServerPart> {
        Box::pin(async { Ok(Gallery::new(context)?.part()) })
    }

    fn check<'a>(&'a self, context: &'a Context) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(async { vec![check(context).await] })
    }
}

/// The kind that scales pictures, if there is an ffmpeg to do it with.
async fn worker(context: &WorkerContext<'_>) -> Result<Option<WorkerPart>> {
    let ffmpeg = Settings::read(context.sources)?.ffmpeg.value;
    if let Err(error) = tasks::version(&ffmpeg).await {
        // A worker without it serves everything else.
        tracing::warn!("takes no pictures: {error}");
        return Ok(None);
    }
    let Some(client) = context.connect().await? else { return Ok(None) };
    let reach = Reach {
        folder: context.objects.clone(),
        cache: std::env::temp_dir().join("divvy-thumbnails"),
        cache_bytes: 1 << 30,
    };
    let objects = Objects::at_server(&client, reach);
    let worker = Worker::new(NAME).state(Darkroom { objects, ffmpeg }).on_process(tasks::scale);
    Ok(Some(WorkerPart { registry: worker.into_registry()?, capabilities: vec![NAME.to_owned()] }))
}

/// Whether pictures can be scaled here.
async fn check(context: &Context) -> Finding {
    let ffmpeg = match Settings::read(&context.sources) {
        Ok(settings) => settings.ffmpeg.value,
        Err(error) => return Finding::new(NAME, Grade::Fault, error.to_string()),
    };
    match tasks::version(&ffmpeg).await {
        Ok(version) => Finding::new(NAME, Grade::Good, version),
        Err(error) => Finding::new(NAME, Grade::Note, format!("takes no pictures: {error}"))
            .cure("install ffmpeg, or set thumbnails.ffmpeg"),
    }
}
