//! Playlists of HTTP Live Streaming (RFC 8216), as text. Pure.
//!
//! Lengths are written from whole units, so that they add up to the length of the video however many segments there
//! are. Rates are measured from what was encoded, not from what was wanted.

use std::fmt::Write;

use crate::FrameRate;

/// One segment of a playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its address, relative to the playlist.
    pub(crate) uri: String,
    /// How long it is, in units of the list's timescale.
    pub(crate) length: u64,
    /// Its bytes.
    pub(crate) bytes: u64,
}

/// A list of segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MediaList {
    /// Units per second.
    pub(crate) timescale: u32,
    /// The address of the beginning of the file, if segments need one.
    pub(crate) init: Option<String>,
    /// The segments, in order.
    pub(crate) segments: Vec<Segment>,
}

/// A rendition in the master playlist.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variant {
    /// The address of its playlist.
    pub(crate) uri: String,
    /// Width and height in pixels.
    pub(crate) size: (u32, u32),
    /// Its frame rate.
    pub(crate) rate: FrameRate,
    /// The codecs of picture and sound.
    pub(crate) codecs: Vec<String>,
    /// Bits per second, sound included.
    pub(crate) bits: Bits,
}

/// Bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    /// Of the largest segment.
    pub(crate) peak: u64,
    /// Of all.
    pub(crate) mean: u64,
}

/// Sound or subtitles in the master playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alternative {
    /// The address of its playlist.
    pub(crate) uri: String,
    /// What a player calls it.
    pub(crate) name: String,
    /// Its language; `und` if nobody knows.
    pub(crate) language: String,
}

impl MediaList {
    /// The playlist.
    pub(crate) fn text(&self) -> String {
        let longest = self.segments.iter().map(|segment| segment.length).max().unwrap_or(0);
        let scale = u64::from(self.timescale.max(1));
        let target = ((longest + scale / 2) / scale).max(1);
        let mut text = format!(
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{target}\n#EXT-X-MEDIA-SEQUENCE:0\n\
             #EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-INDEPENDENT-SEGMENTS\n"
        );
        if let Some(init) = &self.init {
            let _ = writeln!(text, "#EXT-X-MAP:URI=\"{init}\"");
        }
        let mut at = 0;
        for segment in &self.segments {
            // Rounding what was reached, not each length, keeps the sum right.
            let (from, to) = (self.micros(at), self.micros(at + segment.length));
            at += segment.length;
            let length = to - from;
            let (seconds, micros) = (length / 1_000_000, length % 1_000_000);
            let _ = writeln!(text, "#EXTINF:{seconds}.{micros:06},\n{}", segment.uri);
        }
        text.push_str("#EXT-X-ENDLIST\n");
        text
    }

    /// The rates of these segments.
    pub(crate) fn bits(&self) -> Bits {
        let length: u64 = self.segments.iter().map(|segment| segment.length).sum();
        let bytes: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        let longest = self.segments.iter().map(|segment| segment.length).max().unwrap_or(0);
        // The rest at the end may be a single frame, whose rate says nothing.
        let whole = self.segments.iter().filter(|segment| segment.length * 2 >= longest);
        let peak = whole.map(|segment| self.rate(segment.bytes, segment.length)).max();
        let mean = self.rate(bytes, length);
        Bits { peak: peak.unwrap_or(0).max(mean), mean }
    }

    fn rate(&self, bytes: u64, length: u64) -> u64 {
        let bits = u128::from(bytes) * 8 * u128::from(self.timescale);
        u64::try_from(bits.div_ceil(u128::from(length.max(1)))).unwrap_or(u64::MAX)
    }

    fn micros(&self, units: u64) -> u64 {
        let micros = u128::from(units) * 1_000_000 / u128::from(self.timescale.max(1));
        u64::try_from(micros).unwrap_or(u64::MAX)
    }
}

/// The master playlist.
pub(crate) fn master(
    variants: &[Variant],
    sound: &[Alternative],
    subtitles: &[Alternative],
) -> String {
    let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n");
    for (place, track) in sound.iter().enumerate() {
        let default = if place == 0 { "YES" } else { "NO" };
        let attributes = format!("DEFAULT={default},AUTOSELECT=YES,CHANNELS=\"2\"");
        alternative(&mut text, "AUDIO", "sound", track, &attributes);
    }
    for track in subtitles {
        let attributes = "DEFAULT=NO,AUTOSELECT=YES,FORCED=NO";
        alternative(&mut text, "SUBTITLES", "subtitles", track, attributes);
    }
    for variant in variants {
        let Bits { peak, mean } = variant.bits;
        let ((width, height), rate) = (variant.size, variant.rate.per_second());
        let _ = write!(
            text,
            "#EXT-X-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={mean},RESOLUTION={width}x{height},\
             FRAME-RATE={rate:.3},CODECS=\"{}\"",
            variant.codecs.join(",")
        );
        if !sound.is_empty() {
            text.push_str(",AUDIO=\"sound\"");
        }
        if !subtitles.is_empty() {
            text.push_str(",SUBTITLES=\"subtitles\"");
        }
        let _ = writeln!(text, "\n{}", variant.uri);
    }
    text
}

fn alternative(text: &mut String, kind: &str, group: &str, track: &Alternative, rest: &str) {
    let name = quoted(&track.name);
    let _ = write!(text, "#EXT-X-MEDIA:TYPE={kind},GROUP-ID=\"{group}\",NAME=\"{name}\"");
    if track.language != "und" {
        let _ = write!(text, ",LANGUAGE=\"{}\"", quoted(&track.language));
    }
    let _ = writeln!(text, ",{rest},URI=\"{}\"", track.uri);
}

/// A quoted string may hold neither quotes nor line ends.
fn quoted(text: &str) -> String {
    text.chars().map(|c| if c == '"' { '\'' } else { c }).filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lengths: &[u64]) -> MediaList {
        let segments = lengths.iter().enumerate().map(|(place, &length)| Segment {
            uri: format!("seg_{place}.m4s"),
            length,
            bytes: 1_000 * (place as u64 + 1),
        });
        let segments = segments.collect();
        MediaList { timescale: 30_000, init: Some("init.mp4".to_owned()), segments }
    }

    #[test]
    fn a_media_playlist_is_written_with_exact_lengths() {
        let text = list(&[60_060, 60_060, 1_001]).text();
        let expected = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:0\n\
            #EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"init.mp4\"\n\
            #EXTINF:2.002000,\nseg_0.m4s\n#EXTINF:2.002000,\nseg_1.m4s\n#EXTINF:0.033366,\nseg_2.m4s\n\
            #EXT-X-ENDLIST\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn lengths_add_up_over_hours() {
        let text = list(&vec![61_061; 20_000]).text();
        let lengths = text.lines().filter_map(|line| line.strip_prefix("#EXTINF:"));
        let micros = |length: &str| length.trim_end_matches(',').replace('.', "").parse::<u64>();
        let sum: u64 = lengths.map(|length| micros(length).unwrap()).sum();
        assert_eq!(sum, 20_000 * 61_061 * 100 / 3);
    }

    #[test]
    fn the_peak_leaves_out_a_short_rest() {
        let bits = list(&[60_000, 60_000, 1_000]).bits();
        assert_eq!(bits, Bits { peak: 8_000, mean: 11_901 }.max_of_mean());
        let one = MediaList { segments: list(&[30_000]).segments, ..list(&[]) };
        assert_eq!(one.bits(), Bits { peak: 8_000, mean: 8_000 });
        assert_eq!(list(&[]).bits(), Bits::default());
    }

    impl Bits {
        fn max_of_mean(self) -> Self {
            Self { peak: self.peak.max(self.mean), ..self }
        }
    }

    #[test]
    fn the_master_playlist_names_groups_only_if_they_are_there() {
        let variant = Variant {
            uri: "v/720p/index.m3u8".to_owned(),
            size: (1280, 720),
            rate: FrameRate { frames: 30_000, seconds: 1_001 },
            codecs: vec!["avc1.64001f".to_owned()],
            bits: Bits { peak: 2, mean: 1 },
        };
        let plain = master(std::slice::from_ref(&variant), &[], &[]);
        assert_eq!(
            plain,
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n\
             #EXT-X-STREAM-INF:BANDWIDTH=2,AVERAGE-BANDWIDTH=1,RESOLUTION=1280x720,FRAME-RATE=29.970,\
             CODECS=\"avc1.64001f\"\nv/720p/index.m3u8\n"
        );
        let track = |uri: &str, name: &str, language: &str| Alternative {
            uri: uri.to_owned(),
            name: name.to_owned(),
            language: language.to_owned(),
        };
        let sound =
            [track("a/0/index.m3u8", "Eng\"lish\n", "en"), track("a/1/index.m3u8", "2", "und")];
        let full = master(&[variant], &sound, &[track("subs/en.m3u8", "en", "en")]);
        for line in [
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"Eng'lish\",LANGUAGE=\"en\",DEFAULT=YES,AUTOSELECT=YES,\
             CHANNELS=\"2\",URI=\"a/0/index.m3u8\"\n",
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"2\",DEFAULT=NO,AUTOSELECT=YES,CHANNELS=\"2\",URI=\"a/1/index.m3u8\"\n",
            "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subtitles\",NAME=\"en\",LANGUAGE=\"en\",DEFAULT=NO,AUTOSELECT=YES,\
             FORCED=NO,URI=\"subs/en.m3u8\"\n",
            ",AUDIO=\"sound\",SUBTITLES=\"subtitles\"\nv/720p/index.m3u8\n",
        ] {
            assert!(full.contains(line), "{line} in {full}");
        }
    }
}
