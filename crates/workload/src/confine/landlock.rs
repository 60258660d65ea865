//! The rules of Landlock, for machines where bubblewrap does not work.
//!
//! The program still sees that other files and processes exist, but opens nothing that it may not read. What the kernel
//! knows of the rules is enforced; rules about files are the least, and without them this level fails. The network is
//! left altogether where the machine lets users do that; elsewhere only TCP is refused, from Linux 6.7 on.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope,
};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};

use super::{ConfineError, Orders, places};

/// The newest rules that we know of, and the oldest that will do.
const NEWEST: ABI = ABI::V9;
const OLDEST: ABI = ABI::V1;

/// Devices that may be read and written.
const DEVICES: [&str; 2] = ["/dev/null", "/dev/zero"];
/// What may be read besides the places of every program. Its own entry in `/proc` is fixed here, before it becomes the
/// program, and does not change by that.
const SOURCES: [&str; 7] = [
    "/dev/urandom",
    "/dev/random",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/vm/overcommit_memory",
];

/// Moves this process to a network of its own with nobody else in it. Not every machine lets users do that.
pub(super) fn leave_the_network() {
    let (user, group) = (getuid(), getgid());
    if unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).is_err() {
        return;
    }
    // Without these the program would see itself as nobody, and run all the same.
    let _ = std::fs::write("/proc/self/setgroups", "deny");
    let _ = std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"));
    let _ = std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"));
}

/// Restricts this process, and what it becomes, for good.
pub(super) fn restrict(orders: &Orders, program: &Path) -> Result<(), ConfineError> {
    let status = apply(orders, program).map_err(|error| ConfineError::new("Landlock", error))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(ConfineError::new("Landlock", "this kernel does not enforce it"));
    }
    Ok(())
}

fn apply(orders: &Orders, program: &Path) -> Result<RestrictionStatus, RulesetError> {
    let (read, all) = (AccessFs::from_read(NEWEST), AccessFs::from_all(NEWEST));
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(OLDEST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let of_system = places::FOLDERS.iter().chain(&places::FILES).chain(&SOURCES);
    for place in of_system.map(PathBuf::from).chain(places::readable(orders, program)) {
        rules = allow(rules, &place, read)?;
    }
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    for place in DEVICES.map(Path::new) {
        rules = allow(rules, place, device)?;
    }
    // Devices that the program might make in its folder stay closed to it.
    let in_folder = all & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    allow(rules, &orders.folder, in_folder)?.restrict_self()
}

/// Allows something at a place; a place that is not there needs no rule.
fn allow(
    rules: landlock::RulesetCreated,
    place: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(place) else { return Ok(rules) };
    let access = if place.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(opened, access))
}
