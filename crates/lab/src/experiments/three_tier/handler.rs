//! The request handler: parses a chunk of CSV, fetches the label of its first record, and says how long each took.

use std::io::Error as IoError;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use divvy_pool::tiers::{Output, Tier, Tiers};
use serde::{Deserialize, Serialize};

use crate::child;
use crate::experiment::Error;
use crate::experiments::measured::broken;

pub(super) const RECORDS: usize = 20;
/// How long parsing one record takes at least.
pub(super) const PER_RECORD: Duration = Duration::from_micros(100);

/// Which parts of the handler leave the thread of the event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// None, and one request after the other.
    Sequential,
    /// Fetching goes to the blocking tier; parsing stays.
    Threads,
    /// Parsing goes to the process tier; fetching stays.
    Processes,
    /// Both go to their tier.
    Tiers,
}

impl Way {
    pub(super) const ALL: [Self; 4] =
        [Self::Sequential, Self::Threads, Self::Processes, Self::Tiers];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Threads => "blocking tier only",
            Self::Processes => "process tier only",
            Self::Tiers => "three tiers",
        }
    }
}

/// What is to be handled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) number: usize,
    pub(super) chunk: Vec<String>,
    /// How long the metadata service will take.
    pub(super) fetch: Duration,
}

/// One record of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(super) id: u64,
    pub(super) value: f64,
    pub(super) timestamp: String,
}

/// A parsed chunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Parsed {
    pub(super) records: Vec<Record>,
    /// How long parsing itself took, in microseconds.
    pub(super) parsing_us: u64,
}

/// A request that was handled, with times since the start of all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Handled {
    pub(super) number: usize,
    pub(super) parsed: usize,
    pub(super) label: String,
    pub(super) began: Duration,
    pub(super) parsed_at: Duration,
    pub(super) ended: Duration,
    /// Parsing itself, without the way there and back.
    pub(super) parsing: Duration,
}

/// The requests of a seed.
pub(super) fn requests(count: usize, seed: u64) -> Vec<Request> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut request = |number: usize| {
        let first = number * RECORDS + 1;
        let line = |id: usize| format!("{id},{:.1},2024-01-01", random.f64() * 100.0);
        let chunk = (first..first + RECORDS).map(line).collect();
        let fetch = Duration::from_secs_f64(0.05 + random.f64() * 0.05);
        Request { number, chunk, fetch }
    };
    (0..count).map(&mut request).collect()
}

/// Parses a chunk, with the work of a slow parser: the thread computes until the time of each record is over.
pub(crate) fn parse(chunk: &[String]) -> Result<Parsed, IoError> {
    let began = Instant::now();
    let records = chunk.iter().map(|line| {
        let begun = Instant::now();
        let mut fields = line.splitn(3, ',');
        let record = match (fields.next(), fields.next(), fields.next()) {
            (Some(id), Some(value), Some(timestamp)) => {
                let record = id.parse().ok().zip(value.parse().ok());
                record.map(|(id, value)| Record { id, value, timestamp: timestamp.to_owned() })
            }
            _ => None,
        };
        while begun.elapsed() < PER_RECORD {
            std::hint::spin_loop();
        }
        record.ok_or_else(|| IoError::other(format!("`{line}` is no record; write id,value,time")))
    });
    let records = records.collect::<Result<_, _>>()?;
    Ok(Parsed { records, parsing_us: began.elapsed().as_micros() as u64 })
}

/// An old client of a metadata service: it blocks its thread.
fn fetch_metadata(id: u64, takes: Duration) -> String {
    thread::sleep(takes);
    format!("item_{id}")
}

/// Handles one request. Runs on the async tier, except when all are handled in sequence.
pub(super) async fn handle(
    request: Request,
    way: Way,
    tiers: Arc<Tiers>,
    start: Instant,
) -> Result<Handled, Error> {
    let began = start.elapsed();
    let parsed = match way {
        Way::Sequential | Way::Threads => parse(&request.chunk)?,
        Way::Processes | Way::Tiers => parse_elsewhere(&request.chunk, &tiers).await?,
    };
    let parsed_at = start.elapsed();
    let id = parsed.records.first().map_or(0, |record| record.id);
    let takes = request.fetch;
    let label = match way {
        Way::Sequential | Way::Processes => fetch_metadata(id, takes),
        Way::Threads | Way::Tiers => {
            let fetch = tiers.run_on(Tier::Blocking, move || fetch_metadata(id, takes));
            fetch.map_err(broken)?.await.map_err(|error| broken(error.to_string()))?
        }
    };
    let parsing = Duration::from_micros(parsed.parsing_us);
    let (number, parsed) = (request.number, parsed.records.len());
    Ok(Handled { number, parsed, label, began, parsed_at, ended: start.elapsed(), parsing })
}

async fn parse_elsewhere(chunk: &[String], tiers: &Tiers) -> Result<Parsed, Error> {
    let input = serde_json::to_vec(chunk).map_err(broken)?;
    let output = tiers.run_process(child::program()?.input(input)).await.map_err(broken)?;
    let Output { status, stdout, stderr } = output;
    serde_json::from_slice(&stdout).map_err(|error| {
        let words = String::from_utf8_lossy(&stderr);
        broken(format!("the child process gave no records ({error}; {status}): {words}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_becomes_records_and_nonsense_is_named() {
        let [request] = requests(1, 4).try_into().unwrap();
        let parsed = parse(&request.chunk).unwrap();
        assert_eq!(parsed.records.len(), RECORDS);
        assert_eq!((parsed.records[0].id, parsed.records[19].id), (1, 20));
        assert_eq!(parsed.records[0].timestamp, "2024-01-01");
        assert!(parsed.parsing_us >= 2_000, "each record takes 0.1 ms");
        for line in ["1,2", "x,1.0,t", "1,y,t", ""] {
            let error = parse(&[line.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(&format!("`{line}`")), "{error}");
        }
    }

    #[test]
    fn requests_repeat_and_stay_within_their_bounds() {
        let all = requests(50, 9);
        assert_eq!(all, requests(50, 9));
        assert_ne!(all, requests(50, 10));
        let range = Duration::from_millis(50)..=Duration::from_millis(100);
        assert!(all.iter().all(|request| range.contains(&request.fetch)));
    }

    #[test]
    fn the_child_does_what_the_parent_would() {
        let request = &requests(1, 4)[0];
        let mut written = Vec::new();
        child::run(serde_json::to_vec(&request.chunk).unwrap().as_slice(), &mut written).unwrap();
        let parsed: Parsed = serde_json::from_slice(&written).unwrap();
        assert_eq!(parsed.records, parse(&request.chunk).unwrap().records);
        assert!(child::run(b"[1]".as_slice(), &mut written).is_err());
    }
}
