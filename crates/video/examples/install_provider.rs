//! Installs a ready-made provider into a folder: `install_provider NAME FOLDER`. Does nothing if it is there.

use std::io::Write as _;
use std::path::Path;

use divvy_video::tools::provider;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, folder] = &words[..] else {
        anyhow::bail!("usage: install_provider NAME FOLDER");
    };
    let mut out = std::io::stderr();
    let about = provider::install(name, Path::new(folder), |doing| {
        // What cannot be shown is no reason to stop.
        let _ = writeln!(out, "{name}: {doing}");
    })
    .await?;
    writeln!(std::io::stderr(), "{name}: {about} is ready")?;
    Ok(())
}
