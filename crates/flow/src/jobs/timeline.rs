//! The parts of a job over time as a picture: a row per worker and slot, a box per part, a colour per stage. Plain SVG
//! that needs nothing from elsewhere.

use std::fmt::Write as _;

use crate::job::{PartDone, Spec, StageDone};

/// Boxes of a picture; what is more is left out and told.
const BOXES_MAX: usize = 5_000;
const WIDTH: f64 = 1_000.0;
const LEFT: f64 = 150.0;
const ROW: f64 = 18.0;
const TOP: f64 = 64.0;
const COLOURS: [&str; 8] =
    ["#2b6cb0", "#b7791f", "#2f855a", "#9b2c2c", "#6b46c1", "#2c7a7b", "#c05621", "#4a5568"];

/// One part in its row.
struct Placed<'a> {
    stage: usize,
    number: usize,
    row: usize,
    part: &'a PartDone,
}

/// The picture of the stages that are done.
pub(crate) fn svg(spec: &Spec, done: &[StageDone]) -> String {
    let start = done.iter().map(|stage| stage.started_at_ms).min().unwrap_or(spec.created_at_ms);
    let end = done.iter().map(|stage| stage.ended_at_ms).max().unwrap_or(start + 1).max(start + 1);
    let x = |ms: u64| LEFT + (ms.saturating_sub(start)) as f64 / (end - start) as f64 * WIDTH;
    let (boxes, rows, left_out) = place(done);
    let height = TOP + rows.len() as f64 * ROW + 30.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        LEFT + WIDTH + 20.0
    );
    let span = (end - start) as f64 / 1e3;
    let more = if left_out > 0 { format!(", {left_out} parts left out") } else { String::new() };
    let _ = writeln!(
        text,
        "<text x=\"10\" y=\"18\" font-size=\"14\">{} ({}), {span:.1} s{more}</text>",
        escaped(&spec.name),
        escaped(&spec.kind)
    );
    for (at, stage) in done.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let (from, to) = (x(stage.started_at_ms), x(stage.ended_at_ms));
        let _ = writeln!(
            text,
            "<rect x=\"{from:.1}\" y=\"30\" width=\"{:.1}\" height=\"6\" fill=\"{colour}\"/><text x=\"{from:.1}\" y=\"50\" fill=\"{colour}\">{}</text>",
            (to - from).max(1.0),
            escaped(&stage.name)
        );
    }
    for (row, worker) in rows.iter().enumerate() {
        let y = TOP + row as f64 * ROW + 13.0;
        let _ = writeln!(text, "<text x=\"10\" y=\"{y:.1}\">{}</text>", escaped(worker));
    }
    for placed in &boxes {
        let colour = COLOURS[placed.stage % COLOURS.len()];
        let (from, to) = (x(placed.part.started_at_ms), x(placed.part.ended_at_ms));
        let y = TOP + placed.row as f64 * ROW;
        let report = &placed.part.report;
        let _ = writeln!(
            text,
            "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"14\" rx=\"2\" fill=\"{colour}\" opacity=\"0.85\"><title>{} {}: {} ms, {} rows in, {} rows out, attempt {}{}</title></rect>",
            (to - from).max(0.8),
            escaped(&done[placed.stage].name),
            placed.number,
            placed.part.ended_at_ms.saturating_sub(placed.part.started_at_ms),
            report.rows_in,
            report.rows_out,
            placed.part.attempts,
            if placed.part.twin > 0 { ", a twin" } else { "" },
        );
    }
    let y = TOP + rows.len() as f64 * ROW + 20.0;
    for tenth in 0..=10 {
        let at = LEFT + WIDTH * f64::from(tenth) / 10.0;
        let seconds = span * f64::from(tenth) / 10.0;
        let _ = writeln!(
            text,
            "<text x=\"{at:.1}\" y=\"{y:.1}\" fill=\"#666\" text-anchor=\"middle\">{seconds:.1} s</text>"
        );
    }
    text.push_str("</svg>\n");
    text
}

/// Gives every part the first free row of its worker; the rows' names, and how many parts were left out.
fn place(done: &[StageDone]) -> (Vec<Placed<'_>>, Vec<String>, usize) {
    let mut all: Vec<(usize, usize, &PartDone)> = Vec::new();
    for (stage, stage_done) in done.iter().enumerate() {
        all.extend(stage_done.parts.iter().enumerate().map(|(at, part)| (stage, at, part)));
    }
    all.sort_by_key(|(stage, number, part)| (&part.worker, part.started_at_ms, *stage, *number));
    let left_out = all.len().saturating_sub(BOXES_MAX);
    all.truncate(BOXES_MAX);
    let (mut rows, mut free_at): (Vec<String>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut boxes = Vec::with_capacity(all.len());
    for (stage, number, part) in all {
        let fits = |row: &usize| rows[*row] == part.worker && free_at[*row] <= part.started_at_ms;
        let row = (0..rows.len()).find(fits).unwrap_or(rows.len());
        if row == rows.len() {
            rows.push(part.worker.clone());
            free_at.push(0);
        }
        free_at[row] = part.ended_at_ms;
        boxes.push(Placed { stage, number, row, part });
    }
    (boxes, rows, left_out)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::NewJob;

    #[test]
    fn parts_that_overlap_are_in_rows_of_their_own_and_names_are_only_text() {
        let part = |worker: &str, from, to| PartDone {
            worker: worker.into(),
            started_at_ms: from,
            ended_at_ms: to,
            ..PartDone::default()
        };
        let stage = StageDone {
            name: "map".into(),
            started_at_ms: 0,
            ended_at_ms: 100,
            parts: vec![
                part("a<b", 0, 50),
                part("a<b", 10, 60),
                part("a<b", 55, 90),
                part("c", 0, 9),
            ],
        };
        let (boxes, rows, left_out) = place(std::slice::from_ref(&stage));
        assert_eq!(rows, ["a<b", "a<b", "c"]);
        assert_eq!(boxes.iter().map(|placed| placed.row).collect::<Vec<_>>(), [0, 1, 0, 2]);
        assert_eq!(left_out, 0);
        let new = NewJob::new("sort");
        let spec = Spec {
            id: "a".into(),
            name: "<script>".into(),
            kind: new.kind,
            created_at_ms: 0,
            inputs: Vec::new(),
            on_error: new.on_error,
            memory_bytes: 1,
            split_bytes: 1,
            partitions: None,
            options: new.options,
        };
        let text = svg(&spec, &[stage]);
        assert!(text.starts_with("<svg ") && !text.contains("<script>"));
        assert_eq!(text.matches("<title>").count(), 4);
    }
}
