//! What is done with one picture: it is scaled, stored, and recorded under what it was made of: its content and the width.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use divvy::objects::{BlobId, Objects};
use divvy::prelude::*;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Where the records of thumbnails are.
pub(crate) const RECORDS: &str = "thumbnails/";

/// A picture to scale. Tasks carry names, never data: the picture is a blob.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scale {
    pub(crate) name: String,
    pub(crate) picture: BlobId,
    pub(crate) width: u32,
}

impl Task for Scale {
    const KIND: &'static str = "thumbnails.scale";
    type Output = Thumbnail;
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Thumbnail {
    pub(crate) name: String,
    pub(crate) picture: BlobId,
    pub(crate) width: u32,
    pub(crate) thumbnail: BlobId,
}

impl Thumbnail {
    /// All that it was made of: another width is another thumbnail.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.picture, self.width)
    }
}

/// What the handlers of a worker share.
#[derive(Clone, Debug)]
pub(crate) struct Darkroom {
    pub(crate) objects: Objects,
    pub(crate) ffmpeg: PathBuf,
}

/// Scales a picture. It may run more than once: the same picture and width give the same blob and the same record.
pub(crate) async fn scale(task: Scale, State(room): State<Darkroom>) -> Outcome<Thumbnail> {
    let picture = room.objects.get(task.picture).await?;
    let thumbnail = room.objects.put(scaled(&room.ffmpeg, picture, task.width).await?).await?.id;
    let Scale { name, picture, width } = task;
    let made = Thumbnail { name, picture, width, thumbnail };
    room.objects.put_record(&format!("{RECORDS}{}", made.key()), &made).await?;
    Ok(made)
}

/// The bytes of a picture as those of a smaller one, a PNG.
async fn scaled(ffmpeg: &Path, picture: Vec<u8>, width: u32) -> Outcome<Vec<u8>> {
    let filter = format!("scale={width}:-2");
    let mut child = Command::new(ffmpeg)
        .args(["-v", "error", "-i", "pipe:0", "-frames:v", "1", "-vf", &filter])
        .args(["-f", "image2pipe", "-c:v", "png", "pipe:1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        // What is wrong is this machine: another attempt may find a better one, or find it mended.
        .with_context(|| format!("cannot run {}", ffmpeg.display()))?;
    let mut stdin = child.stdin.take().context("ffmpeg has no input")?;
    // One that refuses the picture closes its input early, and says why.
    let (_, output) = tokio::join!(
        async move {
            let _ = stdin.write_all(&picture).await;
        },
        child.wait_with_output()
    );
    let output = output?;
    if !output.status.success() || output.stdout.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        // What is wrong is the picture: trying again would not make it one.
        return Err(Failure::dead(format_args!("no picture: {}", said.trim())));
    }
    Ok(output.stdout)
}

/// What ffmpeg says that it is.
pub(crate) async fn version(ffmpeg: &Path) -> Result<String> {
    let output = Command::new(ffmpeg).arg("-version").stdin(Stdio::null()).output().await;
    let output = output.with_context(|| format!("cannot run {}", ffmpeg.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.split(" Copyright").next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use divvy::types::FailureVerdict;

    use super::*;

    #[tokio::test]
    async fn a_machine_without_ffmpeg_does_not_kill_the_task_but_what_is_no_picture_does() {
        let gone = scaled(Path::new("/nowhere/ffmpeg"), b"?".to_vec(), 16).await.unwrap_err();
        assert_eq!(gone.verdict(), FailureVerdict::Retry, "{}", gone.message());
        let text = scaled(Path::new("ffmpeg"), b"no picture".to_vec(), 16).await.unwrap_err();
        assert_eq!(text.verdict(), FailureVerdict::Dead, "{}", text.message());
    }
}
