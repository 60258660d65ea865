//! Decides whether the repository keeps its own rules, and says where it does not.
//!
//! Every rule has a file of its own and is a function from what was read to findings: rules open no files and start
//! no programs, so each is tested with a bad example of a few lines. Reading order: `tree` and `workspace` (what is
//! read), `source` and `mask` (a Rust file made ready for rules), then the rules.

mod docs;
mod exceptions;
mod finding;
mod layers;
mod limits;
mod links;
mod mask;
mod modules;
mod purity;
mod size;
mod source;
mod stubs;
mod text;
mod tree;
mod weight;
mod words;
mod workspace;

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use finding::Report;
use source::RustFile;
use tree::Tree;
use workspace::Workspace;

/// How Rust begins that a program wrote: rules for readers are not for it.
const GENERATED: &str = "// This file is @generated";

/// Checks every rule and prints what is wrong. Returns whether nothing is.
pub(crate) fn run(verbose: bool) -> anyhow::Result<bool> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent folder")?;
    let tree = Tree::load(root)?;
    let workspace = Workspace::load(root)?;
    let report = check(&tree, &workspace);
    print(&report, tree.files.len(), verbose)?;
    Ok(report.findings.is_empty())
}

fn check(tree: &Tree, workspace: &Workspace) -> Report {
    let mut report = Report::default();
    layers::check(workspace, &mut report);
    weight::check(workspace, &mut report);
    purity::check_manifests(workspace, tree, &mut report);
    for file in &tree.files {
        text::check(file, &mut report);
    }
    links::check(tree, &mut report);

    let mut sources: Vec<RustFile> = Vec::new();
    let written = |file: &&tree::TextFile| !file.text.starts_with(GENERATED);
    for file in tree.files.iter().filter(|file| file.path.ends_with(".rs")).filter(written) {
        match RustFile::parse(&file.path, &file.text) {
            Ok(source) => sources.push(source),
            Err(finding) => report.findings.push(finding),
        }
    }
    modules::mark_test_files(&mut sources);
    modules::check(&sources, &mut report);
    for source in &sources {
        check_source(source, workspace, &mut report);
        limits::check(source, tree, &mut report);
    }
    report.findings.sort();
    report.findings.dedup();
    report
}

fn check_source(source: &RustFile, workspace: &Workspace, report: &mut Report) {
    let package = workspace.package_of(&source.path);
    if package.is_some_and(|package| package.is_pure()) {
        purity::check_source(source, report);
    }
    size::check(source, report);
    docs::check(source, report);
    stubs::check(source, package.map(|package| package.name.as_str()), report);
    words::check(source, report);
    exceptions::check(source, report);
}

fn print(report: &Report, files: usize, verbose: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if verbose {
        for note in &report.notes {
            writeln!(out, "note: {note}")?;
        }
    }
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    match report.findings.len() {
        0 => writeln!(out, "tidy: {files} files, every rule holds"),
        1 => writeln!(out, "tidy: 1 finding in {files} files"),
        count => writeln!(out, "tidy: {count} findings in {files} files"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::workspace::Package;
    use super::*;

    #[test]
    fn every_rule_is_asked() {
        let bad = "use std::collections::HashMap;\n#[allow(unused)]\nfn job() {\n    todo!() \n}\n";
        let tree = Tree::of(&[
            ("crates/divvy-types/src/bad.rs", bad),
            ("crates/divvy-types/src/long.rs", &"const A: u8 = 1;\n".repeat(801)),
            ("crates/divvy-types/src/broken.rs", "fn (\n"),
            ("crates/types/src/limits.rs", "//! The limits of all.\npub const A_MAX: u8 = 1;\n"),
            ("docs/lost.md", "[gone](gone.md)\n"),
        ]);
        let packages =
            vec![Package::of("divvy-types", 0, &["divvy-types"]), Package::of("divvy", 4, &[])];
        let workspace = Workspace { packages, test_bench: vec!["rusqlite".to_owned()] };
        let found: BTreeSet<&str> =
            check(&tree, &workspace).findings.iter().map(|finding| finding.rule).collect();
        let rules = [
            "docs",
            "exceptions",
            "layers",
            "limits",
            "links",
            "modules",
            "purity",
            "size",
            "stubs",
            "syntax",
            "text",
            "weight",
            "words",
        ];
        assert_eq!(found, BTreeSet::from(rules));
    }
}
