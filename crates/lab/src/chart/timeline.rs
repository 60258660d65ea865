//! Decides how states are shown over time: one row per thing, one coloured span per state that it was in.

use serde::Serialize;

use super::Axis;
use super::frame::{self, EDGE};
use super::scale::Scale;
use super::svg::{Anchor, Canvas, WIDTH, fit, text_width};

/// The height of a row, and of the span in it.
const ROW: f64 = 28.0;
const SPAN: f64 = 20.0;
/// The most room for names of rows.
const NAMES_MAX: f64 = 200.0;

/// Rows of spans.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// What grows to the right.
    pub x: Axis,
    /// The kinds of states; a span names one by its place here.
    pub kinds: Vec<String>,
    /// The rows, from the top.
    pub rows: Vec<Row>,
}

/// What one thing was when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What it was.
    pub spans: Vec<Span>,
}

/// One state for some time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// From here.
    pub from: f64,
    /// To here.
    pub to: f64,
    /// The place of its kind in [`Timeline::kinds`].
    pub kind: usize,
    /// Written into it, if there is room.
    pub label: String,
}

impl Timeline {
    /// A chart without rows.
    pub fn new<S: Into<String>>(x: Axis, kinds: impl IntoIterator<Item = S>) -> Self {
        Self { x, kinds: kinds.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If a span is of no known kind or is not finite.
    pub fn row(
        mut self,
        name: impl Into<String>,
        spans: impl IntoIterator<Item = (f64, f64, usize, String)>,
    ) -> Self {
        let spans = spans.into_iter().map(|(from, to, kind, label)| {
            assert!(kind < self.kinds.len(), "span of kind {kind}, which has no name");
            assert!(from.is_finite() && to.is_finite(), "a span begins and ends at a number");
            Span { from, to, kind, label }
        });
        self.rows.push(Row { name: name.into(), spans: spans.collect() });
        self
    }

    pub(super) fn draw(&self) -> Canvas {
        let kinds = self.kinds.iter().map(String::as_str);
        let top = frame::legend_height(kinds.clone());
        let bottom = top + ROW * self.rows.len() as f64 + 6.0;
        let names = self.rows.iter().map(|row| text_width(&row.name)).fold(0.0, f64::max);
        let left = names.min(NAMES_MAX) + EDGE + 8.0;
        let spans = self.rows.iter().flat_map(|row| &row.spans);
        let ends = spans.flat_map(|span| [span.from, span.to]).chain(self.x.to);
        let x = Scale::along(self.x.spacing, ends, left, WIDTH - EDGE - 14.0);
        let mut canvas = Canvas::new(bottom + frame::X_AXIS);
        frame::legend(&mut canvas, kinds);
        frame::x_axis(&mut canvas, &self.x, &x, top, bottom);
        for (index, row) in self.rows.iter().enumerate() {
            let y = top + index as f64 * ROW + 6.0;
            let name = fit(&row.name, NAMES_MAX);
            canvas.text("label", (left - 8.0, y + 14.0), Anchor::End, &name);
            for span in &row.spans {
                self.draw_span(&mut canvas, row, span, &x, y);
            }
        }
        canvas
    }

    fn draw_span(&self, canvas: &mut Canvas, row: &Row, span: &Span, x: &Scale, y: f64) {
        let (from, to) = (x.place(span.from), x.place(span.to));
        let width = (to - from - 1.0).max(1.5);
        let (begin, end) = (self.x.value(span.from), self.x.value(span.to));
        let kind = &self.kinds[span.kind];
        let label = if span.label.is_empty() { kind } else { &span.label };
        let tip = format!("{}: {label} ({kind}), {begin} to {end}", row.name);
        canvas.rect(&format!("f{}", frame::colour(span.kind)), [from, y, width, SPAN], &tip);
        if !span.label.is_empty() && text_width(&span.label) + 8.0 <= width {
            let middle = from + width / 2.0;
            canvas.text("inside", (middle, y + 14.0), Anchor::Middle, &span.label);
        }
    }

    pub(super) fn summary(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let shares = self.kinds.iter().enumerate().filter_map(|(kind, name)| {
                let spans = row.spans.iter().filter(|span| span.kind == kind);
                let (count, total) =
                    spans.fold((0, 0.0), |(n, sum), span| (n + 1, sum + span.to - span.from));
                (count > 0).then(|| format!("{name} {count} times, {} in all", self.x.value(total)))
            });
            format!("{}: {}", row.name, shares.collect::<Vec<_>>().join(", "))
        });
        let rows: Vec<String> = rows.collect();
        format!("Timeline over {}. {}.", self.x.caption(), rows.join("; "))
    }
}
