//! What is kept of alerts over a restart, in one file of the data folder that is replaced whole: which fire and whether
//! others know, silences, the history, and what is still to be told. Without it, alerts that fire are told anew.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Result};
use std::path::Path;

use divvy_types::alerts::AlertChange;
use divvy_types::{Name, TaskId, Timestamp};
use serde::{Deserialize, Serialize};

use super::machine::Condition;
use crate::durable;

/// The form that is written.
const VERSION: u32 = 1;
/// More than all rules, changes and notices can take.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Changes that are kept.
pub(super) const HISTORY_MAX: usize = 200;
/// Notices that may wait; more are dropped, oldest first, and told to the log.
pub(super) const OUTBOX_MAX: usize = 1_000;

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kept {
    /// How the rules stand, by name.
    pub(super) conditions: BTreeMap<Name, Condition>,
    /// Until when nobody is told of a rule.
    pub(super) silences: BTreeMap<Name, Timestamp>,
    /// What became of alerts, oldest first.
    pub(super) history: VecDeque<AlertChange>,
    /// What is to be told and has no task yet, oldest first.
    pub(super) outbox: VecDeque<Notice>,
}

/// Something to tell one sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Notice {
    /// Names it and the task that delivers it: a repetition is the same.
    pub(super) id: TaskId,
    /// Whom to tell.
    pub(super) sink: Name,
    /// What.
    pub(super) change: AlertChange,
}

impl Notice {
    pub(super) fn new(sink: &Name, change: &AlertChange) -> Self {
        let AlertChange { name, state, at, .. } = change;
        let key = format!("divvy/alert\0{name}\0{}\0{}\0{sink}", state.as_str(), at.0);
        Self { id: TaskId::from_key(&key), sink: sink.clone(), change: change.clone() }
    }
}

#[derive(Serialize, Deserialize)]
struct Whole {
    version: u32,
    #[serde(flatten)]
    kept: Kept,
}

/// What was kept; nothing if there is no file, or one that cannot be used, which is told.
pub(super) fn read(path: &Path) -> Kept {
    let read = File::open(path).and_then(|file| {
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map(|_| text)
    });
    let problem = match read {
        Err(error) if error.kind() == ErrorKind::NotFound => return Kept::default(),
        Err(error) => error.to_string(),
        Ok(text) => match serde_json::from_slice::<Whole>(text.as_bytes()) {
            Ok(whole) if whole.version == VERSION => return whole.kept,
            Ok(whole) => format!("it has version {}, expected {VERSION}", whole.version),
            Err(error) => error.to_string(),
        },
    };
    tracing::warn!("{} cannot be used, alerts that fire are told anew: {problem}", path.display());
    Kept::default()
}

/// Replaces what was kept, durably.
pub(super) fn write(path: &Path, kept: Kept) -> Result<()> {
    let text = serde_json::to_vec(&Whole { version: VERSION, kept }).expect("alerts are JSON");
    durable::replace(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_again_and_a_damaged_file_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alerts.json");
        assert_eq!(read(&path), Kept::default());
        let mut fires = Condition::default();
        (fires.fired, fires.told) = (Some(Timestamp(7)), true);
        let kept = Kept {
            conditions: [("disk_low".into(), fires)].into(),
            silences: [("clock".into(), Timestamp(9))].into(),
            ..Kept::default()
        };
        write(&path, kept.clone()).unwrap();
        assert_eq!(read(&path), kept);
        for text in ["", "{", r#"{"version":9}"#] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path), Kept::default(), "{text}");
        }
    }
}
