//! Events become results: what is kept for each key of a window, and the lines that windows say.

use divvy_kernels::aggregate::{Damaged, Query, Reading, Single};
use divvy_kernels::window::{Aggregate, Fired, Taken, Windows};

use super::options::Options;
use super::rows::Rows;
use crate::job::PartError;

/// What the query keeps of each key.
#[derive(Debug)]
pub(super) struct Measures(Query);

impl Aggregate for Measures {
    type State = Single;

    fn start(&self) -> Single {
        Single::new(&self.0)
    }

    fn merge(&self, into: &mut Single, from: Single) {
        into.merge(&from);
    }

    fn save(&self, state: &Single, out: &mut Vec<u8>) {
        state.write(out);
    }

    fn load(&self, from: &mut &[u8]) -> Result<Single, Damaged> {
        Single::read(&self.0, from)
    }
}

/// The windows of a stream and what they say.
pub(super) struct Results {
    pub(super) windows: Windows<Measures>,
    reading: Reading,
    key: Vec<u8>,
    printer: Printer,
}

/// Writes what windows say, a line of JSON each.
struct Printer {
    names: Vec<String>,
    query: Query,
    /// Lines that are not in the file yet.
    lines: Vec<u8>,
    rows: u64,
}

impl Results {
    pub(super) fn new(options: &Options) -> Result<Self, PartError> {
        let query = options.query().map_err(|error| PartError::Broken(error.to_string()))?;
        let printer =
            Printer { names: query.header(), query: query.clone(), lines: Vec::new(), rows: 0 };
        let reading = Reading::new(&query);
        let windows = Windows::new(options.window, options.trigger, Measures(query));
        Ok(Self { windows, reading, key: Vec::new(), printer })
    }

    pub(super) fn query(&self) -> &Query {
        &self.printer.query
    }

    /// Puts the event of a line into its windows; its time, and what became of it.
    ///
    /// # Errors
    /// Says what is wrong with the line.
    #[inline]
    pub(super) fn event(&mut self, rows: &mut Rows, line: &[u8]) -> Result<(i64, Taken), String> {
        let Self { windows, reading, key, printer } = self;
        rows.read(line, |time_ms, fields| {
            let query = &printer.query;
            reading.read(query, fields, key).map_err(|error| error.to_string())?;
            let lines = (&printer.names, &mut printer.lines, &mut printer.rows);
            let add = |state: &mut Single| {
                reading.add(query, fields, state);
                Ok::<(), String>(())
            };
            let taken = windows
                .add(time_ms, key, add, |fired| print(query, &fired, lines.0, lines.1, lines.2))?;
            Ok((time_ms, taken))
        })
    }

    /// Event time has come to here.
    #[inline]
    pub(super) fn advance(&mut self, watermark: i64) {
        let Printer { names, query, lines, rows } = &mut self.printer;
        self.windows.advance(watermark, |fired| print(query, &fired, names, lines, rows));
    }

    /// Lines that were said since this was asked last, and how many.
    pub(super) fn take_lines(&mut self) -> (Vec<u8>, u64) {
        (std::mem::take(&mut self.printer.lines), std::mem::take(&mut self.printer.rows))
    }

    /// Bytes of lines that wait.
    pub(super) fn waiting(&self) -> usize {
        self.printer.lines.len()
    }
}

/// One line: when the window began and ended, the key, the answers, and `early` if it is not closed yet.
fn print(
    query: &Query,
    fired: &Fired<'_, Single>,
    names: &[String],
    lines: &mut Vec<u8>,
    rows: &mut u64,
) {
    *rows += 1;
    let (start, end) = (moment(fired.start_ms), moment(fired.end_ms));
    let early = if fired.is_early { "\"early\":true," } else { "" };
    lines
        .extend_from_slice(format!("{{\"start\":\"{start}\",\"end\":\"{end}\",{early}").as_bytes());
    let at = lines.len();
    fired.state.answer(query, fired.key).write_json(names, lines);
    // The answer is an object of its own; its members belong to this one.
    lines.remove(at);
}

/// A time as people and programs read it.
pub(super) fn moment(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| format!("{ms} ms"), |time| time.to_string())
}
