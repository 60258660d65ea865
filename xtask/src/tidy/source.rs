//! A Rust file made ready for rules: its text, its code without comments and literals, its syntax, and which of its
//! lines are only there for tests.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{
    Attribute, ImplItemFn, Item, ItemConst, ItemFn, ItemImpl, ItemMod, ItemStatic, ItemStruct,
    ItemUse,
};

use super::finding::Finding;
use super::mask::{self, Masked};

/// One Rust file.
pub(crate) struct RustFile {
    /// Relative to the root of the repository.
    pub(crate) path: String,
    /// As it is written.
    pub(crate) text: String,
    /// Code and comments apart.
    pub(crate) masked: Masked,
    /// Its grammar.
    pub(crate) syntax: syn::File,
    /// Whether the whole file is only there for tests, examples or benches.
    pub(crate) is_test: bool,
    /// First and last line of each part under `cfg(test)`.
    test_spans: Vec<(usize, usize)>,
}

impl RustFile {
    /// Reads a file, or says where it is not Rust.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, Finding> {
        let syntax = syn::parse_file(text).map_err(|error| {
            let line = error.span().start().line;
            Finding::new(path, line.max(1), "syntax", format!("is not Rust ({error}); mend it"))
        })?;
        let mut finder = TestFinder::default();
        finder.visit_file(&syntax);
        let folders = ["tests", "examples", "benches"];
        let is_test = path.split('/').rev().skip(1).any(|folder| folders.contains(&folder));
        let masked = mask::mask(text);
        let test_spans = finder.spans;
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            masked,
            syntax,
            is_test,
            test_spans,
        })
    }

    /// Whether this line is only there for tests.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.test_spans.iter().any(|(first, last)| (*first..=*last).contains(&line))
    }

    /// Lines of code that are part of the product, with their numbers.
    pub(crate) fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code().filter(|(line, _)| !self.is_test_line(*line))
    }

    /// All lines of code with their numbers.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.masked.code.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// All lines of comments with their numbers.
    pub(crate) fn comments(&self) -> impl Iterator<Item = (usize, &str)> {
        self.masked.comments.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Whether these attributes keep something out of the product.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string().replace(' ', "");
        list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
    })
}

#[derive(Default)]
struct TestFinder {
    spans: Vec<(usize, usize)>,
}

impl TestFinder {
    fn look(&mut self, attributes: &[Attribute], span: proc_macro2::Span) {
        if is_for_tests(attributes) {
            self.spans.push((span.start().line, span.end().line));
        }
    }
}

impl<'ast> Visit<'ast> for TestFinder {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Const(ItemConst { attrs, .. })
            | Item::Fn(ItemFn { attrs, .. })
            | Item::Impl(ItemImpl { attrs, .. })
            | Item::Mod(ItemMod { attrs, .. })
            | Item::Static(ItemStatic { attrs, .. })
            | Item::Struct(ItemStruct { attrs, .. })
            | Item::Use(ItemUse { attrs, .. }) => attrs.as_slice(),
            _ => &[],
        };
        self.look(attributes, item.span());
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.look(&function.attrs, function.span());
        visit::visit_impl_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_under_cfg_test_are_known() {
        let text = "//! Doc.\nfn a() {}\n#[cfg(test)]\nuse x::Y;\nimpl A {\n    #[cfg(test)]\n    fn b() {\n    }\n}\n\
            #[cfg(all(test, unix))]\nmod tests {\n    fn c() {}\n}\n#[cfg(not(test))]\nfn d() {}\n";
        let file = RustFile::parse("crates/x/src/a.rs", text).unwrap();
        let lines: Vec<usize> =
            (1..=text.lines().count()).filter(|line| file.is_test_line(*line)).collect();
        assert_eq!(lines, [3, 4, 6, 7, 8, 10, 11, 12, 13]);
    }

    #[test]
    fn files_in_test_folders_are_tests_throughout() {
        for (path, expected) in [
            ("crates/x/tests/a.rs", true),
            ("crates/x/examples/a.rs", true),
            ("crates/x/src/tests.rs", false),
        ] {
            assert_eq!(RustFile::parse(path, "fn a() {}\n").unwrap().is_test, expected, "{path}");
        }
    }

    #[test]
    fn what_is_not_rust_is_named_with_its_line() {
        let finding = RustFile::parse("a.rs", "fn a() {}\nfn b( {}\n").err().unwrap();
        assert_eq!((finding.line, finding.rule), (2, "syntax"));
    }
}
