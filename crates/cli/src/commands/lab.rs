//! `divvy lab`: lists and runs experiments. Reports go to stdout, charts and the page to files, progress to stderr.
//!
//! Decides nothing about experiments. Files appear whole or not at all: they are written beside their place and moved
//! there at the end, so a run that is interrupted leaves none.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use divvy_lab::report::{html, text};
use divvy_lab::{Experiment, Progress, Report, Settings, Timing, chart, child};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tempfile::NamedTempFile;

use super::Context;
use crate::args::lab::{Lab, Run};
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::output::table::{self, Table};
use crate::suggest;

/// The name that stands for every experiment.
const ALL: &str = "all";
/// Longer lines are hard to read.
pub(super) const COLUMNS_MAX: usize = 100;

/// Does what is asked.
pub(super) async fn run(args: Lab, context: &Context) -> Result<Code> {
    match args {
        Lab::List => list(&context.output),
        Lab::Run(args) => run_all(args, &context.output).await,
    }
}

fn list(output: &Output) -> Result<Code> {
    if output.is_json() {
        for Experiment { name, summary, timing, .. } in divvy_lab::all() {
            output.object(&json!({ "name": name, "summary": summary, "timing": timing }))?;
        }
        return Ok(Code::Done);
    }
    if output.is_quiet() {
        for experiment in divvy_lab::all() {
            output.data(experiment.name)?;
        }
        return Ok(Code::Done);
    }
    let mut table = Table::new(&["=NAME", "=TIMES", "LOOKS AT"]);
    for Experiment { name, summary, timing, .. } in divvy_lab::all() {
        let timing = match timing {
            Timing::Simulated => "simulated",
            Timing::Measured => "measured",
        };
        table.row([(*name).into(), timing.into(), (*summary).into()]);
    }
    table.print(output)?;
    output.note("simulated times are the same everywhere; measured ones are this machine's");
    Ok(Code::Done)
}

/// Does what an experiment has asked this program to do in a process of its own.
pub(super) fn child(output: &Output) -> Result<Code> {
    let mut result = Vec::new();
    child::run(std::io::stdin().lock(), &mut result)
        .context("the experiment sent no sound work")?;
    output.bytes(&result)?;
    Ok(Code::Done)
}

async fn run_all(args: Run, output: &Output) -> Result<Code> {
    let experiments = chosen(&args.names)?;
    child::provide(std::env::current_exe().context("cannot find the divvy binary")?);
    let svg = args.svg.as_deref().map(Draft::at).transpose()?;
    let page = args.html.as_deref().map(Draft::at).transpose()?;
    let settings = Settings { seed: args.seed, quick: args.quick };
    let mut reports = Vec::with_capacity(experiments.len());
    for experiment in experiments {
        let report = run_one(experiment, settings, output).await?;
        show(&report, reports.len(), output)?;
        reports.push(report);
    }
    if !output.is_json() && (reports.len() > 1 || output.is_quiet()) {
        let gap = if output.is_quiet() { "" } else { "\n" };
        output.bytes(format!("{gap}{}", text::summary(&reports)).as_bytes())?;
    }
    if let Some(draft) = svg {
        let charts = reports.iter().flat_map(|report| &report.charts);
        draft.finish(&chart::sheet(charts), output)?;
    }
    if let Some(draft) = page {
        draft.finish(&html::page(&reports), output)?;
    }
    Ok(Code::Done)
}

/// The experiments of these names, each once, in the order of the names.
fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>> {
    let mut chosen: Vec<&'static Experiment> = Vec::new();
    for name in names {
        let found: Vec<&'static Experiment> = match divvy_lab::find(name) {
            Some(experiment) => vec![experiment],
            None if name == ALL => divvy_lab::all().iter().collect(),
            None => {
                let known = divvy_lab::all().iter().map(|experiment| experiment.name);
                let hint = suggest::hint(name, known.chain([ALL]));
                let failure = Failure::usage(format!("no experiment is named `{name}`{hint}"));
                return Err(failure.cure("`divvy lab list` shows all of them").into());
            }
        };
        for experiment in found {
            if chosen.iter().all(|known| known.name != experiment.name) {
                chosen.push(experiment);
            }
        }
    }
    Ok(chosen)
}

/// Runs one off the async threads. If the caller goes away, the experiment is told to stop.
async fn run_one(
    experiment: &'static Experiment,
    settings: Settings,
    output: &Output,
) -> Result<Report> {
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop.0);
    let bar = bar(experiment.name, output);
    let shown = bar.clone();
    let work = move || {
        let mut watch = |step: divvy_lab::experiment::Step<'_>| {
            shown.set_length(step.total);
            shown.set_position(step.done);
            shown.set_message(step.what.to_owned());
        };
        (experiment.run)(&settings, &mut Progress::new(&mut watch, &stopped))
    };
    let ended = tokio::task::spawn_blocking(work).await.context("the experiment broke off")?;
    bar.finish_and_clear();
    drop(stop);
    ended.with_context(|| format!("experiment `{}`", experiment.name))
}

pub(super) fn bar(name: &'static str, output: &Output) -> ProgressBar {
    if !output.is_live() {
        output.note(format_args!("running {name} …"));
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix:>16} {bar:24} {pos}/{len} {wide_msg}")
        .expect("the template is constant and valid")
        .progress_chars("=> ");
    bar.set_style(style);
    bar.set_prefix(name);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(report: &Report, before: usize, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.object(report);
    }
    if output.is_quiet() {
        return Ok(());
    }
    let gap = if before > 0 { "\n\n" } else { "" };
    let text = text::render(report, table::width().min(COLUMNS_MAX), output.has_color());
    output.bytes(format!("{gap}{text}").as_bytes())?;
    Ok(())
}

/// Tells an experiment to stop when nobody waits for it any more.
pub(super) struct StopOnDrop(pub(super) Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A file that is not there yet. Made before the work, so that a path that cannot be written is told at once.
pub(super) struct Draft {
    file: NamedTempFile,
    path: PathBuf,
}

impl Draft {
    pub(super) fn at(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        if path.is_dir() {
            let failure = Failure::usage(format!("{} is a folder", path.display()));
            return Err(failure.cure("name a file in it").into());
        }
        let file = tempfile::Builder::new()
            .prefix(".divvy-lab-")
            // The umask takes away what others may not do, as with any other file.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(|error| {
                let message = format!("{} cannot be written: {error}", path.display());
                Failure::usage(message).cure("name a folder that exists and that you may write")
            })?;
        Ok(Self { file, path: path.to_owned() })
    }

    pub(super) fn finish(mut self, content: &str, output: &Output) -> Result<()> {
        let place = self.path.display().to_string();
        let written = self.file.write_all(content.as_bytes()).and_then(|()| self.file.flush());
        written.with_context(|| format!("{place} cannot be written"))?;
        self.file.persist(&self.path).with_context(|| format!("{place} cannot be written"))?;
        output.note(format_args!("wrote {place}"));
        Ok(())
    }
}
