//! How many frames of a chunk are not as they were, because the source is damaged.
//!
//! A decoder says that a frame is damaged, but not which one, and nothing of those after it that refer to it. So the chunk
//! is decoded twice, with the faults concealed and without: the frames that differ are those that show them. Where
//! frames are missing altogether, all that follow up to the next key frame may refer to them, and count.

use std::collections::BTreeSet;

use super::command::place;
use crate::grid::Span;
use crate::probe::VideoStream;

/// Counts the frames that were made up or show faults: `seen` says which the source showed at all, the texts are the
/// checksums of both ways to decode.
pub(super) fn count(video: &VideoStream, span: Span, seen: &[bool], texts: [&str; 2]) -> u64 {
    let mut damaged = vec![false; seen.len()];
    let mut follows = false;
    for ((frame, seen), damaged) in (span.from..).zip(seen).zip(&mut damaged) {
        follows = !seen || (follows && video.keyframes.binary_search(&frame).is_err());
        *damaged = follows;
    }
    let [concealed, plain] = texts.map(|text| sums(video, span, text));
    for (place, _) in concealed.symmetric_difference(&plain) {
        if let Some(damaged) = damaged.get_mut(*place) {
            *damaged = true;
        }
    }
    damaged.into_iter().filter(|damaged| *damaged).count() as u64
}

/// The checksum of each frame, with its place in the span.
fn sums<'a>(video: &VideoStream, span: Span, text: &'a str) -> BTreeSet<(usize, &'a str)> {
    let frames = text.lines().filter(|line| !line.starts_with('#'));
    let sums = frames.filter_map(|line| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let at = place(video, span, fields.get(2)?.parse().ok()?)?;
        Some((at, *fields.get(5)?))
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::super::command::tests::plan;
    use super::*;

    fn text(sums: &[&str]) -> String {
        let frames = sums.iter().enumerate().map(|(frame, sum)| {
            let at = 80_000 + frame * 40_000;
            format!("0, {at:10}, {at:10},    40000,   138240, {sum}\n")
        });
        std::iter::once("#tb 0: 1/1000000\n".to_owned()).chain(frames).collect()
    }

    #[test]
    fn what_refers_to_a_damaged_frame_is_counted_up_to_the_next_key_frame() {
        // Frames 2 to 8 at 25 a second; the key frames are 0 and 5.
        let (plan, span) = (plan("mov", &[0, 5]), Span { from: 2, to: 8 });
        let all = [true; 6];
        let whole = text(&["a", "b", "c", "d", "e", "f"]);
        let count =
            |seen: &[bool], plain: &str| count(&plan.probe.video, span, seen, [&whole, plain]);
        assert_eq!(count(&all, &whole), 0);
        assert_eq!(count(&all, &text(&["a", "x", "y", "d", "e", "f"])), 2);
        assert_eq!(count(&all, &text(&["a", "b", "c"])), 3, "one way gives fewer");
        assert_eq!(count(&[true, false, true, true, true, true], &whole), 2);
        assert_eq!(count(&[true, true, true, false, true, true], &whole), 3);
        let both = text(&["a", "b", "x", "d", "e", "y"]);
        assert_eq!(count(&[true, false, true, true, true, true], &both), 3);
    }
}
