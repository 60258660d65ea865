//! All bytes that a page adds to the outputs, made without touching a file.

use super::cdx::Line;
use super::warc::Records;
use super::{Exchange, Format, OutputError, Record};

/// What a page adds to each output.
#[derive(Debug, Default)]
pub struct Prepared {
    /// A line of JSON.
    pub(super) line: Vec<u8>,
    /// Lines of the graph.
    pub(super) edges: Vec<u8>,
    /// Records of the archive, and the start of the line of its index.
    pub(super) archived: Option<(Records, String)>,
}

impl Prepared {
    /// Prepares a page for these outputs; `exchange` is what went over the wire, if there is something to archive.
    ///
    /// # Errors
    ///
    /// If a header cannot be archived. The page can be written without its exchange then.
    pub fn new(
        formats: &[Format],
        record: &Record<'_>,
        exchange: Option<&Exchange<'_>>,
    ) -> Result<Self, OutputError> {
        let mut prepared = Self::default();
        if formats.contains(&Format::Jsonl) {
            serde_json::to_writer(&mut prepared.line, record).map_err(|error| {
                OutputError::File {
                    verb: "write a line of",
                    path: "pages.jsonl".into(),
                    source: error.into(),
                }
            })?;
            prepared.line.push(b'\n');
        }
        if formats.contains(&Format::Graph) {
            for link in record.links {
                for part in [record.url, "\t", link.url.as_str(), "\n"] {
                    prepared.edges.extend(part.as_bytes());
                }
            }
        }
        if let (true, Some(exchange)) = (formats.contains(&Format::Warc), exchange) {
            let records = Records::new(record.url, exchange)?;
            let line = Line {
                url: record.url,
                at_ms: exchange.at_ms,
                content_type: record.content_type,
                status: exchange.status,
                digest: &records.digest,
                redirect: record.redirect,
            };
            let start = line.start();
            prepared.archived = Some((records, start));
        }
        Ok(prepared)
    }
}
