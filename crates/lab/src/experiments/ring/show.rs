//! Decides how rings are shown: tables and charts.

use super::evenness::{Capped, Evenness};
use super::{Data, KEYS, NEWCOMER, PEAK_WANTED, SERVERS};
use crate::chart::{Axis, Bars, Chart, Lines, Mark};
use crate::report::{Cell, Table};

/// Keys of each server.
pub(super) fn distribution_table(data: &Data) -> Table {
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
    }
    table
}

/// How even the shares are.
pub(super) fn fairness_table(data: &Data) -> Table {
    let mut table = Table::new("How even that is")
        .number("points per weight", "", 0)
        .number("fullest/fair share", "", 3)
        .number("emptiest/fair share", "", 3)
        .number("variation (cv)", "%", 1);
    for (points, distribution, _) in &data.rings {
        table.row([
            (*points).into(),
            distribution.peak_to_mean().into(),
            distribution.min_to_mean().into(),
            (distribution.variation() * 100.0).into(),
        ]);
    }
    table
}

/// From where to where keys move.
pub(super) fn moves_table(data: &Data) -> Table {
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

/// The changes under every way.
pub(super) fn schemes_table(data: &Data) -> Table {
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

/// Shares by points per node.
pub(super) fn evenness_table(data: &Data) -> Table {
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

/// What caps do.
pub(super) fn capped_table(data: &Data) -> Table {
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

/// The cap in words.
pub(super) fn cap_name(row: &Capped) -> String {
    row.epsilon.map_or_else(|| "no cap".into(), |epsilon| format!("{:.0}%", epsilon * 100.0))
}

/// The variation of shares that v points per node should give.
pub(super) fn theory(points: u32) -> f64 {
    1.0 / f64::from(points).sqrt()
}

/// Moved keys by way.
pub(super) fn moved_chart(data: &Data) -> Chart {
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

/// Shares by points per node.
pub(super) fn evenness_chart(data: &Data) -> Chart {
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

/// The variation beside its theory.
pub(super) fn variation_chart(data: &Data) -> Chart {
    let points = |value: &dyn Fn(&Evenness) -> f64| -> Vec<(f64, f64)> {
        data.evenness.iter().map(|row| (f64::from(row.points), value(row) * 100.0)).collect()
    };
    let x = Axis::new("points per node", "").log().precision(0);
    let lines = Lines::new(x, Axis::new("variation of shares", "%").log().precision(2))
        .line("measured", points(&|row| row.variation))
        .line("1/√points", points(&|row| theory(row.points)));
    Chart::new("Variation of shares against theory", lines).note("Both axes grow by ratio.")
}

/// What caps do.
pub(super) fn capped_chart(data: &Data) -> Chart {
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
