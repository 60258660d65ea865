//! Decides what a chart is: data with axes, and a drawing of it as SVG.
//!
//! Knows nothing of experiments and reports. A chart holds numbers, so that it can be written as JSON; drawing happens
//! when a page or a file is written. Every kind has its own file: [`Bars`], [`Lines`], [`Timeline`], [`Heat`].
//!
//! Drawings use class names for colours. [`STYLE`] gives them a palette that people with any colour vision can tell
//! apart, in a light and a dark form; a series is also named beside its line or in a legend, so colour is never alone.

mod bars;
mod frame;
mod heat;
mod lines;
mod scale;
mod sheet;
mod svg;
mod timeline;

use serde::Serialize;

pub use bars::Bars;
pub use heat::Heat;
pub use lines::{Line, Lines, Moment};
pub use sheet::sheet;
pub(crate) use svg::Escaped;
pub use timeline::{Row, Span, Timeline};

/// The style sheet that every drawing needs: once per page, and inside of every file of its own.
pub const STYLE: &str = include_str!("style.css");

/// Colours in the palette; a series beyond them begins again.
pub const COLOURS: usize = 7;

/// A titled drawing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// How to read it, in one sentence; may be empty.
    pub note: String,
    /// The data.
    #[serde(flatten)]
    pub body: Body,
}

/// The kinds of charts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// Lengths side by side.
    Bars(Bars),
    /// Values over something that grows.
    Lines(Lines),
    /// What was the case when.
    Timeline(Timeline),
    /// A table in colours.
    Heat(Heat),
}

impl Chart {
    /// A chart without a note.
    pub fn new(title: impl Into<String>, body: impl Into<Body>) -> Self {
        Self { title: title.into(), note: String::new(), body: body.into() }
    }

    /// Says how to read it.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// The drawing as an SVG element for an HTML page that holds [`STYLE`]. `id` must be unique on the page.
    pub fn svg(&self, id: &str) -> String {
        self.canvas().element(id, &self.title, &self.summary(), None)
    }

    fn canvas(&self) -> svg::Canvas {
        match &self.body {
            Body::Bars(bars) => bars.draw(),
            Body::Lines(lines) => lines.draw(),
            Body::Timeline(timeline) => timeline.draw(),
            Body::Heat(heat) => heat.draw(),
        }
    }

    /// What a reader hears who cannot see the drawing.
    fn summary(&self) -> String {
        let data = match &self.body {
            Body::Bars(bars) => bars.summary(),
            Body::Lines(lines) => lines.summary(),
            Body::Timeline(timeline) => timeline.summary(),
            Body::Heat(heat) => heat.summary(),
        };
        format!("{} {data}", self.note).trim().to_owned()
    }
}

impl From<Bars> for Body {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

impl From<Lines> for Body {
    fn from(lines: Lines) -> Self {
        Self::Lines(lines)
    }
}

impl From<Timeline> for Body {
    fn from(timeline: Timeline) -> Self {
        Self::Timeline(timeline)
    }
}

impl From<Heat> for Body {
    fn from(heat: Heat) -> Self {
        Self::Heat(heat)
    }
}

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Equal differences, equal distances.
    #[default]
    Linear,
    /// Equal ratios, equal distances. Values of zero or less cannot be shown.
    Log,
}

/// What an axis measures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Axis {
    /// In words.
    pub label: String,
    /// In which unit; may be empty.
    pub unit: String,
    /// How values are spread.
    pub spacing: Spacing,
    /// Decimals of a value that is written out.
    pub precision: usize,
    /// The least upper end: an axis that would end below is drawn up to here.
    pub to: Option<f64>,
}

impl Axis {
    /// A linear axis whose values are written with one decimal.
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { label: label.into(), unit: unit.into(), precision: 1, ..Self::default() }
    }

    /// Makes it logarithmic.
    pub fn log(mut self) -> Self {
        self.spacing = Spacing::Log;
        self
    }

    /// Sets the decimals of values.
    pub fn precision(mut self, decimals: usize) -> Self {
        self.precision = decimals;
        self
    }

    /// Draws it up to this value at least.
    pub fn to(mut self, value: f64) -> Self {
        self.to = Some(value);
        self
    }

    /// The label with its unit.
    fn caption(&self) -> String {
        match (self.label.is_empty(), self.unit.is_empty()) {
            (_, true) => self.label.clone(),
            (true, false) => self.unit.clone(),
            (false, false) => format!("{} ({})", self.label, self.unit),
        }
    }

    /// A value in words.
    fn value(&self, value: f64) -> String {
        let number = crate::report::number::decimal(value, self.precision);
        match self.unit.as_str() {
            "" => number,
            "%" | "×" => format!("{number}{}", self.unit),
            unit => format!("{number} {unit}"),
        }
    }
}

/// A value that all others are to be compared with: drawn as a line across.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// The value.
    pub value: f64,
    /// What it is.
    pub label: String,
}

impl Mark {
    /// A mark.
    pub fn new(value: f64, label: impl Into<String>) -> Self {
        Self { value, label: label.into() }
    }
}
