//! The second stage of the launcher: takes limits and sandbox upon itself, then becomes the program.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::getppid;

use super::{ConfineError, Level, Orders, bubblewrap, landlock};

/// The exit code if the program could not be started, as that of `env`, `nice` and `timeout`.
pub(super) const FAILED: i32 = 125;

/// The largest file that a program may write.
const FILE_BYTES_MAX: u64 = 64 << 30;
/// Files that a program may have open at once.
const OPEN_FILES_MAX: u64 = 1_024;
/// Seconds between the signal that says that the time is used up and the one that cannot be refused.
const CPU_GRACE_S: u64 = 5;
/// How much the kernel prefers to end a program before its worker when memory runs out.
const OUT_OF_MEMORY_SCORE: &str = "500";
/// How far programs stand back behind servers and workers.
const NICENESS: &str = "5";

/// Becomes the program. Returns only if it ends this process, which says why on standard error.
pub(super) fn become_program(
    orders: &Orders,
    program: &[OsString],
) -> Result<Infallible, ConfineError> {
    let Err(error) = try_become(orders, program);
    let _ = writeln!(std::io::stderr(), "{error}");
    std::process::exit(FAILED)
}

fn try_become(orders: &Orders, program: &[OsString]) -> Result<Infallible, ConfineError> {
    let (name, arguments) = program
        .split_first()
        .ok_or_else(|| ConfineError::new("arguments", "there is no program"))?;
    let command = match orders.level {
        Level::Bwrap => bubblewrap::command(orders, name.as_ref(), arguments)?,
        Level::Landlock => {
            landlock::leave_the_network();
            own(name, arguments)
        }
        Level::None => own(name, arguments),
    };
    die_with_the_keeper(orders)?;
    // Without the right to it the kernel chooses as it likes.
    let _ = std::fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY_SCORE);
    limit(orders)?;
    let mut command = standing_back(command);
    command.env_clear().envs(environment(&orders.folder)).current_dir(&orders.folder);
    match orders.level {
        // An old bubblewrap is a program with privileges of its own; it gives up what the program must not have.
        Level::Bwrap => {}
        Level::Landlock => landlock::restrict(orders, name.as_ref())?,
        Level::None => prctl::set_no_new_privs()
            .map_err(|error| ConfineError::new("giving up new privileges", error))?,
    }
    let error = command.exec();
    Err(ConfineError::new(&format!("starting {}", name.display()), error))
}

fn own(name: &OsStr, arguments: &[OsString]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments);
    command
}

/// Nothing of the program may outlive its keeper. Must follow every change of credentials, which forgets it.
fn die_with_the_keeper(orders: &Orders) -> Result<(), ConfineError> {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| ConfineError::new("tying the program to its keeper", error))?;
    if orders.keeper == Some(getppid().as_raw()) {
        return Ok(());
    }
    Err(ConfineError::new("tying the program to its keeper", "it is gone already"))
}

fn limit(orders: &Orders) -> Result<(), ConfineError> {
    let cpu_s = orders.cpu_s.max(1);
    let limits = [
        (Resource::RLIMIT_CPU, cpu_s, cpu_s.saturating_add(CPU_GRACE_S), "processor time"),
        (Resource::RLIMIT_AS, orders.memory_bytes, orders.memory_bytes, "memory"),
        (Resource::RLIMIT_FSIZE, FILE_BYTES_MAX, FILE_BYTES_MAX, "size of files"),
        (Resource::RLIMIT_NOFILE, OPEN_FILES_MAX, OPEN_FILES_MAX, "open files"),
        (Resource::RLIMIT_CORE, 0, 0, "core files"),
    ];
    for (resource, soft, hard, name) in limits {
        let set = getrlimit(resource)
            .and_then(|(_, most)| setrlimit(resource, soft.min(most), hard.min(most)));
        set.map_err(|error| ConfineError::new(&format!("limiting {name}"), error))?;
    }
    Ok(())
}

/// The same command behind `nice`, where that is installed.
fn standing_back(command: Command) -> Command {
    let nice = Path::new("/usr/bin/nice");
    if !nice.exists() {
        return command;
    }
    let mut nicer = Command::new(nice);
    nicer.args(["-n", NICENESS]).arg(command.get_program()).args(command.get_args());
    nicer
}

/// All that a program knows of its environment: nothing of the worker's, which may hold secrets.
pub(super) fn environment(folder: &Path) -> [(&'static str, OsString); 6] {
    [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
        ("HOME", folder.into()),
        ("TMPDIR", folder.into()),
        ("LANG", "C.UTF-8".into()),
        // Each arena of glibc reserves address space, which is what is limited.
        ("MALLOC_ARENA_MAX", "4".into()),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
    ]
}
