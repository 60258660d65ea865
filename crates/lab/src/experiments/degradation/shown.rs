//! The tables and charts of the chain's report.

use super::chain::{SERVICES, THREADS};
use super::day::{Day, LOOK, RATE, Seen};
use super::{Tried, helped_per_s, is_light, wait_ms};
use crate::chart::{Axis, Bars, Chart, Lines, Mark, Timeline};
use crate::experiments::paused::ms;
use crate::report::{Cell, Table};

pub(super) fn users(tried: &[Tried]) -> Table {
    let mut table = Table::new("What users see who come while D is slow")
        .text("guards")
        .number("full", "%", 1)
        .number("degraded", "%", 1)
        .number("refused or failed", "%", 1)
        .number("too late", "%", 1)
        .number("helped", "per s", 1)
        .number("p50", "ms", 0)
        .number("p99", "ms", 0);
    for Tried { name, day } in tried {
        let shares = Seen::ALL
            .map(|one| Cell::from(Day::share(day.in_trouble(), |seen| seen == one) * 100.0));
        let rest = [helped_per_s(day), wait_ms(day, 0.5), wait_ms(day, 0.99)].map(Cell::from);
        table.row([Cell::from(*name)].into_iter().chain(shares).chain(rest));
    }
    table
}

pub(super) fn kinds(tried: &[Tried]) -> Table {
    let mut table = Table::new("Users helped in time, by what they need, and the way back")
        .text("guards")
        .number("need D", "%", 1)
        .number("do not need D", "%", 1)
        .number("all full again after", "s", 1)
        .number("calls D worked on", "", 0);
    for Tried { name, day } in tried {
        let deep = Day::share(day.in_trouble().filter(|visit| visit.is_deep), Seen::is_good);
        let light = Day::share(day.in_trouble().filter(is_light), Seen::is_good);
        let back = day.recovery().map(|after| after.as_secs_f64());
        table.row([
            (*name).into(),
            (deep * 100.0).into(),
            (light * 100.0).into(),
            back.map_or_else(|| "not in this run".into(), Cell::from),
            day.acts.worked_by_d.into(),
        ]);
    }
    table
}

pub(super) fn saturation(tried: &[Tried]) -> Table {
    let mut table =
        Table::new("Services without a free thread: first after D became slow, and for how long")
            .text("guards");
    for service in SERVICES {
        table = table.text(service);
    }
    for Tried { name, day } in tried {
        let cells = (0..SERVICES.len()).map(|service| {
            let (first, time) = day.saturation(service);
            Cell::from(first.map_or_else(
                || "never".into(),
                |first| {
                    let after = first.as_secs_f64() - day.plan.slow[0].as_secs_f64();
                    format!("{after:.1} s, {:.1} s", time.as_secs_f64())
                },
            ))
        });
        table.row([Cell::from(*name)].into_iter().chain(cells));
    }
    table
}

pub(super) fn acts(tried: &[Tried]) -> Table {
    let mut table = Table::new("What the guards did in the whole run").text("guards");
    let columns = [
        "waits given up",
        "breaker opened",
        "breaker refused",
        "bulkhead refused",
        "ladder moves",
        "from cache",
        "deadlines passed",
        "shed",
    ];
    for column in columns {
        table = table.number(column, "", 0);
    }
    for Tried { name, day } in tried {
        let acts = day.acts;
        let counts = [
            acts.timeouts,
            acts.breaker_opened,
            acts.breaker_refused,
            acts.bulkhead_refused,
            acts.ladder_moves,
            acts.from_cache,
            acts.expired,
            acts.shed,
        ];
        table.row([Cell::from(*name)].into_iter().chain(counts.map(Cell::from)));
    }
    table
}

pub(super) fn seen(tried: &[Tried]) -> Chart {
    let axis = Axis::new("users who come while D is slow", "%").to(100.0);
    let mut bars = Bars::new(axis, tried.iter().map(|one| one.name));
    for one in Seen::ALL {
        let shares = tried
            .iter()
            .map(|tried| Some(Day::share(tried.day.in_trouble(), |seen| seen == one) * 100.0));
        bars = bars.series(one.name(), shares);
    }
    Chart::new("What users see", bars)
}

pub(super) fn goodput(tried: &[Tried]) -> Chart {
    let x = Axis::new("when the user came", "s").precision(0);
    let y = Axis::new("helped in time", "per s").precision(0).to(RATE);
    let mut lines = Lines::new(x, y);
    for Tried { name, day } in tried {
        lines = lines.line(*name, day.goodput());
    }
    let [from, to] = tried[0].day.plan.slow.map(|at| at.as_secs_f64());
    let lines = lines.moment(from, "D becomes slow").moment(to, "D is well");
    Chart::new("Users who got a full or a degraded answer in time", lines)
}

pub(super) fn waits(tried: &[Tried]) -> Chart {
    let x = Axis::new("when the user came", "s").precision(0);
    let y = Axis::new("median wait", "ms").log().precision(0);
    let mut lines = Lines::new(x, y);
    for Tried { name, day } in tried {
        lines = lines.line(*name, day.deep_waits().into_iter().map(|(at, wait)| (at, ms(wait))));
    }
    let [from, to] = tried[0].day.plan.slow.map(|at| at.as_secs_f64());
    let lines = lines.moment(from, "D becomes slow").moment(to, "D is well");
    Chart::new("How long users wait who need D, for an answer or an error", lines)
        .note("Each step of the axis is ten times the one before.")
}

/// Rows of the services that ran out of threads at all.
pub(super) fn saturated(tried: &[Tried]) -> Chart {
    let x = Axis::new("time", "s").to(tried[0].day.plan.ends.as_secs_f64());
    let mut timeline = Timeline::new(x, ["D is slow", "no free thread"]);
    let [from, to] = tried[0].day.plan.slow.map(|at| at.as_secs_f64());
    timeline = timeline.row("D", [(from, to, 0, "slow".to_owned())]);
    for Tried { name, day } in tried {
        for (service, letter) in SERVICES.iter().enumerate() {
            let spans = spans(day, service);
            if !spans.is_empty() {
                timeline = timeline.row(format!("{name}: {letter}"), spans);
            }
        }
    }
    Chart::new("Which service runs out of threads, and when", timeline)
        .note("Services that always had a free thread are left out.")
}

fn spans(day: &Day, service: usize) -> Vec<(f64, f64, usize, String)> {
    let mut spans: Vec<(f64, f64, usize, String)> = Vec::new();
    for look in day.looks.iter().filter(|look| look.is_saturated(service)) {
        let (from, to) = (look.at.as_secs_f64(), (look.at + LOOK).as_secs_f64());
        match spans.last_mut() {
            Some(last) if from - last.1 < LOOK.as_secs_f64() / 2.0 => last.1 = to,
            _ => spans.push((from, to, 1, String::new())),
        }
    }
    spans
}

pub(super) fn threads(tried: &Tried) -> Chart {
    let x = Axis::new("time", "s").precision(0);
    let y = Axis::new("requests that hold or wait for a thread", "× threads").precision(1);
    let mut lines = Lines::new(x, y).mark(Mark::new(1.0, "all threads taken"));
    for (service, letter) in SERVICES.iter().enumerate() {
        let points = tried.day.looks.iter().map(|look| {
            let load = (look.taken[service] + look.waiting[service]) as f64;
            (look.at.as_secs_f64(), load / THREADS[service] as f64)
        });
        lines = lines.line(*letter, points);
    }
    let [from, to] = tried.day.plan.slow.map(|at| at.as_secs_f64());
    let lines = lines.moment(from, "D becomes slow").moment(to, "D is well");
    Chart::new(format!("Threads and queues, {}", tried.name), lines)
        .note("What lies above the line waits in a queue.")
}
