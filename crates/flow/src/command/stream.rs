//! `divvy flow stream`: what it understands, and the job that it becomes.
//!
//! What comes through a pipe, and the changes of tasks that the server tells, are not files that workers can read. This
//! command writes them into a folder of segments and waits while too many of them are not worked on yet.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use divvy_kernels::window::{Spec, Trigger};
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::values::Span;
use serde_json::json;

use super::args::Common;
use super::feed;
use super::start;
use crate::input;
use crate::job::NewJob;
use crate::jobs::state::JobState;
use crate::jobs::view::JobView;
use crate::stream::{Format, Options, Source, TimeUnit};

/// Between two looks whether a job that is fed goes on.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// What Ctrl-C does to a job that is fed.
const FEED_ENDS: &str = "; the feed has ended, and the job ends with what was fed";

const EXAMPLES: &str = "\
Examples:
  divvy flow stream --source events.jsonl --time at --window 10s --lateness 20s --group-by k --agg 'count, sum(x)'
  divvy flow stream --source 'logs/*.jsonl' --follow --idle-timeout 30s --window 1m --slide 10s --agg count
  divvy flow stream --source segments/ --session 5m --group-by user --agg 'count, max(x)'
  tail -f app.jsonl | divvy flow stream --source - --window 10s --group-by k --agg count
  divvy flow stream --source events --window 1m --group-by kind,state --agg count

The result has a line for each window and key. Events that come after their
window was closed are in late.jsonl.";

/// Windows over events that come out of order.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StreamArgs {
    /// Files or quoted patterns; a folder of segments, with a slash at its
    /// end; `-` for standard input; `events` for changes of tasks
    #[arg(long, required = true, num_args = 1.., value_name = "SOURCE")]
    source: Vec<String>,
    /// What lines are [default: by the name of the first file, else jsonl]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The field with the time of an event
    #[arg(long, default_value = "at", value_name = "FIELD")]
    time: String,
    /// What a number in that field counts since 1970
    #[arg(long, value_enum, default_value = "ms")]
    time_unit: TimeUnit,
    /// How long a window is
    #[arg(
        long,
        value_name = "SPAN",
        allow_hyphen_values = true,
        required_unless_present = "session",
        conflicts_with = "session"
    )]
    window: Option<Span>,
    /// How long after one window the next begins [default: when it ends]
    #[arg(long, value_name = "SPAN", requires = "window", allow_hyphen_values = true)]
    slide: Option<Span>,
    /// Sessions instead: a window ends when a key is silent for this long
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    session: Option<Span>,
    /// How much later than others an event may come
    #[arg(long, default_value = "0s", value_name = "SPAN", allow_hyphen_values = true)]
    lateness: Span,
    /// Also say what is known before a window is closed: every so many events
    /// of a key, or every span of event time
    #[arg(long, value_name = "COUNT|SPAN", allow_hyphen_values = true)]
    every: Option<Every>,
    /// The fields by which events are grouped
    #[arg(long, value_delimiter = ',', value_name = "FIELD")]
    group_by: Vec<String>,
    /// What is asked of each group, such as 'count, sum(x), p99(x)'
    #[arg(long, default_value = "count")]
    agg: String,
    /// Answers may be approximate, with less memory
    #[arg(long)]
    approx: bool,
    /// Wait for more at the end of sources
    #[arg(long)]
    follow: bool,
    /// A source that is silent for this long does not hold the watermark
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    idle_timeout: Option<Span>,
    /// With --follow: the stream is done when nothing came for this long
    #[arg(long, value_name = "SPAN", requires = "follow", allow_hyphen_values = true)]
    end_after_idle: Option<Span>,
    /// Where segments of standard input or of changes go, a folder that workers
    /// can read [default: one in this folder]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// When windows say something before they are closed.
#[derive(Clone, Copy, Debug)]
struct Every(Trigger);

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(count) = text.parse() {
            return Ok(Self(Trigger::Events(count)));
        }
        Ok(Self(Trigger::EveryMs(ms(text.parse()?))))
    }
}

/// Starts the job, and feeds it if its source is not a file.
pub(crate) async fn run(args: &StreamArgs, context: &Context) -> Result<Code> {
    let fed = match args.source.as_slice() {
        [one] if one == "-" => Some(feed::From::Stdin),
        [one] if one == "events" && !Path::new(one).exists() => Some(feed::From::Changes),
        several if several.iter().any(|source| source == "-" || source == "events") => {
            let text = "standard input and changes of tasks cannot be mixed with other sources";
            return Err(Failure::usage(text).cure("start a stream of its own").into());
        }
        _ => None,
    };
    match fed {
        Some(from) => run_fed(args, from, context).await,
        None => {
            let new = args.job(sources(&args.source)?, args.follow);
            start::run(&new, &args.common, context).await
        }
    }
}

/// Starts the job and feeds it until its input has ended, or the job has for another reason.
async fn run_fed(args: &StreamArgs, from: feed::From, context: &Context) -> Result<Code> {
    let spool = feed::Spool::create(args.spool.as_deref())?;
    let source = Source::Folder { path: spool.path().to_owned(), remove: true };
    let new = args.job(vec![source], true);
    let id = match start::begin(&new, &args.common, context).await {
        Ok(id) => id,
        Err(error) => {
            spool.remove();
            return Err(error);
        }
    };
    let mut feed = spool.feed(from, context)?;
    context.output.note(format_args!(
        "feeds {}; Ctrl-C ends the feed, and the job with what was fed",
        spool.path().display()
    ));
    let ended = end_of(&id, args, context);
    tokio::pin!(ended);
    let code = tokio::select! {
        fed = feed.run() => {
            fed.map_err(|error| unfed(&id, &error))?;
            if !start::waits(&args.common) {
                // The job reads on from the spool.
                return Ok(Code::Done);
            }
            ended.await?
        }
        code = &mut ended => {
            feed.give_up();
            code?
        }
    };
    spool.remove();
    Ok(code)
}

/// Waits for the end of the job, with figures if they are wanted.
async fn end_of(id: &str, args: &StreamArgs, context: &Context) -> Result<Code> {
    if start::waits(&args.common) {
        return start::wait(id, &args.common, FEED_ENDS, context).await;
    }
    context.on_interrupt(FEED_ENDS, Some(format!("watch it: divvy flow status {id} --wait")));
    let api = context.api()?;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let looked = api.get(&["flows", id], &[]).await.and_then(|reply| reply.parse::<JobView>());
        match looked {
            Ok(job) if job.state.is_final() => {
                let state = job.state.as_str();
                context.output.note(format_args!("job {id} is {state}: the feed ends"));
                return Ok(if job.state == JobState::Done { Code::Done } else { Code::Failed });
            }
            Err(error) if !error.is_temporary() => return Err(error.into()),
            _ => {}
        }
    }
}

/// The feed has failed, and the job waits for more.
fn unfed(id: &str, error: &anyhow::Error) -> Failure {
    let cure = format!(
        "divvy flow stop {id} ends the job with what was fed, divvy flow cancel {id} drops it"
    );
    Failure::new(Code::Failed, format!("the feed of job {id} has failed: {error:#}")).cure(cure)
}

impl StreamArgs {
    fn job(&self, sources: Vec<Source>, follow: bool) -> NewJob {
        let span = |span: Span| ms(span);
        let window = match (self.window, self.slide, self.session) {
            (_, _, Some(gap)) => Spec::Session { gap_ms: span(gap) },
            (Some(size), Some(slide), None) => {
                Spec::Sliding { size_ms: span(size), slide_ms: span(slide) }
            }
            (size, None, None) => Spec::Tumbling { size_ms: size.map_or(0, span) },
            (None, Some(slide), None) => Spec::Tumbling { size_ms: span(slide) },
        };
        let is_csv = self.source.first().is_some_and(|source| source.ends_with(".csv"));
        let options = Options {
            sources,
            format: self.format.unwrap_or(if is_csv { Format::Csv } else { Format::Jsonl }),
            follow,
            end_after_idle_ms: self.end_after_idle.map(Span::as_ms),
            time: self.time.clone(),
            time_unit: self.time_unit,
            window,
            lateness_ms: span(self.lateness),
            trigger: self.every.map_or(Trigger::Close, |every| every.0),
            idle_after_ms: self.idle_timeout.map(Span::as_ms),
            group_by: self.group_by.clone(),
            aggregates: self.agg.clone(),
            approximate: self.approx,
        };
        NewJob { options: json!(options), ..self.common.job("stream") }
    }
}

/// Folders of segments by their slash, everything else by its name.
fn sources(given: &[String]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for source in given {
        if source.ends_with('/') || Path::new(source).is_dir() {
            let path = std::path::absolute(source)?;
            sources.push(Source::Folder { path, remove: false });
        } else {
            let files = input::expand(std::slice::from_ref(source))?;
            sources.extend(files.into_iter().map(|file| Source::File { path: file.path }));
        }
    }
    Ok(sources)
}

/// A span in milliseconds; one that is too long stays too long.
fn ms(span: Span) -> i64 {
    i64::try_from(span.as_ms()).unwrap_or(i64::MAX)
}
