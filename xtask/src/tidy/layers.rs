//! Decides which package may depend on which: downwards only.
//!
//! Layers: 0 words, 1 policies, 2 machines, 3 engines, 4 edges, 5 workloads, 6 product, 7 tools. Between packages of
//! one layer there is no edge except those in [`NEIGHBOURS`]. A dependency for tests may point anywhere, because it
//! is not in the product.

use super::finding::Report;
use super::workspace::{Package, Workspace};

const RULE: &str = "layers";
const LAYER_MAX: u64 = 7;
const MACHINES: u64 = 2;
const WORKLOADS: u64 = 5;

/// The edges allowed within a layer. A `*` at the end of a name stands for any rest.
const NEIGHBOURS: [(&str, &str); 26] = [
    ("divvy-store-*", "divvy-store"),
    ("divvy-engine", "divvy-store"),
    ("divvy-sim", "divvy-engine"),
    ("divvy-sim", "divvy-store"),
    ("divvy-worker", "divvy-proto"),
    ("divvy-worker", "divvy-client"),
    ("divvy-console", "divvy-client"),
    ("divvy", "divvy-client"),
    ("divvy-server", "divvy-proto"),
    ("divvy-dash", "divvy-http"),
    ("divvy-server", "divvy-http"),
    ("divvy-server", "divvy-client"),
    ("divvy-server", "divvy-dash"),
    ("divvy-server", "divvy-wire"),
    ("divvy-wire", "divvy-http"),
    ("divvy-wire", "divvy-proto"),
    ("divvy", "divvy-proto"),
    ("divvy", "divvy-worker"),
    ("divvy-workload", "divvy"),
    ("divvy-workload", "divvy-console"),
    ("divvy-workload", "divvy-http"),
    ("divvy-crawl", "divvy-shards"),
    ("divvy-flow", "divvy-stages"),
    ("divvy-bench", "divvy-lab"),
    ("divvy-cli", "divvy-bench"),
    ("divvy-cli", "divvy-lab"),
];

/// What a workload may see of us.
const FOR_WORKLOADS: [&str; 7] = [
    "divvy",
    "divvy-http",
    "divvy-workload",
    "divvy-kernels",
    "divvy-guard",
    "divvy-placement",
    "divvy-frontier",
];

/// Checks every edge between our packages, and that each package says its layer and takes the workspace's lints.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for package in &workspace.packages {
        let path = package.manifest_path();
        if !takes_workspace_lints(&package.manifest) {
            report.add(
                &path,
                1,
                RULE,
                "does not take the lints of the workspace; add `[lints]` `workspace = true`",
            );
        }
        let Some(layer) = package.layer else {
            let cure = "add `[package.metadata.divvy]` `layer = N` (0 words … 6 product, 7 tools)";
            report.add(&path, 1, RULE, format!("declares no layer; {cure}"));
            continue;
        };
        if layer > LAYER_MAX {
            let message = format!("layer {layer} does not exist; the highest is {LAYER_MAX}");
            report.add(&path, package.line_of("layer"), RULE, message);
            continue;
        }
        check_edges(package, layer, workspace, report);
    }
}

fn check_edges(package: &Package, layer: u64, workspace: &Workspace, report: &mut Report) {
    for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
        let Some(target) = workspace.package(&dependency.name) else { continue };
        let Some(target_layer) = target.layer else { continue };
        if let Some(problem) = problem(&package.name, layer, &target.name, target_layer) {
            report.add(&package.manifest_path(), package.line_of(&target.name), RULE, problem);
        }
    }
}

fn problem(from: &str, from_layer: u64, to: &str, to_layer: u64) -> Option<String> {
    if from_layer == WORKLOADS && !FOR_WORKLOADS.contains(&to) && !is_neighbour(from, to) {
        let allowed = FOR_WORKLOADS.join(", ");
        return Some(format!("workload {from} depends on {to}; a workload sees only {allowed}"));
    }
    if to_layer < from_layer || is_neighbour(from, to) {
        return None;
    }
    if from_layer == MACHINES && to_layer == MACHINES {
        return Some(format!(
            "machine {from} depends on machine {to}; let them meet in divvy-engine"
        ));
    }
    let cure = "turn the edge round, or move what both need to a lower layer";
    Some(format!(
        "{from} (layer {from_layer}) depends on {to} (layer {to_layer}), which is not below it; {cure}"
    ))
}

fn is_neighbour(from: &str, to: &str) -> bool {
    NEIGHBOURS.iter().any(|(source, target)| {
        *target == to
            && source.strip_suffix('*').map_or(*source == from, |start| from.starts_with(start))
    })
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(packages: Vec<Package>) -> Vec<String> {
        let mut report = Report::default();
        check(&Workspace { packages, ..Default::default() }, &mut report);
        report.findings.iter().map(|finding| finding.message.clone()).collect()
    }

    fn edge(from: (&str, u64), to: (&str, u64)) -> Vec<String> {
        findings(vec![Package::of(from.0, from.1, &[to.0]), Package::of(to.0, to.1, &[])])
    }

    #[test]
    fn edges_point_downwards() {
        assert_eq!(edge(("divvy-server", 4), ("divvy-engine", 3)), [""; 0]);
        assert!(edge(("divvy-engine", 3), ("divvy-server", 4))[0].contains("not below it"));
        assert!(edge(("divvy-proto", 4), ("divvy-server", 4))[0].contains("not below it"));
    }

    #[test]
    fn only_the_listed_neighbours_may_meet() {
        for (from, to, layer) in [
            ("divvy-engine", "divvy-store", 3),
            ("divvy-store-postgres", "divvy-store", 3),
            ("divvy-worker", "divvy-proto", 4),
            ("divvy", "divvy-worker", 4),
            ("divvy-flow", "divvy-stages", 5),
        ] {
            assert_eq!(edge((from, layer), (to, layer)), [""; 0], "{from} to {to}");
            assert_eq!(edge((to, layer), (from, layer)).len(), 1, "{to} to {from}");
        }
    }

    #[test]
    fn machines_never_depend_on_each_other() {
        let found = edge(("divvy-autoscale", 2), ("divvy-scheduler", 2));
        assert!(found[0].contains("let them meet in divvy-engine"), "{found:?}");
    }

    #[test]
    fn workloads_see_only_the_sdk_their_interface_and_policies() {
        assert_eq!(edge(("divvy-video", 5), ("divvy", 4)), [""; 0]);
        assert_eq!(edge(("divvy-video", 5), ("divvy-http", 4)), [""; 0]);
        assert_eq!(edge(("divvy-video", 5), ("divvy-workload", 4)), [""; 0]);
        assert!(edge(("divvy-video", 5), ("divvy-engine", 3))[0].contains("a workload sees only"));
    }

    #[test]
    fn a_dependency_for_tests_may_point_anywhere() {
        let packages = vec![
            Package::of("divvy-store", 3, &[]).with_dev("divvy-cli"),
            Package::of("divvy-cli", 6, &[]),
        ];
        assert_eq!(findings(packages), [""; 0]);
    }

    #[test]
    fn a_manifest_without_layer_or_lints_is_named() {
        let mut package = Package::of("divvy-pool", 3, &[]);
        package.layer = None;
        package.manifest = "[package]\n[lints]\n[dependencies]\n".into();
        let found = findings(vec![package]);
        assert!(
            found[0].contains("lints of the workspace") && found[1].contains("declares no layer"),
            "{found:?}"
        );
        assert!(findings(vec![Package::of("x", 8, &[])])[0].contains("does not exist"));
    }

    #[test]
    fn the_finding_is_at_the_line_of_the_dependency() {
        let mut report = Report::default();
        let packages = vec![
            Package::of("divvy-engine", 3, &["serde", "divvy-cli"]),
            Package::of("divvy-cli", 6, &[]),
        ];
        check(&Workspace { packages, ..Default::default() }, &mut report);
        assert_eq!(report.places(), ["7 layers"]);
    }
}
