//! What of the environment others must not see: decides which variables are wiped once they are read.
//!
//! The kernel shows every process of the same user, and so every program that a task runs, the environment that a process
//! was started with, under `/proc/PID/environ`, whatever became of the variables since. So it is overwritten there. This
//! runs while the process has one thread and nothing reads variables.
//!
//! It is no wall: the same user can still read the configuration file, and the system administrator everything.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Variables that hold secrets.
const SECRETS: [&str; 1] = ["DIVVY_TOKEN"];
/// The places of the bounds of the environment in `/proc/self/stat`, counted from the state of the process.
const ENVIRONMENT: [usize; 2] = [47, 48];

/// Wipes them. Where the system does not let a process do that, it does not show the environment to others either.
pub(crate) fn hide() {
    if SECRETS.iter().any(|name| std::env::var_os(name).is_some())
        && let Err(error) = wipe()
    {
        tracing::debug!("cannot hide secrets of the environment: {error}");
    }
}

fn wipe() -> Result<(), io::Error> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in brackets, may hold anything.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let bounds = ENVIRONMENT.map(|place| fields.get(place).and_then(|text| text.parse().ok()));
    let [Some(start), Some(end)] = bounds else {
        return Err(io::Error::other("the kernel does not say where it is"));
    };
    let memory = File::options().read(true).write(true).open("/proc/self/mem")?;
    let mut block = vec![0; u64::saturating_sub(end, start) as usize];
    memory.read_exact_at(&mut block, start)?;
    let mut at = start;
    for entry in block.split(|byte| *byte == 0) {
        if is_secret(entry) {
            // Without its name it is no variable any more, for this process and for those that it starts.
            memory.write_all_at(&vec![0; entry.len()], at)?;
        }
        at += entry.len() as u64 + 1;
    }
    Ok(())
}

fn is_secret(entry: &[u8]) -> bool {
    let name = entry.split(|byte| *byte == b'=').next().unwrap_or_default();
    SECRETS.iter().any(|secret| secret.as_bytes() == name)
}
