//! Decides how lengths are compared: one group of bars per category, one bar per series.
//!
//! Bars lie, so that the names of categories can be read without turning the head. The value stands at the end of its
//! bar; a value that is missing is said in words in its place.

use serde::Serialize;

use super::frame::{self, EDGE};
use super::scale::Scale;
use super::svg::{Anchor, Canvas, WIDTH, fit, text_width};
use super::{Axis, Mark, Spacing};
use crate::report::number;

/// The most room for names of categories.
const NAMES_MAX: f64 = 230.0;
/// Between two groups of bars.
const GROUP_GAP: f64 = 9.0;
/// Data that a spoken summary goes through; more would only tire.
const SPOKEN_MAX: usize = 60;

/// Bars in groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bars {
    /// What a length means.
    pub axis: Axis,
    /// The names of the groups.
    pub categories: Vec<String>,
    /// A name and one value per category; nothing where there is no value.
    pub series: Vec<(String, Vec<Option<f64>>)>,
    /// What to say where there is no value.
    pub missing: String,
    /// A category to be seen first, drawn in another colour where there is only one series.
    pub highlight: Option<usize>,
    /// Values to compare with.
    pub marks: Vec<Mark>,
}

impl Bars {
    /// Bars of these categories, without series.
    pub fn new<S: Into<String>>(axis: Axis, categories: impl IntoIterator<Item = S>) -> Self {
        let categories = categories.into_iter().map(Into::into).collect();
        Self { axis, categories, missing: "none".into(), ..Self::default() }
    }

    /// Adds a series. Values that are not finite count as missing.
    ///
    /// # Panics
    /// If there is not one value per category.
    pub fn series(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let values: Vec<_> =
            values.into_iter().map(|value| value.filter(|value| value.is_finite())).collect();
        assert_eq!(values.len(), self.categories.len(), "a series has one value per category");
        self.series.push((name.into(), values));
        self
    }

    /// Sets what is said where there is no value.
    pub fn missing(mut self, words: impl Into<String>) -> Self {
        self.missing = words.into();
        self
    }

    /// Draws a category in another colour.
    pub fn highlight(mut self, category: usize) -> Self {
        self.highlight = Some(category);
        self
    }

    /// Adds a value to compare with.
    pub fn mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }

    pub(super) fn draw(&self) -> Canvas {
        let names = self.series.iter().map(|(name, _)| name.as_str());
        let marks = if self.marks.is_empty() { 0.0 } else { frame::LINE };
        let top = frame::legend_height(names.clone()) + marks;
        let thickness = match self.series.len() {
            0 | 1 => 17.0,
            2 => 13.0,
            _ => 11.0,
        };
        let group = thickness * self.series.len().max(1) as f64;
        let bottom = top + (group + GROUP_GAP) * self.categories.len() as f64 + GROUP_GAP;
        let mut canvas = Canvas::new(bottom + frame::X_AXIS);
        let scale = self.scale();
        frame::legend(&mut canvas, names);
        frame::x_axis(&mut canvas, &self.axis, &scale, top, bottom);
        let rows = || {
            (0..self.categories.len())
                .map(|row| (row, top + GROUP_GAP + row as f64 * (group + GROUP_GAP)))
        };
        for (row, y) in rows() {
            self.draw_bars(&mut canvas, row, y, thickness, &scale);
        }
        let left = scale.place(f64::MIN);
        canvas.line("base", (left, top), (left, bottom));
        frame::upright_marks(&mut canvas, &self.marks, &scale, top, bottom);
        // Words come last, so that no line runs through them.
        for (row, y) in rows() {
            self.draw_words(&mut canvas, row, y, thickness, &scale);
        }
        canvas
    }

    fn scale(&self) -> Scale {
        let names = self.categories.iter().map(|name| text_width(name)).fold(0.0, f64::max);
        let left = names.min(NAMES_MAX) + EDGE + 8.0;
        let values = || self.series.iter().flat_map(|(_, values)| values.iter().flatten());
        let labels = values().map(|value| text_width(&self.label(*value))).fold(0.0, f64::max);
        let right = WIDTH - EDGE - labels.max(14.0) - 6.0;
        let all = values().copied();
        let all = all.chain(self.marks.iter().map(|mark| mark.value)).chain(self.axis.to);
        // A bar is a length: it begins at zero wherever there is one.
        let zero = (self.axis.spacing == Spacing::Linear).then_some(0.0);
        Scale::over(self.axis.spacing, all.chain(zero), left, right)
    }

    fn draw_bars(&self, canvas: &mut Canvas, row: usize, y: f64, thickness: f64, scale: &Scale) {
        let name = &self.categories[row];
        for (number, (series, values)) in self.series.iter().enumerate() {
            let Some(value) = values[row] else { continue };
            let y = y + number as f64 * thickness;
            let (from, to) = span(scale, value);
            let emphasis = usize::from(self.series.len() == 1 && self.highlight == Some(row));
            let class = format!("f{}", frame::colour(number + emphasis));
            let whose = if self.series.len() < 2 { String::new() } else { format!(", {series}") };
            let tip = format!("{name}{whose}: {}", self.axis.value(value));
            canvas.rect(&class, [from, y, to - from, thickness - 1.5], &tip);
        }
    }

    fn draw_words(&self, canvas: &mut Canvas, row: usize, y: f64, thickness: f64, scale: &Scale) {
        let left = scale.place(f64::MIN);
        let middle = y + thickness * self.series.len().max(1) as f64 / 2.0;
        let shown = fit(&self.categories[row], left - EDGE - 8.0);
        canvas.text("label", (left - 8.0, middle + 4.0), Anchor::End, &shown);
        for (number, (_, values)) in self.series.iter().enumerate() {
            let baseline = y + (number as f64 + 0.5) * thickness + 3.5;
            match values[row] {
                Some(value) => {
                    let place = (span(scale, value).1 + 5.0, baseline);
                    canvas.text("value", place, Anchor::Start, &self.label(value));
                }
                None => canvas.text("none", (left + 6.0, baseline), Anchor::Start, &self.missing),
            }
        }
    }

    fn label(&self, value: f64) -> String {
        number::decimal(value, self.axis.precision)
    }

    pub(super) fn summary(&self) -> String {
        let mut parts = Vec::new();
        for (index, category) in self.categories.iter().enumerate() {
            for (series, values) in &self.series {
                let value = values[index].map(|value| self.axis.value(value));
                let whose = if self.series.len() < 2 { "" } else { series.as_str() };
                let who = format!("{category} {whose}");
                parts.push(format!(
                    "{}: {}",
                    who.trim(),
                    value.unwrap_or_else(|| self.missing.clone())
                ));
            }
        }
        let rest = parts.len().saturating_sub(SPOKEN_MAX);
        parts.truncate(SPOKEN_MAX);
        let more = if rest == 0 { String::new() } else { format!("; and {rest} more") };
        format!("Bar chart of {}. {}{more}.", self.axis.caption(), parts.join("; "))
    }
}

/// From where to where a bar reaches; the smallest can still be seen.
fn span(scale: &Scale, value: f64) -> (f64, f64) {
    let (zero, end) = (scale.place(0.0), scale.place(value));
    let (from, to) = (zero.min(end), zero.max(end));
    (from, to.max(from + 1.5))
}
