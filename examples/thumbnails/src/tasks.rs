//! What is done with one picture: it is scaled, stored, and recorded under the name of its content.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
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
    pub(crate) thumbnail: BlobId,
}

/// What the handlers of a worker share.
#[derive(Clone, Debug)]
pub(crate) struct Darkroom {
    pub(crate) objects: Objects,
    pub(crate) ffmpeg: PathBuf,
}

/// Scales a picture. It may run more than once: the same picture gives the same blob and the same record.
pub(crate) async fn scale(task: Scale, State(room): State<Darkroom>) -> Outcome<Thumbnail> {
    let picture = room.objects.get(task.picture).await?;
    let small = scaled(&room.ffmpeg, picture, task.width).await.map_err(|error| {
        // Trying again would not make it a picture.
        Failure::dead(format_args!("{}: {error:#}", task.name))
    })?;
    let blob = room.objects.put(small).await?;
    let made = Thumbnail { name: task.name, picture: task.picture, thumbnail: blob.id };
    room.objects.put_record(&format!("{RECORDS}{}", made.picture), &made).await?;
    Ok(made)
}

/// The bytes of a picture as those of a smaller one, a PNG.
async fn scaled(ffmpeg: &Path, picture: Vec<u8>, width: u32) -> Result<Vec<u8>> {
    let filter = format!("scale={width}:-2");
    let mut child = Command::new(ffmpeg)
        .args(["-v", "error", "-i", "pipe:0", "-frames:v", "1", "-vf", &filter])
        .args(["-f", "image2pipe", "-c:v", "png", "pipe:1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
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
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !output.stdout.is_empty(), "no picture: {}", said.trim());
    Ok(output.stdout)
}

/// What ffmpeg says that it is.
pub(crate) async fn version(ffmpeg: &Path) -> Result<String> {
    let output = Command::new(ffmpeg).arg("-version").stdin(Stdio::null()).output().await;
    let output = output.with_context(|| format!("cannot run {}", ffmpeg.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.split(" Copyright").next().unwrap_or_default().trim().to_owned())
}
