//! The hash ring: three servers of different weight, ten thousand keys, one server less, one more.
//!
//! Shows how keys follow weights, which keys move on a change and which would move with other ways of placing them,
//! what more points per node buy, and what a cap on each node's load costs. All of it is the library's own ring.

mod evenness;
mod schemes;
mod show;

#[cfg(test)]
mod tests;

use divvy_placement::hashing::{
    Change, Distribution, Redistribution, Ring, ring, simulate_redistribution,
};
use evenness::{Capped, Evenness};
use schemes::{Named, Scheme, Shift};

use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::report::number::{brief, count, decimal, percent};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ring",
    summary: "10,000 keys on servers of weight 1, 2 and 0.5",
    timing: Timing::Simulated,
    run,
};

const SERVERS: [Named; 3] = [("server1", 1.0), ("server2", 2.0), ("server3", 0.5)];
const NEWCOMER: Named = ("server4", 1.0);
const KEYS: usize = 10_000;
/// Points per weight: the default, and what the guide advises where shares must be even.
const DENSITIES: [u32; 2] = [150, 1_000];
const SCHEMES: [Scheme; 5] = [
    Scheme::Ring(DENSITIES[0]),
    Scheme::Ring(DENSITIES[1]),
    Scheme::Maglev,
    Scheme::Jump,
    Scheme::Modulo,
];
/// The fullest node per mean that the guide promises at 1,000 points.
const PEAK_WANTED: f64 = 1.1;
/// How far the variation may lie from the theory. Ten nodes in some dozens of rings leave this much to chance.
const THEORY_TOLERANCE: f64 = 0.25;
const SOUND: &str = "the names of this experiment differ and its weights are sound";

/// Everything that was measured.
struct Data {
    /// By density: how keys lie, and the two changes.
    rings: Vec<(u32, Distribution, [Redistribution; 2])>,
    /// By scheme: the two changes.
    shifts: Vec<(Scheme, [Shift; 2])>,
    evenness: Vec<Evenness>,
    capped: Vec<Capped>,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let rings = settings.size(100, 12);
    let data = measure(settings, rings, progress)?;
    let mut report = Report::new(
        EXPERIMENT.name,
        "Keys on a ring",
        "A ring gives every key one owner, in proportion to the owners' weights, and moves few keys when owners come \
         and go. More points per node make shares evener; a cap keeps even a lopsided ring within bounds.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("keys", "user_0 to user_9999");
    report.parameter("servers", "server1 (1), server2 (2), server3 (0.5)");
    report.parameter("rings per number of points", rings);
    report.tables.push(show::distribution_table(&data));
    report.tables.push(show::fairness_table(&data));
    report.tables.push(show::moves_table(&data));
    report.tables.push(show::schemes_table(&data));
    report.tables.push(show::evenness_table(&data));
    report.tables.push(show::capped_table(&data));
    report.charts.push(show::moved_chart(&data));
    report.charts.push(show::evenness_chart(&data));
    report.charts.push(show::variation_chart(&data));
    report.charts.push(show::capped_chart(&data));
    find(&mut report, &data);
    judge(&mut report, &data);
    Ok(report)
}

fn changes() -> [Change; 2] {
    [Change::remove(SERVERS[0].0), Change::add(NEWCOMER.0, NEWCOMER.1)]
}

fn measure(settings: &Settings, rings: u64, progress: &mut Progress<'_>) -> Result<Data, Error> {
    let total = (DENSITIES.len() + SCHEMES.len() + evenness::POINTS.len() + 1) as u64;
    let mut done = 0;
    let mut step = |what: &str| {
        done += 1;
        progress.step(what, done - 1, total)
    };
    let keys: Vec<String> = (0..KEYS).map(|user| format!("user_{user}")).collect();
    let mut data =
        Data { rings: Vec::new(), shifts: Vec::new(), evenness: Vec::new(), capped: Vec::new() };
    for points in DENSITIES {
        step("keys on the ring")?;
        let mut ring =
            Ring::new(ring::Settings { points, ..ring::Settings::default() }).expect(SOUND);
        ring.extend(SERVERS).expect(SOUND);
        let simulated =
            changes().map(|change| simulate_redistribution(&ring, &change, &keys).expect(SOUND));
        data.rings.push((points, Distribution::of_ring(&ring, &keys), simulated));
    }
    for scheme in SCHEMES {
        step("other ways to place keys")?;
        let shifts =
            changes().map(|change| schemes::shift(scheme, &SERVERS, &change, &keys).expect(SOUND));
        data.shifts.push((scheme, shifts));
    }
    for (index, points) in evenness::POINTS.into_iter().enumerate() {
        step("points per node")?;
        let seed = settings.seed_of(index as u64);
        data.evenness.push(evenness::by_points(points, rings, seed).expect(SOUND));
    }
    step("caps")?;
    let seed = settings.seed_of(u64::MAX);
    data.capped = evenness::capped(DENSITIES[0], &keys, seed).expect(SOUND);
    Ok(data)
}

fn find(report: &mut Report, data: &Data) {
    for (points, distribution, [removed, added]) in &data.rings {
        let shares: Vec<String> = distribution
            .shares()
            .iter()
            .map(|share| format!("{} on {} ({})", count(share.keys), share.name, off(share)))
            .collect();
        let points = count((*points).into());
        report.finding(format!("With {points} points: {}.", shares.join(", ")));
        let own = removed.moves.iter().filter(|each| each.from.as_deref() == Some(SERVERS[0].0));
        let own: u64 = own.map(|each| each.keys).sum();
        report.finding(format!(
            "With {points} points, the loss of server1 moves {} keys, {} of them its own; the arrival of server4 \
             moves {} where its fair share is {}.",
            count(removed.moved),
            if own == removed.moved { "all".into() } else { count(own) },
            count(added.moved),
            count(added.minimum)
        ));
    }
    for (scheme, [removed, added]) in &data.shifts {
        if removed.needless + added.needless > 0 {
            report.finding(format!(
                "{} moves {} of all keys when server1 leaves and {} when server4 comes; {} and {} keys go between \
                 servers that did not change.",
                scheme.name(),
                percent(removed.moved as f64 / KEYS as f64),
                percent(added.moved as f64 / KEYS as f64),
                count(removed.needless),
                count(added.needless),
            ));
        }
    }
    let enough = data.evenness.iter().find(|row| row.peak <= PEAK_WANTED);
    report.finding(match enough {
        Some(row) => format!(
            "The fullest of ten nodes stays within {PEAK_WANTED} of its share on average from {} points on ({} at \
             worst).",
            count(row.points.into()),
            decimal(row.peak_worst, 2)
        ),
        None => format!("No number of points here keeps the fullest node within {PEAK_WANTED}."),
    });
    if let [plain, .., tight] = data.capped.as_slice() {
        report.finding(format!(
            "Without a cap the fullest node has {} times its share; a cap of {} holds it at {} and takes {} of the \
             keys away from their owners.",
            decimal(plain.peak, 2),
            show::cap_name(tight),
            decimal(tight.peak, 2),
            percent(tight.displaced)
        ));
    }
    report.lesson(
        "Never place data by a remainder: one server more or less moves most of it. Take the ring where moved keys \
         mean moved data, Maglev where evenness counts more than a few needless moves, and jump only for numbered \
         shards of one size.",
    );
    report.lesson(
        "150 points per weight are enough for caches. Take 1,000, or a cap, where the fullest node decides what the \
         whole fleet can bear.",
    );
}

fn off(share: &divvy_placement::hashing::distribution::Share) -> String {
    format!(
        "{}{}%",
        if share.ratio() < 1.0 { "" } else { "+" },
        brief((share.ratio() - 1.0) * 100.0)
    )
}

fn judge(report: &mut Report, data: &Data) {
    let rings = || data.shifts.iter().filter(|(scheme, _)| matches!(scheme, Scheme::Ring(_)));
    let needless: u64 = rings().flat_map(|(_, shifts)| shifts).map(|shift| shift.needless).sum();
    report.verdict(
        "keys that a ring moves between servers that stay",
        "0",
        count(needless),
        needless == 0,
    );
    let dense = &data.rings[DENSITIES.len() - 1].1;
    report.verdict(
        "fullest server per fair share, 1,000 points per weight",
        format!("at most {PEAK_WANTED}"),
        decimal(dense.peak_to_mean(), 3),
        dense.peak_to_mean() <= PEAK_WANTED,
    );
    let strays =
        data.evenness.iter().map(|row| (row.variation / show::theory(row.points) - 1.0).abs());
    let worst = strays.fold(0.0, f64::max);
    report.verdict(
        "variation of shares against 1/√points",
        format!("within {}", percent(THEORY_TOLERANCE)),
        format!("off by {} at most", percent(worst)),
        worst <= THEORY_TOLERANCE,
    );
    let within = data.capped.iter().all(|row| row.cap.is_none_or(|cap| row.most <= cap));
    let words = if within { "under every cap" } else { "a cap was broken" };
    report.verdict("no node above its cap", "under every cap", words, within);
}
