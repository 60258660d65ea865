//! Decides how long a file and a function may be: what a reader can hold at once.
//!
//! A file counts without its tests, a function with everything from `fn` to its closing brace. Test functions obey the
//! same limit: a long test tells no story.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

use super::finding::{Finding, Report};
use super::source::RustFile;

const RULE: &str = "size";
/// Lines of a file, without tests.
const FILE_LINES_MAX: usize = 800;
/// Lines of a file, without tests, from which on it is worth a thought.
const FILE_LINES_NOTED: usize = 400;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;

/// Checks the length of a file and of each function in it.
pub(crate) fn check(source: &RustFile, report: &mut Report) {
    let total = source.text.lines().count();
    let product = (1..=total).filter(|line| source.is_test || !source.is_test_line(*line)).count();
    if product > FILE_LINES_MAX {
        let cure = "give each transition, policy or command its own file";
        report.add(
            &source.path,
            1,
            RULE,
            format!("has {product} lines, at most {FILE_LINES_MAX}; {cure}"),
        );
    } else if product > FILE_LINES_NOTED {
        let message = format!("has {product} lines; files of 100 to 350 lines read best");
        report.notes.push(Finding::new(&source.path, 1, RULE, message));
    }
    Functions { path: &source.path, report }.visit_file(&source.syntax);
}

struct Functions<'a> {
    path: &'a str,
    report: &'a mut Report,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &Signature, body: &Block) {
        let first = signature.span().start().line;
        let last = body.brace_token.span.close().end().line;
        let lines = last + 1 - first;
        if lines > FUNCTION_LINES_MAX {
            let name = &signature.ident;
            let message = format!(
                "fn {name} has {lines} lines, at most {FUNCTION_LINES_MAX}; split it by step"
            );
            self.report.add(self.path, first, RULE, message);
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.measure(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(path: &str, text: &str) -> Report {
        let mut report = Report::default();
        check(&RustFile::parse(path, text).unwrap(), &mut report);
        report
    }

    fn function(lines: usize) -> String {
        format!("/// Doc.\nfn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_71_lines_is_too_long_and_one_of_70_is_not() {
        assert_eq!(report("a.rs", &function(70)).places(), [""; 0]);
        assert_eq!(report("a.rs", &function(71)).places(), ["2 size"]);
    }

    #[test]
    fn methods_and_default_methods_count_too() {
        let body = "        step();\n".repeat(70);
        let text = format!(
            "impl A {{\n    fn a() {{\n{body}    }}\n}}\ntrait B {{\n    fn b() {{\n{body}    }}\n}}\n"
        );
        assert_eq!(report("a.rs", &text).places(), ["2 size", "76 size"]);
    }

    #[test]
    fn tests_at_the_end_of_a_file_do_not_count() {
        let product = "const A: u8 = 1;\n";
        let tests =
            format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const B: u8 = 1;\n".repeat(100));
        assert_eq!(report("a.rs", &(product.repeat(800) + &tests)).places(), [""; 0]);
        assert_eq!(report("a.rs", &(product.repeat(801) + &tests)).places(), ["1 size"]);
        assert_eq!(report("crates/a/tests/b.rs", &product.repeat(801)).places(), ["1 size"]);
    }

    #[test]
    fn a_file_over_400_lines_is_only_noted() {
        let report = report("a.rs", &"const A: u8 = 1;\n".repeat(401));
        assert_eq!((report.findings.len(), report.notes.len()), (0, 1));
    }
}
