//! Decides how a report is shown: [`text`] on a terminal, [`html`] on a page.
//!
//! What a report is, all layers know ([`divvy_types::experiment`]); here its charts are data, which can be drawn. It
//! does not know how its figures came about: findings are sentences that the experiment computes from its own data.

pub mod html;
pub mod number;
pub mod text;

pub use divvy_types::experiment::{Cell, Table};
use divvy_types::experiment::{CellKind, Column, Drawing, Parameter};

use crate::chart::Chart;

/// What an experiment found, with charts that can be drawn.
pub type Report = divvy_types::experiment::Report<Chart>;

/// The report with its charts drawn.
pub fn drawn(report: Report) -> divvy_types::experiment::Report<Drawing> {
    let draw = |(number, chart): (usize, &Chart)| Drawing {
        title: chart.title.clone(),
        note: chart.note.clone(),
        svg: chart.svg(&format!("chart-{number}")),
    };
    let drawings = report.charts.iter().enumerate().map(draw).collect();
    report.with_charts(drawings)
}

/// A parameter's value in words.
pub(crate) fn value_in_words(parameter: &Parameter) -> String {
    match &parameter.value {
        Cell::Text(text) => text.clone(),
        Cell::Number(value) if value.fract() == 0.0 => number::decimal(*value, 0),
        Cell::Number(value) => format!("{value}"),
        Cell::Empty => "–".into(),
    }
}

/// A cell of a column in words.
pub(crate) fn cell_in_words(column: &Column, cell: &Cell) -> String {
    match (cell, column.kind) {
        (Cell::Text(text), _) => text.clone(),
        (Cell::Number(value), CellKind::Number { precision }) => number::decimal(*value, precision),
        (Cell::Number(value), CellKind::Text) => number::brief(*value),
        (Cell::Empty, _) => "–".into(),
    }
}
