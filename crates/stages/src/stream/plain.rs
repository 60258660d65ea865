//! Tumbling windows by the simplest loop: one sort of lines, one aggregate, nothing that lasts. What a stream is measured
//! against, so it is optimised like one.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// What came of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain {
    /// Groups of all windows.
    pub rows: usize,
    /// Events that came after their window was closed.
    pub late: u64,
}

/// Counts and sums by key the events of a CSV file with a header: time in milliseconds, key, number.
///
/// # Errors
/// If it cannot be read, or an event lacks a field.
pub fn tumbling(events: File, size_ms: i64, lateness_ms: i64) -> io::Result<Plain> {
    read(BufReader::with_capacity(BUFFER_BYTES, events), size_ms, lateness_ms)
}

fn read(mut events: impl BufRead, size_ms: i64, lateness_ms: i64) -> io::Result<Plain> {
    let mut open: HashMap<i64, HashMap<Vec<u8>, (u64, f64)>> = HashMap::new();
    let (mut watermark, mut found) = (i64::MIN, Plain::default());
    let mut line = Vec::new();
    events.read_until(b'\n', &mut line)?;
    loop {
        line.clear();
        if events.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let (at, key, x) =
            event(&line).ok_or_else(|| io::Error::other("an event without time, key or number"))?;
        let start = at.div_euclid(size_ms) * size_ms;
        if start + size_ms <= watermark {
            found.late += 1;
            continue;
        }
        let groups = open.entry(start).or_default();
        match groups.get_mut(key) {
            Some(group) => *group = (group.0 + 1, group.1 + x),
            None => drop(groups.insert(key.to_vec(), (1, x))),
        }
        if at - lateness_ms > watermark {
            watermark = at - lateness_ms;
            open.retain(|start, groups| {
                let stays = start + size_ms > watermark;
                found.rows += if stays { 0 } else { groups.len() };
                stays
            });
        }
    }
    found.rows += open.values().map(HashMap::len).sum::<usize>();
    Ok(found)
}

fn event(line: &[u8]) -> Option<(i64, &[u8], f64)> {
    let mut fields = line.trim_ascii_end().split(|byte| *byte == b',');
    let mut text = || fields.next().and_then(|field| std::str::from_utf8(field).ok());
    Some((text()?.parse().ok()?, text()?.as_bytes(), text()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_counted_by_window_and_late_events_apart() {
        // At 25 the window from 0 to 10 is closed; what comes to it afterwards is late.
        let events = b"at,k,x\n1,a,1\n2,b,1\n11,a,1\n9,a,1\n25,a,1\n3,a,1\n";
        assert_eq!(read(&events[..], 10, 10).unwrap(), Plain { rows: 4, late: 1 });
        assert!(read(&b"at,k,x\n1,a\n"[..], 10, 10).is_err());
    }
}
