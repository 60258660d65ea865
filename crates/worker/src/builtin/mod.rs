//! The kinds that every worker can serve: `noop`, `sleep` and `fail` to try things out, `http` to call a URL, and
//! `exec` to run programs of any language.
//!
//! Decides which of them a worker gets; each module below decides how its kind behaves.

pub mod address;
mod exec;
mod exec_checkpoint;
mod exec_program;
mod http;
mod http_hosts;
mod http_outcome;
mod network;
mod trial;

use std::net::IpAddr;
use std::sync::Arc;

use divvy_types::{Name, need};

pub use divvy_pool::tiers::{KeepError, Keeper, Limits, keep};

pub use address::{Reach, refusal};
pub use exec::{Exec, ExecKind};
pub use exec_program::ExecProgram;
pub use http::Http;
pub use network::{InvalidNetwork, Network};
pub use trial::{Fail, Noop, Sleep};

use crate::{Error, Registry};

/// The built-in kinds, and what each does. `exec` is served where programs may be run.
pub const KINDS: [(&str, &str); 5] = [
    ("noop", "nothing"),
    ("sleep", "waits: ms"),
    ("fail", "fails: message, verdict, times"),
    ("http", "calls a URL: url, method, headers, body"),
    ("exec", "runs a program of --exec: program, args, input"),
];

/// Which built-in kinds a worker serves, and how far they may go.
#[derive(Clone, Debug, Default)]
pub struct Builtins {
    /// Programs that may be run: each is a kind of its own, and a `program` of kind `exec`.
    pub programs: Vec<ExecProgram>,
    /// Who looks after the programs. Without a keeper they outlive a worker that is killed, processes of theirs that leave
    /// their group outlive the attempt, and nothing limits them.
    pub keeper: Option<Keeper>,
    /// Whether kind `http` may reach loopback, private and other special addresses.
    pub allow_private: bool,
    /// Addresses that kind `http` may reach whatever they are: link-local ones and cloud metadata are private to nobody.
    pub allow_addresses: Vec<IpAddr>,
}

impl Builtins {
    /// What a worker with these programs has, for tasks of kind `exec`.
    pub fn capabilities(&self) -> impl Iterator<Item = Name> {
        self.programs.iter().filter_map(|program| need::of_program(&program.name))
    }
}

/// Adds the built-in kinds. Every program is looked up now, so that a missing one is told at start.
pub fn register(registry: &mut Registry, builtins: &Builtins) -> Result<(), Error> {
    registry.on("noop", Arc::new(Noop)).on("sleep", Arc::new(Sleep)).on("fail", Arc::new(Fail));
    let reach = Reach::new(builtins.allow_private, builtins.allow_addresses.iter().copied());
    registry.on("http", Arc::new(Http::new(reach)?));
    if builtins.programs.is_empty() {
        return Ok(());
    }
    let resolved = builtins.programs.iter().map(|one| one.resolve(builtins.keeper.as_ref()));
    let programs = resolved.collect::<Result<Vec<_>, _>>()?;
    for program in &programs {
        registry.on_process(program.name.clone(), Arc::new(ExecKind::new(program.clone())));
    }
    registry.on_process("exec", Arc::new(Exec::new(programs)));
    Ok(())
}
