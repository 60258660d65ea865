//! Decides how shapes become SVG text: one canvas, a few shapes, everything escaped.
//!
//! Knows nothing of charts. Colours are class names of the style sheet beside this file, so a drawing follows the
//! reader's light or dark theme.

use std::fmt::{self, Write as _};

/// The width of every drawing, in its own units; a page scales it.
pub(crate) const WIDTH: f64 = 720.0;
/// The font sizes of labels, in the same units.
pub(crate) const FONT: f64 = 12.0;

/// A drawing that grows.
#[derive(Clone, Debug)]
pub(crate) struct Canvas {
    pub(crate) height: f64,
    body: String,
}

/// Where text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub(crate) fn new(height: f64) -> Self {
        Self { height, body: String::new() }
    }

    /// A rectangle; `tip` is shown when a pointer rests on it.
    pub(crate) fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], tip: &str) {
        let (x, y, width, height) = (Short(x), Short(y), Short(width.max(0.0)), Short(height));
        self.push(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="2""#
        ));
        self.close("rect", tip);
    }

    /// A rectangle of which only a share of the colour is seen.
    pub(crate) fn faded_rect(
        &mut self,
        class: &str,
        share: f64,
        [x, y, width, height]: [f64; 4],
        tip: &str,
    ) {
        let (x, y, width, height) = (Short(x), Short(y), Short(width), Short(height));
        self.push(format_args!(
            r#"<rect class="{class}" fill-opacity="{share:.2}" x="{x}" y="{y}" width="{width}" height="{height}" rx="2""#
        ));
        self.close("rect", tip);
    }

    /// A straight line.
    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1, x2, y2) = (Short(from.0), Short(from.1), Short(to.0), Short(to.1));
        self.push(format_args!(
            r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#
        ));
    }

    /// A line through points; as steps, each value holds until the next point.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)], steps: bool, tip: &str) {
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let (x, y) = (Short(*x), Short(*y));
            let written = match (index, steps) {
                (0, _) => write!(data, "M{x} {y}"),
                (_, false) => write!(data, "L{x} {y}"),
                (_, true) => write!(data, "H{x}V{y}"),
            };
            written.expect("a string takes everything");
        }
        self.push(format_args!(r#"<path class="{class}" d="{data}""#));
        self.close("path", tip);
    }

    /// A dot.
    pub(crate) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, tip: &str) {
        let (x, y) = (Short(x), Short(y));
        self.push(format_args!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="{radius}""#));
        self.close("circle", tip);
    }

    /// A line of text.
    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (Short(x), Short(y), Escaped(text));
        self.push(format_args!(
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// The drawing as an element for a page or for another drawing. `id` must be unique there.
    pub(crate) fn element(&self, id: &str, title: &str, summary: &str, y: Option<f64>) -> String {
        let (width, height, body) = (Short(WIDTH), Short(self.height), &self.body);
        let (title, summary) = (Escaped(title), Escaped(summary));
        let place = y.map_or_else(String::new, |y| {
            format!(r#" y="{}" width="{width}" height="{height}""#, Short(y))
        });
        format!(
            r#"<svg class="chart" viewBox="0 0 {width} {height}"{place} role="img" aria-labelledby="{id}-title {id}-desc"><title id="{id}-title">{title}</title><desc id="{id}-desc">{summary}</desc>{body}</svg>"#
        )
    }

    fn close(&mut self, name: &str, tip: &str) {
        if tip.is_empty() {
            self.body.push_str("/>");
        } else {
            self.push(format_args!("><title>{}</title></{name}>", Escaped(tip)));
        }
    }

    fn push(&mut self, arguments: fmt::Arguments<'_>) {
        self.body.write_fmt(arguments).expect("a string takes everything");
    }
}

/// Text without meaning for XML and HTML.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // XML has no way to hold these.
                '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' => f.write_char(' ')?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A coordinate with one decimal at most: smaller differences cannot be seen.
pub(crate) struct Short(pub(crate) f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = (self.0 * 10.0).round() / 10.0;
        // Adding zero turns a negative zero into a plain one.
        write!(f, "{}", rounded + 0.0)
    }
}

/// About how wide a text is in the label font. Exact metrics are the reader's font's affair; this errs to the wide
/// side, so that nothing overlaps.
pub(crate) fn text_width(text: &str) -> f64 {
    let ems = text.chars().map(|c| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '\'' | '!' => 0.3,
        'f' | 'r' | 't' | ' ' | '(' | ')' | '-' | '/' => 0.39,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 0.9,
        'A'..='Z' => 0.7,
        _ => 0.58,
    });
    ems.sum::<f64>() * FONT
}

/// The start of a text that fits the width, with an ellipsis where it was cut.
pub(crate) fn fit(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        if text_width(&cut) + text_width("…") + FONT * 0.6 > width {
            break;
        }
        cut.push(c);
    }
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        let mut canvas = Canvas::new(10.0);
        canvas.text("label", (0.0, 0.0), Anchor::Start, "<script>\"&'\u{1}");
        let svg = canvas.element("a", "</title><x>", "", None);
        assert!(svg.contains("&lt;script&gt;&quot;&amp;&#39; </text>"), "{svg}");
        assert!(!svg.contains("<x>") && !svg.contains("<script>"), "{svg}");
    }

    #[test]
    fn coordinates_are_short_and_never_negative_zero() {
        let shown = [1.0 / 3.0, -0.01, 12.0].map(|value| Short(value).to_string());
        assert_eq!(shown, ["0.3", "0", "12"]);
    }

    #[test]
    fn long_text_is_cut_to_its_width() {
        let cut = fit("a very long name of a policy", 80.0);
        assert!(cut.ends_with('…') && text_width(&cut) <= 80.0, "{cut}");
        assert_eq!(fit("short", 80.0), "short");
    }
}
