//! Decides what stages cost, from samples that were run: seconds as a straight line over sizes, by least squares.
//!
//! A stage whose tasks are as many for every item has that many side by side; one whose tasks grow with the item cuts it
//! into pieces. What the line does not explain becomes the spread. Neither a fixed part nor a part by size is ever
//! negative: of one sample, or of sizes that are all alike, all of the time is fixed.

use std::collections::BTreeMap;

use divvy_types::Name;

use super::input::Stage;

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
}

/// Stages that cost what the samples did, each below those that it waits for.
pub fn stages(samples: &[Sample]) -> Vec<Stage> {
    let mut names: Vec<&Name> = samples.iter().flat_map(|sample| sample.stages.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut waiting: Vec<Stage> = names.into_iter().map(|name| fit(name, samples)).collect();
    let mut ordered: Vec<Stage> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let open = |name: &Name| waiting.iter().any(|other| other.name == *name);
        // A circle cannot come from tasks that ran; if it did, the first breaks it.
        let next = waiting.iter().position(|stage| !stage.after.iter().any(open)).unwrap_or(0);
        let mut stage = waiting.remove(next);
        stage.after.retain(|name| ordered.iter().any(|before| before.name == *name));
        ordered.push(stage);
    }
    ordered
}

fn fit(name: &Name, samples: &[Sample]) -> Stage {
    let seen = || samples.iter().filter_map(|sample| Some((sample, sample.stages.get(name)?)));
    let counts: Vec<usize> = seen().map(|(_, seen)| seen.seconds.len()).collect();
    let alike = counts.iter().all(|count| *count == counts[0]);
    let part = |sample: &Sample, seen: &Seen| match alike {
        true => sample.size_gb,
        false => sample.size_gb / seen.seconds.len().max(1) as f64,
    };
    let points: Vec<(f64, f64)> = seen()
        .flat_map(|(sample, seen)| {
            let size = part(sample, seen);
            seen.seconds.iter().map(move |seconds| (size, *seconds))
        })
        .collect();
    let (sec, sec_per_gb) = line(&points);
    let largest = seen().map(|(sample, seen)| part(sample, seen)).fold(0.0, f64::max);
    let tasks = u32::try_from(counts[0]).unwrap_or(u32::MAX);
    let mut after: Vec<Name> = seen().flat_map(|(_, seen)| seen.after.clone()).collect();
    after.sort_unstable();
    after.dedup();
    after.retain(|other| other != name);
    Stage {
        name: name.clone(),
        sec,
        sec_per_gb,
        piece_gb: (!alike).then_some(largest),
        tasks: (alike && tasks > 1).then_some(tasks),
        spread: spread(&points, sec, sec_per_gb),
        after,
    }
}

/// The line through these points, by least squares: its height at 0 and its slope, neither of them negative.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let across: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let along: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let slope = if across > 1e-12 * x * x { along / across } else { 0.0 };
    if slope <= 0.0 {
        return (y, 0.0);
    }
    let height = y - slope * x;
    if height >= 0.0 {
        return (height, slope);
    }
    let squares: f64 = points.iter().map(|point| point.0 * point.0).sum();
    (0.0, points.iter().map(|point| point.0 * point.1).sum::<f64>() / squares)
}

/// How far points are from the line, as a standard deviation in percent of it.
fn spread(points: &[(f64, f64)], sec: f64, sec_per_gb: f64) -> f64 {
    let ratios = points.iter().filter_map(|(size, seconds)| {
        let expected = sec + sec_per_gb * size;
        (expected > 0.0).then(|| (seconds / expected - 1.0).powi(2))
    });
    let (sum, count) = ratios.fold((0.0, 0.0), |(sum, count), square| (sum + square, count + 1.0));
    if count < 2.0 { 0.0 } else { ((sum / count).sqrt() * 100.0).min(300.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(size_gb: f64, stages: &[(&str, &[f64], &[&str])]) -> Sample {
        let one = |(name, seconds, after): &(&str, &[f64], &[&str])| {
            let after = after.iter().map(|name| Name::from(*name)).collect();
            (Name::from(*name), Seen { seconds: seconds.to_vec(), after })
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
        assert_eq!((stages[0].piece_gb, stages[0].tasks), (Some(0.5), None));
        assert_eq!((stages[1].piece_gb, stages[1].tasks), (None, Some(3)));
    }

    #[test]
    fn nothing_becomes_negative() {
        assert_eq!(line(&[(1.0, 5.0), (2.0, 3.0)]), (4.0, 0.0));
        let (height, slope) = line(&[(1.0, 1.0), (2.0, 5.0)]);
        assert!(height == 0.0 && (slope - 2.2).abs() < 1e-9, "{slope}");
        assert_eq!(line(&[(1.0, 7.0)]), (7.0, 0.0));
        assert!((spread(&[(1.0, 8.0), (1.0, 12.0)], 10.0, 0.0) - 20.0).abs() < 1e-9);
    }
}
