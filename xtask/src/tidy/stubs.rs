//! Decides that nothing unfinished or dangerous is left lying about: no stubs, no debug prints, no skipped tests, and
//! `unsafe` in one crate only.

use super::finding::Report;
use super::mask;
use super::source::RustFile;

const RULE: &str = "stubs";
/// The only package that may say `unsafe`.
const UNSAFE_PACKAGE: &str = "divvy-pool";

const STUBS: [(&str, &str); 4] = [
    ("todo!", "write the code, or leave the feature out"),
    ("unimplemented!", "write the code, or leave the feature out"),
    ("dbg!", "remove it, or use tracing"),
    ("#[ignore", "mend the test or remove it"),
];

/// Checks a file, tests included.
pub(crate) fn check(source: &RustFile, package: Option<&str>, report: &mut Report) {
    for (line, code) in source.code() {
        for (stub, cure) in STUBS {
            if mask::names(code, stub) {
                report.add(&source.path, line, RULE, format!("`{stub}` is left here; {cure}"));
            }
        }
        if package != Some(UNSAFE_PACKAGE) && mask::names(code, "unsafe") {
            let message = format!(
                "`unsafe` belongs in {UNSAFE_PACKAGE} only; find a safe way or a crate that has one"
            );
            report.add(&source.path, line, RULE, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(package: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        check(&RustFile::parse("crates/a/src/b.rs", text).unwrap(), Some(package), &mut report);
        report.places()
    }

    #[test]
    fn stubs_are_found_in_tests_too() {
        for bad in ["todo!()", "unimplemented!(\"x\")", "dbg!(1)", "std::todo!()"] {
            let text = format!("#[cfg(test)]\nmod tests {{\n    fn a() {{ {bad} }}\n}}\n");
            assert_eq!(places("divvy-store", &text), ["3 stubs"], "{bad}");
        }
        assert_eq!(
            places("divvy-store", "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n"),
            ["2 stubs"]
        );
    }

    #[test]
    fn talk_of_stubs_is_free() {
        assert_eq!(
            places("divvy-store", "// No todo!() here.\nfn a() { b(\"dbg!(1)\", my_todo!()) }\n"),
            [""; 0]
        );
    }

    #[test]
    fn one_package_may_be_unsafe() {
        let text = "fn a() {\n    unsafe { b() }\n}\n";
        assert_eq!(places("divvy-store", text), ["2 stubs"]);
        assert_eq!(places("divvy-pool", text), [""; 0]);
        assert_eq!(places("divvy-store", "#![deny(unsafe_code)]\n"), [""; 0]);
    }
}
