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
mod trial;

use std::net::IpAddr;
use std::sync::Arc;

pub use address::{Reach, refusal};
pub use exec::{Exec, ExecKind};
pub use exec_program::ExecProgram;
pub use http::Http;
pub use trial::{Fail, Noop, Sleep};

use crate::{Error, Registry};

/// Which built-in kinds a worker serves, and how far they may go.
#[derive(Clone, Debug, Default)]
pub struct Builtins {
    /// Programs that may be run: each is a kind of its own, and a `program` of kind `exec`.
    pub programs: Vec<ExecProgram>,
    /// Whether kind `http` may reach loopback, private and other special addresses.
    pub allow_private: bool,
    /// Addresses that kind `http` may reach whatever they are: link-local ones and cloud metadata are private to nobody.
    pub allow_addresses: Vec<IpAddr>,
}

/// Adds the built-in kinds. Every program is looked up now, so that a missing one is told at start.
pub fn register(registry: &mut Registry, builtins: &Builtins) -> Result<(), Error> {
    registry.on("noop", Arc::new(Noop)).on("sleep", Arc::new(Sleep)).on("fail", Arc::new(Fail));
    let reach = Reach::new(builtins.allow_private, builtins.allow_addresses.iter().copied());
    registry.on("http", Arc::new(Http::new(reach)?));
    if builtins.programs.is_empty() {
        return Ok(());
    }
    let programs =
        builtins.programs.iter().map(ExecProgram::resolve).collect::<Result<Vec<_>, _>>()?;
    for program in &programs {
        registry.on_process(program.name.clone(), Arc::new(ExecKind::new(program.clone())));
    }
    registry.on_process("exec", Arc::new(Exec::new(programs)));
    Ok(())
}
