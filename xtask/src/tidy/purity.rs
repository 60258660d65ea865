//! Decides that layers 0–2 stay pure: no clock, no threads, no I/O, no order or number that differs between runs.
//!
//! Three nets, because each has holes: the manifest may not list crates that bring such things, the source may not
//! name them, and the crate's own `clippy.toml` forbids them by full path. Test code is free, except that tokio is
//! kept out even there: a machine that needs a runtime to be tested is not a machine.
//!
//! A crate of pure cores may carry wrappers with a clock, so that it is useful alone: in the folder `src/shell`, on
//! dependencies that come only with a feature. The cores beside it are held to the rules as before.

use super::finding::Report;
use super::source::RustFile;
use super::tree::Tree;
use super::workspace::{Dependency, Package, Workspace};

const RULE: &str = "purity";

/// Where a pure crate keeps its wrappers with a clock.
const SHELL: &str = "/src/shell/";

/// Families of crates that bring a clock, threads, chance or I/O: the name itself, or the name and a hyphen.
const IMPURE_CRATES: [&str; 24] = [
    "async-std",
    "axum",
    "chrono",
    "crossbeam",
    "getrandom",
    "h2",
    "hyper",
    "libc",
    "mio",
    "nix",
    "object_store",
    "parking_lot",
    "postgres",
    "rand",
    "rayon",
    "reqwest",
    "rusqlite",
    "rustix",
    "smol",
    "sqlx",
    "tempfile",
    "tokio",
    "tonic",
    "ureq",
];

/// What the source may not name, and why.
const IMPURE_NAMES: [(&str, &str); 16] = [
    ("Instant::now", "reads the clock; take `now: Timestamp` as an argument"),
    ("SystemTime::now", "reads the clock; take `now: Timestamp` as an argument"),
    ("Timestamp::now", "reads the clock; take `now: Timestamp` as an argument"),
    ("now_v7", "reads the clock and draws chance; take the id as an argument"),
    ("new_v4", "draws chance; take the id as an argument"),
    ("thread::spawn", "starts a thread; leave that to layer 3"),
    ("thread::sleep", "waits; return a deadline instead"),
    ("HashMap", "has another order in each run; use BTreeMap or an index"),
    ("HashSet", "has another order in each run; use BTreeSet or an index"),
    ("RandomState", "differs in each run; use a fixed hasher"),
    ("thread_rng", "differs in each run; use the generator that was seeded from outside"),
    ("Rng::new", "seeds itself by chance; use `Rng::with_seed`"),
    ("fastrand::seed", "seeds the generator of the thread; own one made by `Rng::with_seed`"),
    ("std::fs", "touches files; leave that to layer 3"),
    ("std::net", "touches the network; leave that to layer 4"),
    ("std::env", "reads the environment; take options as an argument"),
];

/// What each pure crate's `clippy.toml` must name. A member's file replaces that of the root, hence the last two.
const CLIPPY_NAMES: [&str; 7] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "allow-unwrap-in-tests = true",
    "allow-print-in-tests = true",
];

/// Checks what pure crates depend on, and that their `clippy.toml` is there and complete.
pub(crate) fn check_manifests(workspace: &Workspace, tree: &Tree, report: &mut Report) {
    for package in workspace.packages.iter().filter(|package| package.is_pure()) {
        check_dependencies(package, report);
        let path = format!("{}/clippy.toml", package.folder);
        let Some(text) = tree.text(&path) else {
            let message = format!(
                "is missing; copy that of another crate of layers 0–2, it bans {}",
                CLIPPY_NAMES[0]
            );
            report.add(&path, 1, RULE, message);
            continue;
        };
        let active: String =
            text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        for name in CLIPPY_NAMES.iter().filter(|name| !active.contains(**name)) {
            report.add(&path, 1, RULE, format!("does not mention `{name}`; add it"));
        }
    }
}

fn check_dependencies(package: &Package, report: &mut Report) {
    for dependency in &package.dependencies {
        let with_feature = |other: &Dependency| other.optional && other.name == dependency.name;
        let forbidden = if package.dependencies.iter().any(with_feature) {
            false
        } else if dependency.dev {
            is_of_family(&dependency.name, "tokio")
        } else {
            IMPURE_CRATES.iter().any(|family| is_of_family(&dependency.name, family))
        };
        if forbidden {
            let name = &dependency.name;
            let message = format!(
                "layers 0–2 do without `{name}`; hand its answers in from layer 3 or above"
            );
            report.add(&package.manifest_path(), package.line_of(name), RULE, message);
        }
    }
}

fn is_of_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

/// Checks the source of a pure crate.
pub(crate) fn check_source(source: &RustFile, report: &mut Report) {
    if source.path.contains(SHELL) {
        return;
    }
    for (line, code) in source.product_code() {
        for (name, why) in IMPURE_NAMES {
            if super::mask::names(code, name) {
                report.add(&source.path, line, RULE, format!("`{name}` {why}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIPPY: &str = "allow-unwrap-in-tests = true\nallow-print-in-tests = true\n\"std::time::Instant::now\"\n\
        \"std::time::SystemTime::now\"\n\"std::thread::spawn\"\n\"std::collections::HashMap\"\n\"std::collections::HashSet\"\n";

    fn manifests(package: Package, clippy: &str) -> Vec<String> {
        let path = format!("{}/clippy.toml", package.folder);
        let mut report = Report::default();
        check_manifests(
            &Workspace { packages: vec![package], ..Default::default() },
            &Tree::of(&[(&path, clippy)]),
            &mut report,
        );
        report.findings.iter().map(|finding| finding.message.clone()).collect()
    }

    fn sources(text: &str) -> Vec<String> {
        let mut report = Report::default();
        check_source(&RustFile::parse("crates/scheduler/src/pick.rs", text).unwrap(), &mut report);
        report.places()
    }

    #[test]
    fn crates_with_a_clock_or_io_are_refused() {
        assert_eq!(
            manifests(Package::of("divvy-scheduler", 2, &["serde", "random-word"]), CLIPPY),
            [""; 0]
        );
        for name in ["tokio", "tokio-stream", "rusqlite", "rand", "rand_core", "reqwest"] {
            assert_eq!(
                manifests(Package::of("divvy-scheduler", 2, &[name]), CLIPPY).len(),
                1,
                "{name}"
            );
        }
        assert_eq!(manifests(Package::of("divvy-store", 3, &["rusqlite"]), ""), [""; 0]);
    }

    #[test]
    fn tests_of_pure_crates_may_use_tempfile_but_not_tokio() {
        assert_eq!(
            manifests(Package::of("divvy-types", 0, &[]).with_dev("tempfile"), CLIPPY),
            [""; 0]
        );
        assert_eq!(
            manifests(Package::of("divvy-types", 0, &[]).with_dev("tokio-test"), CLIPPY).len(),
            1
        );
    }

    #[test]
    fn what_comes_only_with_a_feature_is_free_and_its_tests_with_it() {
        let package = Package::of("divvy-guard", 1, &[]).with_optional("tokio").with_dev("tokio");
        assert_eq!(manifests(package, CLIPPY), [""; 0]);
        let package =
            Package::of("divvy-guard", 1, &[]).with_optional("tokio").with_dev("tokio-test");
        assert_eq!(manifests(package, CLIPPY).len(), 1);
    }

    #[test]
    fn the_shell_may_read_the_clock_and_the_core_beside_it_may_not() {
        let places = |path: &str| {
            let mut report = Report::default();
            let text = "//! Doc.\nfn f() {\n    let a = Instant::now();\n}\n";
            check_source(&RustFile::parse(path, text).unwrap(), &mut report);
            report.places()
        };
        assert_eq!(places("crates/guard/src/shell/clock.rs"), [""; 0]);
        assert_eq!(places("crates/guard/src/breaker/shell.rs"), ["3 purity"]);
    }

    #[test]
    fn clippy_toml_must_be_there_and_whole() {
        let commented = CLIPPY.replace("\"std::thread::spawn\"", "# \"std::thread::spawn\"");
        let found = manifests(Package::of("divvy-types", 0, &[]), &commented);
        assert_eq!(found, ["does not mention `std::thread::spawn`; add it"]);
        let mut report = Report::default();
        let workspace =
            Workspace { packages: vec![Package::of("divvy-types", 0, &[])], ..Default::default() };
        check_manifests(&workspace, &Tree::of(&[]), &mut report);
        assert!(report.findings[0].message.starts_with("is missing"));
    }

    #[test]
    fn source_names_no_clock_and_no_random_order() {
        let text =
            "//! Doc.\nuse std::collections::HashMap;\nfn f() {\n    let a = Instant::now();\n}\n";
        assert_eq!(sources(text), ["2 purity", "4 purity"]);
    }

    #[test]
    fn comments_strings_longer_names_and_tests_are_free() {
        let text = "//! No HashMap.\nconst A: &str = \"HashMap\";\nstruct MyHashMapLike;\n\
            #[cfg(test)]\nmod tests {\n    use std::collections::HashSet;\n}\n";
        assert_eq!(sources(text), [""; 0]);
    }
}
