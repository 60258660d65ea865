//! The steps of the sample of primes as programs: payload on standard input, results of earlier tasks in the file that
//! `DIVVY_UPSTREAM` names, result on standard output, progress on standard error. Any language can do the same.

use std::io::{self, Read, Write};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::primes::Total;
use crate::args::local::Step;
use crate::exit::Code;
use crate::output::Output;

/// Progress is told this many times at most.
const PROGRESS_STEPS: u64 = 10;
/// The file with the results of the tasks that this one waited for.
const UPSTREAM: &str = "DIVVY_UPSTREAM";

#[derive(Deserialize)]
struct SplitInput {
    below: u64,
    parts: u64,
}

#[derive(Debug, Deserialize, Serialize)]
struct Ranges {
    ranges: Vec<(u64, u64)>,
}

#[derive(Deserialize)]
struct CountInput {
    part: usize,
}

#[derive(Debug, Deserialize, Serialize)]
struct Counted {
    primes: u64,
}

#[derive(Deserialize)]
struct SumInput {
    below: u64,
    expected: u64,
}

/// One entry of the upstream file.
#[derive(Deserialize)]
struct Upstream<T> {
    result: T,
}

/// Runs a step.
pub(crate) fn run(step: Step, output: &Output) -> Result<Code> {
    match step {
        Step::Split => output.object(&split(&input()?)?)?,
        Step::Count => {
            let input: CountInput = input()?;
            let ranges: Vec<Ranges> = upstream()?;
            let range = ranges.first().and_then(|ranges| ranges.ranges.get(input.part));
            let (from, to) =
                *range.with_context(|| format!("the split has no part {}", input.part))?;
            output.object(&Counted { primes: count(from, to) })?;
        }
        Step::Sum => output.object(&sum(&input()?, &upstream::<Counted>()?)?)?,
    }
    Ok(Code::Done)
}

fn input<T: DeserializeOwned>() -> Result<T> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    serde_json::from_str(&text).context("the payload is not what this step expects")
}

fn upstream<T: DeserializeOwned>() -> Result<Vec<T>> {
    let path = std::env::var(UPSTREAM).with_context(|| format!("{UPSTREAM} is not set"))?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let results: Vec<Upstream<T>> =
        serde_json::from_str(&text).context("upstream results are not as expected")?;
    Ok(results.into_iter().map(|upstream| upstream.result).collect())
}

/// Ranges of equal work: a number costs about its square root, so later ranges are shorter.
fn split(input: &SplitInput) -> Result<Ranges> {
    ensure!((1..=10_000).contains(&input.parts), "parts is {}, expected 1 to 10000", input.parts);
    let edge = |part: u64| {
        let share = part as f64 / input.parts as f64;
        (input.below as f64 * share.powf(2.0 / 3.0)).round() as u64
    };
    Ok(Ranges { ranges: (0..input.parts).map(|part| (edge(part), edge(part + 1))).collect() })
}

fn count(from: u64, to: u64) -> u64 {
    let step = ((to - from) / PROGRESS_STEPS).max(1);
    let mut primes = 0;
    for number in from..to {
        if (number - from).is_multiple_of(step) {
            // Progress is for watchers; if nobody takes it, the count goes on.
            let _ = writeln!(
                io::stderr(),
                "divvy:progress {}/{} at {number}",
                number - from,
                to - from
            );
        }
        primes += u64::from(is_prime(number));
    }
    primes
}

fn is_prime(number: u64) -> bool {
    if number < 4 {
        return number >= 2;
    }
    if number.is_multiple_of(2) {
        return false;
    }
    let mut divisor = 3;
    while divisor * divisor <= number {
        if number.is_multiple_of(divisor) {
            return false;
        }
        divisor += 2;
    }
    true
}

fn sum(input: &SumInput, counts: &[Counted]) -> Result<Total> {
    let primes = counts.iter().map(|counted| counted.primes).sum();
    if primes != input.expected {
        bail!("{primes} primes below {}, expected {}", input.below, input.expected);
    }
    Ok(Total { primes, below: input.below, parts: counts.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_every_number_once() {
        let ranges = split(&SplitInput { below: 1_000, parts: 7 }).unwrap().ranges;
        assert_eq!((ranges[0].0, ranges[6].1, ranges.len()), (0, 1_000, 7));
        assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].0 < pair[0].1));
        assert!(split(&SplitInput { below: 1, parts: 0 }).is_err());
    }

    #[test]
    fn the_parts_add_up_to_the_known_number_of_primes() {
        let ranges = split(&SplitInput { below: 100_000, parts: 5 }).unwrap().ranges;
        let counts: Vec<Counted> =
            ranges.iter().map(|(from, to)| Counted { primes: count(*from, *to) }).collect();
        let total = sum(&SumInput { below: 100_000, expected: 9_592 }, &counts).unwrap();
        assert_eq!((total.primes, total.parts), (9_592, 5));
        assert!(sum(&SumInput { below: 100_000, expected: 9_591 }, &counts).is_err());
    }
}
