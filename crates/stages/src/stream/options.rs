//! What is asked of a stream.

use std::path::PathBuf;

use divvy_kernels::aggregate::Query;
use divvy_kernels::window::{self, LATENESS_MS_MAX, Trigger};
use divvy_workload::console::output::words::count;
use serde::{Deserialize, Serialize};

use crate::job::SpecError;

/// Sources of one stream.
const SOURCES_MAX: usize = 1_000;
/// The longest idle time.
const IDLE_MS_MAX: u64 = 30 * 86_400_000;

/// What is asked of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Where events come from; each is a partition with a watermark of its own.
    pub sources: Vec<Source>,
    /// What lines are.
    #[serde(default)]
    pub format: Format,
    /// Whether to wait for more at the end of sources.
    #[serde(default)]
    pub follow: bool,
    /// With `follow`: the stream ends when nothing has come for so long.
    #[serde(default)]
    pub end_after_idle_ms: Option<u64>,
    /// The field with the time of an event.
    pub time: String,
    /// What a number in that field counts.
    #[serde(default)]
    pub time_unit: TimeUnit,
    /// How time is cut.
    pub window: window::Spec,
    /// How much later than others an event may come.
    #[serde(default)]
    pub lateness_ms: i64,
    /// When windows say something before they are closed.
    #[serde(default)]
    pub trigger: Trigger,
    /// A source that is silent for so long does not hold the others; nothing means that it does.
    #[serde(default)]
    pub idle_after_ms: Option<u64>,
    /// The fields by which events are grouped.
    #[serde(default)]
    pub group_by: Vec<String>,
    /// What is asked of each group.
    pub aggregates: String,
    /// Whether answers may be approximate.
    #[serde(default)]
    pub approximate: bool,
}

/// Where events come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// A file, to which lines may be added.
    File {
        /// Where it is.
        path: PathBuf,
    },
    /// A folder of files, in the order of their names; each is whole when the next one is there.
    Folder {
        /// Where it is.
        path: PathBuf,
        /// Whether files are removed once they are worked on.
        #[serde(default)]
        remove: bool,
    },
}

impl Source {
    /// Where it is.
    pub(super) fn path(&self) -> &PathBuf {
        match self {
            Self::File { path } | Self::Folder { path, .. } => path,
        }
    }
}

/// What lines are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A JSON object in each line
    #[default]
    Jsonl,
    /// Fields with commas between them; the first line of each file names them
    Csv,
}

/// What a number that is a time counts, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Milliseconds
    #[default]
    Ms,
    /// Seconds
    S,
}

impl Options {
    /// What is asked of each group.
    pub(super) fn query(&self) -> Result<Query, SpecError> {
        Query::parse(&self.group_by, &self.aggregates, self.approximate)
            .map_err(|error| SpecError::new("options.aggregates", error))
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        let wrong = |field: &str, problem: &dyn std::fmt::Display| {
            Err(SpecError::new(format!("options.{field}"), problem))
        };
        if self.sources.is_empty() || self.sources.len() > SOURCES_MAX {
            return wrong(
                "sources",
                &format!("has {} entries; name 1 to {SOURCES_MAX}", self.sources.len()),
            );
        }
        if let Some(source) = self.sources.iter().find(|source| !source.path().is_absolute()) {
            let path = source.path().display();
            return wrong("sources", &format!("names {path}, which is no path from the root"));
        }
        self.window.check().map_err(|error| SpecError::new("options.window", error))?;
        self.trigger.check().map_err(|error| SpecError::new("options.trigger", error))?;
        if !(0..=LATENESS_MS_MAX).contains(&self.lateness_ms) {
            return wrong(
                "lateness_ms",
                &format!(
                    "is {} ms; it is between 0 and {LATENESS_MS_MAX} ms, which is ten years",
                    self.lateness_ms
                ),
            );
        }
        for (field, span) in
            [("idle_after_ms", self.idle_after_ms), ("end_after_idle_ms", self.end_after_idle_ms)]
        {
            if span.is_some_and(|span| span == 0 || span > IDLE_MS_MAX) {
                return wrong(field, &"is not between 1 ms and 30 days");
            }
        }
        if self.end_after_idle_ms.is_some() && !self.follow {
            return wrong(
                "end_after_idle_ms",
                &"is of use only with follow: without it the stream ends with its sources",
            );
        }
        if self.time.is_empty() {
            return wrong("time", &"is empty; name the field with the time of an event");
        }
        self.query().map(drop)
    }

    pub(super) fn explain(&self) -> Vec<String> {
        let sources = count(self.sources.len() as u64, "source");
        let window = match self.window {
            window::Spec::Tumbling { size_ms } => format!("windows of {size_ms} ms"),
            window::Spec::Sliding { size_ms, slide_ms } => {
                format!("windows of {size_ms} ms, one every {slide_ms} ms")
            }
            window::Spec::Session { gap_ms } => {
                format!("sessions that end after {gap_ms} ms of silence")
            }
        };
        let mut lines = vec![
            format!("stream: one part reads {sources} in rounds and puts events into {window}."),
            format!(
                "A window is closed when the watermark has passed its end: the latest event of the slowest source minus {} ms.",
                self.lateness_ms
            ),
            "Events that come later are in late.jsonl. Positions, windows and outputs are kept in one commit.".to_owned(),
        ];
        lines.push(match self.idle_after_ms {
            Some(idle) => {
                format!("A source that is silent for {idle} ms does not hold the others.")
            }
            None => "A source that is silent holds the watermark of all.".to_owned(),
        });
        if self.follow {
            lines.push("It goes on at the end of its sources. `divvy flow output` gives the results so far, `divvy flow stop` ends it with what it has read.".to_owned());
        }
        lines
    }
}
