//! Decides what the test bench of the SDK must not make its users compile.
//!
//! It stands on a store in memory, so that a test of a handler costs no C compiler and no minutes of SQLite.

use super::finding::Report;
use super::workspace::{TEST_BENCH, Workspace};

const RULE: &str = "weight";
const SDK: &str = "divvy";
const UNWANTED: [&str; 2] = ["libsqlite3-sys", "rusqlite"];

/// Checks what cargo resolves for the test bench.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    let Some(sdk) = workspace.package(SDK) else { return };
    for name in UNWANTED {
        if workspace.test_bench.iter().any(|reached| reached == name) {
            let way = format!("cargo tree -p {SDK} --features {TEST_BENCH} -i {name}");
            let message =
                format!("the feature `{TEST_BENCH}` reaches {name}; `{way}` shows the way");
            report.add(&sdk.manifest_path(), sdk.line_of(TEST_BENCH), RULE, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::workspace::Package;
    use super::*;

    fn findings(reached: &[&str]) -> usize {
        let test_bench = reached.iter().map(ToString::to_string).collect();
        let mut report = Report::default();
        let packages = vec![Package::of(SDK, 4, &[])];
        check(&Workspace { packages, test_bench }, &mut report);
        report.findings.len()
    }

    #[test]
    fn the_test_bench_reaches_no_sqlite() {
        assert_eq!(findings(&["divvy", "divvy-store", "tokio"]), 0);
        assert_eq!(findings(&["divvy", "rusqlite", "libsqlite3-sys"]), 2);
    }
}
