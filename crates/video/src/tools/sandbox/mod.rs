//! What a program may see and use, and who looks after it while it runs.
//!
//! A program is started through a launcher: a process of this binary that calls [`enter`]. It has two stages, because a
//! process that has locked itself in cannot look after another one:
//! - the keeper stays outside. It starts the second stage, feeds it, ends everything that came of it when its own
//!   standard input ends (so it does not matter how the worker went away), and says at the end what was used.
//! - the second stage takes the limits and the sandbox upon itself and becomes the program. It dies with the keeper.
//!
//! Three levels: bubblewrap (a file system, processes and a network of its own), Landlock (the same file system with
//! rules), and none. This module does not choose between them: it is told, and fails if a level does not work here.

mod bubblewrap;
mod keeper;
mod landlock;
mod places;
mod second;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(super) use keeper::Report;
pub(super) use second::FAILED as SECOND_STAGE_FAILED;

/// Bytes that a program can be given on its standard input.
pub const INPUT_BYTES_MAX: u64 = 64 << 20;

/// How a program is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// By bubblewrap: it sees only what it may read, no other process and no network.
    Bwrap,
    /// By Landlock: it sees everything and may open only what it may read.
    Landlock,
    /// By resource limits only.
    None,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            Self::None => "none",
        })
    }
}

/// Why a program could not be confined.
#[derive(Debug, thiserror::Error)]
#[error("cannot confine the program: {0}")]
pub struct ConfineError(String);

impl ConfineError {
    fn new(doing: &str, problem: impl fmt::Display) -> Self {
        Self(format!("{doing}: {problem}"))
    }
}

/// What the launcher is told, as the first of its arguments, in JSON; the program and its arguments follow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Orders {
    /// How to confine.
    pub(super) level: Level,
    /// The `bwrap` to use.
    pub(super) bwrap: Option<PathBuf>,
    /// The only place to write, and the working folder.
    pub(super) folder: PathBuf,
    /// What may be read besides the system.
    pub(super) readable: Vec<PathBuf>,
    /// Seconds on processors, for each process.
    pub(super) cpu_s: u64,
    /// Address space of each process.
    pub(super) memory_bytes: u64,
    /// How much of the launcher's standard input is for the program; after that it is only held open.
    pub(super) input_bytes: u64,
    /// Set for the second stage: the process id of the keeper.
    pub(super) keeper: Option<i32>,
}

/// The launcher: runs the program that `arguments` name, in the sandbox that they describe, and ends this process.
/// `arguments` are the last ones of this process; those before them, if any, are what makes this binary a launcher.
///
/// # Errors
/// If the arguments cannot be understood or the keeper cannot start. What goes wrong later is part of its report.
pub fn enter(arguments: impl IntoIterator<Item = OsString>) -> Result<Infallible, ConfineError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let Some((orders, program)) = arguments.split_first().filter(|(_, rest)| !rest.is_empty())
    else {
        return Err(ConfineError::new("arguments", "give the orders and a program"));
    };
    let orders: Orders = serde_json::from_slice(orders.as_encoded_bytes())
        .map_err(|error| ConfineError::new("the orders cannot be read", error))?;
    if orders.keeper.is_some() {
        second::become_program(&orders, program)
    } else {
        keeper::keep(orders, program)
    }
}
