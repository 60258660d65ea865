//! One crawl in simulated time: slots that fetch, and a frontier that says what.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::side::{Side, Step, Ticket};
use super::web::{Log, Nature, Page, Web};
use crate::experiment::{Error, Progress};

/// How often the state is written down for the chart.
const SAMPLE_MS: u64 = 5_000;

/// How a crawl goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) delay_ms: u64,
    /// Requests in flight at once, of all hosts.
    pub(super) slots: usize,
    /// Hosts whose first pages are known at the start.
    pub(super) seeds: u32,
    pub(super) end_ms: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) pages: u64,
    pub(super) log: Log,
    pub(super) queued: u64,
    pub(super) in_memory: u64,
    pub(super) bytes: u64,
    /// Seconds and pages so far.
    pub(super) curve: Vec<(f64, f64)>,
}

struct Flight {
    host: u32,
    /// Nothing for a robots.txt.
    page: Option<Page>,
    ticket: Ticket,
}

/// Lets a frontier crawl for a time.
pub(super) fn play(
    web: &Web,
    plan: &Plan,
    side: &mut dyn Side,
    step: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<Outcome, Error> {
    let mut log = Log::new(web, plan.delay_ms);
    let (mut now_ms, mut pages, mut number, mut sample_ms) = (1_000_000, 0, 0, 0);
    let start_ms = now_ms;
    let mut curve = Vec::new();
    let mut due: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut flights: BTreeMap<u64, Flight> = BTreeMap::new();
    let stride = (web.hosts / plan.seeds.max(1)).max(1);
    let seeds: Vec<Page> =
        (0..plan.seeds).map(|n| Page { host: n * stride % web.hosts, number: 0 }).collect();
    side.found(now_ms, &seeds);
    while now_ms < start_ms + plan.end_ms {
        let mut wake_ms = start_ms + plan.end_ms;
        while flights.len() < plan.slots {
            let (host, page, ticket) = match side.next(now_ms) {
                Step::Fetch(ticket, page) => (page.host, Some(page), ticket),
                Step::Robots(ticket, host) => (host, None, ticket),
                Step::Wait(until_ms) => {
                    wake_ms = wake_ms.min(until_ms);
                    break;
                }
                Step::Idle => break,
            };
            log.started(now_ms, web, host, page);
            let takes_ms = web.takes_ms(page.unwrap_or(Page { host, number: 0 }));
            number += 1;
            due.push(Reverse((now_ms + takes_ms, number)));
            flights.insert(number, Flight { host, page, ticket });
        }
        let Some(Reverse((at_ms, _))) = due.peek() else {
            now_ms = wake_ms.max(now_ms + 1);
            continue;
        };
        now_ms = (*at_ms).min(wake_ms).max(now_ms);
        while let Some(Reverse((at_ms, number))) =
            due.peek().copied().filter(|next| next.0.0 <= now_ms)
        {
            due.pop();
            let flight = flights.remove(&number).expect("it is in flight until it ends");
            pages += land(web, &mut log, side, at_ms, &flight);
        }
        if now_ms - start_ms >= sample_ms {
            curve.push(((now_ms - start_ms) as f64 / 1_000.0, pages as f64));
            sample_ms = now_ms - start_ms + SAMPLE_MS;
            step(pages)?;
        }
    }
    let (queued, in_memory, bytes) = (side.queued(), side.in_memory(), side.bytes());
    Ok(Outcome { pages, log, queued, in_memory, bytes, curve })
}

/// An answer comes; how many pages that makes.
fn land(web: &Web, log: &mut Log, side: &mut dyn Side, at_ms: u64, flight: &Flight) -> u64 {
    log.ended(at_ms, flight.host);
    let is_well = web.nature(flight.host) != Nature::Dead;
    let Some(page) = flight.page else {
        side.robots(at_ms, flight.ticket, flight.host, is_well);
        return 0;
    };
    side.ended(at_ms, flight.ticket, page, is_well);
    if !is_well {
        return 0;
    }
    let links: Vec<Page> = web.links(page).collect();
    side.found(at_ms, &links);
    1
}

/// Steps of one crawl among several, told to whoever watches.
pub(super) fn watched<'a>(
    progress: &'a mut Progress<'_>,
    what: &'a str,
    done: u64,
    total: u64,
) -> impl FnMut(u64) -> Result<(), Error> + 'a {
    move |_| progress.step(what, done, total)
}
