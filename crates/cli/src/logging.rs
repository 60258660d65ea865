//! What the process says about itself, on stderr: quiet for clients, calm lines for servers and workers.
//!
//! `DIVVY_LOG` is a filter such as `debug` or `divvy_wire=trace`, and beats `-v` and the defaults. A line is for
//! people, or one JSON object for programs that gather logs (`--log-format json`).

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::screen::Above;
use crate::output::words;

/// The variable that holds the filter.
pub(crate) const VARIABLE: &str = "DIVVY_LOG";

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object per line.
    Json,
}

/// Starts to log. `service` is for commands that run long and whose log is all that people see of them.
pub(crate) fn start(service: bool, verbose: u8, format: LogFormat) {
    let filter = std::env::var(VARIABLE).ok().and_then(|wish| wish.parse().ok());
    let to_stderr = tracing_subscriber::fmt::layer().with_writer(|| Above).with_ansi(false);
    let lines = match format {
        LogFormat::Text => to_stderr.with_timer(Clock).with_target(verbose > 0).boxed(),
        LogFormat::Json => to_stderr.event_format(Objects).boxed(),
    };
    let all = tracing_subscriber::registry()
        .with(lines)
        .with(filter.unwrap_or_else(|| usual(service, verbose)));
    // Only a second start in one process could fail, and there is none.
    let _ = all.try_init();
}

/// What is said if `DIVVY_LOG` does not say it.
fn usual(service: bool, verbose: u8) -> Targets {
    let all = match (service, verbose) {
        (false, 0) => LevelFilter::WARN,
        (true, 0 | 1) | (false, 1) => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // The names of all crates of divvy begin with `divvy`.
    let own = if verbose > 0 && service { LevelFilter::DEBUG } else { all };
    Targets::new().with_default(all).with_target("divvy", own)
}

/// Date and time to the second in UTC.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let text = words::now().to_string();
        write!(writer, "{}Z", text.get(..19).unwrap_or(&text))
    }
}

/// Events as objects: time, level, target, message, and what else an event says by its name.
struct Objects;

impl<S, N> FormatEvent<S, N> for Objects
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let about = event.metadata();
        let Fields(mut object) = fields;
        object.insert("time".to_owned(), words::now().to_string().into());
        object.insert("level".to_owned(), about.level().as_str().to_lowercase().into());
        object.insert("target".to_owned(), about.target().into());
        writeln!(writer, "{}", Value::Object(object))
    }
}

/// Gathers what an event says.
struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_an_object_on_a_line() {
        let page = Page::default();
        let pen = page.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || pen.clone());
        let lines = tracing_subscriber::registry().with(layer.event_format(Objects));
        tracing::subscriber::with_default(lines, || {
            tracing::warn!(tasks = 3_u64, worker = "a\nb", "gone");
        });
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&object["level"], &object["message"]), (&"warn".into(), &"gone".into()));
        assert_eq!((&object["tasks"], &object["worker"]), (&3.into(), &"a\nb".into()));
        assert!(object["time"].as_str().unwrap().ends_with('Z'), "{object}");
    }
}
