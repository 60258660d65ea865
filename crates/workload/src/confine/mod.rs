//! What a program may see and use, and who looks after it while it runs.
//!
//! A program is started through a launcher: a process of this binary that calls [`enter`]. It has two stages, because a
//! process that has locked itself in cannot look after another one:
//! - the keeper stays outside. It starts the second stage, feeds it, ends everything that came of it when its own
//!   standard input ends (so it does not matter how the worker went away), and says at the end what was used.
//! - the second stage takes the limits and the sandbox upon itself and becomes the program. It dies with the keeper.
//!
//! Who starts programs makes a [`Launcher`], whose command it starts and feeds; what the launcher says behind the program's
//! own words is told apart by [`Complaints`].
//!
//! Three levels: bubblewrap (a file system, processes and a network of its own), Landlock (the same file system with
//! rules), and none. This module does not choose between them: it is told, and fails if a level does not work here.

mod bubblewrap;
mod complaints;
mod keeper;
mod landlock;
mod launcher;
mod places;
pub mod processes;
mod second;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use divvy_console::exit::Code;
use divvy_console::output::{Color, Output};
use serde::{Deserialize, Serialize};

pub use complaints::Complaints;
pub use keeper::Report;
pub use launcher::{Bounds, Launcher, find_program};

/// The first word that makes a binary the launcher: [`Workload::inner_word`](crate::Workload::inner_word) of those whose
/// workers run confined programs.
pub const WORD: &str = "confine";

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
struct Orders {
    /// How to confine.
    level: Level,
    /// The `bwrap` to use.
    bwrap: Option<PathBuf>,
    /// The only place to write, and the working folder.
    folder: PathBuf,
    /// What may be read besides the system.
    readable: Vec<PathBuf>,
    /// Seconds on processors, for each process.
    cpu_s: u64,
    /// Address space of each process.
    memory_bytes: u64,
    /// How much of the launcher's standard input is for the program; after that it is only held open.
    input_bytes: u64,
    /// Set for the second stage: the process id of the keeper.
    keeper: Option<i32>,
}

/// What [`Workload::run_inner`](crate::Workload::run_inner) does after [`WORD`]: confines this process and becomes the
/// program that is named. Returns only if that cannot be.
pub fn run_inner(arguments: &mut dyn Iterator<Item = OsString>) -> Code {
    let Err(error) = enter(arguments);
    Output::new(false, false, Color::Never).say(format_args!("divvy {WORD}: {error}"));
    Code::Failed
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
