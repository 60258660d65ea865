//! The test corpus: a small clip for each trap, generated with the real ffmpeg, seconds long.
//!
//! [`make`] returns where a clip is, and makes it if it is not there yet; [`names`] lists all that there are. Clips are
//! 320x180 unless their name says otherwise. All tests share them, and so does the next run: nobody may change them.

#![allow(dead_code, reason = "each test uses the part of the corpus that it needs")]

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// A clip as ffmpeg makes it: its name, its file's extension, and the arguments before the file.
struct Clip(&'static str, &'static str, &'static str);

/// x264 as fast as it can, with a key frame every second at 30 frames per second.
const X264: &str = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 30";

/// Clips that ffmpeg makes. `{x264}` stands for [`X264`], `{picture}` for a moving picture without
/// rate and length, `~` for a space within an argument.
const CLIPS: &[Clip] = &[
    // 4 s at 30 frames per second with sound; the index is at the beginning.
    Clip(
        "cfr30",
        "mp4",
        "{picture}:r=30:d=4 -f lavfi -i sine=f=440:d=4 {x264} -c:a aac -movflags +faststart",
    ),
    // 3.003 s at 29.97.
    Clip("cfr2997", "mp4", "{picture}:r=30000/1001:d=3 -f lavfi -i sine=d=3 {x264} -c:a aac"),
    // 2 s at 24, then 1 s at 60.
    Clip(
        "vfr",
        "mp4",
        "{picture}:r=24:d=2 {picture}:r=60:d=1 -filter_complex concat=n=2:v=1 -fps_mode vfr -enc_time_base 1:120 {x264}",
    ),
    // A screen that seldom changes: frames at 0, 0.1, 0.2, then nothing up to 3 s, then 10 per second up to 4 s.
    Clip(
        "sparse",
        "mp4",
        "{picture}:r=10:d=4 -vf select='lt(n,3)+gte(n,30)' -fps_mode vfr -enc_time_base 1:1000 {x264}",
    ),
    // 240 frames per second for 0.5 s.
    Clip("fast240", "mp4", "{picture}:r=240:d=0.5 {x264}"),
    // A rate that no camera has.
    Clip("rate_17_3", "mp4", "{picture}:r=173/10:d=2 {x264}"),
    Clip("one_frame", "mp4", "{picture}:r=30:d=1 -frames:v 1 {x264}"),
    // The index is at the end, as ffmpeg writes it by default.
    Clip("moov_at_end", "mp4", "{picture}:r=30:d=2 {x264}"),
    Clip("silent", "mp4", "{picture}:r=30:d=2 {x264}"),
    Clip("audio_only", "m4a", "-f lavfi -i sine=d=1 -c:a aac"),
    // Sound with a cover is no video.
    Clip(
        "audio_with_cover",
        "m4a",
        "-f lavfi -i sine=d=1 {picture}:r=25:d=0.04 -map 0 -map 1 -c:a aac -c:v mjpeg -pix_fmt yuvj420p -disposition:v:0 attached_pic",
    ),
    // A cover before the real picture.
    Clip(
        "cover",
        "mp4",
        "-f lavfi -i testsrc2=s=100x100:d=0.04 {picture}:r=30:d=1 -map 0 -map 1 -c:v:0 mjpeg -pix_fmt:v:0 yuvj420p -c:v:1 libx264 -preset ultrafast -pix_fmt:v:1 yuv420p -disposition:v:0 attached_pic",
    ),
    // Two pictures, of which the second (160x90) is the default.
    Clip(
        "two_pictures",
        "mkv",
        "{picture}:r=30:d=1 -f lavfi -i testsrc2=s=160x90:r=30:d=1 -map 0 -map 1 {x264} -disposition:v:0 0 -disposition:v:1 default",
    ),
    Clip(
        "two_languages",
        "mp4",
        "{picture}:r=30:d=2 -f lavfi -i sine=f=440:d=2 -f lavfi -i sine=f=880:d=2 -map 0 -map 1 -map 2 {x264} -c:a aac -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu",
    ),
    // 1 s of sound in 3 s of picture.
    Clip("audio_short", "mp4", "{picture}:r=30:d=3 -f lavfi -i sine=d=1 {x264} -c:a aac"),
    // 4 s of sound with 2 s of picture.
    Clip("audio_long", "mp4", "{picture}:r=30:d=2 -f lavfi -i sine=d=4 {x264} -c:a aac"),
    // Six channels, 48 kHz.
    Clip(
        "surround",
        "mp4",
        "{picture}:r=30:d=1 -f lavfi -i anoisesrc=r=48000:d=1:a=0.1 -af pan=5.1|c0=c0|c1=c0|c2=c0|c3=c0|c4=c0|c5=c0 {x264} -c:a aac",
    ),
    Clip("portrait", "mp4", "-f lavfi -i testsrc2=s=180x320:r=30:d=1 {x264}"),
    Clip(
        "odd_321x241",
        "mkv",
        "-f lavfi -i testsrc2=s=324x244:r=30:d=1 -vf crop=321:241:exact=1,format=yuv444p -c:v libx264 -preset ultrafast",
    ),
    Clip(
        "tiny_1x1",
        "mkv",
        "-f lavfi -i testsrc2=s=32x32:r=30:d=1 -vf format=yuv444p,crop=1:1:exact=1 -c:v ffv1",
    ),
    // Pixels that are wider than high, by 4 to 3.
    Clip("anamorphic", "mp4", "{picture}:r=30:d=1,setsar=4/3 {x264}"),
    Clip(
        "hdr10",
        "mp4",
        "{picture}:r=30:d=1 -c:v libx264 -preset ultrafast -pix_fmt yuv420p10le -color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc",
    ),
    Clip(
        "interlaced",
        "ts",
        "{picture}:r=50:d=2 -vf interlace {x264} -flags +ilme+ildct -x264-params tff=1",
    ),
    // Key frames every second, with frames shown before them that need the GOP before.
    Clip(
        "open_gop",
        "mp4",
        "{picture}:r=30:d=4 -c:v libx264 -preset veryfast -pix_fmt yuv420p -x264-params open-gop=1:keyint=30:min-keyint=30:scenecut=0:bframes=3:b-adapt=0",
    ),
    // One key frame in 6 s, with frames that depend on later ones.
    Clip(
        "long_gop",
        "mp4",
        "{picture}:r=30:d=6 -f lavfi -i sine=d=6 -c:v libx264 -preset superfast -pix_fmt yuv420p -g 250 -sc_threshold 0 -bf 3 -c:a aac",
    ),
    Clip("all_intra", "mov", "{picture}:r=30:d=2 -c:v mjpeg -pix_fmt yuvj420p"),
    // Times are rounded to milliseconds in this container.
    Clip("matroska", "mkv", "{picture}:r=24000/1001:d=3 -f lavfi -i sine=d=3 {x264} -c:a aac"),
    Clip(
        "webm",
        "webm",
        "{picture}:r=30:d=2 -f lavfi -i sine=d=2 -c:v libvpx -deadline realtime -cpu-used 8 -b:v 300k -c:a libopus",
    ),
    // Times begin at 1.4 s in this container.
    Clip("transport", "ts", "{picture}:r=30:d=2 -f lavfi -i sine=d=2 {x264} -c:a aac"),
    // One time stamp is left out near the beginning, as this container does with this codec.
    Clip("avi", "avi", "{picture}:r=30:d=2 -f lavfi -i sine=d=2 -c:v mpeg4 -c:a libmp3lame"),
    Clip(
        "speech",
        "mp4",
        "{picture}:r=30:d=3 -f lavfi -i flite=voice=slt:text='The~quick~brown~fox~jumps~over~the~lazy~dog' {x264} -c:a aac",
    ),
    Clip("black", "mp4", "-f lavfi -i color=black:s=320x180:r=30:d=2 {x264}"),
    Clip("static", "mp4", "{picture}:r=30:d=2 -vf loop=loop=-1:size=1,trim=duration=2 {x264}"),
    Clip(
        "noise",
        "mp4",
        "-f lavfi -i color=gray:s=320x180:r=30:d=1 -vf noise=alls=100:allf=t+u:all_seed=7 {x264}",
    ),
];

/// Clips that are made from others, or that are no clips at all.
const DERIVED: &[&str] = &[
    "rotated",
    "late_video",
    "late_audio",
    "edit_list",
    "many_streams",
    "truncated",
    "cut_off",
    "garbage",
    "mid_gop",
    "empty",
    "text",
    "playlist",
];

/// The names of all clips.
pub(crate) fn names() -> Vec<&'static str> {
    CLIPS.iter().map(|clip| clip.0).chain(DERIVED.iter().copied()).collect()
}

/// Where clips are kept: in the build folder, anew for each text of this file and each ffmpeg.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let ffmpeg = std::env::split_paths(&path).map(|folder| folder.join("ffmpeg"));
    let made = ffmpeg.filter_map(|file| fs::metadata(file).ok()?.modified().ok()).next();
    let mut hasher = DefaultHasher::new();
    (include_str!("mod.rs"), made.expect("ffmpeg is installed")).hash(&mut hasher);
    let test = std::env::current_exe().expect("a test knows its file");
    let build = test.ancestors().nth(2).expect("tests are in `deps` of the build folder");
    let folder = build.join(format!("clips-{:016x}", hasher.finish()));
    fs::create_dir_all(&folder).expect("the build folder can be written");
    folder
});

/// Where a clip is; it is made if it is not there.
pub(crate) fn make(name: &str) -> PathBuf {
    let folder = &*FOLDER;
    if let Some(Clip(_, extension, arguments)) = CLIPS.iter().find(|clip| clip.0 == name) {
        let file = folder.join(format!("{name}.{extension}"));
        let arguments = arguments
            .replace("{x264}", X264)
            .replace("{picture}", "-f lavfi -i testsrc2=s=320x180");
        return whole(&file, |file| ffmpeg(&arguments, &[], file));
    }
    let file =
        folder.join(format!("{name}.{}", if name == "many_streams" { "mkv" } else { "mp4" }));
    if file.exists() {
        return file;
    }
    let base = make;
    match name {
        // A phone on its side: a quarter turn in the metadata.
        "rotated" => {
            let from = base("cfr30");
            whole(&file, |file| ffmpeg("-c copy -t 2 -metadata:s:v:0 rotate=90", &[&from], file))
        }
        // The picture begins 0.5 s after the sound.
        "late_video" => {
            let from = base("cfr30");
            let copy = "-map 0:a -map 1:v -c copy";
            whole(&file, |file| delayed(copy, &from, file))
        }
        // The sound begins 0.5 s after the picture.
        "late_audio" => {
            let from = base("cfr30");
            let copy = "-map 0:v -map 1:a -c copy";
            whole(&file, |file| delayed(copy, &from, file))
        }
        // The first half second is there to decode the rest, and not shown.
        "edit_list" => {
            let from = base("cfr30");
            whole(&file, |file| shortened(&from, file))
        }
        // 33 streams, which is one more than is allowed.
        "many_streams" => {
            let from = base("cfr30");
            let maps = "-map 0:a ".repeat(32);
            whole(&file, |file| ffmpeg(&format!("-map 0:v {maps} -c copy -t 0.2"), &[&from], file))
        }
        // The first half of a file whose index is at the end: nothing of it can be read.
        "truncated" => beginning_of(&base("moov_at_end"), &file),
        // The first half of a file whose index is at the beginning, which promises more than there is.
        "cut_off" => beginning_of(&base("cfr30"), &file),
        // A good index, and noise where the pictures should be.
        "garbage" => written(&file, &spoilt(&base("moov_at_end"))),
        // A recording that began in the middle of a broadcast: the first second cannot be decoded.
        "mid_gop" => {
            let bytes = fs::read(base("transport")).expect("the clip was made");
            let packet = 188;
            written(&file, &bytes[bytes.len() / 5 / packet * packet..])
        }
        "empty" => written(&file, b""),
        "text" => written(&file, b"This is a letter and not a video.\n"),
        // What would be read if it were opened as what it is.
        "playlist" => written(
            &file,
            b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n",
        ),
        _ => panic!("there is no clip {name}"),
    }
}

/// Makes a file under another name first, so that one that is there is whole.
fn whole(file: &Path, make: impl FnOnce(&Path)) -> PathBuf {
    if !file.exists() {
        let name = file.file_name().expect("clips have names").to_string_lossy();
        let part = file.with_file_name(format!("part-{}-{name}", std::process::id()));
        make(&part);
        fs::rename(&part, file).expect("the folder can be written");
    }
    file.to_owned()
}

fn ffmpeg(arguments: &str, inputs: &[&Path], file: &Path) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y"]);
    for input in inputs {
        command.arg("-i").arg(input);
    }
    run(command.args(arguments.split_whitespace().map(|word| word.replace('~', " "))), file);
}

fn run(command: &mut Command, file: &Path) {
    let output = command.arg(file).output().expect("ffmpeg is installed");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {complaints}", file.display());
}

/// The clip from half a second on, without a key frame there.
fn shortened(from: &Path, file: &Path) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-ss", "0.5", "-i"]);
    run(command.arg(from).args(["-c", "copy"]), file);
}

/// The same clip twice, the second time half a second later.
fn delayed(arguments: &str, from: &Path, file: &Path) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-i"]).arg(from);
    command.args(["-itsoffset", "0.5", "-i"]).arg(from).args(arguments.split_whitespace());
    run(&mut command, file);
}

fn beginning_of(from: &Path, file: &Path) -> PathBuf {
    let bytes = fs::read(from).expect("the clip was made");
    written(file, &bytes[..bytes.len() / 2])
}

/// The clip with everything changed between the beginning of its data and its index.
fn spoilt(from: &Path) -> Vec<u8> {
    let mut bytes = fs::read(from).expect("the clip was made");
    let place = |name: &[u8]| bytes.windows(4).position(|four| four == name);
    let data = place(b"mdat").expect("the clip has data") + 4;
    let index = place(b"moov").expect("the clip has an index") - 4;
    bytes[data..index].iter_mut().zip(0_u32..).for_each(|(byte, at)| {
        *byte = (at.wrapping_mul(2_654_435_761) >> 24) as u8;
    });
    bytes
}

fn written(file: &Path, bytes: &[u8]) -> PathBuf {
    whole(file, |file| fs::write(file, bytes).expect("the folder can be written"))
}
