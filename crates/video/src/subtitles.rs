//! Subtitles that people already have: SubRip and WebVTT files, and what ffmpeg writes of those in a source.
//!
//! Decides what of such a file is read: texts and their times. Styles, places, voices and comments are left out, so that
//! what a player shows is text and nothing else. Does not know where a file comes from.

use crate::webvtt::Cue;

/// A file may have so many bytes; one of a long film has a tenth of a megabyte.
pub(crate) const BYTES_MAX: u64 = 8 << 20;
/// A file may have so many cues.
const CUES_MAX: usize = 50_000;
const CUE_LINES_MAX: usize = 16;

/// The cues of a SubRip or WebVTT file, in order.
///
/// # Errors
/// What is wrong with the file, and the cure, as the end of a sentence that begins with its name.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Cue>, String> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!(
            "has {} bytes, at most {BYTES_MAX}; it is hardly subtitles",
            bytes.len()
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| {
        "is not UTF-8 text; convert it, for example with `iconv -f WINDOWS-1252 -t UTF-8`"
            .to_owned()
    })?;
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let mut cues = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((start_ms, end_ms)) = times(line) else { continue };
        let said = lines.by_ref().take_while(|line| !line.trim().is_empty());
        let said: Vec<String> =
            said.map(plain).filter(|line| !line.is_empty()).take(CUE_LINES_MAX).collect();
        if end_ms > start_ms && !said.is_empty() {
            cues.push(Cue { start_ms, end_ms, lines: said });
        }
        if cues.len() > CUES_MAX {
            return Err(format!("has more than {CUES_MAX} cues"));
        }
    }
    if cues.is_empty() {
        return Err("has no cues with times; give an SRT or WebVTT file".to_owned());
    }
    cues.sort_by_key(|cue| (cue.start_ms, cue.end_ms));
    Ok(cues)
}

/// The cues of a file whose clock is at `start_ms` when the picture begins, as far as the picture lasts.
pub(crate) fn fitted(cues: Vec<Cue>, start_ms: i64, length_ms: u64) -> Vec<Cue> {
    let moved = |ms: u64| {
        let moved = i64::try_from(ms).unwrap_or(i64::MAX).saturating_sub(start_ms);
        u64::try_from(moved).unwrap_or(0).min(length_ms)
    };
    let cues = cues.into_iter().map(|cue| Cue {
        start_ms: moved(cue.start_ms),
        end_ms: moved(cue.end_ms),
        lines: cue.lines,
    });
    cues.filter(|cue| cue.start_ms < cue.end_ms).collect()
}

/// The times of a line such as `00:01:02,500 --> 00:01:04,000 align:start`.
fn times(line: &str) -> Option<(u64, u64)> {
    let (start, rest) = line.split_once("-->")?;
    Some((clock(start.trim())?, clock(rest.split_whitespace().next()?)?))
}

/// Milliseconds of `[HH:]MM:SS` with `,mmm` or `.mmm`.
fn clock(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once([',', '.']).unwrap_or((text, "0"));
    let is_number =
        |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = whole.split(':').collect();
    if !(2..=3).contains(&parts.len()) || !parts.iter().all(|part| is_number(part)) {
        return None;
    }
    let seconds =
        parts.iter().try_fold(0_u64, |sum, part| Some(sum * 60 + part.parse::<u64>().ok()?))?;
    let millis = format!("{:0<3}", fraction.get(..fraction.len().min(3))?);
    Some(seconds * 1_000 + millis.parse::<u64>().ok()?)
}

/// A line as it is to be read: without tags such as `<i>` and `{\an8}`, with characters for entities.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['<', '{']) {
        text.push_str(&rest[..at]);
        let tag = &rest[at..];
        let close = if tag.starts_with('<') { '>' } else { '}' };
        match tag.find(close) {
            // Braces are marks of style only with a backslash, and text otherwise.
            Some(end) if close == '>' || tag.starts_with("{\\") => rest = &tag[end + 1..],
            _ => {
                text.push_str(&tag[..1]);
                rest = &tag[1..];
            }
        }
    }
    text.push_str(rest);
    let text = text.replace("&nbsp;", " ").replace("&lrm;", "").replace("&rlm;", "");
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(start_ms: u64, end_ms: u64, lines: &[&str]) -> Cue {
        Cue { start_ms, end_ms, lines: lines.iter().map(|line| (*line).to_owned()).collect() }
    }

    #[test]
    fn subrip_and_webvtt_are_read_as_text() {
        let srt = "\u{feff}1\r\n00:00:01,500 --> 00:00:02,000\r\n<i>Hello</i>,\r\n{\\an8}world {ok}\r\n\r\n\
                   2\r\n00:01:00,000 --> 01:00:00,5\r\n2 < 3 & more\r\n";
        let expected = [
            cue(1_500, 2_000, &["Hello,", "world {ok}"]),
            cue(60_000, 3_600_500, &["2 < 3 & more"]),
        ];
        assert_eq!(parse(srt.as_bytes()).unwrap(), expected);
        let vtt = "WEBVTT\n\nNOTE nothing\n\nSTYLE\n::cue{color:red}\n\nname\n00:02.000 --> 00:03.000 align:start\n\
                   <v Ann>a &lt;b&gt; &amp;lt;\n\n00:01.000 --> 00:01.500\nfirst\n\n00:09.000 --> 00:08.000\nnever\n";
        let expected = [cue(1_000, 1_500, &["first"]), cue(2_000, 3_000, &["a <b> &lt;"])];
        assert_eq!(parse(vtt.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn what_is_no_subtitle_file_is_told_with_the_cure() {
        assert!(
            parse(b"00:00:01,000 --> 00:00:02,000\nGr\xfc\xdfe\n").unwrap_err().contains("iconv")
        );
        for text in ["", "a letter", "x --> y\nz\n", "00:00:02,000 --> 00:00:01,000\nz\n"] {
            assert!(parse(text.as_bytes()).unwrap_err().contains("no cues"), "{text}");
        }
    }

    #[test]
    fn cues_are_cut_to_the_picture() {
        let cues = vec![
            cue(0, 900, &["before"]),
            cue(500, 2_000, &["begins"]),
            cue(5_000, 9_000, &["ends"]),
            cue(8_000, 9_000, &["after"]),
        ];
        let fitted = fitted(cues, 1_000, 6_000);
        assert_eq!(fitted, [cue(0, 1_000, &["begins"]), cue(4_000, 6_000, &["ends"])]);
    }
}
