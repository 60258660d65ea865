//! The workloads of this binary, and what all of them bring together: commands, flags, examples, settings.

use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use clap::Command;
use clap::builder::{PossibleValuesParser, Resettable};
use divvy_workload::{Row, Sources, Workload};

/// The sample that needs no workload.
pub(crate) const PRIMES: &str = "primes";

/// The workloads, in the order in which the binary lists them; a clone is cheap.
#[derive(Clone)]
pub(crate) struct Workloads(Arc<[Arc<dyn Workload>]>);

impl fmt::Debug for Workloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workloads").field(&self.names()).finish()
    }
}

impl Workloads {
    /// These.
    ///
    /// # Panics
    /// If two have the same name, which is a mistake in the binary.
    pub(crate) fn new(workloads: Vec<Arc<dyn Workload>>) -> Self {
        let all = Self(workloads.into());
        let mut names = all.names();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "two workloads of one name");
        all
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Workload>> {
        self.0.iter()
    }

    /// Their names, which are also their sections of the settings file.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.iter().map(|workload| workload.name()).collect()
    }

    /// The one that starts this binary anew with that word.
    pub(crate) fn of_inner_word(&self, word: &OsStr) -> Option<&Arc<dyn Workload>> {
        self.iter().find(|workload| workload.inner_word().is_some_and(|known| word == known))
    }

    /// The one whose sample has this name.
    pub(crate) fn of_sample(&self, name: &str) -> Option<&Arc<dyn Workload>> {
        self.iter().find(|workload| workload.name() == name && workload.sample_about().is_some())
    }

    /// The one whose subcommand has this name.
    pub(crate) fn of_command(&self, name: &str) -> Option<&Arc<dyn Workload>> {
        self.iter().find(|workload| is_named(workload.command(), name))
    }

    /// The one whose benchmark has this name.
    pub(crate) fn of_bench(&self, name: &str) -> Option<&Arc<dyn Workload>> {
        self.iter().find(|workload| is_named(workload.bench_command(), name))
    }

    /// Their settings as text. What makes no sense is refused.
    pub(crate) fn settings(&self, sources: &Sources) -> Result<Vec<Row>> {
        let rows: Result<Vec<_>> = self.iter().map(|workload| workload.settings(sources)).collect();
        Ok(rows?.concat())
    }

    /// Lines of theirs for the examples of a command.
    pub(crate) fn examples(&self, command: &str) -> String {
        self.iter().map(|workload| workload.examples(command)).collect()
    }

    /// The command line with what they bring to it. Their subcommands stand after the one that is called `after`.
    pub(crate) fn extend(&self, mut line: Command, after: &str) -> Command {
        // The order in the help is that of now, with room behind `after` for all of them. It is written down, because a
        // subcommand that is changed becomes the last.
        let names: Vec<String> =
            line.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let place = names.iter().position(|name| name == after).unwrap_or(names.len());
        for (order, name) in names.iter().enumerate() {
            let order = if order > place { order + self.0.len() } else { order };
            line = line.mut_subcommand(name, |command| command.display_order(order));
        }
        for (number, workload) in self.iter().enumerate() {
            if let Some(command) = workload.command() {
                line = line.subcommand(command.display_order(place + 1 + number));
            }
            let worker_flags = |to| with_flags(to, |to| workload.worker_flags(to));
            let up_flags = |to| with_flags(to, |to| workload.up_flags(to));
            line = line
                .mut_subcommand("work", worker_flags)
                .mut_subcommand("up", |up| up_flags(worker_flags(up)));
            if let Some(command) = workload.bench_command() {
                line = line.mut_subcommand("bench", |bench| bench.subcommand(command));
            }
        }
        line.mut_subcommand("up", |up| up.mut_arg("sample", |sample| self.offer_samples(sample)))
    }

    /// The samples that there are. The first is the one that is taken if none is named.
    fn offer_samples(&self, flag: clap::Arg) -> clap::Arg {
        let theirs =
            self.iter().filter_map(|workload| Some((workload.name(), workload.sample_about()?)));
        let samples: Vec<(&str, &str)> = theirs.chain([(PRIMES, "processes that count")]).collect();
        let about: Vec<String> =
            samples.iter().map(|(name, about)| format!("{name} ({about})")).collect();
        let first = samples[0].0;
        let names: Vec<&str> = samples.iter().map(|(name, _)| *name).collect();
        let help = format!("Run a sample: {} [default: {first}]", about.join(" or "));
        flag.value_parser(PossibleValuesParser::new(names)).default_missing_value(first).help(help)
    }
}

/// A command with the flags of a workload, which bring a heading and what is said of them: neither must stand over what
/// follows, or over the command.
fn with_flags(to: Command, add: impl FnOnce(Command) -> Command) -> Command {
    let about = Resettable::from(to.get_about().cloned());
    let long_about = Resettable::from(to.get_long_about().cloned());
    add(to).about(about).long_about(long_about).next_help_heading(None::<&'static str>)
}

fn is_named(command: Option<Command>, name: &str) -> bool {
    command.is_some_and(|command| command.get_name() == name)
}
