//! Prediction against reality: files come at random times to a private server with one worker, and what happens is
//! compared with what the planner's simulation says of the same arrivals.
//!
//! What each file costs is measured one by one, immediately before and again after; each round has a server of its own,
//! because what was made once is found again. The verdict is about the mean of the two: of two dozen items, one or two
//! decide the 95th percentile, so that chance alone would carry a prediction from sizes further off than the verdict
//! allows, however true the plan is. What sizes alone say, and how far chance goes, is told beside it.
//!
//! The comparison is of one run on one machine, whose speed may change. If the two rounds predict times that are further
//! apart than a prediction may be off, there is no verdict, whether the mean of them is near or not: it would be about the
//! machine. What only the run met is seen in the stages, which are compared too.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use divvy_lab::plan::fit::{self, Sample};
use divvy_lab::plan::input::{Arrivals, Goal, PerHour, Plan, SizeClass, Worker};
use divvy_lab::plan::replay::{self, Course, Ended, Guess, Work};
use divvy_lab::plan::rounds::{self, Apart, Round};
use divvy_types::Name;
use serde::Serialize;
use tokio::time::Instant;

use super::samples::{Bench, measure};
use crate::commands::Context;
use crate::exit::Failure;

/// Fewer say nothing about one in twenty.
const FILES_MIN: usize = 2;
/// How near is near enough, of a prediction to what happened and of one round to the other.
const WITHIN: f64 = 0.15;
/// Seeds of what sizes alone say.
const SEEDS: u32 = 100;
/// A day is more than anyone waits.
const LONG_SEC: f64 = 86_400.0;

/// What came out.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) items: usize,
    pub(crate) slots: u32,
    /// What is said of items that cost what each did when it was measured alone, on average of both rounds.
    pub(crate) predicted: Course,
    pub(crate) measured: Course,
    /// How far the prediction is off, as a share of what was measured.
    pub(crate) off_p50: f64,
    pub(crate) off_p95: f64,
    /// What is said of items that cost what each did in the very run: what is off here is neither the costs nor the
    /// machine.
    pub(crate) in_hindsight: Course,
    /// What is said of items of which only the sizes are known, by what half of them cost.
    pub(crate) by_size: Guess,
    /// What the files said that were measured alone before, and after.
    pub(crate) before: Round,
    pub(crate) after: Round,
    /// How far the two are from each other.
    pub(crate) apart: Apart,
    /// How near is near enough.
    pub(crate) within: f64,
    pub(crate) verdict: Verdict,
}

/// Whether the prediction came true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Within,
    NotWithin,
    /// The machine was not the same before and after.
    Undecided,
}

/// What a stage cost in all.
pub(crate) struct StageCost<'a> {
    pub(crate) name: &'a Name,
    pub(crate) predicted: Work,
    pub(crate) measured: Work,
    pub(crate) by_size: Work,
}

/// Measures, predicts and compares.
pub(crate) async fn run(
    files: &[PathBuf],
    slots: u32,
    busy: u32,
    context: &Context,
) -> Result<Compared> {
    if files.len() < FILES_MIN {
        return Err(Failure::usage("--check needs at least two files")
            .cure("name twenty or more: one in twenty is what p95 speaks of")
            .into());
    }
    let before = measure(files, slots, context).await?;
    let gap_sec = plan(&before, slots).work_sec() / f64::from(slots) / (f64::from(busy) / 100.0);
    let ended = reality(files, slots, gap_sec, context).await?;
    let after = measure(files, slots, context).await?;
    compare(&before, &after, &ended, slots)
}

/// Compares what happened to items with what is said of them by what each cost alone, before and after.
fn compare(before: &[Sample], after: &[Sample], ended: &[Ended], slots: u32) -> Result<Compared> {
    let alone = rounds::mean(before, after);
    let measured = replay::measured(ended, slots);
    let happened: Vec<Sample> = ended.iter().map(|item| item.sample.clone()).collect();
    let of_costs = |samples: &[Sample]| {
        let plan = plan(samples, slots);
        let items: Vec<(f64, &Sample)> =
            ended.iter().map(|item| item.at_sec).zip(samples).collect();
        replay::known(&plan, &items, &plan.workers[0])
    };
    let (predicted, in_hindsight) = (of_costs(&alone)?, of_costs(&happened)?);
    let (before, after) = (Round::of(&of_costs(before)?), Round::of(&of_costs(after)?));
    let apart = before.until(&after);
    let sizes: Vec<f64> = alone.iter().map(|sample| sample.size_gb).collect();
    let half: Vec<Sample> = half_of(&sizes).into_iter().map(|place| alone[place].clone()).collect();
    let plan = plan(&half, slots);
    let items: Vec<(f64, f64)> =
        ended.iter().map(|item| (item.at_sec, item.sample.size_gb)).collect();
    let by_size = replay::by_size(&plan, &items, &plan.workers[0], SEEDS)?;
    let off = |predicted: f64, measured: f64| predicted / measured.max(1e-9) - 1.0;
    let (off_p50, off_p95) = (off(predicted.p50, measured.p50), off(predicted.p95, measured.p95));
    Ok(Compared {
        items: ended.len(),
        slots,
        predicted,
        measured,
        off_p50,
        off_p95,
        in_hindsight,
        by_size,
        before,
        after,
        apart,
        within: WITHIN,
        verdict: match off_p50.abs() <= WITHIN && off_p95.abs() <= WITHIN {
            _ if !apart.is_within(WITHIN) => Verdict::Undecided,
            true => Verdict::Within,
            false => Verdict::NotWithin,
        },
    })
}

impl Compared {
    /// What each stage cost, by their names.
    pub(crate) fn stages(&self) -> Vec<StageCost<'_>> {
        let courses = [&self.predicted, &self.measured, &self.by_size.middle];
        let names: BTreeSet<&Name> =
            courses.iter().flat_map(|course| course.stages.keys()).collect();
        let cost = |name| {
            let of = |course: &Course| course.stages.get(name).copied().unwrap_or_default();
            let [predicted, measured, by_size] = courses.map(of);
            StageCost { name, predicted, measured, by_size }
        };
        names.into_iter().map(cost).collect()
    }
}

/// The places of half of these sizes: of every four that are next to each other by size, the smallest and the largest.
fn half_of(sizes: &[f64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..sizes.len()).collect();
    places.sort_by(|a, b| sizes[*a].total_cmp(&sizes[*b]));
    let ranked = places.into_iter().enumerate();
    let chosen = ranked.filter(|(rank, _)| matches!(rank % 4, 0 | 3)).map(|(_, place)| place);
    let mut chosen: Vec<usize> = chosen.collect();
    chosen.sort_unstable();
    chosen
}

/// Lets the files come at random; gives what became of each, in their order.
async fn reality(
    files: &[PathBuf],
    slots: u32,
    gap_sec: f64,
    context: &Context,
) -> Result<Vec<Ended>> {
    let mut bench = Bench::start(slots, context).await?;
    let mut random = Gaps(0x9E37_79B9_7F4A_7C15);
    let (mut items, mut next) = (Vec::new(), Instant::now());
    for (number, file) in files.iter().enumerate() {
        bench.listen_for(None, next.saturating_duration_since(Instant::now())).await?;
        let of = format!("{} of {}", number + 1, files.len());
        context.output.note(format_args!("{} comes, {of} …", file.display()));
        items.push(bench.add(file, context).await?);
        next += Duration::from_secs_f64(gap_sec * random.next());
    }
    let mut times = Vec::new();
    for item in &items {
        let view = bench.until_ended(item).await?;
        let began = view.started_at.0 as f64 / 1e6;
        times.push((began, view.ended_at.map_or(began, |at| at.0 as f64 / 1e6)));
    }
    // What is asked for here would be work for the server while it is measured.
    let samples = bench.samples(&items).await?;
    let first = times.iter().map(|(began, _)| *began).fold(f64::INFINITY, f64::min);
    let one =
        |((began, ended), sample)| Ended { at_sec: began - first, took_sec: ended - began, sample };
    Ok(times.into_iter().zip(samples).map(one).collect())
}

/// A plan for one worker with what the samples cost.
fn plan(samples: &[Sample], slots: u32) -> Plan {
    let mean = samples.iter().map(|sample| sample.size_gb).sum::<f64>() / samples.len() as f64;
    let size = SizeClass { share: 100.0, from_gb: Some(mean), to_gb: Some(mean), mean_gb: None };
    Plan {
        title: String::new(),
        item: "item".into(),
        arrivals: Arrivals { per_hour: Some(PerHour::Same(1.0)), ..Arrivals::default() },
        sizes: vec![size],
        stages: fit::stages(samples),
        // The files come as `divvy video add` gives them: without deadlines.
        goal: Goal { percentile: 95.0, within_sec: LONG_SEC, deadline: false },
        priority: 0.0,
        workers: vec![Worker { name: "here".into(), slots, ..Worker::default() }],
        budget_month: None,
        fleet: Default::default(),
        days: 1.0,
        seeds: 1,
        assumptions: Vec::new(),
    }
}

/// Random gaps with mean 1, always the same ones.
struct Gaps(u64);

impl Gaps {
    fn next(&mut self) -> f64 {
        // Marsaglia's xorshift, 2003.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - share).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_lab::plan::fit::Seen;

    /// Items of one task each that cost 1 to 8 seconds times this.
    fn costing(factor: f64) -> Vec<Sample> {
        let one = |number: u32| {
            let seen =
                Seen { seconds: vec![f64::from(number % 8 + 1) * factor], ..Seen::default() };
            Sample { size_gb: 0.001, stages: [("work".into(), seen)].into() }
        };
        (0..24).map(one).collect()
    }

    /// The same when each comes to an idle slot: it takes what it costs.
    fn came(factor: f64) -> Vec<Ended> {
        let items = costing(factor).into_iter().enumerate();
        let one = |(number, sample): (usize, Sample)| Ended {
            at_sec: 100.0 * number as f64,
            took_sec: sample.stages.values().flat_map(|seen| &seen.seconds).sum(),
            sample,
        };
        items.map(one).collect()
    }

    #[test]
    fn a_machine_that_changed_its_speed_gets_no_verdict() {
        // Seconds before, in the run and after, as shares of the usual.
        let table = [
            ((1.0, 1.0, 1.0), Verdict::Within),
            ((0.95, 1.0, 1.05), Verdict::Within),
            // By the first round alone, 18 % too little; by both, 12 %.
            ((0.94, 1.15, 1.08), Verdict::Within),
            ((1.0, 1.3, 1.0), Verdict::NotWithin),
            ((1.0, 0.8, 1.1), Verdict::NotWithin),
            // Far apart, however near their mean is.
            ((0.9, 1.0, 1.1), Verdict::Undecided),
            ((1.5, 1.0, 1.0), Verdict::Undecided),
            ((1.0, 1.0, 1.5), Verdict::Undecided),
        ];
        for ((before, run, after), verdict) in table {
            let case = format!("{before}, {run}, {after}");
            let found = compare(&costing(before), &costing(after), &came(run), 1).unwrap();
            assert_eq!(found.verdict, verdict, "{case}: {:?}", found.apart);
            let mean = (before + after) / 2.0;
            assert!((found.off_p50 - (mean / run - 1.0)).abs() < 0.01, "{case}: {}", found.off_p50);
            let cost = (after - before) / mean;
            assert!((found.apart.cost - cost).abs() < 1e-6, "{case}: {:?}", found.apart);
            assert!((found.in_hindsight.p95 / found.measured.p95 - 1.0).abs() < 0.01, "{case}");
        }
    }

    #[test]
    fn the_half_has_the_sizes_of_all() {
        // By name the small ones come first, which must not decide.
        let sizes: Vec<f64> = (1..=24).map(|number| f64::from(number * number)).collect();
        let chosen = half_of(&sizes);
        assert_eq!(chosen.len(), 12);
        assert!(chosen.is_sorted() && chosen.contains(&0) && chosen.contains(&23));
        let mean = |places: &[usize]| {
            places.iter().map(|place| sizes[*place]).sum::<f64>() / places.len() as f64
        };
        let all: Vec<usize> = (0..24).collect();
        assert!((mean(&chosen) / mean(&all) - 1.0).abs() < 0.02, "{}", mean(&chosen));
        assert_eq!(half_of(&[7.0, 3.0]), [1]);
    }
}
