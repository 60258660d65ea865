//! A job and its parts: what a kind of job must say ([`Kind`]), what a part of it may use ([`PartIo`]), and where
//! everything lies ([`Folder`]).
//!
//! Knows nothing of servers and tasks except in [`tasks`], where a part becomes one, and in [`remote`], for workers that do
//! not see the job's folder.
//!
//! A kind of job is a value with the trait [`Kind`] and a line in [`kinds`]; the name of each of its stages is a line in
//! the list of [`tasks`].

mod attempt;
pub mod drive;
mod error;
pub mod folder;
mod io;
pub mod kinds;
mod output;
mod plan;
pub mod remote;
mod report;
pub mod shuffle;
mod spec;
pub mod tasks;

pub use attempt::{AttemptName, Written};
pub use error::{JobError, PartError, SpecError};
pub use folder::Folder;
pub use io::{Keep, PartIo, Place, Surroundings};
pub use output::{OutputFile, OutputWriter};
pub use plan::{Kind, Next, Part, PartDone, PartSpec, Stage, StageDone, Summary};
pub use report::{Report, Skip};
pub use shuffle::{PartitionSize, ShuffleReader, ShuffleWriter};
pub use spec::{INPUTS_MAX, InputFile, NewJob, OnError, PARTITIONS_MAX, Spec};
