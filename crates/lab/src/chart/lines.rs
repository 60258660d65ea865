//! Decides how values are followed over something that grows: time, sizes, queries.
//!
//! Every line is named at its right end, so nobody has to match colours with a legend. A line may hold its value until
//! the next point (steps), for states and limits that change at once.

use serde::Serialize;

use super::frame::{self, EDGE, LABEL_DISTANCE};
use super::scale::Scale;
use super::svg::{Anchor, Canvas, WIDTH, fit, text_width};
use super::{Axis, Mark, Spacing};

/// The height of the area of data.
const HEIGHT: f64 = 260.0;
/// The most room for names at the right.
const NAMES_MAX: f64 = 190.0;
/// Lines of more points get no dots: they would be a smear.
const DOTS_MAX: usize = 30;

/// Lines over a common axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lines {
    /// What grows to the right.
    pub x: Axis,
    /// What is followed.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
    /// Values of `y` to compare with.
    pub marks: Vec<Mark>,
    /// Values of `x` at which something happened.
    pub moments: Vec<Moment>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points, by rising `x`.
    pub points: Vec<(f64, f64)>,
    /// Whether a value holds until the next point.
    pub steps: bool,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// When.
    pub at: f64,
    /// What.
    pub label: String,
}

impl Lines {
    /// A chart without lines.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, ..Self::default() }
    }

    /// Adds a line. Points that are not finite are left out.
    pub fn line(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        self.lines.push(Line { name: name.into(), points: finite(points), steps: false });
        self
    }

    /// Adds a line whose values hold until the next point.
    pub fn steps(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        self.lines.push(Line { name: name.into(), points: finite(points), steps: true });
        self
    }

    /// Adds a value to compare with.
    pub fn mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }

    /// Adds something that happened.
    pub fn moment(mut self, at: f64, label: impl Into<String>) -> Self {
        self.moments.push(Moment { at, label: label.into() });
        self
    }

    pub(super) fn draw(&self) -> Canvas {
        let moments = if self.moments.is_empty() { 0.0 } else { frame::LINE };
        let top = frame::LINE + EDGE + 8.0 + moments;
        let bottom = top + HEIGHT;
        let ys = self.points().map(|(_, y)| y);
        let ys = ys.chain(self.marks.iter().map(|mark| mark.value)).chain(self.y.to);
        let y = Scale::over(self.y.spacing, ys, bottom, top);
        let left = frame::y_axis_width(&y);
        let names = self.lines.iter().map(|line| text_width(&line.name)).fold(0.0, f64::max);
        let right = WIDTH - EDGE - names.min(NAMES_MAX) - 10.0;
        let xs = self.points().map(|(x, _)| x);
        let xs = xs.chain(self.moments.iter().map(|moment| moment.at)).chain(self.x.to);
        let x = Scale::along(self.x.spacing, xs, left, right);

        let mut canvas = Canvas::new(bottom + frame::X_AXIS);
        frame::y_axis(&mut canvas, &self.y, &y, (left, right), top - moments);
        self.draw_x_axis(&mut canvas, &x, bottom);
        for moment in &self.moments {
            let at = x.place(moment.at);
            canvas.line("moment", (at, top - 4.0), (at, bottom));
            let half = text_width(&moment.label) / 2.0;
            let at = at.clamp(left + half, WIDTH - EDGE - half);
            canvas.text("soft", (at, top - 8.0), Anchor::Middle, &moment.label);
        }
        for mark in &self.marks {
            let at = y.place(mark.value);
            canvas.line("mark", (left, at), (right, at));
            canvas.text("label", (left + 6.0, at - 5.0), Anchor::Start, &mark.label);
        }
        for (index, line) in self.lines.iter().enumerate() {
            self.draw_line(&mut canvas, index, line, &x, &y);
        }
        self.draw_names(&mut canvas, &y, right, bottom);
        canvas
    }

    fn draw_x_axis(&self, canvas: &mut Canvas, x: &Scale, bottom: f64) {
        // The grid of the other axis is enough: lines in both directions make a cage.
        frame::x_axis(canvas, &self.x, x, bottom, bottom + 4.0);
        canvas.line("base", (x.place(f64::MIN), bottom), (x.place(f64::MAX), bottom));
    }

    fn draw_line(&self, canvas: &mut Canvas, index: usize, line: &Line, x: &Scale, y: &Scale) {
        let colour = frame::colour(index);
        // Zero and less are not on a logarithmic axis.
        let shown = |spacing, value: f64| spacing == Spacing::Linear || value > 0.0;
        let seen: Vec<(f64, f64)> = line
            .points
            .iter()
            .copied()
            .filter(|point| shown(self.x.spacing, point.0) && shown(self.y.spacing, point.1))
            .collect();
        let places: Vec<(f64, f64)> =
            seen.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
        canvas.path(&format!("s{colour}"), &places, line.steps, &line.name);
        if seen.len() > DOTS_MAX {
            return;
        }
        for (point, place) in seen.iter().zip(&places) {
            let (at, value) = (self.x.value(point.0), self.y.value(point.1));
            let tip = format!("{}, {at}: {value}", line.name);
            canvas.dot(&format!("f{colour}"), *place, 3.0, &tip);
        }
    }

    fn draw_names(&self, canvas: &mut Canvas, y: &Scale, right: f64, bottom: f64) {
        let ends = |line: &Line| line.points.last().map(|point| y.place(point.1));
        let mut places: Vec<f64> =
            self.lines.iter().map(|line| ends(line).unwrap_or(bottom)).collect();
        frame::spread(&mut places, LABEL_DISTANCE, bottom);
        for (index, (line, place)) in self.lines.iter().zip(places).enumerate() {
            let name = fit(&line.name, WIDTH - EDGE - right);
            let class = format!("f{}", frame::colour(index));
            canvas.text(&class, (right + 8.0, place + 4.0), Anchor::Start, &name);
        }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lines.iter().flat_map(|line| line.points.iter().copied())
    }

    pub(super) fn summary(&self) -> String {
        let lines = self.lines.iter().filter_map(|line| {
            let (first, last) = (line.points.first()?, line.points.last()?);
            let least = line.points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
            let most = line.points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
            let [first, last, least, most] =
                [first.1, last.1, least, most].map(|value| self.y.value(value));
            let name = &line.name;
            Some(format!("{name}: from {first} to {last}, between {least} and {most}"))
        });
        let lines: Vec<String> = lines.collect();
        let (x, y) = (self.x.caption(), self.y.caption());
        format!("Line chart of {y} over {x}. {}.", lines.join("; "))
    }
}

fn finite(points: impl IntoIterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
}
