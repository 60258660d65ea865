//! The tools of this machine for tests that use them and do not test them: tried once per build folder.
//!
//! To try them takes five runs of ffmpeg, more than most tests take, and every test is a process of its own. What was
//! found out is kept beside the tests, under a name that changes with the programs.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use super::sandbox::Level;
use super::{ToolOptions, Tools, provider};

/// What was found out: the sandbox, the build and the capabilities.
type Found = (String, String, Vec<String>);

/// Finds the tools; what was tried before with the very same programs is not tried again.
pub(crate) async fn find(options: &ToolOptions) -> Tools {
    let untried = Tools::untried(options).unwrap();
    let file = file(&untried, options);
    let Some((level, build, capabilities)) = read(&file) else {
        let tools = Tools::find(options).await.unwrap();
        write(&file, &tools);
        return tools;
    };
    let mut tools = untried.confined_by(level);
    tools.build = build;
    tools.capabilities = capabilities;
    tools.providers = provider::Providers::open(&tools, options).await;
    tools
}

fn file(tools: &Tools, options: &ToolOptions) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    let launcher = tools.launcher.command.first().map(PathBuf::from);
    for program in [
        Some(&tools.ffmpeg),
        Some(&tools.ffprobe),
        launcher.as_ref(),
        tools.launcher.bwrap.as_ref(),
    ] {
        let meta = program.and_then(|path| path.metadata().ok());
        (program, meta.map(|meta| (meta.len(), meta.modified().ok()))).hash(&mut hasher);
    }
    options.allow_unconfined.hash(&mut hasher);
    let test = std::env::current_exe().unwrap();
    test.with_file_name(format!("tools-{:016x}.json", hasher.finish()))
}

fn read(file: &Path) -> Option<(Level, String, Vec<String>)> {
    let text = std::fs::read(file).ok()?;
    let (level, build, capabilities): Found = serde_json::from_slice(&text).unwrap();
    let levels = [Level::Bwrap, Level::Landlock, Level::None];
    let level = levels.into_iter().find(|known| known.to_string() == level).unwrap();
    Some((level, build, capabilities))
}

/// Whole or not at all: many tests begin at once.
fn write(file: &Path, tools: &Tools) {
    let found: Found =
        (tools.sandbox().to_string(), tools.build.clone(), tools.capabilities.clone());
    let mut draft = tempfile::NamedTempFile::new_in(file.parent().unwrap()).unwrap();
    serde_json::to_writer(&mut draft, &found).unwrap();
    draft.persist(file).unwrap();
}
