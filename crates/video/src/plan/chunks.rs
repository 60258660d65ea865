//! Where a video is cut into chunks.
//!
//! Cuts are at multiples of a segment, so that every chunk's edge is a segment's edge in every rendition. Near where a
//! cut would be by length alone, the segment's edge is taken that is soonest after a key frame of the source: a decoder
//! must begin at a key frame, and what it decodes before the cut is thrown away. Does not know of renditions or time.

use crate::grid::Span;

/// A plan has at most so many chunks.
pub(super) const CHUNKS_MAX: u64 = 900;

/// How long chunks shall be, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// As given.
    Given(u64),
    /// About this long, unless the whole is shorter than `alone`.
    About {
        /// The length to aim at.
        target: u64,
        /// What is shorter than this is one chunk.
        alone: u64,
    },
}

/// A chunk's frames, and how many before it must be decoded for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) span: Span,
    pub(super) lead_in: u64,
}

/// Cuts `frames` frames at multiples of `segment`. `keyframes` are in order.
pub(super) fn cut(frames: u64, segment: u64, length: Length, keyframes: &[u64]) -> Vec<Cut> {
    let video = Source { frames, segment, keyframes };
    match length {
        Length::About { alone, .. } if frames < alone => video.cut_evenly(1),
        Length::About { target, .. } => {
            // Chunks of nearly the same length, so that none is waited for at the end.
            let mut count = ((frames + target / 2) / target).clamp(1, CHUNKS_MAX);
            loop {
                let cuts = video.cut_evenly(count);
                let wasted: u64 = cuts.iter().map(|cut| cut.lead_in).sum();
                // Where key frames are rare, more chunks would mostly decode what they do not show.
                if count == 1 || wasted <= frames / 4 {
                    return cuts;
                }
                count = count * 3 / 4;
            }
        }
        Length::Given(given) => {
            let segments = frames.div_ceil(segment);
            let most = segments.div_ceil(CHUNKS_MAX);
            let chunk = ((given + segment / 2) / segment).max(most).max(1);
            // What is left over is a chunk of its own if it is at least half of one.
            let count = ((segments + chunk / 2) / chunk).max(1);
            video.cut_at(count, chunk, |place| place * chunk)
        }
    }
}

struct Source<'a> {
    frames: u64,
    segment: u64,
    keyframes: &'a [u64],
}

impl Source<'_> {
    fn cut_evenly(&self, count: u64) -> Vec<Cut> {
        let segments = self.frames.div_ceil(self.segment);
        let count = count.min(segments).max(1);
        self.cut_at(count, segments / count, |place| (place * segments + count / 2) / count)
    }

    /// Cuts near the segments that `ideal` names for the chunks from the second on; chunks are about `chunk` segments.
    fn cut_at(&self, count: u64, chunk: u64, ideal: impl Fn(u64) -> u64) -> Vec<Cut> {
        let starts = (0..count).map(|place| match place {
            0 => 0,
            _ => self.near(ideal(place), chunk / 4),
        });
        let starts: Vec<u64> = starts.map(|start| start * self.segment).collect();
        let ends = starts.iter().skip(1).copied().chain([self.frames]);
        let cuts = starts.iter().zip(ends);
        cuts.map(|(&from, to)| Cut { span: Span { from, to }, lead_in: self.lead_in(from) })
            .collect()
    }

    /// The segment that begins soonest after a key frame, up to `tolerance` away; of equal ones the nearest. Where no
    /// key frame is near, going elsewhere would win nothing but unequal chunks.
    fn near(&self, ideal: u64, tolerance: u64) -> u64 {
        (ideal - tolerance..=ideal + tolerance)
            .filter(|start| start * self.segment < self.frames)
            .map(|start| (self.lead_in(start * self.segment), start.abs_diff(ideal), start))
            .filter(|(lead_in, ..)| *lead_in < self.segment)
            .min()
            .map_or(ideal, |(.., start)| start)
    }

    /// Frames from the key frame at or before `frame`.
    fn lead_in(&self, frame: u64) -> u64 {
        let before = self.keyframes.partition_point(|&key| key <= frame);
        frame - before.checked_sub(1).map_or(0, |at| self.keyframes[at])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AUTOMATIC: Length = Length::About { target: 750, alone: 1_200 };

    fn starts(cuts: &[Cut]) -> Vec<(u64, u64)> {
        cuts.iter().map(|cut| (cut.span.from, cut.lead_in)).collect()
    }

    #[test]
    fn a_short_video_is_one_chunk_unless_a_length_is_given() {
        let keys: Vec<u64> = (0..10).map(|n| n * 30).collect();
        assert_eq!(starts(&cut(180, 30, AUTOMATIC, &keys)), [(0, 0)]);
        assert_eq!(starts(&cut(180, 30, Length::Given(60), &keys)), [(0, 0), (60, 0), (120, 0)]);
        // The last one would be shorter than half of a chunk.
        assert_eq!(
            starts(&cut(300, 30, Length::Given(120), &[0])),
            [(0, 0), (120, 120), (240, 240)]
        );
        assert_eq!(starts(&cut(280, 30, Length::Given(240), &[0])), [(0, 0)]);
    }

    #[test]
    fn cuts_go_to_key_frames_nearby() {
        // 60 s at 30 frames per second in segments of 60; the middle is 900, a key frame is at 840 and one at 1095.
        let cuts = cut(1_800, 60, AUTOMATIC, &[0, 840, 1_095]);
        assert_eq!(starts(&cuts), [(0, 0), (840, 0)]);
        // No segment begins at a key frame: the one that begins soonest after one is taken.
        let cuts = cut(1_800, 60, AUTOMATIC, &[0, 830, 955]);
        assert_eq!(starts(&cuts), [(0, 0), (960, 5)]);
    }

    #[test]
    fn a_video_without_key_frames_is_not_decoded_again_and_again() {
        assert_eq!(cut(18_000, 60, AUTOMATIC, &[0]).len(), 1);
        let every_minute: Vec<u64> = (0..10).map(|n| n * 1_800).collect();
        let cuts = cut(18_000, 60, AUTOMATIC, &every_minute);
        assert!(cuts.len() > 4, "{cuts:?}");
        assert!(cuts.iter().map(|cut| cut.lead_in).sum::<u64>() <= 4_500);
    }

    #[test]
    fn twelve_hours_have_at_most_900_chunks() {
        let frames = 12 * 3_600 * 30;
        let keys: Vec<u64> = (0..frames / 30).map(|n| n * 30).collect();
        assert_eq!(cut(frames, 60, AUTOMATIC, &keys).len(), 900);
        assert_eq!(cut(frames, 60, Length::Given(60), &keys).len(), 900);
    }

    proptest! {
        #[test]
        fn chunks_hold_every_frame_once_and_begin_on_the_grid(
            frames in 1_u64..100_000,
            segment in 1_u64..600,
            given in prop::option::of(1_u64..20_000),
            mut keyframes in prop::collection::vec(0_u64..100_000, 0..200),
        ) {
            keyframes.sort_unstable();
            let length = given.map_or(AUTOMATIC, Length::Given);
            let cuts = cut(frames, segment, length, &keyframes);
            prop_assert!(!cuts.is_empty() && cuts.len() as u64 <= CHUNKS_MAX);
            let mut next = 0;
            for cut in &cuts {
                prop_assert_eq!(cut.span.from, next);
                prop_assert_eq!(cut.span.from % segment, 0);
                prop_assert!(cut.span.to > cut.span.from);
                let key = keyframes.iter().rev().find(|&&key| key <= cut.span.from).unwrap_or(&0);
                prop_assert_eq!(cut.lead_in, cut.span.from - key);
                next = cut.span.to;
            }
            prop_assert_eq!(next, frames);
        }

        #[test]
        fn chunks_are_neither_slivers_nor_giants(
            seconds in 40_u64..20_000,
            distance in 1_u64..300,
        ) {
            let frames = seconds * 30;
            let keyframes: Vec<u64> = (0..frames).step_by(distance as usize).collect();
            for chunk in cut(frames, 60, AUTOMATIC, &keyframes) {
                prop_assert!(chunk.span.frames() >= 8 * 30, "{:?}", chunk);
                prop_assert!(chunk.span.frames() <= 60 * 30, "{:?}", chunk);
            }
        }

        #[test]
        fn the_last_chunk_is_at_least_half_of_the_length_given(
            segments in 1_u64..500,
            chunk in 1_u64..40,
        ) {
            let cuts = cut(segments * 30, 30, Length::Given(chunk * 30), &[0]);
            let last = cuts.last().unwrap().span.frames();
            prop_assert!(cuts.len() == 1 || last * 2 >= chunk * 30, "{:?}", cuts);
        }
    }
}
