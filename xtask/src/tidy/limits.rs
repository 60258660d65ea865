//! Decides that every limit that users meet is in the guide: a limit that nobody can look up is a trap.

use syn::{Item, Visibility};

use super::finding::Report;
use super::source::RustFile;
use super::tree::Tree;

const RULE: &str = "limits";
/// Files of limits, and the guide that tells of each: limits of a term stand where its meaning does.
const SOURCES: [(&str, &str); 2] = [
    ("crates/types/src/limits.rs", "docs/guides/errors-and-limits.md"),
    ("crates/types/src/terms.rs", "docs/guides/tasks.md"),
];

/// Checks the constants of a file of limits against its guide.
pub(crate) fn check(source: &RustFile, tree: &Tree, report: &mut Report) {
    let Some((path, guide)) = SOURCES.iter().find(|(path, _)| source.path == *path) else { return };
    let text = tree.text(guide).unwrap_or_default();
    check_items(&source.syntax.items, &mut |limit| {
        if !text.contains(&format!("`{}`", limit.ident)) {
            let message = format!("{} is not in {guide}; add it there", limit.ident);
            report.add(path, limit.ident.span().start().line, RULE, message);
        }
    });
}

/// Hands each public constant to `take`, those of modules in the file too.
fn check_items(items: &[Item], take: &mut impl FnMut(&syn::ItemConst)) {
    for item in items {
        match item {
            Item::Const(limit) if matches!(limit.vis, Visibility::Public(_)) => take(limit),
            Item::Mod(module) => {
                check_items(module.content.as_ref().map_or(&[], |(_, items)| items), take);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_the_guide_does_not_name_is_found() {
        let text = "//! The limits of all.\n/// Doc.\npub const KIND_LEN_MAX: usize = 1;\npub mod limits {\npub const NEEDS_MAX: usize = 2;\nconst OURS: u8 = 3; }\n";
        let [(limits, general), (terms, tasks)] = SOURCES;
        let found = |path: &str| {
            let tree =
                Tree::of(&[(general, "| needs | 2 | `NEEDS_MAX` |\n"), (tasks, "`KIND_LEN_MAX`")]);
            let mut report = Report::default();
            check(&RustFile::parse(path, text).unwrap(), &tree, &mut report);
            report.places().join(", ")
        };
        assert_eq!(found(limits), "3 limits");
        assert_eq!(found(terms), "5 limits", "also in a module, and by the guide on tasks");
        assert_eq!(found("crates/types/src/other.rs"), "");
    }
}
