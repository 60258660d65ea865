//! Decides what stages cost, from samples that were run: seconds as a straight line over sizes, by least squares.
//!
//! What a stage costs for all samples together is always what it did cost: with a line of slots in front of it, a few
//! percent less work would be far less waiting. That is why the line is over whole items, and not over single tasks of
//! which the plan may think that there are fewer.
//!
//! A stage whose tasks grow with the item cuts it into pieces; others have as many tasks side by side as samples have on
//! average. One that some samples lack has a share. What the line does not explain becomes the spread. Neither a fixed
//! part nor a part by size is ever negative: of one sample, or of sizes that are all alike, all of the time is fixed.
//!
//! Stages that may run side by side stand in the order in which they began in the samples. Who becomes ready together begins
//! in the order of the plan, and with several slots it matters whether a long stage begins first or last.

use std::collections::BTreeMap;

use divvy_types::Name;

use super::input::Stage;

/// A stage of a plan has at most so many tasks side by side.
const TASKS_MAX: u32 = 100;

/// An item that was run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Its size.
    pub size_gb: f64,
    /// What was done with it.
    pub stages: BTreeMap<Name, Seen>,
}

/// The tasks of one stage of an item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Seconds of each.
    pub seconds: Vec<f64>,
    /// The stages that they waited for.
    pub after: Vec<Name>,
    /// Whether they took no slot.
    pub light: bool,
    /// How many tasks of the item began before the first of them.
    pub place: usize,
}

/// Stages that cost what the samples did, each below those that it waits for and those that begin before it.
pub fn stages(samples: &[Sample]) -> Vec<Stage> {
    let mut names: Vec<&Name> = samples.iter().flat_map(|sample| sample.stages.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut waiting: Vec<Stage> = names.into_iter().map(|name| fit(name, samples)).collect();
    let mut ordered: Vec<Stage> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let open = |name: &Name| waiting.iter().any(|other| other.name == *name);
        let is_free = |place: &usize| !waiting[*place].after.iter().any(open);
        let free: Vec<usize> = (0..waiting.len()).filter(is_free).collect();
        let name = |place: usize| &waiting[place].name;
        let is_first =
            |place: &&usize| !free.iter().any(|other| begins(name(*other), name(**place), samples));
        // A circle cannot come from tasks that ran; if it did, the first breaks it.
        let next = free.iter().find(is_first).or_else(|| free.first()).copied().unwrap_or(0);
        let mut stage = waiting.remove(next);
        stage.after.retain(|name| ordered.iter().any(|before| before.name == *name));
        ordered.push(stage);
    }
    ordered
}

/// Whether one stage begins before another, in most of the samples that have both.
fn begins(one: &Name, before: &Name, samples: &[Sample]) -> bool {
    let both = samples.iter().filter_map(|sample| {
        Some((sample.stages.get(one)?.place, sample.stages.get(before)?.place))
    });
    both.map(|(one, other)| other.cmp(&one) as i64).sum::<i64>() > 0
}

fn fit(name: &Name, samples: &[Sample]) -> Stage {
    let seen: Vec<(f64, &Seen)> = samples
        .iter()
        .filter_map(|sample| Some((sample.size_gb, sample.stages.get(name)?)))
        .collect();
    let mut after: Vec<Name> = seen.iter().flat_map(|(_, seen)| seen.after.clone()).collect();
    after.sort_unstable();
    after.dedup();
    after.retain(|other| other != name);
    let is_everywhere = seen.len() == samples.len();
    let counts: Vec<(f64, usize)> =
        seen.iter().map(|(size, seen)| (*size, seen.seconds.len())).collect();
    let mut stage = Stage {
        name: name.clone(),
        share: (!is_everywhere).then(|| 100.0 * seen.len() as f64 / samples.len() as f64),
        light: seen.iter().all(|(_, seen)| seen.light),
        after,
        ..cut(&counts)
    };
    let points: Vec<Point> = seen
        .iter()
        .map(|(size, seen)| {
            let tasks = f64::from(stage.cut(*size).0);
            let part = if stage.piece_gb.is_some() { *size / tasks } else { *size };
            Point { size: part, seconds: seen.seconds.iter().sum::<f64>() / tasks, tasks }
        })
        .collect();
    (stage.sec, stage.sec_per_gb) = line(&points);
    let ratios = points.iter().zip(&seen).flat_map(|(point, (_, seen))| {
        // As long as the plan says that all of them together take, each of those that there were.
        let usual = (stage.sec + stage.sec_per_gb * point.size) * point.tasks;
        let each = usual / seen.seconds.len() as f64;
        seen.seconds.iter().filter(move |_| each > 0.0).map(move |seconds| seconds / each)
    });
    stage.spread = spread(ratios);
    stage
}

/// A stage with as many tasks as samples of these sizes had: in pieces, if that says better how many there were than
/// one number for all of them.
fn cut(counts: &[(f64, usize)]) -> Stage {
    let mean = counts.iter().map(|(_, count)| *count as f64).sum::<f64>() / counts.len() as f64;
    let tasks = mean.round().clamp(1.0, f64::from(TASKS_MAX)) as u32;
    let side_by_side = Stage { tasks: (tasks > 1).then_some(tasks), ..Stage::default() };
    let off = |stage: &Stage| -> f64 {
        let one = |(size, count): &(f64, usize)| f64::from(stage.cut(*size).0) - *count as f64;
        counts.iter().map(|sample| one(sample).powi(2)).sum()
    };
    // A little more than the sample's own pieces, or rounding would cut it once more.
    let piece = |(size, count): &(f64, usize)| size / (*count).max(1) as f64 * (1.0 + 1e-9);
    let pieces =
        counts.iter().map(|sample| Stage { piece_gb: Some(piece(sample)), ..Stage::default() });
    pieces.fold(side_by_side, |best, other| if off(&other) < off(&best) { other } else { best })
}

/// A sample as the plan would cut it.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// What of the item a task works on, in gigabytes.
    size: f64,
    /// What a task takes, if all that the stage took is shared out evenly.
    seconds: f64,
    /// How many tasks there are.
    tasks: f64,
}

/// The line through these points, by least squares: its height at 0 and its slope, neither of them negative. For all
/// points together it says what they say.
fn line(points: &[Point]) -> (f64, f64) {
    let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(|point| point.tasks * of(point)).sum();
    let count: f64 = sum(&|_| 1.0);
    let (x, y) = (sum(&|point| point.size) / count, sum(&|point| point.seconds) / count);
    let across: f64 = sum(&|point| (point.size - x).powi(2));
    let along: f64 = sum(&|point| (point.size - x) * (point.seconds - y));
    let slope = if across > 1e-12 * x * x { along / across } else { 0.0 };
    if slope <= 0.0 {
        return (y, 0.0);
    }
    let height = y - slope * x;
    if height >= 0.0 { (height, slope) } else { (0.0, y / x) }
}

/// How far tasks are from what is usual, from their shares of that: a standard deviation in percent.
fn spread(ratios: impl Iterator<Item = f64>) -> f64 {
    let squares = ratios.map(|ratio| (ratio - 1.0).powi(2));
    let (sum, count) = squares.fold((0.0, 0.0), |(sum, count), square| (sum + square, count + 1.0));
    if count < 2.0 { 0.0 } else { ((sum / count).sqrt() * 100.0).min(300.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(size_gb: f64, stages: &[(&str, &[f64], &[&str])]) -> Sample {
        let one = |(name, seconds, after): &(&str, &[f64], &[&str])| {
            let after = after.iter().map(|name| Name::from(*name)).collect();
            (Name::from(*name), Seen { seconds: seconds.to_vec(), after, ..Seen::default() })
        };
        Sample { size_gb, stages: stages.iter().map(one).collect() }
    }

    #[test]
    fn a_line_over_sizes_is_found_and_stages_stand_below_what_they_wait_for() {
        let samples = [
            sample(
                1.0,
                &[
                    ("a.last", &[3.0], &["encode"]),
                    ("encode", &[14.0], &["probe"]),
                    ("probe", &[2.0], &[]),
                ],
            ),
            sample(
                3.0,
                &[
                    ("a.last", &[3.0], &["encode"]),
                    ("encode", &[34.0], &["probe"]),
                    ("probe", &[2.0], &[]),
                ],
            ),
        ];
        let stages = stages(&samples);
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["probe", "encode", "a.last"]);
        assert_eq!((stages[1].sec, stages[1].sec_per_gb), (4.0, 10.0));
        assert_eq!((stages[2].sec, stages[2].sec_per_gb, stages[2].spread), (3.0, 0.0, 0.0));
        assert_eq!(stages[1].after, [Name::from("probe")]);
    }

    #[test]
    fn tasks_that_grow_with_the_item_are_pieces_and_others_stand_side_by_side() {
        let samples = [
            sample(1.0, &[("cut", &[5.0, 5.0], &[]), ("mux", &[1.0, 1.0, 1.0], &[])]),
            sample(2.0, &[("cut", &[5.0, 5.0, 5.0, 5.0], &[]), ("mux", &[1.0, 1.0, 1.0], &[])]),
        ];
        let stages = stages(&samples);
        assert!((stages[0].piece_gb.unwrap() - 0.5).abs() < 1e-6 && stages[0].tasks.is_none());
        assert_eq!((stages[0].cut(1.0).0, stages[0].cut(2.0).0), (2, 4));
        assert_eq!((stages[1].piece_gb, stages[1].tasks), (None, Some(3)));
    }

    #[test]
    fn stages_side_by_side_stand_in_the_order_in_which_they_began() {
        let began = |names: &[&str]| {
            let one = |(place, name): (usize, &&str)| {
                let after = if place == 0 { vec![] } else { vec![Name::from(names[0])] };
                (Name::from(*name), Seen { seconds: vec![1.0], after, light: false, place })
            };
            Sample { size_gb: 1.0, stages: names.iter().enumerate().map(one).collect() }
        };
        let order = |samples: &[Sample]| -> Vec<String> {
            stages(samples).iter().map(|stage| stage.name.to_string()).collect()
        };
        let whole = began(&["plan", "sound", "picture", "frames"]);
        assert_eq!(order(std::slice::from_ref(&whole)), ["plan", "sound", "picture", "frames"]);
        // Items that lack a stage begin the others earlier, which says nothing of the two.
        let rest = || began(&["plan", "picture", "frames"]);
        let samples = [whole, rest(), rest(), rest()];
        assert_eq!(order(&samples), ["plan", "sound", "picture", "frames"]);
        // Most decide; where none does, the names.
        let samples =
            [began(&["plan", "b", "a"]), began(&["plan", "b", "a"]), began(&["plan", "a", "b"])];
        assert_eq!(order(&samples), ["plan", "b", "a"]);
        assert_eq!(order(&samples[1..]), ["plan", "a", "b"]);
    }

    /// What all samples cost by the plan, for one stage.
    fn told(stage: &Stage, samples: &[Sample]) -> f64 {
        let one = |sample: &Sample| {
            let (tasks, seconds) = stage.cut(sample.size_gb);
            f64::from(tasks) * seconds
        };
        stage.share() * samples.iter().map(one).sum::<f64>()
    }

    #[test]
    fn all_samples_together_cost_what_they_did() {
        // Tasks that say nothing about sizes, pieces that do not quite fit, sizes that would ask for less than nothing.
        let samples = [
            sample(1.0, &[("odd", &[2.0], &[]), ("cut", &[3.0, 1.0], &[]), ("steep", &[1.0], &[])]),
            sample(2.0, &[("odd", &[2.0, 1.0, 3.0], &[]), ("steep", &[9.0], &[])]),
            sample(4.0, &[("cut", &[4.0, 4.0, 4.0, 2.0, 1.0], &[]), ("steep", &[21.0], &[])]),
            sample(3.0, &[("odd", &[2.5, 3.5], &[]), ("cut", &[3.0, 3.0, 5.0], &[])]),
        ];
        for stage in stages(&samples) {
            let seen = samples.iter().filter_map(|sample| sample.stages.get(&stage.name));
            let cost: f64 = seen.flat_map(|seen| &seen.seconds).sum();
            let with: Vec<Sample> = samples
                .iter()
                .filter(|sample| sample.stages.contains_key(&stage.name))
                .cloned()
                .collect();
            let told = told(&Stage { share: None, ..stage.clone() }, &with);
            assert!((told / cost - 1.0).abs() < 1e-9, "{}: {told}, not {cost}", stage.name);
        }
    }

    #[test]
    fn a_stage_that_some_items_lack_has_a_share() {
        let samples = [
            sample(1.0, &[("picture", &[2.0], &[]), ("sound", &[1.0], &[])]),
            sample(1.0, &[("picture", &[2.0], &[])]),
        ];
        let stages = stages(&samples);
        assert_eq!((stages[0].share, stages[1].share), (None, Some(50.0)));
        assert!((told(&stages[1], &samples) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_becomes_negative() {
        let points = |points: &[(f64, f64)]| -> Vec<Point> {
            points
                .iter()
                .map(|(size, seconds)| Point { size: *size, seconds: *seconds, tasks: 1.0 })
                .collect()
        };
        assert_eq!(line(&points(&[(1.0, 5.0), (2.0, 3.0)])), (4.0, 0.0));
        assert_eq!(line(&points(&[(1.0, 1.0), (2.0, 5.0)])), (0.0, 2.0));
        assert_eq!(line(&points(&[(1.0, 7.0)])), (7.0, 0.0));
        assert!((spread([0.8, 1.2].into_iter()) - 20.0).abs() < 1e-9);
    }
}
