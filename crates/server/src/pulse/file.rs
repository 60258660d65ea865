//! What of the history outlives the process: a file of the data folder to which steps are added as they end, one line
//! each, and which is written anew when it has grown. It is a help and no promise: a line is not synced, so that a kill of
//! the process loses nothing and a power failure a little.
//!
//! Steps that are alike follow each other in one line, which is written at the latest after a minute: a server at rest
//! writes one short line a minute.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::path::Path;

use divvy_types::Name;
use serde::{Deserialize, Serialize};

use super::history::{COARSE_SEC, FINE_SEC, Figures, History};
use crate::durable;

/// Bytes from which on the file is written anew.
const ANEW_BYTES: u64 = 8 << 20;
/// More than a file can have that we wrote.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Steps that one line tells at most.
const ALIKE_MAX: u64 = COARSE_SEC / FINE_SEC;

/// A line: steps that are alike. The names are short because there are many of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    /// The queue; nothing for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    q: Option<Name>,
    /// Seconds of a step.
    s: u64,
    /// The number of the first.
    i: u64,
    /// How many there are.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    n: u64,
    /// Submitted, done, failed, retried.
    #[serde(default, skip_serializing_if = "is_zero")]
    c: [u64; 4],
    /// Waiting, running, workers.
    #[serde(default, skip_serializing_if = "is_nothing")]
    g: [u64; 3],
    /// Buckets of waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    w: Vec<(u8, u64)>,
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(count: &u64) -> bool {
    *count == 1
}

fn is_zero(counts: &[u64; 4]) -> bool {
    counts.iter().all(|count| *count == 0)
}

fn is_nothing(counts: &[u64; 3]) -> bool {
    counts.iter().all(|count| *count == 0)
}

/// Steps of the server that are not written yet because they are alike.
#[derive(Debug, Default)]
pub(super) struct Pending(Option<Line>);

impl Pending {
    /// A fine step is over. What is to be written for it, and for those before it.
    pub(super) fn add(
        &mut self,
        number: u64,
        all: &Figures,
        queues: Vec<(Name, Figures)>,
    ) -> String {
        let step = Line::of(None, FINE_SEC, number, all);
        let mut text = String::new();
        match &mut self.0 {
            Some(line) if line.goes_on_with(&step) => line.n += 1,
            _ => text.push_str(&self.flush()),
        }
        let line = self.0.get_or_insert(step);
        if line.n >= ALIKE_MAX || !is_zero(&line.c) {
            text.push_str(&self.flush());
        }
        for (name, figures) in queues {
            text.push_str(&Line::of(Some(name), FINE_SEC, number, &figures).text());
        }
        text
    }

    /// What is left to be written.
    pub(super) fn flush(&mut self) -> String {
        self.0.take().map(|line| line.text()).unwrap_or_default()
    }
}

impl Line {
    fn of(q: Option<Name>, s: u64, i: u64, figures: &Figures) -> Self {
        let Figures { submitted, done, failed, retried, waiting, running, workers, waits } =
            figures;
        let (c, g) = ([*submitted, *done, *failed, *retried], [*waiting, *running, *workers]);
        Self { q, s, i, n: 1, c, g, w: waits.clone() }
    }

    fn figures(&self) -> Figures {
        let [submitted, done, failed, retried] = self.c;
        let [waiting, running, workers] = self.g;
        let waits = self.w.clone();
        Figures { submitted, done, failed, retried, waiting, running, workers, waits }
    }

    fn goes_on_with(&self, next: &Self) -> bool {
        next.i == self.i + self.n && next.c == self.c && next.g == self.g && next.w == self.w
    }

    fn text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("a line is JSON");
        text.push('\n');
        text
    }
}

/// What was kept; nothing if there is no file. Lines that cannot be read are left out.
pub(super) fn read(path: &Path) -> History {
    let mut history = History::default();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return history,
        Err(error) => {
            tracing::warn!("{} cannot be read, the charts begin anew: {error}", path.display());
            return history;
        }
    };
    let mut bad = 0_u64;
    for line in BufReader::new(file.take(FILE_BYTES_MAX)).split(b'\n') {
        let Ok(line) = line else { break };
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Line>(&line) {
            Ok(line) if [FINE_SEC, COARSE_SEC].contains(&line.s) && line.n <= ALIKE_MAX => {
                let figures = line.figures();
                for number in line.i..line.i.saturating_add(line.n) {
                    history.restore(line.q.as_ref(), line.s, number, &figures);
                }
            }
            _ => bad += 1,
        }
    }
    if bad > 0 {
        tracing::debug!("{bad} lines of {} cannot be read; they are left out", path.display());
    }
    history
}

/// Adds lines. Says whether the file has grown so much that it should be written anew.
pub(super) fn append(path: &Path, text: &str) -> std::io::Result<bool> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(file.metadata()?.len() > ANEW_BYTES)
}

/// Writes the file anew, with what is kept and nothing else.
pub(super) fn rewrite(path: &Path, history: &History) -> std::io::Result<()> {
    let lines = history.kept().map(|(queue, step, number, figures)| {
        Line::of(queue.cloned(), step, number, figures).text()
    });
    durable::replace(path, lines.collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use divvy_types::Timestamp;

    use super::*;
    use crate::pulse::history::Span;

    const START: u64 = 1_000_020;

    fn busy(done: u64) -> Figures {
        Figures { done, waiting: 1, waits: vec![(3, done)], ..Figures::default() }
    }

    fn view(history: &History) -> divvy_types::pulse::History {
        let at = |second: u64| Timestamp(second * 1_000_000);
        let span = Span { from: at(START), to: at(START + 120), points: 100 };
        history.view(Some(&"mail".into()), &span)
    }

    #[test]
    fn steps_that_were_added_are_read_again_and_damage_costs_only_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        assert_eq!(read(&path), History::default());
        let (mut history, mut pending) = (History::default(), Pending::default());
        let first = START / FINE_SEC;
        for number in first..first + 20 {
            let figures = if number % 7 == 0 { busy(number) } else { Figures::default() };
            history.restore(None, FINE_SEC, number, &figures);
            history.restore(Some(&"mail".into()), FINE_SEC, number, &figures);
            let queues = vec![("mail".into(), figures.clone())];
            append(&path, &pending.add(number, &figures, queues)).unwrap();
        }
        append(&path, &pending.flush()).unwrap();
        assert_eq!(view(&read(&path)), view(&history));
        rewrite(&path, &history).unwrap();
        assert_eq!(view(&read(&path)), view(&history));
        // As a kill in the middle of a write leaves it.
        append(&path, "{\"s\":5,\"i\":20").unwrap();
        append(&path, "\nnonsense\n{\"s\":7,\"i\":1}\n{\"s\":5,\"i\":1,\"n\":99999999}\n").unwrap();
        assert_eq!(view(&read(&path)), view(&history));
    }

    #[test]
    fn a_server_at_rest_writes_a_line_a_minute() {
        let mut pending = Pending::default();
        let idle = Figures { workers: 2, ..Figures::default() };
        let texts: Vec<String> =
            (0..24).map(|number| pending.add(number, &idle, Vec::new())).collect();
        let lines: usize = texts.iter().map(|text| text.lines().count()).sum();
        assert_eq!(lines, 2);
        assert!(pending.flush().is_empty());
    }
}
