//! Data to try dataflow out with: records, text, rows, edges, events. The same seed and size give the same bytes.
//!
//! Knows nothing of jobs. Each generator writes to a writer until it is told that there is enough.
//!
//! Reading order: `zipf` (skewed choices), then a file for each sort of data.

mod edges;
mod events;
mod records;
mod rows;
mod text;
mod zipf;

use std::io::{self, Write};

use serde::Serialize;

pub use events::Disorder;
pub use rows::Shape;
pub use zipf::Zipf;

/// What is made.
#[derive(Clone, Copy, Debug)]
pub enum Data {
    /// Records of 100 bytes, the first ten of which are a key.
    Records,
    /// Lines of words, few of them frequent.
    Text {
        /// Different words.
        words: u32,
        /// How uneven they are.
        skew: f64,
    },
    /// Rows with a key, a user and a number.
    Rows {
        /// How they are written.
        shape: Shape,
        /// Different keys.
        keys: u32,
        /// How uneven they are.
        skew: f64,
    },
    /// Edges of a graph, a few vertices of which have most.
    Edges {
        /// Vertices.
        vertices: u32,
        /// Whether edges have lengths.
        weighted: bool,
    },
    /// Events that come out of order.
    Events {
        /// How they are written.
        shape: Shape,
        /// Different keys.
        keys: u32,
        /// How uneven they are.
        skew: f64,
        /// How much out of order.
        disorder: Disorder,
    },
}

/// How much is made: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Bytes, about: rows are whole.
    pub bytes: u64,
    /// Rows.
    pub rows: u64,
}

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Made {
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Writes data.
///
/// # Errors
/// Those of the writer.
pub fn write(data: Data, amount: Amount, seed: u64, output: &mut impl Write) -> io::Result<Made> {
    let chance = fastrand::Rng::with_seed(seed);
    let mut made =
        Maker { output, amount, made: Made::default(), line: Vec::with_capacity(1 << 10) };
    match data {
        Data::Records => records::write(chance, &mut made)?,
        Data::Text { words, skew } => text::write(&Zipf::new(words, skew), chance, &mut made)?,
        Data::Rows { shape, keys, skew } => {
            rows::write(shape, &Zipf::new(keys, skew), chance, &mut made)?;
        }
        Data::Edges { vertices, weighted } => edges::write(vertices, weighted, chance, &mut made)?,
        Data::Events { shape, keys, skew, disorder } => {
            events::write(shape, &Zipf::new(keys, skew), disorder, chance, &mut made)?;
        }
    }
    Ok(made.made)
}

/// Takes rows until there is enough.
struct Maker<'a, W> {
    output: &'a mut W,
    amount: Amount,
    made: Made,
    line: Vec<u8>,
}

impl<W: Write> Maker<'_, W> {
    /// Whether more is wanted.
    fn wants_more(&self) -> bool {
        self.made.bytes < self.amount.bytes && self.made.rows < self.amount.rows
    }

    /// Writes a row that `fill` appends.
    fn row(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.line.clear();
        fill(&mut self.line);
        self.made.rows += 1;
        self.made.bytes += self.line.len() as u64;
        self.output.write_all(&self.line)
    }

    /// Writes a line that is no row.
    fn header(&mut self, line: &str) -> io::Result<()> {
        self.made.bytes += line.len() as u64;
        self.output.write_all(line.as_bytes())
    }
}

/// Appends a number in decimals.
fn put(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(data: Data, rows: u64, seed: u64) -> (Vec<u8>, Made) {
        let mut bytes = Vec::new();
        let amount = Amount { bytes: u64::MAX, rows };
        let made = write(data, amount, seed, &mut bytes).unwrap();
        assert_eq!(made.bytes, bytes.len() as u64);
        (bytes, made)
    }

    const DISORDER: Disorder =
        Disorder { start_ms: 1_000_000, step_us: 1_000, late_ms: 20_000, share: 0.25 };

    fn all() -> [Data; 7] {
        let (keys, skew) = (100, 1.0);
        [
            Data::Records,
            Data::Text { words: 1_000, skew },
            Data::Rows { shape: Shape::Csv, keys, skew },
            Data::Rows { shape: Shape::Jsonl, keys, skew },
            Data::Edges { vertices: 1_000, weighted: true },
            Data::Events { shape: Shape::Jsonl, keys, skew, disorder: DISORDER },
            Data::Events { shape: Shape::Csv, keys, skew, disorder: DISORDER },
        ]
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
        for data in all() {
            let (bytes, made_of) = made(data, 500, 7);
            assert_eq!(made_of.rows, 500, "{data:?}");
            assert_eq!(made(data, 500, 7).0, bytes, "{data:?}");
            assert_ne!(made(data, 500, 8).0, bytes, "{data:?}");
        }
    }

    #[test]
    fn as_much_is_made_as_was_asked_for() {
        for data in all() {
            let mut bytes = Vec::new();
            let amount = Amount { bytes: 50_000, rows: u64::MAX };
            write(data, amount, 1, &mut bytes).unwrap();
            assert!((50_000..51_000).contains(&bytes.len()), "{data:?} {}", bytes.len());
        }
    }

    #[test]
    fn json_rows_are_json_and_keys_are_skewed() {
        let data = Data::Rows { shape: Shape::Jsonl, keys: 1_000, skew: 1.0 };
        let (bytes, _) = made(data, 5_000, 3);
        let mut counts = std::collections::BTreeMap::new();
        for line in std::str::from_utf8(&bytes).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(row["x"].is_number() && row["u"].is_string());
            *counts.entry(row["k"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
        let most = counts.values().max().unwrap();
        assert!(*most > 400, "the most frequent key has a good share: {most}");
        assert!(counts.len() > 300, "{}", counts.len());
    }

    #[test]
    fn events_are_out_of_order_by_no_more_than_was_said() {
        let data = Data::Events { shape: Shape::Csv, keys: 10, skew: 0.5, disorder: DISORDER };
        let (bytes, _) = made(data, 20_000, 4);
        let text = std::str::from_utf8(&bytes).unwrap();
        let times = text
            .lines()
            .skip(1)
            .map(|line| line.split(',').next().unwrap().parse::<i64>().unwrap());
        let (mut latest, mut late, mut worst) = (i64::MIN, 0, 0);
        for time in times {
            latest = latest.max(time);
            late += i32::from(time < latest);
            worst = worst.max(latest - time);
        }
        assert!((2_000..6_500).contains(&late), "{late}");
        assert!((5_000..=20_000).contains(&worst), "{worst}");
    }
}
