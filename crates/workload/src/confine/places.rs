//! What every program may read: the system's programs and libraries, and the few files that they look at.

use std::path::{Path, PathBuf};

use super::Orders;

/// Folders of programs and libraries. Where they are links, a sandbox with a file system of its own needs the links.
pub(super) const FOLDERS: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// Files and folders that libraries look at: where other libraries are, fonts, time zones, the number of processors.
pub(super) const FILES: [&str; 9] = [
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/var/cache/fontconfig",
    "/sys/devices/system/cpu",
];

/// What this program may read besides the system and its folder: what the orders say, and the program itself with
/// the libraries beside it, if it is not one of the system's. Outer places come before inner ones.
pub(super) fn readable(orders: &Orders, program: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = orders.readable.clone();
    places.extend(of_program(program));
    places.sort_by_key(|place| place.components().count());
    let mut kept: Vec<PathBuf> = Vec::new();
    for place in places {
        let covered = FOLDERS.iter().any(|folder| place.starts_with(folder))
            || place.starts_with(&orders.folder)
            || kept.iter().any(|outer| place.starts_with(outer));
        if !covered {
            kept.push(place);
        }
    }
    kept
}

fn of_program(program: &Path) -> Vec<PathBuf> {
    let mut places = vec![program.to_owned()];
    if let Ok(real) = program.canonicalize() {
        let libraries = real.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"));
        places.extend(libraries.filter(|folder| folder.is_dir()));
        places.push(real);
    }
    places
}
