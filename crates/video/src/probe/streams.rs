//! What the headers of a source say, as ffprobe prints it, and which of its streams count.

use divvy::objects::Blob;
use serde::Deserialize;

use super::packets::{Timeline, Times};
use super::rate::{self, Grid, TimeBase};
use super::{
    AudioStream, PIXELS_MAX, Probe, Refusal, SIDE_MAX, STREAMS_MAX, TextStream, VideoStream,
};

/// What ffprobe is asked for.
pub(super) const ENTRIES: &str = "format=format_name:\
    stream=index,codec_type,codec_name,width,height,sample_aspect_ratio,pix_fmt,field_order,color_transfer,\
    color_space,color_range,r_frame_rate,avg_frame_rate,time_base,channels,sample_rate:\
    stream_disposition=default,attached_pic,timed_thumbnails:stream_tags=language,title:\
    stream_side_data=side_data_type,rotation";

/// Containers that are opened. Others are images, or lists that make a reader open further files.
const FORMATS: [&str; 9] = ["mov", "matroska", "webm", "mpegts", "avi", "flv", "ogg", "wav", "mp3"];
const TITLE_CHARS_MAX: usize = 64;
/// Pictures whose short side has at least so many pixels are coded in BT.709 unless they say otherwise.
const HD_SIDE: u32 = 720;

/// The headers of a source.
#[derive(Debug, Deserialize)]
pub(super) struct Headers {
    #[serde(default)]
    streams: Vec<Stream>,
    format: Option<Format>,
}

#[derive(Debug, Deserialize)]
struct Format {
    format_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stream {
    index: u32,
    codec_type: String,
    codec_name: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    sample_aspect_ratio: Option<String>,
    pix_fmt: Option<String>,
    field_order: Option<String>,
    color_transfer: Option<String>,
    color_space: Option<String>,
    color_range: Option<String>,
    r_frame_rate: Option<String>,
    avg_frame_rate: Option<String>,
    time_base: Option<String>,
    channels: Option<u32>,
    sample_rate: Option<String>,
    disposition: Disposition,
    tags: Tags,
    side_data_list: Vec<SideData>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Disposition {
    default: u8,
    attached_pic: u8,
    timed_thumbnails: u8,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tags {
    language: Option<String>,
    title: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SideData {
    rotation: Option<f64>,
}

/// The headers of a source that is not refused for them, with the picture that counts.
#[derive(Debug)]
pub(super) struct Accepted {
    format: String,
    picture: Stream,
    width: u32,
    height: u32,
    base: TimeBase,
    audio: Vec<AudioStream>,
    subtitles: Vec<TextStream>,
}

impl Headers {
    pub(super) fn parse(text: &[u8]) -> Result<Self, Refusal> {
        serde_json::from_slice(text).map_err(|error| {
            Refusal::new(format!("what ffprobe says about it cannot be understood: {error}"))
        })
    }

    /// Refuses what cannot be processed, before any packet is read.
    pub(super) fn accept(self) -> Result<Accepted, Refusal> {
        let format = self.format.and_then(|format| format.format_name).unwrap_or_default();
        if !format.split(',').any(|name| FORMATS.contains(&name)) {
            return Err(Refusal::new(format!(
                "it is no video file but `{format}`, which is not opened; give MP4, MOV, MKV, WebM, TS, AVI or FLV"
            )));
        }
        let streams = self.streams.len();
        if streams > STREAMS_MAX {
            return Err(Refusal::new(format!(
                "it has {streams} streams; at most {STREAMS_MAX} are possible"
            )));
        }
        let audio = self.streams.iter().filter_map(Stream::audio).collect();
        let subtitles = self.streams.iter().filter_map(Stream::text).collect();
        let picture = picture(self.streams)?;
        let (width, height) = picture.shown_size()?;
        let base = picture.base()?;
        Ok(Accepted { format, picture, width, height, base, audio, subtitles })
    }
}

/// The default picture, or else the first; covers do not count.
fn picture(streams: Vec<Stream>) -> Result<Stream, Refusal> {
    let covers = |stream: &Stream| {
        stream.disposition.attached_pic != 0 || stream.disposition.timed_thumbnails != 0
    };
    let mut pictures: Vec<Stream> =
        streams.into_iter().filter(|s| s.codec_type == "video" && !covers(s)).collect();
    if pictures.is_empty() {
        return Err(Refusal::new("it has no picture, only sound or data; give a video"));
    }
    let chosen = pictures.iter().position(|stream| stream.disposition.default != 0).unwrap_or(0);
    Ok(pictures.swap_remove(chosen))
}

impl Stream {
    /// Width and height as they are shown, if they are possible.
    fn shown_size(&self) -> Result<(u32, u32), Refusal> {
        let (width, height) = (self.width.unwrap_or(0), self.height.unwrap_or(0));
        if width == 0 || height == 0 || self.pix_fmt.is_none() || self.codec_name.is_none() {
            return Err(Refusal::new(
                "its picture is of an unknown kind, or damaged: no size or pixel format can be found",
            ));
        }
        let wide = self.pixel_shape().map_or(width, |(wide, high)| {
            u32::try_from((u64::from(width) * wide + high / 2) / high).unwrap_or(u32::MAX).max(1)
        });
        let possible = |width: u32| {
            u64::from(width) * u64::from(height) <= PIXELS_MAX && width.max(height) <= SIDE_MAX
        };
        if !possible(width) || !possible(wide) {
            return Err(Refusal::new(format!(
                "its picture has {width}x{height} pixels (shown {wide}x{height}); at most {PIXELS_MAX} pixels and \
                 {SIDE_MAX} on a side are possible"
            )));
        }
        Ok(if self.lies_on_its_side() { (height, wide) } else { (wide, height) })
    }

    /// The width and the height of a pixel, if they differ and are believable.
    fn pixel_shape(&self) -> Option<(u64, u64)> {
        let (wide, high) = self.sample_aspect_ratio.as_deref()?.split_once(':')?;
        let (wide, high): (u64, u64) = (wide.parse().ok()?, high.parse().ok()?);
        let believable = wide > 0 && high > 0 && wide <= high * 10 && high <= wide * 10;
        (believable && wide != high && high < 1 << 32).then_some((wide, high))
    }

    /// Whether ffmpeg turns it by a quarter when it decodes. It follows the display matrix and no tag.
    fn lies_on_its_side(&self) -> bool {
        let turned = self.side_data_list.iter().find_map(|data| data.rotation).unwrap_or(0.0);
        (turned / 90.0).round().rem_euclid(2.0) == 1.0
    }

    fn base(&self) -> Result<TimeBase, Refusal> {
        let parsed = self.time_base.as_deref().and_then(|text| {
            let (seconds, units) = text.split_once('/')?;
            Some(TimeBase { seconds: seconds.parse().ok()?, units: units.parse().ok()? })
        });
        parsed
            .filter(|base| base.seconds > 0 && base.units > 0)
            .ok_or_else(|| Refusal::new("its picture has no time base; it may be damaged"))
    }

    /// The sound of this stream, if it is sound that can be decoded.
    fn audio(&self) -> Option<AudioStream> {
        let codec = self.codec_name.clone().filter(|_| self.codec_type == "audio")?;
        let channels = self.channels.filter(|&channels| channels > 0)?;
        self.sample_rate.as_deref()?.parse::<u32>().ok().filter(|&rate| rate > 0)?;
        let (language, title) = self.tags.named();
        Some(AudioStream { index: self.index, codec, channels, language, title })
    }

    /// The subtitles of this stream, if it has any.
    fn text(&self) -> Option<TextStream> {
        let codec = self.codec_name.clone().filter(|_| self.codec_type == "subtitle")?;
        let (language, title) = self.tags.named();
        Some(TextStream { index: self.index, codec, language, title })
    }
}

impl Tags {
    /// The language, and the title if there is one.
    fn named(&self) -> (String, Option<String>) {
        let language = self.language.as_deref().map(str::to_ascii_lowercase);
        let is_code = |text: &String| {
            (2..=8).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        let title = self.title.as_deref().map(printable).filter(|title| !title.is_empty());
        (language.filter(is_code).unwrap_or_else(|| "und".to_owned()), title)
    }
}

fn printable(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).take(TITLE_CHARS_MAX).collect();
    clean.trim().to_owned()
}

impl Accepted {
    /// The number of the picture's stream.
    pub(super) fn index(&self) -> u32 {
        self.picture.index
    }

    /// What the times of its packets may do.
    pub(super) fn times(&self) -> Times {
        let per_second = i64::from((self.base.units / self.base.seconds).max(1));
        match self.unsteady_format() {
            Some("mpegts") => Times::MayJump { per_second },
            Some(_) => Times::MayBeginBelowZero,
            None => Times::Steady,
        }
    }

    /// The format in which its streams can be copied to another clock, if files of its format may have a bad one:
    /// recordings of broadcasts, and what was cut out of another file without care.
    pub(super) fn unsteady_format(&self) -> Option<&'static str> {
        let has = |name: &str| self.format.split(',').any(|part| part == name);
        ["mpegts", "matroska"].into_iter().find(|name| has(name))
    }

    /// The subtitles that are pictures.
    pub(super) fn pictures(&self) -> Vec<TextStream> {
        self.subtitles.iter().filter(|stream| !stream.is_text()).cloned().collect()
    }

    /// The numbers of the streams that are used.
    pub(super) fn streams(&self) -> Vec<u32> {
        let sound = self.audio.iter().map(|stream| stream.index);
        let texts = self.subtitles.iter().filter(|stream| stream.is_text());
        let texts = texts.map(|stream| stream.index);
        std::iter::once(self.picture.index).chain(sound).chain(texts).collect()
    }

    /// The whole answer, with what the packets say.
    pub(super) fn probe(self, source: Blob, timeline: &Timeline) -> Result<Probe, Refusal> {
        let picture = self.picture;
        let declared: Vec<_> = [&picture.r_frame_rate, &picture.avg_frame_rate]
            .into_iter()
            .filter_map(|text| rate::parse(text.as_deref()?))
            .collect();
        let grid = Grid::choose(timeline, self.base, &declared)?;
        let interlaced = picture.field_order.as_deref();
        let transfer = picture.color_transfer.as_deref();
        let hdr = matches!(transfer, Some("smpte2084" | "arib-std-b67"));
        let is_709 = match picture.color_space.as_deref() {
            None | Some("unknown") => self.width.min(self.height) >= HD_SIDE,
            Some(matrix) => matrix == "bt709",
        };
        let full_range = picture.color_range.as_deref() == Some("pc");
        let video = VideoStream {
            index: picture.index,
            codec: picture.codec_name.unwrap_or_default(),
            width: self.width,
            height: self.height,
            pixel_format: picture.pix_fmt.unwrap_or_default(),
            rate: grid.rate,
            frames: grid.frames,
            packets: timeline.packets,
            start_us: grid.start_us,
            variable_rate: grid.variable,
            interlaced: matches!(interlaced, Some("tt" | "bb" | "tb" | "bt")),
            hdr,
            bt709: is_709 && !hdr && !full_range,
            keyframes: grid.keyframes,
        };
        let (format, audio, subtitles) = (self.format, self.audio, self.subtitles);
        Ok(Probe { source, copied_from: None, format, video, audio, subtitles })
    }
}

#[cfg(test)]
mod tests {
    use divvy::objects::BlobId;

    use super::*;
    use crate::FrameRate;

    /// As ffprobe prints a phone's clip: turned, with a cover, a track of data and two of sound.
    const PHONE: &str = r#"{"programs": [], "streams": [
        {"index": 0, "codec_name": "mjpeg", "codec_type": "video", "width": 100, "height": 100, "pix_fmt": "yuvj420p",
         "r_frame_rate": "90000/1", "avg_frame_rate": "0/0", "time_base": "1/90000",
         "disposition": {"default": 1, "attached_pic": 1}},
        {"index": 1, "codec_name": "hevc", "codec_type": "video", "width": 1920, "height": 1080,
         "sample_aspect_ratio": "1:1", "pix_fmt": "yuv420p10le", "field_order": "progressive",
         "color_transfer": "arib-std-b67", "r_frame_rate": "30/1", "avg_frame_rate": "29950/1001",
         "time_base": "1/600", "disposition": {"default": 1, "attached_pic": 0}, "tags": {"language": "und"},
         "side_data_list": [{"side_data_type": "DOVI configuration record"},
                            {"side_data_type": "Display Matrix", "rotation": -90}]},
        {"index": 2, "codec_name": "aac", "codec_type": "audio", "sample_rate": "44100", "channels": 2,
         "r_frame_rate": "0/0", "avg_frame_rate": "0/0", "time_base": "1/44100",
         "disposition": {"default": 1, "attached_pic": 0}, "tags": {"language": "ENG", "title": " Main\u0007 "}},
        {"index": 3, "codec_type": "audio", "sample_rate": "0", "channels": 0, "disposition": {}},
        {"index": 4, "codec_type": "data", "time_base": "1/600", "disposition": {"default": 0}}],
        "format": {"format_name": "mov,mp4,m4a,3gp,3g2,mj2"}}"#;

    fn refusal(text: &str) -> String {
        Headers::parse(text.as_bytes()).and_then(Headers::accept).unwrap_err().0
    }

    #[test]
    fn a_phones_clip_is_understood() {
        let accepted = Headers::parse(PHONE.as_bytes()).unwrap().accept().unwrap();
        assert_eq!(accepted.index(), 1);
        let timeline = Timeline {
            packets: 61,
            shown: (0..61).map(|n| n * 20).collect(),
            keys: vec![0, 600],
            last_duration: Some(20),
        };
        let source = Blob { id: BlobId::of(b"phone"), size: 5 };
        let probe = accepted.probe(source, &timeline).unwrap();
        let expected = VideoStream {
            index: 1,
            codec: "hevc".into(),
            width: 1080,
            height: 1920,
            pixel_format: "yuv420p10le".into(),
            rate: FrameRate { frames: 30, seconds: 1 },
            frames: 61,
            packets: 61,
            start_us: 0,
            variable_rate: false,
            interlaced: false,
            hdr: true,
            bt709: false,
            keyframes: vec![0, 30],
        };
        assert_eq!(probe.video, expected);
        let audio = AudioStream {
            index: 2,
            codec: "aac".into(),
            channels: 2,
            language: "eng".into(),
            title: Some("Main".into()),
        };
        assert_eq!(probe.audio, [audio]);
    }

    #[test]
    fn pixels_that_are_not_square_widen_the_picture_and_bad_shapes_do_not() {
        let shown = |shape: &str| {
            let stream = Stream {
                width: Some(1_440),
                height: Some(1_080),
                sample_aspect_ratio: Some(shape.into()),
                pix_fmt: Some("yuv420p".into()),
                codec_name: Some("h264".into()),
                ..Stream::default()
            };
            stream.shown_size().unwrap()
        };
        assert_eq!(shown("4:3"), (1_920, 1_080));
        assert_eq!(shown("3:4"), (1_080, 1_080));
        for bad in ["0:1", "1:0", "1:100", "99999999999999999999:1", "x", "1:1"] {
            assert_eq!(shown(bad), (1_440, 1_080), "{bad}");
        }
    }

    #[test]
    fn what_is_too_much_or_no_video_is_refused_by_a_reason() {
        let video = |width: u32, height: u32| {
            format!(
                r#"{{"streams": [{{"index": 0, "codec_type": "video", "codec_name": "h264", "width": {width},
                "height": {height}, "pix_fmt": "yuv420p", "time_base": "1/30"}}], "format": {{"format_name": "avi"}}}}"#
            )
        };
        assert!(Headers::parse(video(8_192, 4_320).as_bytes()).unwrap().accept().is_ok());
        assert!(Headers::parse(video(4_320, 8_192).as_bytes()).unwrap().accept().is_ok());
        assert!(refusal(&video(8_194, 4_320)).contains("8194x4320 pixels"));
        assert!(refusal(&video(20_000, 2)).contains("16384 on a side"));
        assert!(refusal(&video(0, 2)).contains("unknown kind"));
        assert!(refusal(&video(2, 2).replace("1/30", "0/0")).contains("no time base"));
        assert!(refusal(&video(2, 2).replace("avi", "hls")).contains("`hls`"));
        assert!(refusal(&video(2, 2).replace("\"video\"", "\"audio\"")).contains("no picture"));
        assert!(refusal("{}").contains("no video file"));
        assert!(refusal("nonsense").contains("cannot be understood"));
        let many = vec![r#"{"index": 0, "codec_type": "data"}"#; 33].join(",");
        let many = format!(r#"{{"streams": [{many}], "format": {{"format_name": "avi"}}}}"#);
        assert!(refusal(&many).contains("33 streams"));
    }
}
