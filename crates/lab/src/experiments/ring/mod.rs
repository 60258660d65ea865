//! The hash ring: three servers of different weight, ten thousand keys, one server less, one more.
//!
//! Shows how keys follow weights, which keys move on a change and which would move with other ways of placing them,
//! what more points per node buy, and what a cap on each node's load costs. All of it is the library's own ring.

mod evenness;
mod schemes;

use divvy_placement::hashing::{
    Change, Distribution, Redistribution, Ring, ring, simulate_redistribution,
};
use evenness::{Capped, Evenness};
use schemes::{Named, Scheme, Shift};

use crate::chart::{Axis, Bars, Chart, Lines, Mark};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{brief, count, decimal, percent};
use crate::report::{Cell, Report, Table};

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
    report.tables.push(distribution_table(&data));
    report.tables.push(moves_table(&data));
    report.tables.push(schemes_table(&data));
    report.tables.push(evenness_table(&data));
    report.tables.push(capped_table(&data));
    report.charts.push(moved_chart(&data));
    report.charts.push(evenness_chart(&data));
    report.charts.push(variation_chart(&data));
    report.charts.push(capped_chart(&data));
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

fn distribution_table(data: &Data) -> Table {
    let mut table = Table::new("Where 10,000 keys lie")
        .number("points per weight", "", 0)
        .text("server")
        .number("weight", "", 1)
        .number("keys", "", 0)
        .number("expected", "", 0)
        .number("off by", "%", 1);
    for (points, distribution, _) in &data.rings {
        for share in distribution.shares() {
            table.row([
                (*points).into(),
                share.name.as_str().into(),
                share.weight.into(),
                share.keys.into(),
                share.expected.into(),
                ((share.ratio() - 1.0) * 100.0).into(),
            ]);
        }
        table.row([
            (*points).into(),
            "all".into(),
            Cell::Text(format!("peak/mean {}", decimal(distribution.peak_to_mean(), 3))),
            distribution.total().into(),
            distribution.total().into(),
            Cell::Text(format!("cv {}", decimal(distribution.variation(), 3))),
        ]);
    }
    table
}

fn moves_table(data: &Data) -> Table {
    let mut table = Table::new("Which keys move")
        .text("change")
        .number("points per weight", "", 0)
        .text("from")
        .text("to")
        .number("keys", "", 0)
        .number("of all", "%", 1);
    for (index, change) in ["server1 leaves", "server4 (1) comes"].into_iter().enumerate() {
        for (points, _, simulated) in &data.rings {
            for each in &simulated[index].moves {
                let name = |node: &Option<String>| Cell::from(node.clone());
                table.row([
                    change.into(),
                    (*points).into(),
                    name(&each.from),
                    name(&each.to),
                    each.keys.into(),
                    (each.keys as f64 / KEYS as f64 * 100.0).into(),
                ]);
            }
        }
    }
    table
}

fn schemes_table(data: &Data) -> Table {
    let mut table = Table::new("The same changes under other ways to place keys")
        .text("way")
        .text("change")
        .number("moved", "%", 1)
        .number("least possible", "%", 1)
        .number("between servers that stay", "%", 1)
        .number("peak/mean after", "", 3);
    for (scheme, shifts) in &data.shifts {
        for (change, shift) in ["server1 leaves", "server4 comes"].into_iter().zip(shifts) {
            let share = |keys: u64| Cell::from(keys as f64 / KEYS as f64 * 100.0);
            table.row([
                scheme.name().into(),
                change.into(),
                share(shift.moved),
                share(shift.minimum),
                share(shift.needless),
                shift.after.peak_to_mean().into(),
            ]);
        }
    }
    table
}

fn evenness_table(data: &Data) -> Table {
    let mut table = Table::new("Shares of ten equal nodes, by points per node")
        .number("points", "", 0)
        .number("fullest/mean", "", 3)
        .number("at worst", "", 3)
        .number("emptiest/mean", "", 3)
        .number("variation (cv)", "%", 2)
        .number("1/√points", "%", 2);
    for row in &data.evenness {
        table.row([
            row.points.into(),
            row.peak.into(),
            row.peak_worst.into(),
            row.least.into(),
            (row.variation * 100.0).into(),
            (theory(row.points) * 100.0).into(),
        ]);
    }
    table
}

fn capped_table(data: &Data) -> Table {
    let mut table = Table::new("Ten equal nodes, 150 points, with a cap on each node's keys")
        .text("cap above the fair share")
        .number("most keys allowed", "", 0)
        .number("most keys", "", 0)
        .number("fullest/mean", "", 3)
        .number("keys away from their owner", "%", 1);
    for row in &data.capped {
        table.row([
            cap_name(row).into(),
            row.cap.into(),
            row.most.into(),
            row.peak.into(),
            (row.displaced * 100.0).into(),
        ]);
    }
    table
}

fn cap_name(row: &Capped) -> String {
    row.epsilon.map_or_else(|| "no cap".into(), percent)
}

/// The variation of shares that v points per node should give.
fn theory(points: u32) -> f64 {
    1.0 / f64::from(points).sqrt()
}

fn moved_chart(data: &Data) -> Chart {
    let percent_of = |keys: u64| Some(keys as f64 / KEYS as f64 * 100.0);
    let mut bars = Bars::new(
        Axis::new("keys that move", "%"),
        data.shifts.iter().map(|(scheme, _)| scheme.name()),
    );
    for (index, name) in ["server1 leaves", "server4 comes"].into_iter().enumerate() {
        let moved = data.shifts.iter().map(|(_, shifts)| percent_of(shifts[index].moved));
        bars = bars.series(name, moved);
    }
    let fair = NEWCOMER.1 / (SERVERS.iter().map(|server| server.1).sum::<f64>() + NEWCOMER.1);
    bars = bars.mark(Mark::new(fair * 100.0, "server4's fair share"));
    Chart::new("Keys that move on a change", bars)
        .note("A way that is right moves only the keys of the server that leaves or comes.")
}

fn evenness_chart(data: &Data) -> Chart {
    let line = |value: fn(&Evenness) -> f64| {
        data.evenness.iter().map(move |row| (f64::from(row.points), value(row)))
    };
    let x = Axis::new("points per node", "").log().precision(0);
    let lines = Lines::new(x, Axis::new("share per fair share", "").precision(2))
        .line("fullest, at worst", line(|row| row.peak_worst))
        .line("fullest", line(|row| row.peak))
        .line("emptiest", line(|row| row.least))
        .mark(Mark::new(PEAK_WANTED, "1.1 × the fair share"));
    Chart::new("More points, evener shares", lines)
        .note("Ten equal nodes; means over many rings with other names, and the worst of them.")
}

fn variation_chart(data: &Data) -> Chart {
    let points = |value: &dyn Fn(&Evenness) -> f64| -> Vec<(f64, f64)> {
        data.evenness.iter().map(|row| (f64::from(row.points), value(row) * 100.0)).collect()
    };
    let x = Axis::new("points per node", "").log().precision(0);
    let lines = Lines::new(x, Axis::new("variation of shares", "%").log().precision(2))
        .line("measured", points(&|row| row.variation))
        .line("1/√points", points(&|row| theory(row.points)));
    Chart::new("Variation of shares against theory", lines).note("Both axes grow by ratio.")
}

fn capped_chart(data: &Data) -> Chart {
    let axis = Axis::new("share", "%");
    let bars = Bars::new(axis, data.capped.iter().map(cap_name))
        .series(
            "fullest node above its share",
            data.capped.iter().map(|row| Some((row.peak - 1.0) * 100.0)),
        )
        .series(
            "keys away from their owner",
            data.capped.iter().map(|row| Some(row.displaced * 100.0)),
        );
    Chart::new("What a cap gives and takes", bars)
        .note("Ten equal nodes with 150 points each; the cap is how far a node may go above its fair share.")
}

fn find(report: &mut Report, data: &Data) {
    for (points, distribution, [removed, added]) in &data.rings {
        let shares: Vec<String> = distribution
            .shares()
            .iter()
            .map(|share| format!("{} on {} ({})", count(share.keys), share.name, off(share)))
            .collect();
        report.finding(format!("With {points} points: {}.", shares.join(", ")));
        report.finding(format!(
            "With {points} points, the loss of server1 moves {} keys, all its own; the arrival of server4 moves {} \
             where its fair share is {}.",
            count(removed.moved),
            count(added.moved),
            count(added.minimum)
        ));
    }
    for (scheme, [removed, added]) in &data.shifts {
        if removed.needless + added.needless > 0 {
            report.finding(format!(
                "{} moves {} of all keys when server1 leaves and {} when server4 comes; {} and {} go between servers \
                 that did not change.",
                scheme.name(),
                percent(removed.moved as f64 / KEYS as f64),
                percent(added.moved as f64 / KEYS as f64),
                percent(removed.needless as f64 / KEYS as f64),
                percent(added.needless as f64 / KEYS as f64),
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
            cap_name(tight),
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
    let strays = data.evenness.iter().map(|row| (row.variation / theory(row.points) - 1.0).abs());
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

#[cfg(test)]
mod tests;
