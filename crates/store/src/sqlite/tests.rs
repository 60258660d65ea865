//! Tests of the files: the shared suite, faults, and what happens between files.

mod faults;
mod files;
mod layouts;
mod place;

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::{Options, SqliteStore};
use crate::Store;
use crate::conformance::{self, Subject};

/// A store in a folder of its own.
pub(super) struct SqliteSubject {
    pub(super) folder: TempDir,
    pub(super) store: Option<SqliteStore>,
}

pub(super) fn options() -> Options {
    Options {
        history_after: Duration::ZERO,
        retention_days: 30,
        reserve_bytes: 0,
        ..Options::default()
    }
}

pub(super) fn open(dir: &Path) -> SqliteStore {
    SqliteStore::open(dir, options()).expect("the store opens")
}

impl SqliteSubject {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = Some(open(folder.path()));
        Self { folder, store }
    }
}

impl Subject for SqliteSubject {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut().expect("the store is open")
    }

    fn restart(&mut self) {
        self.store = None;
        self.store = Some(open(self.folder.path()));
    }
}

#[test]
fn sqlite_keeps_the_rules() {
    conformance::check_rules(&mut || Box::new(SqliteSubject::new()));
}

#[test]
fn memory_keeps_the_rules() {
    conformance::check_rules(&mut || Box::new(conformance::MemorySubject::default()));
}

#[test]
fn sqlite_and_memory_agree_on_random_facts() {
    conformance::agreement::check(48, &mut || Box::new(SqliteSubject::new()));
}
