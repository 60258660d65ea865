//! Subtitles and indexes of thumbnails as WebVTT. Decides how long cues are and where their lines break; knows nothing
//! of who heard what.
//!
//! Rules of subtitles: at most two lines of 42 characters, at least a second where the video has one, in order, never
//! two at once.

use std::fmt::Write as _;

use crate::tools::provider::Segment;

/// Characters of a line, and lines of a cue.
const LINE_CHARS_MAX: usize = 42;
const LINES_MAX: usize = 2;
/// Nobody can read a shorter cue.
const CUE_MS_MIN: u64 = 1_000;

/// A text and when it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cue {
    /// When it appears.
    pub(crate) start_ms: u64,
    /// When it goes.
    pub(crate) end_ms: u64,
    /// Its lines, as they are to be read.
    pub(crate) lines: Vec<String>,
}

/// Where the thumbnails of sheets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sheets {
    /// Tiles beside each other.
    pub(crate) columns: u32,
    /// Tiles below each other.
    pub(crate) rows: u32,
    /// Width of a tile.
    pub(crate) width: u32,
    /// Height of a tile.
    pub(crate) height: u32,
}

/// Makes cues of what was heard in a video of this length.
pub(crate) fn cues(segments: &[Segment], length_ms: u64) -> Vec<Cue> {
    let mut segments: Vec<&Segment> =
        segments.iter().filter(|segment| segment.start_ms < length_ms).collect();
    segments.sort_by_key(|segment| (segment.start_ms, segment.end_ms));
    let mut cues: Vec<Cue> = Vec::new();
    for cue in segments.into_iter().flat_map(parts) {
        let free_ms = cues.last().map_or(0, |last| last.end_ms);
        // A cue at the very end begins earlier if that lets it be read.
        let latest_ms = length_ms.saturating_sub(CUE_MS_MIN);
        let start_ms = cue.start_ms.min(latest_ms).max(free_ms);
        let end_ms = cue.end_ms.max(start_ms + CUE_MS_MIN).min(length_ms);
        if start_ms < end_ms {
            cues.push(Cue { start_ms, end_ms, lines: cue.lines });
        }
    }
    cues
}

/// A WebVTT file of these cues.
pub(crate) fn file(cues: &[Cue]) -> String {
    let mut text = "WEBVTT\n".to_owned();
    for cue in cues {
        let lines: Vec<String> = cue.lines.iter().map(|line| escaped(line)).collect();
        add(&mut text, cue.start_ms, cue.end_ms, &lines.join("\n"));
    }
    text
}

/// A WebVTT file that says which part of which sheet shows each of these moments, the last one until the end.
pub(crate) fn index(at_ms: &[u64], length_ms: u64, sheets: Sheets) -> String {
    let mut text = "WEBVTT\n".to_owned();
    for (number, start_ms) in at_ms.iter().enumerate() {
        let end_ms = at_ms.get(number + 1).copied().unwrap_or(length_ms).max(start_ms + 1);
        let Sheets { columns, rows, width, height } = sheets;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let (sheet, tile) = (number / (columns * rows), number % (columns * rows));
        let (x, y) = (tile % columns * width, tile / columns * height);
        let place = format!("{}#xywh={x},{y},{width},{height}", sheet_name(sheet as usize));
        add(&mut text, *start_ms, end_ms, &place);
    }
    text
}

/// The file of a sheet, beside its index.
pub(crate) fn sheet_name(number: usize) -> String {
    format!("sprite_{number:03}.jpg")
}

fn add(text: &mut String, start_ms: u64, end_ms: u64, lines: &str) {
    write!(text, "\n{} --> {}\n{lines}\n", clock(start_ms), clock(end_ms))
        .expect("a string takes all that is written");
}

fn clock(ms: u64) -> String {
    let (seconds, minutes) = (ms / 1_000, ms / 60_000);
    format!("{:02}:{:02}:{:02}.{:03}", minutes / 60, minutes % 60, seconds % 60, ms % 1_000)
}

/// The same text without the characters that mean something in WebVTT; `-->` cannot be left then.
fn escaped(line: &str) -> String {
    line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A segment as cues that are not too long, each with its share of the time by its characters.
fn parts(segment: &Segment) -> Vec<Cue> {
    let lines = broken(&segment.text);
    let count =
        |lines: &[String]| lines.iter().map(|line| line.chars().count() as u64).sum::<u64>();
    let total = count(&lines).max(1);
    let length_ms = segment.end_ms.saturating_sub(segment.start_ms);
    let at = |done: u64| segment.start_ms + length_ms.saturating_mul(done) / total;
    let mut done = 0;
    let mut cues = Vec::new();
    for lines in lines.chunks(LINES_MAX) {
        let next = done + count(lines);
        cues.push(Cue { start_ms: at(done), end_ms: at(next), lines: lines.to_vec() });
        done = next;
    }
    cues
}

/// The text in lines, broken between words where that is possible, as equal in length as their number allows.
fn broken(text: &str) -> Vec<String> {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<String> = plain.split_whitespace().flat_map(pieces).collect();
    let lines = filled(&words, LINE_CHARS_MAX);
    // The least width that needs no more lines leaves no single word behind.
    let even = (1..LINE_CHARS_MAX).map(|width| filled(&words, width));
    even.into_iter().find(|narrow| narrow.len() == lines.len() && fits(narrow)).unwrap_or(lines)
}

fn fits(lines: &[String]) -> bool {
    lines.iter().all(|line| line.chars().count() <= LINE_CHARS_MAX)
}

fn filled(words: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.clone()),
        }
    }
    lines
}

/// A word in pieces that fit a line.
fn pieces(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    letters.chunks(LINE_CHARS_MAX).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(start_ms: u64, end_ms: u64, text: &str) -> Segment {
        Segment { start_ms, end_ms, text: text.to_owned(), confidence: None }
    }

    #[test]
    fn subtitles_are_written_as_players_read_them() {
        let heard = [
            segment(0, 2_500, " Tom & Jerry say: 1 < 2 --> true "),
            segment(
                2_500,
                9_500,
                "The old lighthouse stands on a small rock at the edge of the harbour, and every evening \
                 the keeper climbs ninety steps to light the lamp.",
            ),
            segment(3_600_000, 3_600_200, "Late"),
            segment(3_600_200, 3_600_200, "  "),
        ];
        assert_eq!(
            file(&cues(&heard, 3_700_000)),
            "WEBVTT

00:00:00.000 --> 00:00:02.500
Tom &amp; Jerry say: 1 &lt; 2 --&gt; true

00:00:02.500 --> 00:00:06.261
The old lighthouse stands on a small
rock at the edge of the harbour, and

00:00:06.261 --> 00:00:09.500
every evening the keeper climbs
ninety steps to light the lamp.

01:00:00.000 --> 01:00:01.000
Late
"
        );
    }

    #[test]
    fn an_index_names_the_tile_of_each_moment() {
        let sheets = Sheets { columns: 2, rows: 1, width: 192, height: 108 };
        assert_eq!(
            index(&[0, 10_000, 20_000], 23_040, sheets),
            "WEBVTT

00:00:00.000 --> 00:00:10.000
sprite_000.jpg#xywh=0,0,192,108

00:00:10.000 --> 00:00:20.000
sprite_000.jpg#xywh=192,0,192,108

00:00:20.000 --> 00:00:23.040
sprite_001.jpg#xywh=0,0,192,108
"
        );
    }

    #[test]
    fn a_cue_after_the_end_is_brought_back_or_left_out() {
        let heard =
            [segment(0, 400, "One"), segment(900, 9_000, "Two"), segment(9_500, 9_900, "No")];
        let shown = cues(&heard, 2_000);
        let times: Vec<_> = shown.iter().map(|cue| (cue.start_ms, cue.end_ms)).collect();
        assert_eq!(times, [(0, 1_000), (1_000, 2_000)]);
        assert_eq!(cues(&[segment(0, 50, "Short")], 300)[0].end_ms, 300);
    }

    proptest! {
        #[test]
        fn cues_keep_the_rules_whatever_was_heard(
            heard in prop::collection::vec((0_u64..60_000, 0_u64..9_000, "[a-z<& ]{0,200}"), 0..12),
            length_ms in 0_u64..70_000,
        ) {
            let heard: Vec<_> =
                heard.iter().map(|(start, length, text)| segment(*start, start + length, text)).collect();
            let cues = cues(&heard, length_ms);
            for pair in cues.windows(2) {
                prop_assert!(pair[0].end_ms <= pair[1].start_ms);
            }
            for cue in &cues {
                prop_assert!(cue.start_ms < cue.end_ms && cue.end_ms <= length_ms);
                prop_assert!(cue.end_ms - cue.start_ms >= CUE_MS_MIN || cue.end_ms == length_ms);
                prop_assert!((1..=LINES_MAX).contains(&cue.lines.len()));
                prop_assert!(fits(&cue.lines) && cue.lines.iter().all(|line| !line.is_empty()));
            }
        }

        #[test]
        fn no_word_is_lost(text in "[a-zäß .]{0,300}") {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let shown = broken(&text).join(" ");
            prop_assert_eq!(shown.replace(' ', ""), words(&text).concat());
        }
    }
}
