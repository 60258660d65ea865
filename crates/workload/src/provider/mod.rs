//! Providers: programs of their own that do for workers what this binary shall not hold, such as recognise speech or read
//! Parquet. Those that come with it are Python programs, whose packages are installed once (`install`), pinned by hash, and
//! tried out; people list and install them with the same command of each workload (`command`). One that
//! several workloads use is here (`duckdb`), as is how those are run that say much (`run`).
//!
//! Knows nothing of what is said to a provider, except that each can be asked who it is. They run confined: see
//! [`confine`](crate::confine).

pub mod command;
pub mod duckdb;
mod install;
mod run;

pub use install::{DESCRIBE, InstallError, Ready, folder, install, root};
pub use run::{Ended, Run};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Links that are followed from a program to what it really is.
const LINKS_MAX: usize = 16;
/// Where the system is, which every program may read anyway.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// What a program must read to run, beside the system: itself and what it is a link to, the installation that it is
/// part of (an interpreter has its library beside it, a virtual environment is a link to one elsewhere), and what its
/// arguments name.
pub fn readable(program: &Path, arguments: &[OsString]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut at = program.to_owned();
    for _ in 0..LINKS_MAX {
        paths.push(installation(&at).unwrap_or(&at).to_owned());
        let (Ok(target), Some(folder)) = (std::fs::read_link(&at), at.parent()) else { break };
        at = folder.join(target);
    }
    if let Ok(real) = program.canonicalize() {
        paths.push(installation(&real).unwrap_or(&real).to_owned());
    }
    let named = arguments.iter().map(PathBuf::from);
    paths.extend(named.filter(|path| path.is_absolute() && path.exists()));
    paths.retain(|path| !SYSTEM.iter().any(|system| path.starts_with(system)));
    paths.sort();
    paths.dedup();
    paths
}

/// The folder in which a program is installed, if it is `bin/…` beside a `lib`.
fn installation(program: &Path) -> Option<&Path> {
    let folder = program.parent().filter(|folder| folder.ends_with("bin"))?;
    folder.parent().filter(|whole| whole.parent().is_some() && whole.join("lib").is_dir())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_program_may_read_its_installation_and_what_its_arguments_name() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let make = |path: &str| {
            std::fs::create_dir_all(place.join(path).parent().unwrap()).unwrap();
            std::fs::write(place.join(path), "").unwrap();
        };
        make("python/3.12/bin/python3.12");
        make("python/3.12/lib/library");
        make("venv/lib/packages");
        make("venv/bin/activate");
        make("own/script.py");
        symlink(place.join("python/3.12"), place.join("python/3")).unwrap();
        symlink("python3.12", place.join("python/3.12/bin/python3")).unwrap();
        symlink(place.join("python/3/bin/python3"), place.join("venv/bin/python")).unwrap();
        let script = place.join("own/script.py");
        let arguments = ["-I".into(), script.clone().into_os_string(), "/no/such".into()];
        let found = readable(&place.join("venv/bin/python"), &arguments);
        let expected = ["own/script.py", "python/3", "python/3.12", "venv"];
        assert_eq!(found, expected.map(|path| place.join(path)));
        assert_eq!(readable(&script, &[]), [script]);
        assert!(readable(Path::new("/usr/bin/env"), &[]).is_empty());
    }
}
