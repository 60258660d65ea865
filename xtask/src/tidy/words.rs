//! Decides that a task is called a task: the word that other products use for it ("job") is not ours.
//!
//! Identifiers and comments are read, literals are not: formats of other programs may say what they like.

use super::finding::Report;
use super::source::RustFile;

const RULE: &str = "words";
const FORBIDDEN: [&str; 2] = ["job", "jobs"];
/// Where the word must be said: protocols of other products, this rule, and dataflow, where a job is many tasks in stages.
const ALLOWED: [&str; 7] = [
    "crates/server/src/faktory/",
    "crates/flow/",
    "crates/stages/",
    "tests/tests/e2e/dataflow_is_the_same_whoever_dies.rs",
    "tests/tests/e2e/parquet_is_read_where_duckdb_is.rs",
    "tests/tests/e2e/people_run_dataflow_from_the_command_line.rs",
    "xtask/src/tidy/words.rs",
];

/// Checks the identifiers and comments of a file.
pub(crate) fn check(source: &RustFile, report: &mut Report) {
    if ALLOWED.iter().any(|place| source.path.starts_with(place)) {
        return;
    }
    for (line, text) in source.code().chain(source.comments()) {
        if let Some(word) = parts(text).into_iter().find(|part| FORBIDDEN.contains(&part.as_str()))
        {
            report.add(
                &source.path,
                line,
                RULE,
                format!("says `{word}`; the word is task (or workflow)"),
            );
        }
    }
}

/// The words of a text in small letters, with `snake_case` and `CamelCase` taken apart.
fn parts(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut parts = Vec::new();
    let mut part = String::new();
    for (at, c) in chars.iter().enumerate() {
        let after_small = at > 0 && chars[at - 1].is_lowercase();
        let before_small = chars.get(at + 1).is_some_and(|next| next.is_lowercase());
        if !c.is_alphabetic() || (c.is_uppercase() && (after_small || before_small)) {
            parts.push(std::mem::take(&mut part));
        }
        if c.is_alphabetic() {
            part.extend(c.to_lowercase());
        }
    }
    parts.push(part);
    parts
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
    fn the_word_is_found_in_names_and_comments() {
        for bad in [
            "fn run_job() {}",
            "struct JobQueue;",
            "const JOB: u8 = 1;",
            "// Runs the jobs.",
            "struct AJob;",
        ] {
            assert_eq!(
                places("crates/a/src/b.rs", &format!("fn a() {{}}\n{bad}\n")),
                ["2 words"],
                "{bad}"
            );
        }
    }

    #[test]
    fn literals_longer_words_and_listed_places_are_free() {
        assert_eq!(
            places("crates/a/src/b.rs", "// Jobless.\nfn jobber() { b(\"job\") }\n"),
            [""; 0]
        );
        assert_eq!(places("crates/server/src/faktory/push.rs", "struct Job;\n"), [""; 0]);
    }
}
