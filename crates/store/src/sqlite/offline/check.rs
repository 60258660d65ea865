//! The full check: SQLite's own of every page and index, the sum of every row, and what must hold between tables.

use std::path::{Path, PathBuf};

use divvy_types::Timestamp;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::existing;
use crate::Error;
use crate::sqlite::failure::{Failure, Outcome};
use crate::sqlite::history::{Days, file_of};
use crate::sqlite::keys;
use crate::sqlite::row::{self, ATTEMPT, OUTCOME, REPLAYED, TASK, Want};
use crate::sqlite::saved::{self, CHECKPOINT};
use crate::sqlite::schema::{self, Sort};
use crate::sqlite::store::{history_folder, lock};

/// Problems of one file that are listed; more are only counted by the last line.
const PROBLEMS_MAX: usize = 100;

/// What the check found, file by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The main file, then the days, oldest first.
    pub files: Vec<FileReport>,
}

/// What the check found in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Tasks in it.
    pub tasks: u64,
    /// Tasks that have not ended.
    pub open: u64,
    /// What is wrong, in words for people; empty if all is well.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.files.iter().all(|file| file.problems.is_empty())
    }
}

/// Rules between tables: what is wrong, and a query for the tasks for which it is.
const RULES: &[(&str, &str)] = &[
    ("outcome without its task", "SELECT seq FROM outcome WHERE seq NOT IN (SELECT seq FROM task)"),
    (
        "attempt without its task",
        "SELECT DISTINCT seq FROM attempt WHERE seq NOT IN (SELECT seq FROM task)",
    ),
];
const RULES_HOT: &[(&str, &str)] = &[
    (
        "held attempt without its task",
        "SELECT seq FROM held WHERE seq NOT IN (SELECT seq FROM task)",
    ),
    ("spilled but not there", "SELECT seq FROM spill WHERE seq NOT IN (SELECT seq FROM task)"),
    ("spilled but ended", "SELECT seq FROM spill WHERE seq IN (SELECT seq FROM outcome)"),
];
const RULES_LATER: &[(&str, &str)] = &[
    (
        "checkpoint without its task",
        "SELECT seq FROM checkpoint WHERE seq NOT IN (SELECT seq FROM task)",
    ),
    ("replayed but not there", "SELECT seq FROM replayed WHERE seq NOT IN (SELECT seq FROM task)"),
];
const RULES_DAY: &[(&str, &str)] =
    &[("in history but open", "SELECT seq FROM task WHERE seq NOT IN (SELECT seq FROM outcome)")];

/// Checks every file of the store in `dir`, whole. Takes the lock, so no server may run; changes nothing.
pub fn check(dir: &Path) -> Result<CheckReport, Error> {
    let main = existing(dir)?;
    let _lock = lock(dir)?;
    let mut report = CheckReport::default();
    report.files.push(check_file(&main, Sort::Hot, None));
    let past = history_folder(dir);
    for day in Days::listed(&past)? {
        report.files.push(check_file(&file_of(&past, day), Sort::Day, Some(day)));
    }
    Ok(report)
}

fn check_file(path: &Path, sort: Sort, day: Option<u32>) -> FileReport {
    let mut report = FileReport { path: path.to_owned(), ..FileReport::default() };
    let checked = schema::open_reader(path).map_err(Failure::from).and_then(|conn| {
        // Otherwise closing would copy the log into the main file.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        integrity(&conn, &mut report)?;
        rows(&conn, path, day, &mut report)?;
        rules(&conn, sort, &mut report)
    });
    if let Err(failure) = checked {
        report.problems.push(problem(failure, path));
    }
    if report.problems.len() > PROBLEMS_MAX {
        let more = report.problems.len() - PROBLEMS_MAX;
        report.problems.truncate(PROBLEMS_MAX);
        report.problems.push(format!("and {more} more"));
    }
    report
}

/// The words of a failure, without the advice to run the check that is being run.
fn problem(failure: Failure, path: &Path) -> String {
    match failure.at(path) {
        Error::Damaged { place, .. } => place,
        other => other.to_string(),
    }
}

fn integrity(conn: &Connection, report: &mut FileReport) -> Outcome<()> {
    let mut statement = conn.prepare(&format!("PRAGMA integrity_check({PROBLEMS_MAX})"))?;
    let mut lines = statement.query([])?;
    while let Some(line) = lines.next()? {
        let line: String = line.get(0)?;
        if line != "ok" {
            report.problems.push(line);
        }
    }
    Ok(())
}

fn rows(conn: &Connection, path: &Path, day: Option<u32>, report: &mut FileReport) -> Outcome<()> {
    let sort = if day.is_some() { Sort::Day } else { Sort::Hot };
    let mut note = |found: Outcome<()>| {
        if let Err(failure) = found {
            report.problems.push(problem(failure, path));
        }
    };
    let mut statement = conn.prepare(&format!("SELECT {TASK} FROM task t ORDER BY t.seq"))?;
    let mut tasks = statement.query([])?;
    while let Some(row) = tasks.next()? {
        note(row::read_task(row, Want::Whole).map(drop));
    }
    let mut statement = conn.prepare(&format!("SELECT {OUTCOME} FROM outcome o ORDER BY o.seq"))?;
    let mut outcomes = statement.query([])?;
    while let Some(row) = outcomes.next()? {
        let seq: i64 = row.get(0)?;
        note(
            row::read_outcome(row, 0, Want::Whole)
                .and_then(|end| in_its_day(seq, end.map(|end| end.at), day)),
        );
    }
    let mut statement = conn.prepare(&format!("SELECT {ATTEMPT} FROM attempt"))?;
    let mut attempts = statement.query([])?;
    while let Some(row) = attempts.next()? {
        note(row::read_attempt(row).map(drop));
    }
    if sort == Sort::Hot && schema::has_later_tables(conn)? {
        later_rows(conn, &mut note)?;
    }
    let count = |sql: &str| -> Outcome<u64> {
        Ok(conn.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
    };
    report.tasks = count("SELECT count(*) FROM task")?;
    report.open = count("SELECT count(*) FROM task WHERE seq NOT IN (SELECT seq FROM outcome)")?;
    Ok(())
}

/// Rows of tables that a file may not have yet.
fn later_rows(conn: &Connection, note: &mut dyn FnMut(Outcome<()>)) -> Outcome<()> {
    let mut statement = conn.prepare(&format!("SELECT {CHECKPOINT} FROM checkpoint"))?;
    let mut checkpoints = statement.query([])?;
    while let Some(row) = checkpoints.next()? {
        note(saved::read_checkpoint(row).map(drop));
    }
    let mut statement = conn.prepare(&format!("SELECT {REPLAYED} FROM replayed"))?;
    let mut replayed = statement.query([])?;
    while let Some(row) = replayed.next()? {
        note(row::read_replayed(row).map(drop));
    }
    note(saved::settings(conn, &mut |_| {}));
    keys::check(conn, note)
}

fn in_its_day(seq: i64, at: Option<Timestamp>, day: Option<u32>) -> Outcome<()> {
    match (at, day) {
        (Some(at), Some(day)) if at.day() != day => {
            Err(Failure::row("outcome", seq, format!("ended at {at}, which is another day")))
        }
        _ => Ok(()),
    }
}

fn rules(conn: &Connection, sort: Sort, report: &mut FileReport) -> Outcome<()> {
    let own = if sort == Sort::Hot { RULES_HOT } else { RULES_DAY };
    let later = sort == Sort::Hot && schema::has_later_tables(conn)?;
    let later = if later { RULES_LATER } else { &[] };
    for (what, sql) in RULES.iter().chain(own).chain(later) {
        let mut statement = conn.prepare(sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            report.problems.push(format!("task {}: {what}", row.get::<_, i64>(0)?));
        }
    }
    if sort == Sort::Day {
        let sql = "SELECT state, count(*) FROM outcome GROUP BY state EXCEPT SELECT state, count FROM tally";
        let mut statement = conn.prepare(sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let (state, count): (i64, i64) = (row.get(0)?, row.get(1)?);
            report.problems.push(format!(
                "table tally: {count} tasks of state {state} are there, but not counted so"
            ));
        }
    }
    Ok(())
}
