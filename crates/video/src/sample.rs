//! A clip to try things out with: moving pictures with a running clock, scene changes and speech, made here by ffmpeg's
//! own sources instead of downloaded.
//!
//! Decides what the clip shows and says. It is made from nothing that comes from outside, so it needs no sandbox. The
//! voice is the best of those that are there; without any there are tones, and subtitles of the clip will be empty.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tokio::process::Command;

/// What the clip says: about a minute.
pub const SPEECH: &str = "\
Welcome. This clip was made on your own machine, and your own machine has just cut it into pieces. \
Divvy divides work. You give it a video, and it looks at every frame, plans the pieces, and hands them to workers. \
Each worker decodes its piece once and encodes it in three sizes. \
When a worker stops, only its piece is done again. \
When the server stops, nothing that is finished is lost. \
The sound is encoded as a whole, so that you hear no seams. \
Small pictures are taken every ten seconds, so that you can find a scene with the pointer. \
A program listens to these words and writes the subtitles that you may be reading now. \
In the end all pieces are joined, counted and checked, frame by frame. \
If you add the same video again, there is no work to do. \
Add more machines, and the work is shared among them. \
That is all. Thank you for watching.
";

/// Raised when the clip changes, so that an old one is not taken for it.
const VERSION: u32 = 1;
/// Longer clips are not worth their disk.
const SECONDS_MAX: u32 = 3_600;
/// Frames per second.
const RATE: u32 = 30;
/// More inputs would only make ffmpeg slow to start.
const SCENES_MAX: u32 = 60;
/// Characters of ffmpeg's complaints that are told.
const COMPLAINTS_MAX: usize = 500;

/// How the clip shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clip {
    /// Its length, from 1 to 3600.
    pub seconds: u32,
    /// Width in pixels, even, from 64 to 3840.
    pub width: u32,
    /// Height in pixels, even, from 64 to 2160.
    pub height: u32,
}

impl Clip {
    /// Full HD of this length.
    pub fn full_hd(seconds: u32) -> Self {
        Self { seconds, width: 1_920, height: 1_080 }
    }

    fn check(self) -> Result<(), SampleError> {
        let side = |name, length: u32, max| {
            if length.is_multiple_of(2) && (64..=max).contains(&length) {
                return Ok(());
            }
            Err(SampleError::Bad(format!(
                "{name} is {length}, expected an even number from 64 to {max}"
            )))
        };
        if !(1..=SECONDS_MAX).contains(&self.seconds) {
            let text =
                format!("seconds is {}, expected a number from 1 to {SECONDS_MAX}", self.seconds);
            return Err(SampleError::Bad(text));
        }
        side("width", self.width, 3_840)?;
        side("height", self.height, 2_160)
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// The voice that is built into ffmpeg.
    BuiltIn,
    /// The program `flite`.
    Flite,
    /// The program `espeak-ng`.
    Espeak,
    /// Nobody: there are tones.
    Tones,
}

impl fmt::Display for Voice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuiltIn | Self::Flite => "flite",
            Self::Espeak => "espeak",
            Self::Tones => "tones",
        })
    }
}

/// A clip that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Where it is.
    pub path: PathBuf,
    /// Who speaks in it.
    pub voice: Voice,
}

/// Why there is no clip.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// No such clip can be made.
    #[error("{0}")]
    Bad(String),
    /// A program cannot be run.
    #[error(
        "cannot run {program}: {source}; install it (Debian: apt-get install ffmpeg), or say where it is with --ffmpeg"
    )]
    Start {
        /// Which.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// A program did not do its work.
    #[error("{program} could not make the clip: {complaints}")]
    Failed {
        /// Which.
        program: String,
        /// The end of what it said.
        complaints: String,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The clip from this folder; it is made if it is not there yet.
pub async fn cached(ffmpeg: &Path, clip: Clip, folder: &Path) -> Result<Made, SampleError> {
    clip.check()?;
    let voice = voice(ffmpeg).await?;
    let Clip { seconds, width, height } = clip;
    let name = format!("sample-v{VERSION}-{width}x{height}-{seconds}s-{voice}.mp4");
    let path = folder.join(name);
    if !path.is_file() {
        std::fs::create_dir_all(folder)
            .map_err(|source| SampleError::File { path: folder.to_owned(), source })?;
        write(ffmpeg, clip, voice, &path).await?;
    }
    Ok(Made { path, voice })
}

/// Makes the clip. A file that is there is replaced, in one step.
pub async fn make(ffmpeg: &Path, clip: Clip, path: &Path) -> Result<Made, SampleError> {
    clip.check()?;
    let voice = voice(ffmpeg).await?;
    write(ffmpeg, clip, voice, path).await?;
    Ok(Made { path: path.to_owned(), voice })
}

/// The best voice of this machine.
async fn voice(ffmpeg: &Path) -> Result<Voice, SampleError> {
    let filters = run(ffmpeg, Path::new("."), &["-hide_banner", "-loglevel", "error", "-filters"]);
    let filters = filters.await?;
    let built_in = String::from_utf8_lossy(&filters)
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some("flite"));
    Ok(match built_in {
        true => Voice::BuiltIn,
        false if in_path("flite") => Voice::Flite,
        false if in_path("espeak-ng") => Voice::Espeak,
        false => Voice::Tones,
    })
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Makes the clip beside its place and then renames it.
async fn write(ffmpeg: &Path, clip: Clip, voice: Voice, path: &Path) -> Result<(), SampleError> {
    let cannot = |source| SampleError::File { path: path.to_owned(), source };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let folder = tempfile::Builder::new().prefix(".sample-").tempdir_in(parent).map_err(cannot)?;
    speak(ffmpeg, voice, folder.path()).await?;
    run(ffmpeg, folder.path(), &arguments(clip)).await?;
    std::fs::rename(folder.path().join("clip.mp4"), path).map_err(cannot)
}

/// Writes the speech to `speech.wav` in the folder.
async fn speak(ffmpeg: &Path, voice: Voice, folder: &Path) -> Result<(), SampleError> {
    let text = folder.join("speech.txt");
    std::fs::write(&text, SPEECH).map_err(|source| SampleError::File { path: text, source })?;
    let built_in = |source: &'static str| {
        [
            "-nostdin",
            "-hide_banner",
            "-loglevel",
            "error",
            "-f",
            "lavfi",
            "-i",
            source,
            "speech.wav",
        ]
    };
    let done = match voice {
        Voice::BuiltIn => {
            run(ffmpeg, folder, &built_in("flite=textfile=speech.txt:voice=slt")).await
        }
        Voice::Flite => {
            let words = ["-voice", "slt", "-f", "speech.txt", "-o", "speech.wav"];
            run(Path::new("flite"), folder, &words).await
        }
        Voice::Espeak => {
            let words = ["-v", "en-us", "-s", "150", "-f", "speech.txt", "-w", "speech.wav"];
            run(Path::new("espeak-ng"), folder, &words).await
        }
        Voice::Tones => {
            let tones = "sine=f=330:b=4:r=48000:d=10,tremolo=f=2:d=0.8,volume=0.3";
            run(ffmpeg, folder, &built_in(tones)).await
        }
    };
    done.map(drop)
}

/// What ffmpeg is told in order to make `clip.mp4` with the sound of `speech.wav`.
fn arguments(clip: Clip) -> Vec<OsString> {
    let Clip { seconds, width, height } = clip;
    let mut words: Vec<String> =
        ["-nostdin", "-hide_banner", "-loglevel", "error", "-y"].map(str::to_owned).to_vec();
    let mut input = |before: &[&str], source: String| {
        words.extend(before.iter().map(|word| (*word).to_owned()));
        words.extend(["-i".to_owned(), source]);
    };
    let scenes = scenes(seconds);
    for (number, length) in scenes.iter().enumerate() {
        let length = length.to_string();
        input(&["-f", "lavfi", "-t", &length], scene(number, width, height));
    }
    let clock = format!("testsrc2=s=320x180:r={RATE}");
    input(&["-f", "lavfi", "-t", &seconds.to_string()], clock);
    input(&["-stream_loop", "-1"], "speech.wav".to_owned());
    let count = scenes.len();
    let mut graph = String::new();
    for number in 0..count {
        graph.push_str(&format!(
            "[{number}:v]scale={width}:{height}:flags=neighbor,setsar=1,format=yuv420p[s{number}];"
        ));
    }
    let joined: String = (0..count).map(|number| format!("[s{number}]")).collect();
    // The test picture has a clock in its corner, which needs no font to be installed.
    let (clock_width, clock_height) = (even(width * 400 / 1_920), even(width * 72 / 1_920));
    let margin = even(width / 48);
    graph.push_str(&format!(
        "{joined}concat=n={count}:v=1:a=0[scenes];\
         [{count}:v]crop=100:18:2:2,scale={clock_width}:{clock_height}:flags=neighbor[clock];\
         [scenes][clock]overlay={margin}:{margin}[v]"
    ));
    let sound = format!("{}:a", count + 1);
    let length = seconds.to_string();
    let output = [
        "-filter_complex",
        &graph,
        "-map",
        "[v]",
        "-map",
        &sound,
        "-t",
        &length,
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-crf",
        "20",
        "-g",
        "120",
        "-pix_fmt",
        "yuv420p",
        "-c:a",
        "aac",
        "-ar",
        "48000",
        "-ac",
        "2",
        "-b:a",
        "128k",
        "-movflags",
        "+faststart",
        "clip.mp4",
    ];
    words.extend(output.map(str::to_owned));
    words.into_iter().map(OsString::from).collect()
}

fn even(length: u32) -> u32 {
    (length & !1).max(2)
}

/// How long each scene is, in seconds.
fn scenes(seconds: u32) -> Vec<u32> {
    let length = seconds.div_ceil(6).clamp(2, 10).max(seconds.div_ceil(SCENES_MAX));
    let mut scenes = vec![length; (seconds / length) as usize];
    scenes.extend((!seconds.is_multiple_of(length)).then_some(seconds % length));
    scenes
}

/// The source of a scene. Those that compute every point are small and blown up.
fn scene(number: usize, width: u32, height: u32) -> String {
    let round = number / 6;
    match number % 6 {
        0 => format!("testsrc2=s={width}x{height}:r={RATE}"),
        1 => format!("mandelbrot=s=640x360:r={RATE}:end_scale=0.05:end_pts=300"),
        2 => format!(
            "gradients=s=480x270:r={RATE}:n=4:speed=0.03:seed={round}:c0=0x102040:c1=0x20a0c0:c2=0xf0c040:c3=0xc03060"
        ),
        3 => format!(
            "life=s=240x136:r={RATE}:ratio=0.2:random_seed={}:mold=20:life_color=0x60e0ff:death_color=0x204080:mold_color=0x081020",
            round + 1
        ),
        4 => format!("sierpinski=s=640x360:r={RATE}:seed={}", round + 1),
        _ => format!("cellauto=s=320x180:r={RATE}:rule=110:random_seed={}", round + 1),
    }
}

/// Runs a program to its end; what it printed.
async fn run<W: AsRef<std::ffi::OsStr>>(
    program: &Path,
    folder: &Path,
    words: &[W],
) -> Result<Vec<u8>, SampleError> {
    let name = program.display().to_string();
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = command
        .output()
        .await
        .map_err(|source| SampleError::Start { program: name.clone(), source })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let skip = text.chars().count().saturating_sub(COMPLAINTS_MAX);
    let complaints = text.trim().chars().skip(skip).collect();
    Err(SampleError::Failed { program: name, complaints })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Clip = Clip { seconds: 3, width: 320, height: 180 };

    #[test]
    fn scenes_fill_the_clip_exactly() {
        for seconds in [1, 2, 3, 7, 59, 60, 61, 150, 3_600] {
            let scenes = scenes(seconds);
            assert_eq!(scenes.iter().sum::<u32>(), seconds);
            assert!(scenes.len() <= SCENES_MAX as usize && scenes.iter().all(|length| *length > 0));
        }
        assert_eq!(scenes(60), [10; 6]);
    }

    #[test]
    fn the_speech_takes_about_a_minute() {
        let words = SPEECH.split_whitespace().count();
        assert!((130..=190).contains(&words), "{words}");
    }

    #[tokio::test]
    async fn a_clip_has_picture_and_sound_and_is_made_once() {
        let place = tempfile::tempdir().unwrap();
        let made = cached(Path::new("ffmpeg"), TINY, place.path()).await.unwrap();
        let probe = ["-v", "error", "-count_frames", "-show_entries"];
        let what = "stream=codec_name,width,height,nb_read_frames";
        let mut words: Vec<&str> = probe.to_vec();
        let name = made.path.to_str().unwrap();
        words.extend([what, "-of", "csv=p=0", name]);
        let streams = run(Path::new("ffprobe"), place.path(), &words).await.unwrap();
        let streams = String::from_utf8(streams).unwrap();
        assert!(streams.contains("h264,320,180,90") && streams.contains("aac"), "{streams}");
        let written = std::fs::metadata(&made.path).unwrap().modified().unwrap();
        assert_eq!(cached(Path::new("ffmpeg"), TINY, place.path()).await.unwrap(), made);
        assert_eq!(std::fs::metadata(&made.path).unwrap().modified().unwrap(), written);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "something is left over");
    }

    #[tokio::test]
    async fn what_cannot_be_made_is_refused_and_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.mp4");
        for clip in [
            Clip { seconds: 0, ..TINY },
            Clip { seconds: 9_999, ..TINY },
            Clip { width: 321, ..TINY },
            Clip { height: 0, ..TINY },
        ] {
            let error = make(Path::new("ffmpeg"), clip, &path).await.unwrap_err();
            assert!(matches!(error, SampleError::Bad(_)), "{error}");
        }
        let missing = place.path().join("no-ffmpeg");
        let error = make(&missing, TINY, &path).await.unwrap_err().to_string();
        assert!(error.contains("no-ffmpeg") && error.contains("install"), "{error}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
