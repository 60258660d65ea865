//! Decides how charts become a file of their own: one SVG document with the charts below each other.
//!
//! The document brings its own style, so it follows light and dark wherever it is opened, and needs nothing else.

use std::fmt::Write as _;

use super::svg::{Anchor, Canvas, Short, WIDTH, text_width};
use super::{Chart, STYLE};

/// Above the first chart, below the last one, and at both sides.
const MARGIN: f64 = 16.0;
/// Between two charts.
const GAP: f64 = 28.0;
/// The heights of a chart's title and of a line of its note.
const TITLE: f64 = 24.0;
const NOTE: f64 = 18.0;

/// One SVG document with all these charts.
pub fn sheet<'a>(charts: impl IntoIterator<Item = &'a Chart>) -> String {
    let mut body = String::new();
    let mut y = MARGIN;
    for (index, chart) in charts.into_iter().enumerate() {
        if index > 0 {
            y += GAP;
        }
        let id = format!("chart-{index}");
        let notes = wrapped(&chart.note, WIDTH - 2.0 * MARGIN);
        let mut heading = Canvas::new(TITLE + NOTE * notes.len() as f64);
        heading.text("heading", (8.0, 16.0), Anchor::Start, &chart.title);
        for (line, note) in notes.iter().enumerate() {
            let baseline = TITLE + 12.0 + line as f64 * NOTE;
            heading.text("soft", (8.0, baseline), Anchor::Start, note);
        }
        let below = y + heading.height;
        let drawing = chart.canvas();
        let heading = heading.element(&format!("{id}-heading"), &chart.title, "", Some(y));
        let drawn = drawing.element(&id, &chart.title, &chart.summary(), Some(below));
        write!(body, "{heading}{drawn}").expect("a string takes everything");
        y = below + drawing.height;
    }
    let (width, height) = (Short(WIDTH + 2.0 * MARGIN), Short(y + MARGIN));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-{MARGIN} 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\"><style>{STYLE}</style><rect class=\"paper\" x=\"-{MARGIN}\" width=\"{width}\" \
         height=\"{height}\"/>{body}</svg>\n"
    )
}

/// The text in lines that fit the width; SVG does not break lines by itself.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(word) + 4.0 <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
