//! What the tests of running programs share.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use divvy::extract::Cancel;
use divvy_video::tools::sandbox::Level;
use divvy_video::tools::{Finished, Invocation, Limits, RunError, ToolOptions, Tools, Trial};

pub(crate) const LEVELS: [Level; 2] = [Level::Bwrap, Level::Landlock];

/// The tools of this machine, with the launcher of this build. What was tried before with the very same programs is not
/// tried again: that takes longer than most tests, and those that are about it do it themselves.
pub(crate) async fn tools() -> Tools {
    let launcher = vec![OsString::from(env!("CARGO_BIN_EXE_divvy-confine"))];
    let file = std::env::current_exe().expect("a test knows its file").with_file_name("tools.json");
    let tried: Option<Trial> =
        std::fs::read_to_string(&file).ok().and_then(|text| text.parse().ok());
    let options = ToolOptions { launcher, tried: tried.clone(), ..ToolOptions::default() };
    let tools = Tools::find(&options).await.expect("ffmpeg and bubblewrap are installed for tests");
    let found = Trial::of(&tools, &options);
    if tried.as_ref() != Some(&found) {
        // Whole or not at all: many tests begin at once.
        let folder = file.parent().expect("a file is in a folder");
        let draft = tempfile::NamedTempFile::new_in(folder).expect("a file beside the tests");
        std::fs::write(&draft, found.to_argument()).expect("it can be written");
        draft.persist(&file).expect("it can be renamed");
    }
    tools
}

/// A folder to work in.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A run of a shell.
pub(crate) fn shell(folder: &Path, script: &str) -> Invocation {
    Invocation {
        program: "/bin/bash".into(),
        arguments: vec!["-c".into(), script.into()],
        readable: Vec::new(),
        folder: folder.to_owned(),
        input: Vec::new(),
        limits: Limits {
            wall: Duration::from_secs(60),
            cpu: Duration::from_secs(60),
            memory_bytes: 1 << 30,
            stall: Duration::from_secs(60),
        },
    }
}

/// Words as arguments.
pub(crate) fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

/// Runs without progress and without an order to stop.
pub(crate) async fn run(tools: &Tools, invocation: Invocation) -> Result<Finished, RunError> {
    tools.run(invocation, &Cancel::never(), |_| {}).await
}

/// A time to sleep that no other program of this machine sleeps, so that it is found again.
pub(crate) fn unique_sleep() -> String {
    format!("86000.{}", uuid::Uuid::now_v7().as_u128() % 1_000_000_000_000)
}

/// Processes whose command line holds a word.
pub(crate) fn processes_with(word: &str) -> Vec<(i32, PathBuf)> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let found = entries.flatten().filter_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains(word).then(|| (id, PathBuf::from(line.split('\0').next().unwrap_or(""))))
    });
    found.collect()
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

/// The complaints of a program that failed.
pub(crate) fn complaints(result: Result<Finished, RunError>) -> String {
    match result {
        Err(RunError::Failed { complaints, .. }) => complaints,
        other => panic!("should have failed: {other:?}"),
    }
}
