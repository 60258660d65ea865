//! A clip of six seconds with a tone in two sizes, packaged as the platform does: HLS with subtitles, files for
//! download, a poster, thumbnails. All segments of a rendition lie in one blob.

use std::path::Path;
use std::process::{Command, Stdio};

use divvy::objects::{BlobId, Objects};
use divvy_video::manifest::{FileEntry, Manifest, Part, Rendition, TrackEntry};
use divvy_video::probe::{AudioStream, Probe, VideoStream};
use divvy_video::results::{Cost, Scan, Score};
use divvy_video::{FrameRate, Recipe};

/// What the subtitles say between the second and the fifth second.
pub(crate) const CUE: &str = "Hello from the subtitles";
const SUBTITLES: &str = "WEBVTT\n\n00:00:00.200 --> 00:00:05.800\nHello from the subtitles\n";
const SUBTITLE_LIST: &str = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:6\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:6.0,\nen.vtt\n#EXT-X-ENDLIST\n";
const MASTER: &str = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n\
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"English\",LANGUAGE=\"en\",DEFAULT=YES,AUTOSELECT=YES,URI=\"a/en/list.m3u8\"\n\
    #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subs\",NAME=\"English\",LANGUAGE=\"en\",DEFAULT=NO,AUTOSELECT=NO,URI=\"subs/en.m3u8\"\n\
    #EXT-X-STREAM-INF:BANDWIDTH=900000,RESOLUTION=320x180,FRAME-RATE=15,CODECS=\"avc1.42c00d,mp4a.40.2\",AUDIO=\"sound\",SUBTITLES=\"subs\"\nv/180p/list.m3u8\n\
    #EXT-X-STREAM-INF:BANDWIDTH=300000,RESOLUTION=160x90,FRAME-RATE=15,CODECS=\"avc1.42c00b,mp4a.40.2\",AUDIO=\"sound\",SUBTITLES=\"subs\"\nv/90p/list.m3u8\n";

/// Makes the clip; returns its manifest as a blob, and the manifest.
pub(crate) async fn publish(objects: &Objects) -> (BlobId, Manifest) {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    let mut files = Vec::new();
    for rendition in ["v/180p", "v/90p", "a/en"] {
        add_rendition(objects, scratch.path(), rendition, &mut files).await;
    }
    for path in ["poster.jpg", "mp4/180p.mp4", "mp4/90p.mp4", "thumbs/sprite_000.jpg"] {
        let bytes = std::fs::read(scratch.path().join(path)).unwrap();
        add(objects, path, bytes, &mut files).await;
    }
    for (path, text) in [
        ("master.m3u8", MASTER),
        ("subs/en.m3u8", SUBTITLE_LIST),
        ("subs/en.vtt", SUBTITLES),
        ("thumbs/thumbs.vtt", &index()),
    ] {
        add(objects, path, text.as_bytes().to_vec(), &mut files).await;
    }
    let manifest = describe(files);
    let blob = objects.put(serde_json::to_vec(&manifest).unwrap()).await.unwrap();
    (blob.id, manifest)
}

fn make(folder: &Path) {
    for part in ["v/180p", "v/90p", "a/en", "mp4", "thumbs"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
    }
    let hls = "-f hls -hls_time 2 -hls_playlist_type vod -hls_segment_type fmp4 -hls_fmp4_init_filename init.mp4";
    let x264 = "-c:v libx264 -preset ultrafast -profile:v baseline -pix_fmt yuv420p -g 30 -keyint_min 30 -sc_threshold 0";
    let arguments = format!(
        "-f lavfi -i testsrc2=size=320x180:rate=15:duration=6 -f lavfi -i sine=frequency=440:sample_rate=48000:duration=6 \
         -filter_complex [0:v]split=3[a][b][c];[b]scale=160:90,split=2[b1][b2];[a]split=2[a1][a2];[c]fps=1,scale=128:72,tile=3x2[d] \
         -map [a1] {x264} {hls} -hls_segment_filename v/180p/seg_%05d.m4s v/180p/list.m3u8 \
         -map [b1] {x264} {hls} -hls_segment_filename v/90p/seg_%05d.m4s v/90p/list.m3u8 \
         -map 1:a -c:a aac -b:a 64k {hls} -hls_segment_filename a/en/seg_%05d.m4s a/en/list.m3u8 \
         -map [a2] -map 1:a {x264} -c:a aac -movflags +faststart mp4/180p.mp4 \
         -map [b2] -map 1:a {x264} -c:a aac -movflags +faststart mp4/90p.mp4 \
         -map [d] -frames:v 1 thumbs/sprite_000.jpg"
    );
    ffmpeg(folder, &arguments);
    ffmpeg(folder, "-i mp4/180p.mp4 -ss 2 -frames:v 1 poster.jpg");
}

fn ffmpeg(folder: &Path, arguments: &str) {
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y"])
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("ffmpeg is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Adds a rendition: its playlist and its beginning as blobs, its segments as parts of one.
async fn add_rendition(
    objects: &Objects,
    folder: &Path,
    rendition: &str,
    files: &mut Vec<FileEntry>,
) {
    let read = |name: &str| std::fs::read(folder.join(rendition).join(name)).unwrap();
    for name in ["list.m3u8", "init.mp4"] {
        add(objects, &format!("{rendition}/{name}"), read(name), files).await;
    }
    let mut names: Vec<String> = std::fs::read_dir(folder.join(rendition))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".m4s"))
        .collect();
    names.sort();
    assert!(names.len() >= 3, "{rendition} has {names:?}");
    let parts: Vec<Vec<u8>> = names.iter().map(|name| read(name)).collect();
    let blob = objects.put(parts.concat()).await.unwrap();
    let mut offset = 0;
    for (name, part) in names.iter().zip(&parts) {
        let (path, length) = (format!("{rendition}/{name}"), part.len() as u64);
        files.push(FileEntry { path, blob: blob.id, offset, length });
        offset += length;
    }
}

async fn add(objects: &Objects, path: &str, bytes: Vec<u8>, files: &mut Vec<FileEntry>) {
    let blob = objects.put(bytes).await.unwrap();
    files.push(FileEntry { path: path.to_owned(), blob: blob.id, offset: 0, length: blob.size });
}

/// Which thumbnail is where: one for each second.
fn index() -> String {
    let cue = |n: u32| {
        let (x, y) = (n % 3 * 128, n / 3 * 72);
        format!("00:00:0{n}.000 --> 00:00:0{}.000\nsprite_000.jpg#xywh={x},{y},128,72\n\n", n + 1)
    };
    format!("WEBVTT\n\n{}", (0..6).map(cue).collect::<String>())
}

fn describe(files: Vec<FileEntry>) -> Manifest {
    let source = divvy::objects::Blob { id: BlobId::of(b"source"), size: 1_234_567 };
    let rendition = |name: &str, width, height, bitrate| Rendition {
        name: name.to_owned(),
        width,
        height,
        frames: 90,
        bitrate,
        bytes: bitrate * 6 / 8,
    };
    Manifest {
        repaired: 0,
        probe: Probe {
            source,
            copied_from: None,
            subtitles: Vec::new(),
            format: "mov,mp4,m4a,3gp,3g2,mj2".to_owned(),
            video: VideoStream {
                index: 0,
                codec: "h264".to_owned(),
                width: 320,
                height: 180,
                pixel_format: "yuv420p".to_owned(),
                rate: FrameRate { frames: 15, seconds: 1 },
                frames: 90,
                packets: 90,
                start_us: 0,
                variable_rate: false,
                interlaced: false,
                hdr: false,
                bt709: false,
                keyframes: vec![0, 30, 60],
            },
            audio: vec![sound()],
        },
        recipe: Recipe::default(),
        tools: "ffmpeg".to_owned(),
        frames: 90,
        duration_ms: 6_000,
        renditions: vec![rendition("180p", 320, 180, 700_000), rendition("90p", 160, 90, 200_000)],
        tracks: vec![TrackEntry {
            language: "en".to_owned(),
            name: "English".to_owned(),
            samples: 288_000,
            sample_rate: 48_000,
        }],
        subtitles: Part::Done { provider: "whisper tiny.en".to_owned() },
        captions: Part::default(),
        thumbnails: Part::Done { provider: "ffmpeg".to_owned() },
        texts: Vec::new(),
        notes: Vec::new(),
        repaired_tracks: 0,
        scan: Part::Done { provider: "open_nsfw 0.1.0".to_owned() },
        findings: Some(Scan {
            provider: "open_nsfw 0.1.0".to_owned(),
            frames: 1,
            highest: 0.91,
            scores: vec![Score { at_ms: 0, label: "nsfw".to_owned(), score: 0.91 }],
            cost: Cost::default(),
        }),
        needs_review: true,
        files,
        cost: Cost { cpu_ms: 8_400, wall_ms: 4_700 },
    }
}

fn sound() -> AudioStream {
    AudioStream {
        index: 1,
        codec: "aac".to_owned(),
        channels: 2,
        language: "en".to_owned(),
        title: None,
    }
}
