//! The arguments that no run of ffmpeg or ffprobe may lack.
//!
//! Media come from strangers, and ffmpeg opens much more than media: playlists that name other files, addresses on the
//! network, devices. So before every input stand the only protocols and formats that it may be opened with. They are put
//! there here, whatever the caller wrote, and what is put last counts. Files are named by us, never by strangers: their
//! endings, and a format that is asked for with `-f`, may be trusted.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The formats that a source may have, by ffmpeg's names for its demultiplexers. None of them leads to another file.
pub(super) const FORMATS: &str = "mov,matroska,webm,mpegts,mpeg,avi,flv,ogg,asf,wav,mp3,aac,flac";

/// The formats of single pictures, for files whose ending says that we made one.
const PICTURE_FORMATS: &str = "image2,jpeg_pipe,png_pipe,webp_pipe";
const PICTURE_ENDINGS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// The largest piece of memory that ffmpeg may ask for at once: a picture of the largest size fits several times.
const ALLOCATION_BYTES_MAX: &str = "1073741824";

/// Arguments, and what they make a program read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prepared {
    pub(super) arguments: Vec<OsString>,
    pub(super) readable: Vec<PathBuf>,
}

/// Arguments of ffmpeg.
pub(super) fn ffmpeg(arguments: Vec<OsString>) -> Prepared {
    let common = ["-nostdin", "-hide_banner", "-loglevel", "error", "-max_alloc"];
    let watched = [ALLOCATION_BYTES_MAX, "-progress", "pipe:1", "-nostats", "-y"];
    guarded(common.into_iter().chain(watched), arguments)
}

/// Arguments of ffprobe; without an `-i` its last one is the input.
pub(super) fn ffprobe(mut arguments: Vec<OsString>) -> Prepared {
    if !arguments.iter().any(|word| word == "-i") && !arguments.is_empty() {
        arguments.insert(arguments.len() - 1, "-i".into());
    }
    let common = ["-hide_banner", "-loglevel", "error", "-max_alloc", ALLOCATION_BYTES_MAX];
    guarded(common.into_iter(), arguments)
}

/// Whether these arguments make the program tell its progress on standard output.
pub(super) fn tell_progress(arguments: &[OsString]) -> bool {
    arguments.windows(2).any(|pair| pair[0] == "-progress" && pair[1] == "pipe:1")
}

fn guarded(common: impl Iterator<Item = &'static str>, arguments: Vec<OsString>) -> Prepared {
    let mut prepared =
        Prepared { arguments: common.map(OsString::from).collect(), readable: Vec::new() };
    let mut asked_format: Option<OsString> = None;
    let mut words = arguments.into_iter();
    while let Some(word) = words.next() {
        if word == "-f" {
            prepared.arguments.push(word);
            asked_format = words.next();
            prepared.arguments.extend(asked_format.clone());
        } else if word == "-i" {
            let input = words.next().unwrap_or_default();
            prepared.guard_input(&input, asked_format.take());
            prepared.arguments.extend([word, input]);
        } else {
            prepared.arguments.push(word);
        }
    }
    prepared
}

impl Prepared {
    fn guard_input(&mut self, input: &OsStr, asked_format: Option<OsString>) {
        let name = input.to_string_lossy();
        let pipe = name == "-" || name.starts_with("pipe:");
        let path = Path::new(name.strip_prefix("file:").map_or(input, OsStr::new));
        let mut formats = OsString::from(FORMATS);
        let ending = path.extension().map(OsStr::to_ascii_lowercase);
        if ending.is_some_and(|ending| PICTURE_ENDINGS.iter().any(|known| ending == *known)) {
            formats.push(",");
            formats.push(PICTURE_FORMATS);
        }
        if let Some(asked) = asked_format {
            formats.push(",");
            formats.push(asked);
        }
        self.arguments.push("-protocol_whitelist".into());
        self.arguments.push(if pipe { "pipe" } else { "file" }.into());
        self.arguments.extend(["-format_whitelist".into(), formats]);
        if path.is_absolute() {
            // A pattern of numbered pictures names no file; the folder holds those that it stands for.
            let numbered = name.contains('%') && !path.exists();
            let place = if numbered { path.parent() } else { Some(path) };
            self.readable.extend(place.map(Path::to_owned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn text(prepared: &Prepared) -> String {
        let words: Vec<_> = prepared.arguments.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn every_input_is_guarded_and_may_be_read() {
        let prepared =
            ffmpeg(words("-ss 1 -i /a/one -f concat -i /b/list -map 0:v -f mp4 out.mp4"));
        let all = text(&prepared);
        let first = format!(
            "-ss 1 -protocol_whitelist file -format_whitelist {FORMATS} -i /a/one -f concat"
        );
        let second =
            format!("-protocol_whitelist file -format_whitelist {FORMATS},concat -i /b/list -map");
        assert!(all.contains(&first), "{all}");
        assert!(all.contains(&second), "{all}");
        assert!(all.ends_with("-map 0:v -f mp4 out.mp4"), "{all}");
        assert_eq!(prepared.readable, [PathBuf::from("/a/one"), PathBuf::from("/b/list")]);
        assert!(tell_progress(&prepared.arguments));
    }

    #[test]
    fn the_word_of_the_caller_about_whitelists_does_not_count() {
        let all = text(&ffmpeg(words("-protocol_whitelist http -format_whitelist hls -i x")));
        let last = all.rfind("-protocol_whitelist file").expect("ours");
        assert!(last > all.find("-protocol_whitelist http").expect("theirs"), "{all}");
    }

    #[test]
    fn the_last_word_of_ffprobe_is_its_input() {
        let prepared = ffprobe(words("-show_format -of json /a/one"));
        assert!(text(&prepared).ends_with(&format!("{FORMATS} -i /a/one")));
        assert_eq!(prepared.readable, [PathBuf::from("/a/one")]);
        assert!(!tell_progress(&prepared.arguments));
    }

    #[test]
    fn pictures_of_ours_and_pipes_are_let_in() {
        let prepared = ffmpeg(words("-i /a/still_%04d.JPG -i pipe:0"));
        let all = text(&prepared);
        assert!(all.contains(&format!("{FORMATS},{PICTURE_FORMATS} -i /a/still")), "{all}");
        assert!(all.contains("-protocol_whitelist pipe"), "{all}");
        assert_eq!(prepared.readable, [PathBuf::from("/a")]);
    }
}
