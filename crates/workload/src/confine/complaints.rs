//! What a program wrote to its standard error, and the launcher's report behind it.

use super::Report;

/// How much is kept of the end of what a program complains about.
const COMPLAINT_BYTES_MAX: usize = 8 << 10;
/// Room for the launcher's report behind the complaints.
const REPORT_BYTES_MAX: usize = 256;

/// The end of what was written.
#[derive(Debug, Default)]
pub struct Complaints {
    bytes: Vec<u8>,
    cut: bool,
}

impl Complaints {
    /// Adds a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        let surplus = self.bytes.len().saturating_sub(COMPLAINT_BYTES_MAX + REPORT_BYTES_MAX);
        self.cut |= surplus > 0;
        self.bytes.drain(..surplus);
    }

    /// The complaints, and the report behind them.
    pub fn split_report(&self) -> (String, Option<Report>) {
        let text = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let line = text.iter().rposition(|byte| *byte == b'\n');
        let (before, last) = line.map_or((&[][..], text), |at| (&text[..at], &text[at + 1..]));
        let report = serde_json::from_slice(last).ok();
        let words = if report.is_some() { before } else { text };
        let words = String::from_utf8_lossy(words).trim().to_owned();
        (if self.cut { format!("…{words}") } else { words }, report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_told_from_the_complaints() {
        let mut complaints = Complaints::default();
        complaints.push(b"first\nsecond without an end");
        complaints.push(b"\n{\"code\":3,\"signal\":null,\"cpu_us\":7}\n");
        let (words, report) = complaints.split_report();
        assert_eq!(words, "first\nsecond without an end");
        assert_eq!(report, Some(Report { code: Some(3), signal: None, cpu_us: 7 }));
        let mut complaints = Complaints::default();
        complaints.push(b"no report");
        assert_eq!(complaints.split_report(), ("no report".to_owned(), None));
    }

    #[test]
    fn only_the_end_of_long_complaints_is_kept() {
        let mut complaints = Complaints::default();
        for number in 0..10_000 {
            complaints.push(format!("complaint {number}\n").as_bytes());
        }
        let (words, _) = complaints.split_report();
        assert!(words.len() <= COMPLAINT_BYTES_MAX + REPORT_BYTES_MAX + 3);
        assert!(words.starts_with('…') && words.ends_with("complaint 9999"));
    }
}
