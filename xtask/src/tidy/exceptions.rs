//! Decides that every exception from a lint says why.
//!
//! Clippy has a lint for `allow`; this rule also sees `expect`, `cfg_attr` and the inside of macros.

use super::finding::Report;
use super::mask;
use super::source::RustFile;

const RULE: &str = "exceptions";

/// Checks every attribute of a file.
pub(crate) fn check(source: &RustFile, report: &mut Report) {
    let code = &source.masked.code;
    for (start, _) in code.match_indices("#[").chain(code.match_indices("#![")) {
        let body = attribute_body(&code[start..]);
        if is_exception(body) && !mask::names(body, "reason") {
            let line = code[..start].matches('\n').count() + 1;
            report.add(
                &source.path,
                line,
                RULE,
                "a lint is switched off without a word; add `reason = \"…\"`",
            );
        }
    }
}

/// What stands between the brackets of the attribute at the start of `code`.
fn attribute_body(code: &str) -> &str {
    let open = code.find('[').map_or(code.len(), |at| at + 1);
    let mut depth = 1;
    for (at, c) in code[open..].char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return code[open..open + at].trim();
        }
    }
    &code[open..]
}

fn is_exception(body: &str) -> bool {
    let opens =
        |text: &str| ["allow", "expect"].iter().any(|name| text.starts_with(&format!("{name}(")));
    let conditional =
        body.starts_with("cfg_attr") && body.split([',', ' ', '\n']).any(|part| opens(part.trim()));
    opens(body) || conditional
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<String> {
        let mut report = Report::default();
        check(&RustFile::parse("crates/a/src/b.rs", text).unwrap(), &mut report);
        report.places()
    }

    #[test]
    fn an_exception_needs_a_reason() {
        for bad in [
            "#[allow(dead_code)]\nfn a() {}\n",
            "#![expect(unused)]\n",
            "#[cfg_attr(test, allow(dead_code))]\nfn a() {}\n",
            "#[allow(\n    dead_code,\n)]\nfn a() {}\n",
        ] {
            assert_eq!(places(bad), ["1 exceptions"], "{bad}");
        }
        assert_eq!(
            places("fn z() {}\nm! {\n    #[allow(dead_code)]\n    fn a() {}\n}\n"),
            ["3 exceptions"]
        );
    }

    #[test]
    fn an_exception_with_a_reason_is_fine() {
        assert_eq!(
            places("#[allow(dead_code, reason = \"used by the macro\")]\nfn a() {}\n"),
            [""; 0]
        );
        assert_eq!(
            places("#[derive(Debug)]\n#[serde(default = \"allow(x)\")]\nstruct A;\n"),
            [""; 0]
        );
        assert_eq!(places("fn a() { b[0].expect(\"there is one\") }\n"), [""; 0]);
    }
}
