//! Decides that Markdown leads somewhere: relative links point to files that are there, and every page under `docs`
//! is reachable from its index.

use std::collections::BTreeSet;

use super::finding::Report;
use super::tree::Tree;

const RULE: &str = "links";
const INDEX: &str = "docs/README.md";

/// Checks every Markdown file.
pub(crate) fn check(tree: &Tree, report: &mut Report) {
    let known = known_places(tree);
    let mut indexed: BTreeSet<String> = BTreeSet::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in links(&file.text) {
            match resolve(&file.path, &target) {
                Some(place) if known.contains(&place) => {
                    if file.path == INDEX {
                        indexed.insert(place);
                    }
                }
                _ => report.add(
                    &file.path,
                    line,
                    RULE,
                    format!("links to `{target}`, which is not there; mend it"),
                ),
            }
        }
    }
    for file in tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("docs/") && file.path.ends_with(".md"))
    {
        if file.path != INDEX && !indexed.contains(&file.path) {
            report.add(
                &file.path,
                1,
                RULE,
                format!("is not linked from {INDEX}; add a line there"),
            );
        }
    }
}

/// All files and all folders that hold one.
fn known_places(tree: &Tree) -> BTreeSet<String> {
    let mut known = BTreeSet::from([String::new()]);
    for file in &tree.files {
        known.insert(file.path.clone());
        known.extend(file.path.match_indices('/').map(|(at, _)| file.path[..at].to_owned()));
    }
    known
}

/// Relative link targets with their lines. Code, in fences or between backticks, holds no links.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        match fence {
            Some(mark) => {
                if start.starts_with(mark) {
                    fence = None;
                }
                continue;
            }
            None => fence = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark)),
        }
        if fence.is_none() {
            let bare = without_code(line);
            found.extend(
                targets(&bare)
                    .into_iter()
                    .filter(|target| is_relative(target))
                    .map(|t| (index + 1, t)),
            );
        }
    }
    found
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("")
}

fn targets(line: &str) -> Vec<String> {
    let definition =
        line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, t)| t);
    let inline = line.match_indices("](").map(|(at, mark)| {
        let rest = &line[at + mark.len()..];
        &rest[..rest.find(')').unwrap_or(rest.len())]
    });
    let clean = |target: &str| {
        let target = target.split_whitespace().next().unwrap_or_default();
        target.trim_matches(['<', '>']).to_owned()
    };
    inline.chain(definition).map(clean).collect()
}

fn is_relative(target: &str) -> bool {
    !target.starts_with('#') && !target.contains("://") && !target.starts_with("mailto:")
}

/// Where a link leads, as a path from the root; nothing if it leads out of the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" if target.starts_with('/') => return None,
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(files: &[(&str, &str)]) -> Vec<String> {
        let mut report = Report::default();
        check(&Tree::of(files), &mut report);
        report.findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let text = "See [a](a.md), [b](docs/b.md#part), [c](missing.md \"title\"),\n[d](../out.md), [e](/a.md) and\n\
            [folder](docs) but not [web](https://example.com/x.md) or [here](#part).\n\n[f]: gone.md\n";
        let files = [
            ("README.md", text),
            ("a.md", ""),
            ("docs/README.md", "[b](b.md)\n"),
            ("docs/b.md", ""),
        ];
        assert_eq!(places(&files), ["README.md:1", "README.md:2", "README.md:2", "README.md:5"]);
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(
            places(&[("a.md", "`[x](y.md)`\n```\n[x](y.md)\n```\n~~~~ text\n[x](y.md)\n~~~~\n")]),
            [""; 0]
        );
        assert_eq!(places(&[("a.md", "```\n```\n[x](y.md)\n")]), ["a.md:3"]);
    }

    #[test]
    fn every_page_is_in_the_index() {
        let index = ("docs/README.md", "[one](guides/one.md)\n");
        let files = [
            index,
            ("docs/guides/one.md", ""),
            ("docs/guides/two.md", ""),
            ("docs/adr/0001-a.md", ""),
        ];
        assert_eq!(places(&files), ["docs/guides/two.md:1", "docs/adr/0001-a.md:1"]);
        assert_eq!(places(&[("crates/pool/README.md", "")]), [""; 0]);
    }
}
