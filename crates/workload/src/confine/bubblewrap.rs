//! The command line of bubblewrap.
//!
//! The program gets a root of its own with nothing in it but what it may read, its folder, and small private `/tmp` and
//! `/dev/shm` in memory; its own users, processes, network, host name and queues; no capabilities.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use super::{ConfineError, Orders, places, second};

/// Bytes of each private folder in memory.
const MEMORY_FOLDER_BYTES: &str = "67108864";

/// The program in bubblewrap.
pub(super) fn command(
    orders: &Orders,
    program: &Path,
    arguments: &[OsString],
) -> Result<Command, ConfineError> {
    let bwrap = orders
        .bwrap
        .as_deref()
        .ok_or_else(|| ConfineError::new("bubblewrap", "no `bwrap` was named"))?;
    let mut command = Command::new(bwrap);
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]);
    command.args(["--cap-drop", "ALL", "--hostname", "sandbox"]);
    for (name, value) in second::environment(&orders.folder) {
        command.args([OsStr::new("--setenv"), name.as_ref(), &value]);
    }
    system(&mut command);
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    for folder in ["/dev/shm", "/tmp"] {
        command.args(["--size", MEMORY_FOLDER_BYTES, "--tmpfs", folder]);
    }
    for place in places::readable(orders, program) {
        bind(&mut command, "--ro-bind", &place);
    }
    bind(&mut command, "--bind", &orders.folder);
    command.args(["--remount-ro", "/dev", "--remount-ro", "/", "--chdir"]).arg(&orders.folder);
    command.arg("--").arg(program).args(arguments);
    Ok(command)
}

fn system(command: &mut Command) {
    for folder in places::FOLDERS.map(Path::new) {
        match folder.read_link() {
            Ok(target) => {
                command.arg("--symlink").args([target.as_os_str(), folder.as_os_str()]);
            }
            Err(_) => bind(command, "--ro-bind-try", folder),
        }
    }
    for file in places::FILES.map(Path::new) {
        bind(command, "--ro-bind-try", file);
    }
}

fn bind(command: &mut Command, how: &str, place: &Path) {
    command.args([how.as_ref(), place.as_os_str(), place.as_os_str()]);
}
