//! What a rule has to say: a place, what is wrong there, and the cure.

use std::fmt;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, relative to the root of the repository.
    pub(crate) path: String,
    /// The line, from 1.
    pub(crate) line: usize,
    /// The short name of the rule.
    pub(crate) rule: &'static str,
    /// What is wrong, and after a semicolon what to do about it.
    pub(crate) message: String,
}

/// Everything that the rules found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Broken rules.
    pub(crate) findings: Vec<Finding>,
    /// Things to keep an eye on; they fail nothing.
    pub(crate) notes: Vec<Finding>,
}

impl Finding {
    /// A broken rule at a place.
    pub(crate) fn new(
        path: &str,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into() }
    }
}

impl Report {
    /// Adds a broken rule.
    pub(crate) fn add(
        &mut self,
        path: &str,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) {
        self.findings.push(Finding::new(path, line, rule, message));
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.path, self.line, self.rule, self.message)
    }
}

#[cfg(test)]
impl Report {
    /// `line rule` of each finding, in order: what tests compare.
    pub(crate) fn places(&self) -> Vec<String> {
        self.findings.iter().map(|finding| format!("{} {}", finding.line, finding.rule)).collect()
    }
}
