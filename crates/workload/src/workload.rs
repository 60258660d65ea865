//! The interface itself. Every part has a default that brings nothing.

use std::ffi::OsString;
use std::path::Path;
use std::pin::Pin;

use anyhow::{Result, bail};
use clap::{ArgMatches, Command};
use divvy::types::WorkflowId;
use divvy_console::exit::Code;

use crate::context::Context;
use crate::finding::Finding;
use crate::listing::Listing;
use crate::server::{ServerContext, ServerPart};
use crate::settings::{Row, Sources};
use crate::up::{Prepared, SampleContext, UpContext};
use crate::worker::{WorkerContext, WorkerPart};

/// Something that a workload does later.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// Something that a workload does later and that may fail.
pub type Doing<'a, T> = BoxFuture<'a, Result<T>>;

/// Folders in the data folder that belong to a workload, beside the objects of the server, which are always kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataFolders {
    /// What a backup must have.
    pub kept: &'static [&'static str],
    /// Work in progress of local workers: emptied when `divvy up` starts, because none runs then.
    pub scratch: &'static [&'static str],
}

/// A workload: everything that it brings to the binary.
pub trait Workload: Send + Sync + 'static {
    /// Its name: its section of `divvy.yaml`, and what `divvy up --sample` and `divvy doctor` call it.
    fn name(&self) -> &'static str;

    // Settings.

    /// The lines of its section in the file of `divvy config init`, all commented out: a setting has its `#` right
    /// before it, a sentence has a space between.
    fn template(&self) -> &'static str {
        ""
    }

    /// Every setting as `divvy config show` prints it. What makes no sense is refused here, at every start, with its
    /// place.
    fn settings(&self, _sources: &Sources) -> Result<Vec<Row>> {
        Ok(Vec::new())
    }

    // Commands.

    /// Its subcommand. Derive a [`clap::Parser`], give its `command()` here, and read it back with
    /// `from_arg_matches` in [`run`](Self::run).
    fn command(&self) -> Option<Command> {
        None
    }

    /// Runs the subcommand.
    fn run<'a>(&'a self, _matches: &'a ArgMatches, _context: &'a Context) -> Doing<'a, Code> {
        Box::pin(async { bail!("{} has no command", self.name()) })
    }

    /// Where the values of an argument of its subcommand come from, if a server knows them: completions offer these.
    fn listing(&self, _argument: &str) -> Option<Listing> {
        None
    }

    /// Its benchmark, a subcommand of `divvy bench`.
    fn bench_command(&self) -> Option<Command> {
        None
    }

    /// Runs the benchmark.
    fn bench<'a>(&'a self, _matches: &'a ArgMatches, _context: &'a Context) -> Doing<'a, Code> {
        Box::pin(async { bail!("{} has no benchmark", self.name()) })
    }

    /// A first word that is not a command for people: with it the binary starts itself anew, for example to confine a
    /// program. It is looked at before anything else.
    fn inner_word(&self) -> Option<&'static str> {
        None
    }

    /// What is done after that word.
    fn run_inner(&self, _arguments: &mut dyn Iterator<Item = OsString>) -> Code {
        Code::Usage
    }

    /// Lines for the examples in the help of a command: of `divvy` itself, whose name is empty, of `up`, or of `work`.
    /// Each ends with a line break.
    fn examples(&self, _command: &str) -> &'static str {
        ""
    }

    // Workers.

    /// Adds its flags to those of `divvy work` and `divvy up`. With a derived [`clap::Args`] this is
    /// `Flags::augment_args(command)`, and `Flags::from_arg_matches` reads them back. The type's own name must differ
    /// from those of other workloads, because clap groups the flags under it.
    fn worker_flags(&self, command: Command) -> Command {
        command
    }

    /// What it brings to a worker on this machine; nothing if it cannot work here, which it tells by itself.
    fn worker<'a>(&'a self, _context: &'a WorkerContext<'a>) -> Doing<'a, Option<WorkerPart>> {
        Box::pin(async { Ok(None) })
    }

    // `divvy up`.

    /// Adds its flags to those of `divvy up` alone.
    fn up_flags(&self, command: Command) -> Command {
        command
    }

    /// Looks at this machine before anything is started, so that what every worker would stumble over is told once.
    fn prepare<'a>(&'a self, _up: &'a UpContext<'a>) -> Doing<'a, Prepared> {
        Box::pin(async { Ok(Prepared::default()) })
    }

    /// What its sample is, in a few words, if it has one.
    fn sample_about(&self) -> Option<&'static str> {
        None
    }

    /// Shows its sample: on a server and workers that were started for it.
    fn sample<'a>(&'a self, _sample: &'a SampleContext<'a>) -> Doing<'a, ()> {
        Box::pin(async { bail!("{} has no sample", self.name()) })
    }

    // Planning.

    /// Gives a file to the server of the context, as a person would who wants it done, and says which workflow does it;
    /// nothing if such files are not for this workload. `divvy plan --calibrate` measures what its tasks take.
    fn try_out<'a>(
        &'a self,
        _file: &'a Path,
        _context: &'a Context,
    ) -> Doing<'a, Option<WorkflowId>> {
        Box::pin(async { Ok(None) })
    }

    // Servers.

    /// What it brings to a server: addresses, pages, work in the background, metrics. Called once, before the server
    /// answers anybody.
    fn serve<'a>(&'a self, _context: &'a ServerContext) -> Doing<'a, ServerPart> {
        Box::pin(async { Ok(ServerPart::default()) })
    }

    /// Its folders in the data folder.
    fn data_folders(&self) -> DataFolders {
        DataFolders::default()
    }

    // This machine.

    /// Its checks for `divvy doctor`.
    fn check<'a>(&'a self, _context: &'a Context) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(async { Vec::new() })
    }
}
