//! Waiting costs nothing, and one task makes one message.

use anyhow::{Result, ensure};
use divvy_e2e::process::divvy;

#[test]
fn exactly_one_grant_leaves_the_server() -> Result<()> {
    let output = divvy()?
        .args(["bench", "idle", "--workers", "10000", "--seconds", "1", "--json"])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{text}");
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    ensure!(figures["workers"] == 10_000 && figures["grant_messages"] == 1, "{figures}");
    Ok(())
}
