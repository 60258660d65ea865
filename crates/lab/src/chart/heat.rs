//! Decides how a table is shown in colours: the fuller the colour, the greater the value.
//!
//! Every value is written in its field, so the colour only leads the eye.

use serde::Serialize;

use super::frame::{self, EDGE};
use super::scale::Scale;
use super::svg::{Anchor, Canvas, WIDTH, fit, text_width};
use super::{Axis, Spacing};
use crate::report::number;

const FIELD_HEIGHT: f64 = 26.0;
/// The most room for names of rows.
const NAMES_MAX: f64 = 210.0;
/// The weakest and the strongest colour.
const SHARES: (f64, f64) = (0.06, 1.0);
/// From this share on, text is readable only in the colour of the paper.
const SHARE_DARK: f64 = 0.6;

/// A table in colours.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heat {
    /// What a value means.
    pub axis: Axis,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// A name and one value per column; nothing where there is no value.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// What to say where there is no value.
    pub missing: String,
}

impl Heat {
    /// A table without rows.
    pub fn new<S: Into<String>>(axis: Axis, columns: impl IntoIterator<Item = S>) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { axis, columns, rows: Vec::new(), missing: "none".into() }
    }

    /// Adds a row. Values that are not finite count as missing.
    ///
    /// # Panics
    /// If there is not one value per column.
    pub fn row(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let values: Vec<_> =
            values.into_iter().map(|value| value.filter(|value| value.is_finite())).collect();
        assert_eq!(values.len(), self.columns.len(), "a row has one value per column");
        self.rows.push((name.into(), values));
        self
    }

    /// Sets what is said where there is no value.
    pub fn missing(mut self, words: impl Into<String>) -> Self {
        self.missing = words.into();
        self
    }

    pub(super) fn draw(&self) -> Canvas {
        let top = frame::LINE + EDGE;
        let mut canvas =
            Canvas::new(top + FIELD_HEIGHT * self.rows.len() as f64 + frame::LINE + EDGE);
        let names = self.rows.iter().map(|(name, _)| text_width(name)).fold(0.0, f64::max);
        let left = names.min(NAMES_MAX) + EDGE + 8.0;
        let field = (WIDTH - EDGE - left) / self.columns.len().max(1) as f64;
        for (index, column) in self.columns.iter().enumerate() {
            let middle = left + (index as f64 + 0.5) * field;
            canvas.text("soft", (middle, top - 8.0), Anchor::Middle, &fit(column, field - 4.0));
        }
        let values = self.rows.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let shares = Scale::over(self.axis.spacing, values, SHARES.0, SHARES.1);
        for (index, (name, values)) in self.rows.iter().enumerate() {
            let y = top + index as f64 * FIELD_HEIGHT;
            let shown = fit(name, NAMES_MAX);
            canvas.text("label", (left - 8.0, y + 17.0), Anchor::End, &shown);
            for (column, value) in values.iter().enumerate() {
                let x = left + column as f64 * field;
                let middle = (x + field / 2.0, y + 17.0);
                let Some(value) = value else {
                    canvas.text("none", middle, Anchor::Middle, &self.missing);
                    continue;
                };
                let share = shares.place(*value);
                let tip = format!("{name}, {}: {}", self.columns[column], self.axis.value(*value));
                let place = [x + 1.0, y + 1.0, field - 2.0, FIELD_HEIGHT - 2.0];
                canvas.faded_rect("f1", share, place, &tip);
                let class = if share >= SHARE_DARK { "inside" } else { "value on-colour" };
                let text = number::decimal(*value, self.axis.precision);
                canvas.text(class, middle, Anchor::Middle, &text);
            }
        }
        let spacing = if self.axis.spacing == Spacing::Log { ", by ratio" } else { "" };
        let caption = format!("{}: the fuller, the greater{spacing}", self.axis.caption());
        let bottom = canvas.height - EDGE;
        canvas.text("soft", (left, bottom), Anchor::Start, &caption);
        canvas
    }

    pub(super) fn summary(&self) -> String {
        let rows = self.rows.iter().map(|(name, values)| {
            let fields = self.columns.iter().zip(values).map(|(column, value)| {
                let value = value.map(|value| self.axis.value(value));
                format!("{column} {}", value.unwrap_or_else(|| self.missing.clone()))
            });
            format!("{name}: {}", fields.collect::<Vec<_>>().join(", "))
        });
        let rows: Vec<String> = rows.collect();
        format!("Heat map of {}. {}.", self.axis.caption(), rows.join("; "))
    }
}
