//! The command that encodes one chunk: where to seek, which filters, which settings. Pure.
//!
//! Times are absolute: the source's clock is kept, shifted so that the grid begins at zero, and frames are brought onto
//! the grid by rounding to the nearest point. So neighbours agree on every frame without knowing of each other.

use std::ffi::OsString;
use std::path::Path;

use super::Manner;
use crate::grid::Span;
use crate::plan::{Plan, Rung};
use crate::probe::VideoStream;

/// ffmpeg seeks so much earlier than told in formats whose index has decoding times, if frames are reordered.
const REORDER_MARGIN_US: i64 = 3_000_000 / 23;
/// How far before a key frame a format without an index is entered.
const UNINDEXED_MARGIN_US: i64 = 500_000;
/// How far before a key frame any format is entered if the near seek missed it.
const FAR_MARGIN_US: i64 = 10_000_000;
/// Where the times of the source's frames are noted in a tolerant attempt.
pub(super) const SEEN_FILE: &str = "seen.txt";
/// Where the checksums of frames are, with faults concealed and without.
pub(super) const SUM_FILES: [&str; 2] = ["concealed.txt", "plain.txt"];

/// What one run of ffmpeg shall encode.
#[derive(Clone, Debug)]
pub(super) struct Order<'a> {
    pub(super) plan: &'a Plan,
    pub(super) span: Span,
    pub(super) rungs: Vec<&'a Rung>,
    pub(super) entry: Entry,
    pub(super) manner: Manner,
}

/// How the source is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// At the key frame before the chunk.
    Near,
    /// Well before it, for a source whose index misleads.
    Far,
}

impl Order<'_> {
    /// The arguments; the rungs are written to the files of [`file()`].
    pub(super) fn arguments(&self, source: &Path) -> Vec<OsString> {
        let threads = self.manner.threads.to_string();
        let mut all = Vec::new();
        let mut add = |words: &[&str]| all.extend(words.iter().map(OsString::from));
        if self.manner.tolerant {
            // Each frame with faults is told, with its level, so that they can be counted.
            add(&["-loglevel", "level+repeat+warning", "-max_error_rate", "1"]);
        } else {
            add(&["-xerror"]);
        }
        add(&["-copyts"]);
        self.enter(source, &mut all);
        let mut add = |words: &[&str]| all.extend(words.iter().map(OsString::from));
        add(&["-filter_complex_threads", &threads, "-filter_complex", &self.filters()]);
        for (place, rung) in self.rungs.iter().enumerate() {
            add(&["-map", &format!("[o{place}]")]);
            let settings = self.settings(rung, &threads);
            add(&settings.iter().map(String::as_str).collect::<Vec<_>>());
            add(&["-f", "mp4", &file(place)]);
        }
        all
    }

    /// The arguments that decode the chunk twice, with faults concealed and without, and write the checksums of all
    /// frames to [`SUM_FILES`].
    pub(super) fn comparison(&self, source: &Path) -> Vec<OsString> {
        let video = &self.plan.probe.video;
        // Times of the source are those of frames or between them.
        let edge = |frame: u64| {
            i64::try_from(video.rate.micros(frame)).unwrap_or(i64::MAX) - frame_us(video) / 2
        };
        let filters = format!(
            "setpts=floor(PTS-({})/1000000/TB+0.5),settb=1/1000000,trim=start_pts={}:end_pts={}",
            video.start_us,
            edge(self.span.from),
            edge(self.span.to),
        );
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut all = words(&["-max_error_rate", "1", "-copyts"]);
        for concealment in ["guess_mvs+deblock", "0"] {
            all.extend(words(&["-ec", concealment]));
            self.enter(source, &mut all);
        }
        for (input, file) in SUM_FILES.iter().enumerate() {
            all.extend(words(&["-map", &format!("{input}:{}", video.index), "-vf", &filters]));
            all.extend(words(&["-fps_mode", "passthrough", "-enc_time_base", "1:1000000"]));
            all.extend(words(&["-f", "framecrc", file]));
        }
        all
    }

    /// Opens the source where the chunk is.
    fn enter(&self, source: &Path, all: &mut Vec<OsString>) {
        let mut add = |words: &[&str]| all.extend(words.iter().map(OsString::from));
        add(&["-threads", &self.manner.threads.to_string()]);
        if let Some(at) = self.entry_us() {
            add(&["-seek_timestamp", "1", "-noaccurate_seek", "-ss", &format!("{at}us")]);
        }
        add(&["-i"]);
        all.push(source.into());
    }

    fn settings(&self, rung: &Rung, threads: &str) -> Vec<String> {
        let recipe = &self.plan.recipe;
        let gop = self.plan.segment_frames;
        let (max, buffer) = (rung.bitrate_max, u64::from(rung.bitrate_max) * 2);
        let timescale = self.plan.probe.video.rate.timescale();
        format!(
            "-map_metadata -1 -map_chapters -1 -fps_mode passthrough -frames:v {frames} -c:v libx264 -threads {threads} \
             -preset {preset} -crf {crf} -maxrate {max} -bufsize {buffer} -pix_fmt yuv420p -g {gop} -keyint_min {gop} \
             -sc_threshold 0 -flags +cgop -color_primaries bt709 -color_trc bt709 -colorspace bt709 -color_range tv \
             -video_track_timescale {timescale} -movflags +frag_keyframe+delay_moov+default_base_moof+skip_trailer",
            frames = self.span.frames(),
            preset = recipe.preset,
            crf = recipe.crf,
        )
        .split_whitespace()
        .map(str::to_owned)
        .collect()
    }

    /// Where the source is entered, in microseconds of its clock; nothing for its beginning.
    fn entry_us(&self) -> Option<i64> {
        let video = &self.plan.probe.video;
        let from = self.span.from;
        let next = video.keyframes.partition_point(|&key| key <= from);
        let key = |back: usize| next.checked_sub(back).and_then(|at| video.keyframes.get(at));
        let at = |frame: u64| micros(video, frame);
        let format = &self.plan.probe.format;
        let has = |name: &str| format.split(',').any(|part| part == name);
        let target = match self.entry {
            Entry::Far => at(key(3).copied().unwrap_or(0)) - FAR_MARGIN_US,
            // A key frame up to here is rounded to the first frame of the chunk, or to one before it.
            Entry::Near if has("mov") => at(from) + frame_us(video) * 45 / 100,
            Entry::Near if has("matroska") || has("avi") => {
                let margin = at(from) + frame_us(video) * 45 / 100 + REORDER_MARGIN_US;
                video.keyframes.get(next).map_or(margin, |&after| margin.min(at(after) - 1))
            }
            Entry::Near => at(key(1).copied().unwrap_or(0)) - UNINDEXED_MARGIN_US,
        };
        (from > 0 && target > video.start_us.max(0)).then_some(target)
    }

    /// The first frame that may come out of the decoder, for the tolerant attempt: times before it are made up.
    fn earliest(&self) -> u64 {
        let Some(entered) = self.entry_us() else { return 0 };
        let video = &self.plan.probe.video;
        let after = u64::try_from(entered - video.start_us).unwrap_or(0);
        let frames = u128::from(after) * u128::from(video.rate.frames)
            / (u128::from(video.rate.seconds) * 1_000_000);
        u64::try_from(frames).unwrap_or(0).min(self.span.from)
    }

    fn filters(&self) -> String {
        let video = &self.plan.probe.video;
        let Span { from, to } = self.span;
        let rate = video.rate;
        let mut chain = vec![format!("setpts=floor(PTS-({})/1000000/TB+0.5)", video.start_us)];
        if self.manner.tolerant {
            chain.push("settb=1/1000000".to_owned());
            chain.push("metadata=mode=add:key=seen:value=1".to_owned());
            chain.push(format!("metadata=mode=print:file={SEEN_FILE}"));
        }
        if video.interlaced {
            chain.push(DEINTERLACE.to_owned());
        }
        let is_last = self.plan.chunks.last().is_some_and(|chunk| chunk.span.to == to);
        if self.manner.tolerant {
            let earliest = self.earliest();
            let start = rate.micros(earliest);
            chain.push(format!(
                "fps={rate}:round=near:start_time={}.{:06}",
                start / 1_000_000,
                start % 1_000_000
            ));
            chain.push(format!("tpad=stop_mode=clone:stop={}", to - earliest + 1));
        } else {
            chain.push(format!("fps={rate}:round=near"));
            if is_last {
                chain.push(format!("tpad=stop_mode=clone:stop={}", self.made_up_at_the_end()));
            }
        }
        chain.push(format!("trim=start_pts={from}:end_pts={to}"));
        chain.push(format!("setpts=PTS-{from}"));
        if video.hdr {
            // Tone mapping is dear: it is done once, in the largest size that is wanted.
            if let Some(rung) = self.rungs.first() {
                chain.push(format!("scale={}:{}:flags=bicubic", rung.width, rung.height));
            }
            chain.push(TONE_MAP.to_owned());
        }
        let source = format!("[0:{}]{}", video.index, chain.join(","));
        // Naming a matrix costs a pass over every frame, even if it is the one that the frame has.
        let colours = if video.bt709 { "" } else { ":out_color_matrix=bt709:out_range=tv" };
        let outputs = self.rungs.iter().enumerate().map(|(place, rung)| {
            format!(
                "[i{place}]scale={}:{}:flags=bicubic{colours},setsar=1,format=yuv420p[o{place}]",
                rung.width, rung.height
            )
        });
        let inputs: String = (0..self.rungs.len()).map(|place| format!("[i{place}]")).collect();
        let split = format!("{source},split={}{inputs}", self.rungs.len());
        std::iter::once(split).chain(outputs).collect::<Vec<_>>().join(";")
    }

    /// How many frames a whole source may lack at its end: its last frame often does not say how long it is shown, and
    /// that of a variable rate may be shown for long.
    fn made_up_at_the_end(&self) -> u64 {
        let video = &self.plan.probe.video;
        if video.variable_rate { self.span.frames() } else { 2 }
    }
}

const DEINTERLACE: &str = "bwdif=mode=send_frame:deint=all";
/// Brightness for HDR is always coded with the colours of BT.2020, though not every source says so.
const TONE_MAP: &str = "zscale=pin=bt2020:min=2020_ncl:t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,\
                        tonemap=tonemap=hable:desat=0,zscale=t=bt709:m=bt709:r=tv,format=yuv420p";

/// The filters that make a decoded frame of this source a plain picture: progressive and in standard brightness. Empty
/// if it is one already.
pub(crate) fn picture_filters(video: &VideoStream) -> String {
    let deinterlace = video.interlaced.then_some(DEINTERLACE);
    let tone_map = video.hdr.then_some(TONE_MAP);
    deinterlace.into_iter().chain(tone_map).collect::<Vec<_>>().join(",")
}

/// The file that the rung at this place is written to.
pub(super) fn file(place: usize) -> String {
    format!("rung_{place}.mp4")
}

/// When a frame begins on the source's clock.
fn micros(video: &VideoStream, frame: u64) -> i64 {
    video.start_us.saturating_add(i64::try_from(video.rate.micros(frame)).unwrap_or(i64::MAX))
}

fn frame_us(video: &VideoStream) -> i64 {
    i64::try_from(video.rate.micros(1)).unwrap_or(0)
}

/// For each frame of the span whether the source showed one, from the times that a tolerant attempt noted.
pub(super) fn seen(video: &VideoStream, span: Span, notes: &str) -> Vec<bool> {
    let mut seen = vec![video.variable_rate; usize::try_from(span.frames()).unwrap_or(0)];
    for line in notes.lines() {
        let pts = line.split_whitespace().find_map(|word| word.strip_prefix("pts:"));
        let place = pts.and_then(|pts| place(video, span, pts.parse().ok()?));
        if let Some(place) = place.and_then(|place| seen.get_mut(place)) {
            *place = true;
        }
    }
    seen
}

/// The frame of the span that is shown at a time, in microseconds from the beginning of the grid; one that is behind the
/// span has a place behind it.
pub(super) fn place(video: &VideoStream, span: Span, at_us: i64) -> Option<usize> {
    let frame = i128::from(at_us) * i128::from(video.rate.frames) * 2;
    let frame = (frame / (i128::from(video.rate.seconds) * 1_000_000) + 1) / 2;
    usize::try_from(frame - i128::from(span.from)).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use divvy::objects::{Blob, BlobId};

    use super::*;
    use crate::FrameRate;
    use crate::probe::Probe;
    use crate::recipe::Recipe;

    pub(crate) fn plan(format: &str, keyframes: &[u64]) -> Plan {
        let video = VideoStream {
            index: 0,
            codec: "h264".to_owned(),
            width: 320,
            height: 180,
            pixel_format: "yuv420p".to_owned(),
            rate: FrameRate { frames: 25, seconds: 1 },
            frames: 1_000,
            packets: 1_000,
            start_us: 1_400_000,
            variable_rate: false,
            interlaced: false,
            hdr: false,
            bt709: false,
            keyframes: keyframes.to_vec(),
        };
        let source = Blob { id: BlobId::of(b""), size: 0 };
        Plan {
            probe: Probe {
                source,
                copied_from: None,
                format: format.to_owned(),
                video,
                audio: Vec::new(),
                subtitles: Vec::new(),
            },
            recipe: Recipe::default(),
            tools: String::new(),
            rungs: Vec::new(),
            segment_frames: 50,
            chunks: Vec::new(),
            tracks: Vec::new(),
            frames: None,
            subtitles: None,
            scan: None,
            captions: None,
        }
    }

    fn entry(format: &str, keyframes: &[u64], from: u64, entry: Entry) -> Option<i64> {
        let (plan, span) = (plan(format, keyframes), Span { from, to: from + 50 });
        let manner = Manner { tolerant: false, threads: 1 };
        Order { plan: &plan, span, rungs: Vec::new(), entry, manner }.entry_us()
    }

    #[test]
    fn a_source_is_entered_where_its_format_finds_the_key_frame() {
        let keys = [0, 100, 200, 300, 400];
        // Frame 200 is shown at 9.4 s, 40 ms each.
        assert_eq!(entry("mov,mp4", &keys, 200, Entry::Near), Some(9_418_000));
        assert_eq!(entry("matroska,webm", &keys, 200, Entry::Near), Some(9_548_434));
        // Not past the next key frame, which is shown at 9.48 s.
        assert_eq!(entry("matroska,webm", &[0, 200, 202], 200, Entry::Near), Some(9_479_999));
        assert_eq!(entry("mpegts", &keys, 250, Entry::Near), Some(8_900_000));
        assert_eq!(entry("mpegts", &keys, 50, Entry::Near), None);
        assert_eq!(entry("mov,mp4", &keys, 0, Entry::Near), None);
        assert_eq!(entry("mov,mp4", &keys, 450, Entry::Far), None);
        assert_eq!(entry("mov,mp4", &[0, 400, 500, 600], 650, Entry::Far), Some(7_400_000));
        assert_eq!(entry("mov,mp4", &keys, 200, Entry::Far), None);
    }

    #[test]
    fn frames_that_the_source_did_not_show_are_found() {
        let plan = plan("mov", &[0]);
        let notes = "frame:0 pts:0 pts_time:0\nseen=1\nframe:1 pts:39999 pts_time:0.04\n\
                     frame:2 pts:121000 pts_time:0.121\nframe:3 pts:-40000 pts_time:-0.04\nnonsense\n";
        let video = &plan.probe.video;
        assert_eq!(seen(video, Span { from: 0, to: 4 }, notes), [true, true, false, true]);
        assert_eq!(seen(video, Span { from: 2, to: 6 }, notes), [false, true, false, false]);
        assert_eq!(seen(video, Span { from: 0, to: 2 }, ""), [false, false]);
    }
}
