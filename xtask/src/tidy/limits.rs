//! Decides that every limit that users meet is in the guide: a limit that nobody can look up is a trap.

use syn::{Item, Visibility};

use super::finding::Report;
use super::source::RustFile;
use super::tree::Tree;

const RULE: &str = "limits";
const SOURCE: &str = "crates/types/src/limits.rs";
const GUIDE: &str = "docs/guides/errors-and-limits.md";

/// Checks the constants of the file of limits against the guide.
pub(crate) fn check(source: &RustFile, tree: &Tree, report: &mut Report) {
    if source.path != SOURCE {
        return;
    }
    let guide = tree.text(GUIDE).unwrap_or_default();
    for item in &source.syntax.items {
        let Item::Const(limit) = item else { continue };
        let documented = guide.contains(&format!("`{}`", limit.ident));
        if matches!(limit.vis, Visibility::Public(_)) && !documented {
            let message = format!("{} is not in {GUIDE}; add a row there", limit.ident);
            report.add(SOURCE, limit.ident.span().start().line, RULE, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_the_guide_does_not_name_is_found() {
        let text = "//! The limits of all.\n/// Doc.\npub const KIND_LEN_MAX: usize = 1;\npub const NEEDS_MAX: usize = 2;\nconst OURS: u8 = 3;\n";
        let tree = Tree::of(&[(GUIDE, "| needs | 2 | `NEEDS_MAX` |\n")]);
        let mut report = Report::default();
        check(&RustFile::parse(SOURCE, text).unwrap(), &tree, &mut report);
        check(&RustFile::parse("crates/types/src/other.rs", text).unwrap(), &tree, &mut report);
        assert_eq!(report.places(), ["3 limits"]);
    }
}
