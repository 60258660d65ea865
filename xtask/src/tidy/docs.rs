//! Decides that every file says what it is for, and that a library's root is only its table of contents.

use syn::Item;
use syn::spanned::Spanned as _;

use super::finding::Report;
use super::source::RustFile;

const RULE: &str = "docs";
/// Fewer words than these say nothing.
const DOC_WORDS_MIN: usize = 3;

/// Checks the text at the head of a file and, for `lib.rs`, what stands below it.
pub(crate) fn check(source: &RustFile, report: &mut Report) {
    let opening = source.text.lines().map_while(|line| line.strip_prefix("//!"));
    if opening.flat_map(str::split_whitespace).count() < DOC_WORDS_MIN {
        let cure = "say first what it decides, then what it does not know";
        report.add(
            &source.path,
            1,
            RULE,
            format!("does not open with a sentence after `//!`; {cure}"),
        );
    }
    if source.path.ends_with("/lib.rs") {
        for item in source.syntax.items.iter().filter(|item| !is_content(item)) {
            let message =
                "lib.rs holds only docs, `mod` and `use`; move this to a module and re-export it";
            report.add(&source.path, item.span().start().line, RULE, message);
        }
    }
}

/// Whether an item belongs in a table of contents. A module with a body does if it only includes generated code.
fn is_content(item: &Item) -> bool {
    match item {
        Item::Use(_) | Item::ExternCrate(_) => true,
        Item::Mod(module) => match &module.content {
            None => true,
            Some((_, items)) => items.iter().all(is_inclusion),
        },
        _ => false,
    }
}

fn is_inclusion(item: &Item) -> bool {
    let Item::Macro(invocation) = item else { return false };
    invocation
        .mac
        .path
        .segments
        .last()
        .is_some_and(|last| last.ident.to_string().starts_with("include"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(path: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        check(&RustFile::parse(path, text).unwrap(), &mut report);
        report.places()
    }

    #[test]
    fn a_file_opens_with_what_it_decides() {
        assert_eq!(places("crates/a/src/b.rs", "//! Decides the order.\nfn a() {}\n"), [""; 0]);
        assert_eq!(places("crates/a/src/b.rs", "fn a() {}\n"), ["1 docs"]);
        assert_eq!(places("crates/a/src/b.rs", "use a::B;\n"), ["1 docs"]);
        assert_eq!(places("crates/a/src/b.rs", "//! x\nfn a() {}\n"), ["1 docs"]);
        assert_eq!(
            places("crates/a/src/b.rs", "/// Of the function only.\nfn a() {}\n"),
            ["1 docs"]
        );
    }

    #[test]
    fn lib_rs_is_a_table_of_contents() {
        let head =
            "//! Decides the order.\n#![warn(missing_docs)]\nmod a;\npub mod b;\npub use a::A;\n";
        assert_eq!(places("crates/a/src/lib.rs", head), [""; 0]);
        let generated = format!("{head}pub mod v1 {{\n    tonic::include_proto!(\"v1\");\n}}\n");
        assert_eq!(places("crates/a/src/lib.rs", &generated), [""; 0]);
        for bad in [
            "pub fn f() {}",
            "pub struct S;",
            "pub const C: u8 = 1;",
            "mod inner { pub fn f() {} }",
        ] {
            assert_eq!(
                places("crates/a/src/lib.rs", &format!("{head}{bad}\n")),
                ["6 docs"],
                "{bad}"
            );
            assert_eq!(places("crates/a/src/b.rs", &format!("{head}{bad}\n")), [""; 0], "{bad}");
        }
    }
}
