//! How good a rendition is: its frames and bytes, its likeness to the source, and how far sound and picture are apart.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::plan::Rung;
use anyhow::{Context as _, bail};

/// What ffprobe counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// Frames.
    pub(super) frames: u64,
    /// Bytes of the picture alone.
    pub(super) bytes: u64,
}

/// How alike a rendition is to the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Likeness {
    /// Structural similarity of all planes, at most 1.
    pub(super) ssim: f64,
    /// Mean signal to noise, in decibels.
    pub(super) psnr: f64,
}

/// Frames and bytes of the picture.
pub(super) fn count(ffprobe: &Path, file: &Path) -> anyhow::Result<Counted> {
    let words = "-v error -select_streams v:0 -show_entries packet=size -of csv=p=0";
    Ok(sizes(&run(ffprobe, words, file)?))
}

fn sizes(text: &str) -> Counted {
    let sizes = text.lines().filter_map(|line| line.trim_end_matches(',').parse::<u64>().ok());
    sizes.fold(Counted::default(), |sum, size| Counted {
        frames: sum.frames + 1,
        bytes: sum.bytes + size,
    })
}

/// How many milliseconds sound and picture are apart at their beginning or their end, whichever is more.
pub(super) fn drift_ms(ffprobe: &Path, file: &Path) -> anyhow::Result<Option<f64>> {
    let words = "-v error -show_entries stream=codec_type,start_time,duration -of csv=p=0";
    Ok(apart_ms(&run(ffprobe, words, file)?))
}

fn apart_ms(text: &str) -> Option<f64> {
    let stream = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        let mut figures = line.split(',').skip(1).map(str::parse::<f64>);
        let (start, duration) = (figures.next()?.ok()?, figures.next()?.ok()?);
        Some((start, start + duration))
    };
    let (video, audio) = (stream("video")?, stream("audio")?);
    Some((video.0 - audio.0).abs().max((video.1 - audio.1).abs()) * 1_000.0)
}

/// Compares a rendition with the source in the rendition's size.
pub(super) fn likeness(
    ffmpeg: &Path,
    file: &Path,
    clip: &Path,
    rung: &Rung,
) -> anyhow::Result<Likeness> {
    let size = format!("{}:{}", rung.width, rung.height);
    let graph = format!(
        "[1:v]scale={size}:flags=bicubic,setsar=1,format=yuv420p,settb=AVTB,setpts=N,split[r0][r1];\
         [0:v]settb=AVTB,setpts=N,split[d0][d1];[d0][r0]ssim[s];[d1][r1]psnr[p]"
    );
    let output = Command::new(ffmpeg)
        .args(["-nostdin", "-hide_banner", "-i"])
        .arg(file)
        .arg("-i")
        .arg(clip)
        .args(["-filter_complex", &graph, "-map", "[s]", "-f", "null", "-"])
        .args(["-map", "[p]", "-f", "null", "-"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", ffmpeg.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), after(&said, "SSIM", "All:"), after(&said, "PSNR", "average:"))
    {
        (true, Some(ssim), Some(psnr)) => Ok(Likeness { ssim, psnr }),
        _ => bail!("{} cannot be compared: {}", file.display(), said.trim()),
    }
}

/// The figure behind `key` on the line that has `word`.
fn after(text: &str, word: &str, key: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(word) && line.contains(key))?;
    let rest = &line[line.find(key)? + key.len()..];
    rest.split_whitespace().next()?.parse().ok()
}

fn run(ffprobe: &Path, words: &str, file: &Path) -> anyhow::Result<String> {
    let output = Command::new(ffprobe)
        .args(words.split_whitespace())
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", ffprobe.display()))?;
    if !output.status.success() {
        bail!("{}: {}", file.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_bytes_are_summed() {
        assert_eq!(sizes("100,\n20\n\n3\n"), Counted { frames: 3, bytes: 123 });
    }

    #[test]
    fn the_larger_gap_of_beginning_and_end_counts() {
        let text = "video,0.000000,10.000000\naudio,0.010000,9.950000\n";
        assert!((apart_ms(text).unwrap() - 40.0).abs() < 1e-6);
        assert_eq!(apart_ms("video,0.0,1.0\n"), None, "without sound there is none");
    }

    #[test]
    fn figures_of_filters_are_read() {
        let text = "[Parsed_ssim_5 @ 0x1] SSIM Y:0.98 (17.2) U:0.99 (20.1) V:0.99 (20.3) All:0.985421 (18.3)\n\
                    [Parsed_psnr_6 @ 0x2] PSNR y:38.1 u:42.0 v:42.1 average:39.25 min:35.1 max:50.0\n";
        assert_eq!(after(text, "SSIM", "All:"), Some(0.985_421));
        assert_eq!(after(text, "PSNR", "average:"), Some(39.25));
        assert_eq!(after(text, "VMAF", "average:"), None);
    }
}
