//! What the probe says about each clip of the corpus: every trap has its expected answer.

use divvy::extract::Cancel;
use divvy::objects::{Blob, BlobId};
use divvy_video::probe::{Examined, Probe, examine};
use divvy_video::tools::{ToolOptions, Tools};

use crate::corpus;

/// What is expected of a clip; the rest is as in [`USUAL`].
#[derive(Clone, Copy)]
struct Expected {
    size: (u32, u32),
    rate: (u32, u32),
    frames: u64,
    packets: u64,
    start_us: i64,
    variable: bool,
    interlaced: bool,
    hdr: bool,
    languages: &'static [&'static str],
    keyframes: &'static [u64],
}

const USUAL: Expected = Expected {
    size: (320, 180),
    rate: (30, 1),
    frames: 60,
    packets: 60,
    start_us: 0,
    variable: false,
    interlaced: false,
    hdr: false,
    languages: &[],
    keyframes: &[0, 30],
};
const SECOND: Expected = Expected { frames: 30, packets: 30, keyframes: &[0], ..USUAL };
const FOUR_SECONDS: Expected = Expected {
    frames: 120,
    packets: 120,
    languages: &["und"],
    keyframes: &[0, 30, 60, 90],
    ..USUAL
};

const ACCEPTED: &[(&str, Expected)] = &[
    ("cfr30", FOUR_SECONDS),
    (
        "cfr2997",
        Expected {
            rate: (30_000, 1_001),
            frames: 90,
            packets: 90,
            languages: &["und"],
            keyframes: &[0, 30, 60],
            ..USUAL
        },
    ),
    (
        "vfr",
        Expected {
            rate: (60, 1),
            frames: 180,
            packets: 108,
            variable: true,
            keyframes: &[0, 75, 132, 162],
            ..USUAL
        },
    ),
    (
        "sparse",
        Expected {
            rate: (10, 1),
            frames: 40,
            packets: 13,
            variable: true,
            keyframes: &[0],
            ..USUAL
        },
    ),
    ("fast240", Expected { rate: (120, 1), frames: 60, packets: 120, keyframes: &[0], ..USUAL }),
    (
        "rate_17_3",
        Expected { rate: (173, 10), frames: 35, packets: 35, keyframes: &[0, 30], ..USUAL },
    ),
    ("one_frame", Expected { frames: 1, packets: 1, keyframes: &[0], ..USUAL }),
    ("moov_at_end", USUAL),
    ("silent", USUAL),
    ("cover", SECOND),
    ("two_pictures", Expected { size: (160, 90), ..SECOND }),
    ("two_languages", Expected { languages: &["eng", "deu"], ..USUAL }),
    (
        "audio_short",
        Expected { frames: 90, packets: 90, languages: &["und"], keyframes: &[0, 30, 60], ..USUAL },
    ),
    ("audio_long", Expected { languages: &["und"], ..USUAL }),
    ("surround", Expected { languages: &["und"], ..SECOND }),
    ("portrait", Expected { size: (180, 320), ..SECOND }),
    ("odd_321x241", Expected { size: (321, 241), ..SECOND }),
    ("tiny_1x1", Expected { size: (1, 1), keyframes: &[0, 24], ..SECOND }),
    ("anamorphic", Expected { size: (427, 180), ..SECOND }),
    ("hdr10", Expected { hdr: true, ..SECOND }),
    (
        "interlaced",
        Expected {
            rate: (25, 1),
            frames: 50,
            packets: 50,
            start_us: 1_400_000,
            interlaced: true,
            keyframes: &[0, 30],
            ..USUAL
        },
    ),
    ("open_gop", Expected { languages: &[], ..FOUR_SECONDS }),
    (
        "long_gop",
        Expected { frames: 180, packets: 180, languages: &["und"], keyframes: &[0], ..USUAL },
    ),
    ("all_intra", Expected { keyframes: &[0, 15, 30, 45], ..USUAL }),
    (
        "matroska",
        Expected {
            rate: (24_000, 1_001),
            frames: 72,
            packets: 72,
            start_us: 23_000,
            languages: &["und"],
            keyframes: &[0, 30, 60],
            ..USUAL
        },
    ),
    ("webm", Expected { start_us: 7_000, languages: &["und"], keyframes: &[0], ..USUAL }),
    ("transport", Expected { start_us: 1_423_222, languages: &["und"], ..USUAL }),
    (
        "avi",
        Expected {
            frames: 61,
            variable: true,
            languages: &["und"],
            keyframes: &[0, 25, 37, 49],
            ..USUAL
        },
    ),
    (
        "speech",
        Expected { frames: 90, packets: 90, languages: &["und"], keyframes: &[0, 30, 60], ..USUAL },
    ),
    ("black", USUAL),
    ("static", USUAL),
    ("noise", SECOND),
    ("rotated", Expected { size: (180, 320), languages: &["und"], ..USUAL }),
    ("late_video", Expected { start_us: 500_000, ..FOUR_SECONDS }),
    ("late_audio", FOUR_SECONDS),
    ("edit_list", Expected { frames: 105, keyframes: &[0, 15, 45, 75], ..FOUR_SECONDS }),
];

/// What a reason must say.
const REFUSED: &[(&str, &str)] = &[
    ("empty", "it is empty"),
    ("text", "it is no"),
    ("truncated", "its index is missing, because it is not complete"),
    ("garbage", "its picture is of an unknown kind, or damaged"),
    ("playlist", "points to other files"),
    ("audio_only", "it has no picture"),
    ("audio_with_cover", "it has no picture"),
    ("many_streams", "it has 33 streams; at most 32"),
];

async fn probe(name: &str, tools: &Tools) -> Result<Probe, divvy::Failure> {
    // Blobs have no extension, which must not matter.
    let work = tempfile::tempdir().expect("a folder to work in");
    let file = work.path().join("source");
    let bytes = std::fs::read(corpus::make(name)).expect("the clip was made");
    std::fs::write(&file, &bytes).expect("the folder can be written");
    let source = Blob { id: BlobId::of(&bytes), size: bytes.len() as u64 };
    match examine(tools, source, &file, work.path(), &Cancel::never()).await? {
        Examined::Good(probe) => Ok(*probe),
        Examined::Unsteady(unsteady) => Err(unsteady.refusal()),
    }
}

#[tokio::test]
async fn clips_of_the_first_half_are_as_expected() {
    check(&corpus::names()[..22]).await;
}

#[tokio::test]
async fn clips_of_the_second_half_are_as_expected() {
    check(&corpus::names()[22..]).await;
}

async fn check(names: &[&str]) {
    let options = ToolOptions { allow_unconfined: true, ..ToolOptions::default() };
    let tools = Tools::find(&options).await.expect("ffmpeg is installed");
    let mut wrong = Vec::new();
    for &name in names {
        let found = probe(name, &tools).await;
        let accepted =
            ACCEPTED.iter().find(|(clip, _)| *clip == name).map(|(_, expected)| expected);
        let refused = REFUSED.iter().find(|(clip, _)| *clip == name).map(|(_, reason)| *reason);
        wrong.extend(match (accepted, refused, found) {
            (Some(expected), None, Ok(probe)) => differences(name, &probe, expected),
            (None, Some(reason), Err(failure)) if failure.message().contains(reason) => None,
            // How much of it is left depends on the encoder; the header says 120.
            (None, None, Ok(probe)) if name == "cut_off" => {
                let video = &probe.video;
                let believed = video.frames == video.packets && (1..120).contains(&video.frames);
                (!believed).then(|| format!("{name}: {video:?}"))
            }
            // How many packets are before the first key frame depends on the encoder.
            (None, None, Ok(probe)) if name == "mid_gop" => {
                let video = &probe.video;
                let found = (video.frames, video.start_us, &video.keyframes[..]);
                (found != (30, 2_423_222, &[0][..]) || video.packets <= 30)
                    .then(|| format!("{name}: {video:?}"))
            }
            (_, _, found) => Some(format!("{name}: {found:?}")),
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn differences(name: &str, probe: &Probe, expected: &Expected) -> Option<String> {
    let video = &probe.video;
    let languages: Vec<&str> = probe.audio.iter().map(|track| track.language.as_str()).collect();
    let found = (
        (video.width, video.height),
        (video.rate.frames, video.rate.seconds),
        (video.frames, video.packets, video.start_us),
        (video.variable_rate, video.interlaced, video.hdr),
        &video.keyframes[..],
        &languages[..],
    );
    let expected = (
        expected.size,
        expected.rate,
        (expected.frames, expected.packets, expected.start_us),
        (expected.variable, expected.interlaced, expected.hdr),
        expected.keyframes,
        expected.languages,
    );
    (found != expected).then(|| format!("{name}: found {found:?}\n  expected {expected:?}"))
}
