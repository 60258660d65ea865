//! A store file that is not what was written: the server does not start on it, and says where it is damaged.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::process::{divvy, free_port, serve};
use serde_json::json;

#[tokio::test]
async fn flipped_bytes_are_found_before_anything_is_served() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let port = free_port()?;
    let api = Api::on(port);
    let mut server = serve(&data, port)?;
    let tasks: Vec<_> = (0..2_000)
        .map(|n| json!({"kind": "noop", "queue": "damaged", "payload": {"marker": format!("find-me-{n:06}")}}))
        .collect();
    ensure!(api.submit(&tasks).await?.0 == 201);
    server.kill_nine()?;
    // Fold the log into the main file, so that there is one place to damage.
    ensure!(divvy()?.args(["store", "compact", "--data"]).arg(&data).status()?.success());

    let path = data.join("divvy.db");
    let mut file = fs::OpenOptions::new().read(true).write(true).open(&path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let at = bytes
        .windows(14)
        .position(|w| w == b"find-me-001000")
        .context("the payload is in the file")?;
    file.seek(SeekFrom::Start(at as u64))?;
    file.write_all(b"XXXXXXX")?;
    drop(file);

    let output = divvy()?
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .output()
        .context("the server ends by itself")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "the server started on a damaged store");
    ensure!(
        said.contains("divvy.db") && said.contains("damaged") && said.contains("task"),
        "{said}"
    );
    let check = divvy()?.args(["store", "check", "--data"]).arg(&data).output()?;
    ensure!(check.status.code() == Some(1), "{}", String::from_utf8_lossy(&check.stdout));
    Ok(())
}
