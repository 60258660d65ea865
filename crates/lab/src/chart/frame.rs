//! Decides what charts have in common around their data: legends, axes, grids and where they stand.
//!
//! Knows nothing of the data itself.

use super::scale::Scale;
use super::svg::{Anchor, Canvas, FONT, WIDTH, text_width};
use super::{Axis, COLOURS, Mark};
use crate::report::number;

/// The height of a line of text.
pub(super) const LINE: f64 = 18.0;
/// Between the edge of a drawing and its content.
pub(super) const EDGE: f64 = 8.0;
/// The side of a colour sample in a legend.
const SAMPLE: f64 = 11.0;
/// Between two entries of a legend.
const ENTRY_GAP: f64 = 18.0;

/// The number of a series in the palette, from 1.
pub(super) fn colour(series: usize) -> usize {
    series % COLOURS + 1
}

/// The height that a legend with these names takes; a single name needs none.
pub(super) fn legend_height<'a>(names: impl Iterator<Item = &'a str> + Clone) -> f64 {
    if names.clone().count() < 2 {
        return EDGE;
    }
    let (_, rows) = legend_places(names);
    rows as f64 * LINE + EDGE
}

/// Draws names with their colours, from the top left corner.
pub(super) fn legend<'a>(canvas: &mut Canvas, names: impl Iterator<Item = &'a str> + Clone) {
    if names.clone().count() < 2 {
        return;
    }
    let (places, _) = legend_places(names.clone());
    for (index, (name, (x, row))) in names.zip(places).enumerate() {
        let y = row as f64 * LINE + EDGE;
        canvas.rect(&format!("f{}", colour(index)), [x, y - 2.0, SAMPLE, SAMPLE], "");
        canvas.text("label", (x + SAMPLE + 6.0, y + 8.0), Anchor::Start, name);
    }
}

/// Where each entry of a legend stands: its x, and its row.
fn legend_places<'a>(names: impl Iterator<Item = &'a str>) -> (Vec<(f64, usize)>, usize) {
    let (mut x, mut row) = (EDGE, 0);
    let mut places = Vec::new();
    for name in names {
        let width = SAMPLE + 6.0 + text_width(name);
        if x > EDGE && x + width > WIDTH - EDGE {
            (x, row) = (EDGE, row + 1);
        }
        places.push((x, row));
        x += width + ENTRY_GAP;
    }
    (places, row + 1)
}

/// Draws a horizontal axis at `bottom` with grid lines up to `top`.
pub(super) fn x_axis(canvas: &mut Canvas, axis: &Axis, scale: &Scale, top: f64, bottom: f64) {
    let ticks = scale.ticks();
    for tick in &ticks {
        let x = scale.place(*tick);
        canvas.line("grid", (x, top), (x, bottom));
        let text = number::tick(*tick, &ticks);
        canvas.text("tick", (x, bottom + 15.0), Anchor::Middle, &text);
    }
    let middle = (scale.place(f64::MIN) + scale.place(f64::MAX)) / 2.0;
    canvas.text("soft", (middle, bottom + 33.0), Anchor::Middle, &axis.caption());
}

/// The height below the data that a horizontal axis takes.
pub(super) const X_AXIS: f64 = 42.0;

/// Draws a vertical axis at `left` with grid lines to `right`; its caption stands above it.
pub(super) fn y_axis(
    canvas: &mut Canvas,
    axis: &Axis,
    scale: &Scale,
    (left, right): (f64, f64),
    top: f64,
) {
    let ticks = scale.ticks();
    for tick in &ticks {
        let y = scale.place(*tick);
        canvas.line("grid", (left, y), (right, y));
        let text = number::tick(*tick, &ticks);
        canvas.text("tick", (left - 6.0, y + 4.0), Anchor::End, &text);
    }
    canvas.text("soft", (EDGE, top - 12.0), Anchor::Start, &axis.caption());
}

/// The width left of the data that a vertical axis takes.
pub(super) fn y_axis_width(scale: &Scale) -> f64 {
    let ticks = scale.ticks();
    let widest = ticks.iter().map(|tick| text_width(&number::tick(*tick, &ticks)));
    widest.fold(0.0, f64::max) + EDGE + 8.0
}

/// Draws values to compare with as vertical lines, each label above its line.
pub(super) fn upright_marks(
    canvas: &mut Canvas,
    marks: &[Mark],
    scale: &Scale,
    top: f64,
    bottom: f64,
) {
    for mark in marks {
        let x = scale.place(mark.value);
        canvas.line("mark", (x, top - 2.0), (x, bottom));
        let half = text_width(&mark.label) / 2.0;
        let x = x.clamp(EDGE + half, WIDTH - EDGE - half);
        canvas.text("label", (x, top - 6.0), Anchor::Middle, &mark.label);
    }
}

/// Moves places apart, each by as little as needed, so that neighbours keep their distance and all stay above `end`.
pub(super) fn spread(places: &mut [f64], distance: f64, end: f64) {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut floor = f64::NEG_INFINITY;
    for index in &order {
        places[*index] = places[*index].max(floor);
        floor = places[*index] + distance;
    }
    let mut ceiling = end;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(ceiling);
        ceiling = places[*index] - distance;
    }
}

/// A distance between text lines at which labels do not touch.
pub(super) const LABEL_DISTANCE: f64 = FONT + 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_moved_apart_and_kept_inside() {
        let mut places = [50.0, 10.0, 52.0, 98.0, 99.0];
        spread(&mut places, 14.0, 100.0);
        assert_eq!(places[1], 10.0);
        let mut sorted = places;
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 14.0), "{places:?}");
        assert!(sorted[4] <= 100.0);
    }

    #[test]
    fn a_long_legend_takes_more_rows() {
        let names = ["a name of some length"; 9];
        assert!(legend_height(names.iter().copied()) > 2.0 * LINE);
        assert_eq!(legend_height(["one"].into_iter()), EDGE);
    }
}
