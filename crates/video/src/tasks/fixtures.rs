//! What tests of tasks share: a studio on a private folder, clips made by the real ffmpeg, and plans for them.

use std::path::Path;
use std::process::Command;

use divvy::objects::{BlobId, Objects};
use divvy_objects::Folder;

use crate::grid::FrameRate;
use crate::keys::Key;
use crate::plan::{Plan, Track};
use crate::probe::{Probe, VideoStream};
use crate::recipe::Recipe;
use crate::studio::Studio;
use crate::tools::provider::Choice;
use crate::tools::{ToolOptions, remembered};

/// A studio with a folder that goes when it is dropped.
pub(super) struct Fixture {
    pub(super) studio: Studio,
    folder: tempfile::TempDir,
}

impl Fixture {
    pub(super) async fn new() -> Self {
        Self::with(Choice::Nobody, Choice::Nobody).await
    }

    pub(super) async fn with(speech: Choice, scanner: Choice) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tools = remembered::find(&ToolOptions { speech, scanner, ..options() }).await;
        let objects = Objects::in_folder(Folder::open(folder.path().join("objects")).unwrap());
        let scratch = folder.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        Self { studio: Studio::new(objects, tools, scratch), folder }
    }

    /// Makes a clip by these arguments of ffmpeg, stores it, and plans it: `frames` frames of 10 per second.
    pub(super) async fn clip(&self, name: &str, arguments: &[&str], frames: u64) -> Plan {
        let path = self.folder.path().join(name);
        ffmpeg(&[arguments, &[path.to_str().unwrap()]].concat());
        self.plan(&path, frames).await
    }

    async fn plan(&self, path: &Path, frames: u64) -> Plan {
        let source = self.studio.objects().put_file(path).await.unwrap();
        let video = VideoStream {
            index: 0,
            codec: "h264".into(),
            width: 320,
            height: 180,
            pixel_format: "yuv420p".into(),
            rate: FrameRate { frames: 10, seconds: 1 },
            frames,
            packets: frames,
            start_us: 0,
            variable_rate: false,
            interlaced: false,
            hdr: false,
            bt709: false,
            keyframes: (0..frames).step_by(25).collect(),
        };
        let key = |kind: &str| Some(Key::of(kind, source.id, &kind));
        Plan {
            probe: Probe {
                source,
                copied_from: None,
                format: "mov".into(),
                video,
                audio: Vec::new(),
                subtitles: Vec::new(),
            },
            recipe: Recipe { thumbnails_ms: 1_000, ..Recipe::default() },
            tools: "5.1".into(),
            rungs: Vec::new(),
            segment_frames: 20,
            chunks: Vec::new(),
            tracks: Vec::new(),
            frames: key("frames"),
            subtitles: key("subtitles"),
            scan: key("scan"),
            captions: None,
        }
    }

    /// A blob as text.
    pub(super) async fn text(&self, id: BlobId) -> String {
        String::from_utf8(self.studio.objects().get(id).await.unwrap()).unwrap()
    }

    /// The mean colour of a part of a stored picture, `width:height:x:y`, as red, green and blue.
    pub(super) async fn colour(&self, id: BlobId, part: &str) -> [i32; 3] {
        let file = self.studio.objects().local_file(id).await.unwrap();
        let filters = format!("crop={part},scale=1:1:flags=area,format=rgb24");
        let input = file.path().to_str().unwrap();
        let raw = ffmpeg(&["-f", "mjpeg", "-i", input, "-vf", &filters, "-f", "rawvideo", "-"]);
        [0, 1, 2].map(|at| i32::from(raw[at]))
    }
}

/// A sound track of a plan.
pub(super) fn track(index: u32, language: &str) -> Track {
    let key = Key::of("audio", BlobId::of(b"source"), &index);
    Track { index, language: language.to_owned(), name: language.to_owned(), key }
}

/// Options of tools, with the launcher of this build where there is one.
pub(crate) fn options() -> ToolOptions {
    let test = std::env::current_exe().unwrap();
    let launcher = test.ancestors().nth(2).unwrap().join("divvy-confine");
    let launcher = launcher.exists().then(|| launcher.into_os_string()).into_iter().collect();
    ToolOptions { launcher, ..ToolOptions::default() }
}

/// A provider as `scripts/providers` has installed it for this user.
pub(super) fn installed(name: &str) -> Choice {
    let folder = divvy_workload::provider::folder(name);
    assert!(folder.join("installed").exists(), "{name} is missing in {folder:?}: run `make test`");
    let path = |end: &str| folder.join(end).to_str().unwrap().to_owned();
    Choice::Exec(vec![path("venv/bin/python"), "-I".into(), "-B".into(), path("provider.py")])
}

/// Runs ffmpeg outside of what is tested; returns what it printed.
pub(super) fn ffmpeg(arguments: &[&str]) -> Vec<u8> {
    let common = ["-nostdin", "-loglevel", "error", "-y"];
    let output = Command::new("ffmpeg").args(common).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The arguments that encode a small clip.
pub(super) const ENCODE: [&str; 10] =
    ["-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-bf", "2", "-pix_fmt", "yuv420p"];
