//! Decides what an experiment hands back: one report with words, tables, charts and verdicts.
//!
//! A report is data and can be written as JSON. [`text`] shows it on a terminal, [`html`] on a page. It does not know
//! how its figures came about: findings are sentences that the experiment computes from its own data.

pub mod html;
pub mod number;
pub mod table;
pub mod text;

use serde::Serialize;

use crate::chart::Chart;
pub use table::{Cell, Table};

/// What an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The name of the experiment.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it shows, in plain words.
    pub shows: String,
    /// What it ran with.
    pub parameters: Vec<Parameter>,
    /// Its figures.
    pub tables: Vec<Table>,
    /// Its drawings.
    pub charts: Vec<Chart>,
    /// What the figures of this run say.
    pub findings: Vec<String>,
    /// What to take from it.
    pub lessons: Vec<String>,
    /// Targets and whether this run met them.
    pub verdicts: Vec<Verdict>,
}

/// One thing that an experiment ran with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Cell,
}

/// A target and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What is measured.
    pub what: String,
    /// What is wanted.
    pub target: String,
    /// What was found.
    pub measured: String,
    /// Whether the one meets the other.
    pub met: bool,
}

impl Report {
    /// A report without content.
    pub fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        shows: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            shows: shows.into(),
            parameters: Vec::new(),
            tables: Vec::new(),
            charts: Vec::new(),
            findings: Vec::new(),
            lessons: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    /// Adds something that it ran with.
    pub fn parameter(&mut self, name: impl Into<String>, value: impl Into<Cell>) {
        self.parameters.push(Parameter { name: name.into(), value: value.into() });
    }

    /// Adds what the figures say.
    pub fn finding(&mut self, sentence: impl Into<String>) {
        self.findings.push(sentence.into());
    }

    /// Adds what to take from it.
    pub fn lesson(&mut self, sentence: impl Into<String>) {
        self.lessons.push(sentence.into());
    }

    /// Adds a target and whether it was met.
    pub fn verdict(
        &mut self,
        what: impl Into<String>,
        target: impl Into<String>,
        measured: impl Into<String>,
        met: bool,
    ) {
        let (what, target, measured) = (what.into(), target.into(), measured.into());
        self.verdicts.push(Verdict { what, target, measured, met });
    }

    /// How many targets were met, of how many.
    pub fn met(&self) -> (usize, usize) {
        (self.verdicts.iter().filter(|verdict| verdict.met).count(), self.verdicts.len())
    }
}

impl Parameter {
    /// The value in words.
    pub(crate) fn shown(&self) -> String {
        match &self.value {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) if value.fract() == 0.0 => number::decimal(*value, 0),
            Cell::Number(value) => format!("{value}"),
            Cell::Empty => "–".into(),
        }
    }
}

impl Verdict {
    /// The word for it.
    pub(crate) fn word(&self) -> &'static str {
        if self.met { "met" } else { "MISSED" }
    }
}
