//! Decides that every file under `src` is part of a crate, and finds the files that only tests include.
//!
//! A file that no `mod` names is never compiled, so nothing else would notice that it rots.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Expr, Item, Lit, Meta};

use super::finding::Report;
use super::source::{RustFile, is_for_tests};

const RULE: &str = "modules";

/// A `mod name;` that was seen.
struct Declaration {
    /// The files that it may mean.
    paths: Vec<String>,
    /// Whether it is under `cfg(test)`.
    for_tests: bool,
}

/// Marks every file that is included under `cfg(test)`, or by such a file.
pub(crate) fn mark_test_files(sources: &mut [RustFile]) {
    let children: BTreeMap<String, Vec<Declaration>> =
        sources.iter().map(|source| (source.path.clone(), declarations(source))).collect();
    let mut marked: BTreeSet<&str> = BTreeSet::new();
    let all = children.values().flatten();
    let mut open: Vec<&str> =
        all.filter(|d| d.for_tests).flat_map(|d| d.paths.iter().map(String::as_str)).collect();
    while let Some(path) = open.pop() {
        if marked.insert(path) {
            let inside = children.get(path).into_iter().flatten();
            open.extend(
                inside.flat_map(|declaration| declaration.paths.iter().map(String::as_str)),
            );
        }
    }
    for source in sources.iter_mut() {
        source.is_test |= marked.contains(source.path.as_str());
    }
}

/// Checks that every file under `src` is a crate root or is named by a `mod`.
pub(crate) fn check(sources: &[RustFile], report: &mut Report) {
    let named: BTreeSet<String> =
        sources.iter().flat_map(declarations).flat_map(|declaration| declaration.paths).collect();
    for source in sources {
        let is_module = source.path.contains("/src/") && !source.path.contains("/src/bin/");
        let is_root = source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs");
        if is_module && !is_root && !named.contains(&source.path) {
            report.add(
                &source.path,
                1,
                RULE,
                "is named by no `mod`, so it is never compiled; name it or remove it",
            );
        }
    }
}

fn declarations(source: &RustFile) -> Vec<Declaration> {
    let (folder, name) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let stem = name.trim_end_matches(".rs");
    let is_root = matches!(stem, "lib" | "main" | "mod") || !source.path.contains("/src/");
    let inner = if is_root { folder.to_owned() } else { format!("{folder}/{stem}") };
    let mut found = Vec::new();
    collect(&source.syntax.items, folder, &inner, false, &mut found);
    found
}

fn collect(
    items: &[Item],
    folder: &str,
    inner: &str,
    for_tests: bool,
    found: &mut Vec<Declaration>,
) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let for_tests = for_tests || is_for_tests(&module.attrs);
        let name = module.ident.to_string();
        match &module.content {
            Some((_, items)) => {
                collect(items, folder, &format!("{inner}/{name}"), for_tests, found)
            }
            None => {
                let mut paths =
                    vec![format!("{inner}/{name}.rs"), format!("{inner}/{name}/mod.rs")];
                paths.extend(written_path(&module.attrs).map(|path| format!("{folder}/{path}")));
                found.push(Declaration { paths, for_tests });
            }
        }
    }
}

fn written_path(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Vec<RustFile> {
        files.iter().map(|(path, text)| RustFile::parse(path, text).unwrap()).collect()
    }

    #[test]
    fn a_file_that_nothing_includes_is_named() {
        let sources = sources(&[
            ("crates/a/src/lib.rs", "mod b;\nmod c;\n"),
            ("crates/a/src/b.rs", "mod d;\n#[path = \"odd.rs\"]\nmod e;\n"),
            ("crates/a/src/b/d.rs", ""),
            ("crates/a/src/c/mod.rs", "mod f { mod g; }\n"),
            ("crates/a/src/c/f/g.rs", ""),
            ("crates/a/src/odd.rs", ""),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/tests/scenario.rs", ""),
        ]);
        let mut report = Report::default();
        check(&sources, &mut report);
        let paths: Vec<&str> =
            report.findings.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/lost.rs"]);
    }

    #[test]
    fn what_only_tests_include_is_test_code() {
        let mut sources = sources(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod tests;\nmod b;\n"),
            ("crates/a/src/tests.rs", "mod more;\n"),
            ("crates/a/src/tests/more.rs", ""),
            ("crates/a/src/b.rs", ""),
        ]);
        for source in &mut sources {
            source.is_test = false;
        }
        mark_test_files(&mut sources);
        assert_eq!(
            sources.iter().map(|source| source.is_test).collect::<Vec<_>>(),
            [false, true, true, false]
        );
    }
}
