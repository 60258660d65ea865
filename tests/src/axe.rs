//! Whether a page can be read and used by everybody: axe-core looks at it in the browser.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::browser::Browser;

/// Where the packages of the dashboard are, which `scripts/dash` installs.
const SCRIPT: &str = "crates/dash/ui/node_modules/axe-core/axe.min.js";

/// The script of axe-core.
pub fn script() -> Result<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(SCRIPT);
    std::fs::read_to_string(&root)
        .with_context(|| format!("{SCRIPT} is missing; install it: scripts/dash"))
}

/// Nothing that the rules of axe-core forbid is on the page as it is now. `place` says which page that is.
pub async fn agrees(page: &mut Browser, script: &str, place: &str) -> Result<()> {
    if page.value("typeof axe").await? != "object" {
        page.value(&format!("{script};0")).await?;
    }
    let found = page
        .value(
            "axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations.map((rule) => [rule.id, ...rule.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary)]))",
        )
        .await?;
    let list = found.as_array().context("axe-core gave no answer")?;
    ensure!(list.is_empty(), "{place}: {:#}", Value::from(list.clone()));
    Ok(())
}
