//! A data folder that is deleted under a running server: nothing is acknowledged any more, everybody is told why, and a
//! second server on the same path shares nothing with the first. A start that is refused leaves no folder behind.

use std::fs;

use anyhow::{Result, ensure};
use divvy_e2e::api::{Api, Method};
use divvy_e2e::process::{divvy, free_port, serve};
use serde_json::{Value, json};

async fn refused(api: &Api) -> Result<()> {
    let (status, answer) = api.submit(&[json!({"kind": "noop"})]).await?;
    ensure!(status == 503 && answer["error"]["code"] == "store_unavailable", "{status} {answer}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_and_made_again_by_a_second_server() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let (port, other_port) = (free_port()?, free_port()?);
    let (api, other) = (Api::on(port), Api::on(other_port));
    let _server = serve(&data, port)?;
    ensure!(api.submit(&[json!({"kind": "noop"})]).await?.0 == 201);

    let unmade = folder.path().join("unmade");
    let start = divvy()?
        .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data"])
        .arg(&unmade)
        .output()?;
    ensure!(!start.status.success() && !unmade.exists(), "the port is taken: {start:?}");

    fs::remove_dir_all(&data)?;
    refused(&api).await?;
    let alerts = api.get("alerts").await?;
    ensure!(alerts.to_string().contains("divvy.lock is not there"), "{alerts}");
    for path in ["healthz", "readyz"] {
        let answer = reqwest::get(format!("{}/{path}", api.url())).await?;
        ensure!(answer.status() == 503, "{path}: {}", answer.status());
        let said: Value = answer.json().await?;
        ensure!(said["error"]["code"] == "store_unavailable", "{path}: {said}");
    }
    let status = divvy()?.args(["status", "--server", api.url()]).output()?;
    ensure!(status.status.code() == Some(1), "{status:?}");

    let _second = serve(&data, other_port)?;
    ensure!(other.submit(&[json!({"kind": "noop"})]).await?.0 == 201);
    refused(&api).await?;
    for _ in 0..2 {
        let (status, answer) = api.send(Method::POST, "queues/default/pause", &json!({})).await?;
        ensure!(status == 503, "nothing at all is acknowledged: {status} {answer}");
    }
    Ok(())
}
