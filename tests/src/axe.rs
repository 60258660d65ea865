//! Whether a page can be read and used by everybody: axe-core looks at it in the browser.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::browser::Browser;

/// On a desk and on a phone.
const SIZES: [(u32, u32); 2] = [(1280, 900), (390, 844)];

/// The script of axe-core, among the packages that `scripts/dash` installs.
pub fn script() -> Result<String> {
    let home = std::env::var_os("HOME").context("HOME is not set")?;
    let folder = std::env::var_os("DIVVY_TEST_DASH")
        .map_or_else(|| PathBuf::from(home).join(".cache/divvy-test/dash"), PathBuf::from);
    let path = folder.join("node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(&path)
        .with_context(|| format!("{} is missing; install it: scripts/dash", path.display()))
}

/// Looks at the page in every way in which people do: light and dark, on a desk and on a phone.
pub async fn looked_at(page: &mut Browser, script: &str, place: &str) -> Result<()> {
    for scheme in ["light", "dark"] {
        page.prefer(scheme).await?;
        page.reload().await?;
        page.until("document.querySelector('h1') && !document.querySelector('.loading')").await?;
        for (width, height) in SIZES {
            page.resize(width, height).await?;
            let place = format!("{place}, {scheme}, {width} pixels");
            let over = page.value("document.documentElement.scrollWidth - innerWidth").await?;
            ensure!(over.as_i64() <= Some(0), "{place}: {over} pixels are beyond the edge");
            agrees(page, script, &place).await?;
        }
    }
    ensure!(page.complaints().is_empty(), "{place}: {:#?}", page.complaints());
    Ok(())
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
