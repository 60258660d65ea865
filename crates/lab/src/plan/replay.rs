//! Decides what a plan would have said of items that came at known times, to compare with what really happened.
//!
//! There are two such answers. One takes for granted what each item costs, so that nothing is left to chance: what is off
//! then is the order of tasks, the slots, or a machine that was busier than when the costs were measured. The other knows
//! the sizes of items only and draws the rest, as a plan does: how far chance alone may carry a few items is told with it.
//!
//! The comparison is of completion times, and of what they follow from: the tasks and seconds of each stage, and how busy
//! the slots were.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_types::Name;
use serde::Serialize;

use super::answer::Fleet;
use super::demand::{self, Demand};
use super::fit::Sample;
use super::input::{Plan, Worker};
use super::play::{Played, play, quantile};
use crate::experiment::Error;

/// What became of items that came, told or measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// From arrival to done, in seconds: half are shorter.
    pub p50: f64,
    /// 95 % are shorter.
    pub p95: f64,
    /// The share of the slots' time that went into tasks, from the first arrival to the last end.
    pub busy: f64,
    /// What the stages cost in all.
    pub stages: BTreeMap<Name, Work>,
}

/// What a stage cost in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// Its tasks.
    pub tasks: f64,
    /// Their seconds.
    pub sec: f64,
}

/// What is told of items of which only the sizes are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Guess {
    /// The middle of what several seeds say; of the stages and the slots the mean.
    #[serde(flatten)]
    pub middle: Course,
    /// Between which times nine of ten seeds see the first percentile, in seconds.
    pub p50_between: (f64, f64),
    /// And the second.
    pub p95_between: (f64, f64),
}

/// An item that was worked on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// When it came, in seconds since the first did.
    pub at_sec: f64,
    /// How long it took.
    pub took_sec: f64,
    /// What was done with it.
    pub sample: Sample,
}

/// Says what becomes of items that come at these seconds and cost this, by rising time, with one worker of this type.
///
/// # Errors
/// If the simulation refuses something.
pub fn known(plan: &Plan, items: &[(f64, &Sample)], worker: &Worker) -> Result<Course, Error> {
    let items: Vec<(Duration, &Sample)> =
        items.iter().map(|(at, sample)| (seconds(*at), *sample)).collect();
    let demand = demand::of_samples(plan, &items);
    let played = play(plan, &alone(worker), &demand, 0, true)?;
    Ok(course(plan, &demand, &played, worker))
}

/// Says what becomes of items that come at these seconds with these gigabytes, likewise.
///
/// # Errors
/// If the simulation refuses something.
pub fn by_size(
    plan: &Plan,
    items: &[(f64, f64)],
    worker: &Worker,
    seeds: u32,
) -> Result<Guess, Error> {
    let items: Vec<(Duration, f64)> =
        items.iter().map(|(at, size)| (seconds(*at), *size)).collect();
    let (mut p50s, mut p95s, mut middle) = (Vec::new(), Vec::new(), Course::default());
    let part = 1.0 / f64::from(seeds.max(1));
    for seed in 0..u64::from(seeds.max(1)) {
        let demand = demand::of_items(plan, &items, seed);
        let played = play(plan, &alone(worker), &demand, seed, true)?;
        let one = course(plan, &demand, &played, worker);
        p50s.push(one.p50);
        p95s.push(one.p95);
        middle.busy += part * one.busy;
        for (name, work) in one.stages {
            let sum = middle.stages.entry(name).or_default();
            sum.tasks += part * work.tasks;
            sum.sec += part * work.sec;
        }
    }
    for values in [&mut p50s, &mut p95s] {
        values.sort_unstable_by(f64::total_cmp);
    }
    (middle.p50, middle.p95) = (quantile(&p50s, 0.5), quantile(&p95s, 0.5));
    let most = |values: &[f64]| (quantile(values, 0.05), quantile(values, 0.95));
    Ok(Guess { middle, p50_between: most(&p50s), p95_between: most(&p95s) })
}

/// What was seen of items that were worked on, by so many slots.
pub fn measured(items: &[Ended], slots: u32) -> Course {
    let mut times: Vec<f64> = items.iter().map(|item| item.took_sec).collect();
    times.sort_unstable_by(f64::total_cmp);
    let (mut stages, mut in_slots) = (BTreeMap::<Name, Work>::new(), 0.0);
    for (name, seen) in items.iter().flat_map(|item| &item.sample.stages) {
        let sec: f64 = seen.seconds.iter().sum();
        let work = stages.entry(name.clone()).or_default();
        work.tasks += seen.seconds.len() as f64;
        work.sec += sec;
        in_slots += if seen.light { 0.0 } else { sec };
    }
    let last = items.iter().map(|item| item.at_sec + item.took_sec).fold(0.0, f64::max);
    let busy = share_of(in_slots, slots, last);
    Course { p50: quantile(&times, 0.5), p95: quantile(&times, 0.95), busy, stages }
}

fn course(plan: &Plan, demand: &Demand, played: &Played, worker: &Worker) -> Course {
    let mut stages = BTreeMap::<Name, Work>::new();
    for task in &demand.given.tasks {
        let name = &plan.stages[task.sort % plan.stages.len()].name;
        let work = stages.entry(name.clone()).or_default();
        work.tasks += 1.0;
        work.sec += task.run.as_secs_f64();
    }
    Course {
        p50: quantile(&played.ends, 0.5),
        p95: quantile(&played.ends, 0.95),
        busy: share_of(played.busy_sec, worker.slots, played.last_end_sec),
        stages,
    }
}

fn share_of(busy_sec: f64, slots: u32, within_sec: f64) -> f64 {
    let slot_sec = f64::from(slots) * within_sec;
    if slot_sec > 0.0 { busy_sec / slot_sec } else { 0.0 }
}

fn alone(worker: &Worker) -> Fleet {
    Fleet::Fixed(BTreeMap::from([(worker.name.clone(), 1)]))
}

fn seconds(at: f64) -> Duration {
    Duration::from_secs_f64(at.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::super::fit::{self, Seen};
    use super::super::input::Stage;
    use super::super::tests::one_stage;
    use super::*;
    use crate::sim::cluster::{Cluster, Given, GivenTask, Member};
    use divvy_types::{TaskId, TaskSpec};

    /// What is done with the items of the truth: kinds, and whether they take no slot.
    const KINDS: [(&str, bool); 7] = [
        ("probe", false),
        ("plan", true),
        ("frames", false),
        ("sound", false),
        ("picture", false),
        ("join", false),
        ("publish", true),
    ];

    /// A video of the truth: its size says less about its cost than its length, and not all have sound.
    fn video(random: &mut fastrand::Rng) -> Sample {
        let (length, content) = (2.0 + 8.0 * random.f64(), 0.5 + random.f64());
        let mut stages: BTreeMap<Name, Seen> = BTreeMap::new();
        let mut add = |name: &str, seconds: Vec<f64>, after: &[&str]| {
            let light = KINDS.contains(&(name, true));
            let after = after.iter().map(|name| Name::from(*name)).collect();
            let place = stages.values().map(|seen: &Seen| seen.seconds.len()).sum();
            stages.insert(name.into(), Seen { seconds, after, light, place });
        };
        add("probe", vec![0.4], &[]);
        add("plan", vec![0.1], &["probe"]);
        add("frames", vec![0.1 + 0.03 * length], &["plan"]);
        let mut streams = vec!["picture"];
        if random.f64() < 0.5 {
            add("sound", vec![0.3 * length], &["plan"]);
            streams.push("sound");
        }
        let chunks = if length > 6.0 { 2 } else { 1 };
        let picture = 0.5 + 0.25 * length * content;
        add("picture", vec![picture / f64::from(chunks); chunks as usize], &["plan"]);
        add("join", vec![0.2], &streams);
        add("publish", vec![0.2], &["join", "frames"]);
        Sample { size_gb: 0.001 * length * content * (0.8 + 0.4 * random.f64()), stages }
    }

    /// Lets the scheduler work through items of known cost, as they came.
    fn happened(items: &[(f64, Sample)], slots: u32) -> Vec<Ended> {
        let sorts = KINDS.map(|(kind, _)| TaskSpec::new(TaskId(0), kind)).to_vec();
        let (mut tasks, mut ranges) = (Vec::<GivenTask>::new(), Vec::new());
        for (at, sample) in items {
            let first = tasks.len();
            for (sort, (kind, _)) in KINDS.iter().enumerate() {
                let Some(seen) = sample.stages.get(&Name::from(*kind)) else { continue };
                let is_parent =
                    |task: &GivenTask| seen.after.contains(&Name::from(KINDS[task.sort].0));
                let parents: Vec<usize> =
                    (first..tasks.len()).filter(|place| is_parent(&tasks[*place])).collect();
                for seconds in &seen.seconds {
                    let (at, run) = (Duration::from_secs_f64(*at), *seconds);
                    let run = Duration::from_secs_f64(run);
                    tasks.push(GivenTask { at, sort, run, due: None, parents: parents.clone() });
                }
            }
            ranges.push(first..tasks.len());
        }
        let light = KINDS.iter().filter(|(_, light)| *light).map(|(kind, _)| *kind);
        let cluster = Cluster::new(5)
            .given(std::sync::Arc::new(Given::new(sorts, tasks)))
            .light(light)
            .member(Member::new("here", slots));
        let lives = cluster.run().unwrap().lives;
        let one = |((at, sample), range): (&(f64, Sample), std::ops::Range<usize>)| {
            let last = lives[range].iter().map(|life| life.ended.unwrap()).max().unwrap();
            Ended { at_sec: *at, took_sec: last.as_secs_f64() - at, sample: sample.clone() }
        };
        items.iter().zip(ranges).map(one).collect()
    }

    fn plan_of(samples: &[Sample], slots: u32) -> Plan {
        let mut plan = one_stage(1.0, 1.0);
        plan.stages = fit::stages(samples);
        plan.goal.within_sec = 86_400.0;
        plan.goal.deadline = false;
        plan.workers[0].slots = slots;
        plan
    }

    fn middle(plan: &Plan, items: &[(f64, f64)]) -> Course {
        by_size(plan, items, &plan.workers[0], 1).unwrap().middle
    }

    /// Items that come at random times, to so many slots that are in use for two thirds of the time.
    fn coming(count: usize, slots: u32) -> Vec<(f64, Sample)> {
        let (mut random, mut at) = (fastrand::Rng::with_seed(17), 0.0);
        let one = |_| {
            at += -7.0 / f64::from(slots) * (1.0 - random.f64()).ln();
            (at, video(&mut random))
        };
        (0..count).map(one).collect()
    }

    fn near(what: &str, told: f64, truth: f64, within: f64) {
        let off = told / truth - 1.0;
        assert!(off.abs() < within, "{what}: {told}, not {truth}: {:.1} % off", off * 100.0);
    }

    /// Of items whose costs are known, a few are enough: nothing is left to chance.
    #[test]
    fn what_each_item_costs_says_how_long_each_takes() {
        for slots in [1, 2] {
            let items = coming(24, slots);
            let truth = measured(&happened(&items, slots), slots);
            let told = told(&items, slots);
            near("p50", told.p50, truth.p50, 0.02);
            near("p95", told.p95, truth.p95, 0.02);
            near("busy", told.busy, truth.busy, 0.05);
            for (name, work) in &truth.stages {
                near(name, told.stages[name].sec, work.sec, 1e-6);
                assert_eq!(told.stages[name].tasks, work.tasks, "{name}");
            }
        }
    }

    /// With several slots it matters which of the stages that may run side by side begins: here the sound, which is short
    /// and would otherwise be left for the end. By names alone the picture would.
    #[test]
    fn without_the_order_in_which_stages_began_several_slots_are_misjudged() {
        let (items, slots) = (coming(24, 2), 2);
        let truth = measured(&happened(&items, slots), slots);
        let mut unordered = items.clone();
        let seen = unordered.iter_mut().flat_map(|(_, sample)| sample.stages.values_mut());
        seen.for_each(|seen| seen.place = 0);
        let off = |items: &[(f64, Sample)]| {
            let told = told(items, slots);
            [told.p50 / truth.p50 - 1.0, told.p95 / truth.p95 - 1.0].map(f64::abs)
        };
        let (ordered, by_name) = (off(&items), off(&unordered));
        assert!(ordered.iter().all(|off| *off < 0.02), "{ordered:?}");
        assert!(by_name.iter().any(|off| *off > 0.04), "{by_name:?}");
    }

    fn told(items: &[(f64, Sample)], slots: u32) -> Course {
        let samples: Vec<Sample> = items.iter().map(|(_, sample)| sample.clone()).collect();
        let plan = plan_of(&samples, slots);
        let items: Vec<(f64, &Sample)> = items.iter().map(|(at, sample)| (*at, sample)).collect();
        known(&plan, &items, &plan.workers[0]).unwrap()
    }

    /// Half of the items are measured one by one, and all of them come to a line of slots: what the half says of sizes is
    /// enough for the times that the whole has. So many items that chance hardly matters.
    #[test]
    fn what_half_of_the_items_cost_says_how_long_all_of_them_take() {
        for slots in [1, 2] {
            let items = coming(400, slots);
            let truth = measured(&happened(&items, slots), slots);
            let samples: Vec<Sample> =
                items.iter().step_by(2).map(|(_, sample)| sample.clone()).collect();
            let plan = plan_of(&samples, slots);
            let sizes: Vec<(f64, f64)> =
                items.iter().map(|(at, sample)| (*at, sample.size_gb)).collect();
            let guess = by_size(&plan, &sizes, &plan.workers[0], 9).unwrap();
            near("p50", guess.middle.p50, truth.p50, 0.15);
            near("p95", guess.middle.p95, truth.p95, 0.15);
            near("busy", guess.middle.busy, truth.busy, 0.05);
            for (name, work) in &truth.stages {
                near(name, guess.middle.stages[name].sec, work.sec, 0.1);
                near(name, guess.middle.stages[name].tasks, work.tasks, 0.1);
            }
            assert!(guess.p95_between.0 <= guess.middle.p95);
            assert!(guess.middle.p95 <= guess.p95_between.1);
        }
    }

    /// Two items with two stages of a second each and one slot: with deadlines the first is done first, without they take
    /// turns.
    #[test]
    fn without_deadlines_items_take_turns() {
        let mut plan = one_stage(1.0, 1.0);
        let second =
            Stage { name: "then".into(), after: vec!["work".into()], ..plan.stages[0].clone() };
        plan.stages.push(second);
        let mut ends = |deadline: bool| {
            plan.goal.deadline = deadline;
            let course = middle(&plan, &[(0.0, 1.0), (0.5, 1.0)]);
            (course.p50.round(), course.p95.round())
        };
        // The second came half a second later, and ends after four.
        assert_eq!((ends(true), ends(false)), ((2.0, 4.0), (3.0, 4.0)));
    }

    /// What takes no slot does not wait for one, and does not use one.
    #[test]
    fn light_stages_do_not_stand_in_line() {
        let mut plan = one_stage(1.0, 10.0);
        let last = Stage {
            name: "publish".into(),
            sec: 1.0,
            after: vec!["work".into()],
            ..Stage::default()
        };
        plan.stages.push(last);
        let mut course = |light: bool| {
            plan.stages[1].light = light;
            middle(&plan, &[(0.0, 1.0), (1.0, 1.0)])
        };
        // The first publishes while the second works, from 10 to 20; both together work for 20 of 21 seconds.
        let (light, heavy) = (course(true), course(false));
        assert_eq!((light.p50.round(), light.p95.round()), (11.0, 20.0));
        assert_eq!((heavy.p50.round(), heavy.p95.round()), (11.0, 21.0));
        assert!((light.busy - 20.0 / 21.0).abs() < 0.01, "{}", light.busy);
    }

    /// An item without a stage goes on with what would have come after it, when what came before it is done.
    #[test]
    fn a_stage_that_an_item_lacks_is_passed_over() {
        let mut plan = one_stage(1.0, 2.0);
        let next = |name: &str, after: &str, share| Stage {
            name: name.into(),
            sec: 1.0,
            after: vec![after.into()],
            share,
            ..Stage::default()
        };
        plan.stages.push(next("sound", "work", Some(0.0)));
        plan.stages.push(next("publish", "sound", None));
        plan.workers[0].slots = 4;
        let course = middle(&plan, &[(0.0, 1.0)]);
        assert_eq!(course.p95.round(), 3.0);
        assert!(!course.stages.contains_key(&Name::from("sound")));
        assert_eq!(plan.work_sec(), 3.0);
        // Without any stage there is nothing to wait for.
        plan.stages.iter_mut().for_each(|stage| stage.share = Some(0.0));
        let course = middle(&plan, &[(0.0, 1.0)]);
        assert_eq!(course.p95, 0.0);
    }
}
