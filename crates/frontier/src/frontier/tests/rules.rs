//! Single rules, each with the fewest hosts that show it.

use super::*;
use crate::rules::{brake, recrawl, retry};

const HOST: &str = "http://a.test";
const DOMAIN: &str = "a.test";

fn with_pages(rules: Rules, pages: u32) -> Frontier {
    let mut frontier = frontier(rules);
    for n in 0..pages {
        frontier.discover(0, &link(HOST, DOMAIN, &format!("/{n}")));
    }
    frontier
}

fn fetch(frontier: &mut Frontier, now_ms: &mut u64) -> Order {
    match next_page(frontier, now_ms) {
        Next::Fetch(order) => order,
        next => panic!("{next:?}"),
    }
}

#[test]
fn a_robots_txt_counts_as_a_request_and_one_from_the_store_does_not() {
    for was_requested in [true, false] {
        let mut frontier = with_pages(Rules::default(), 1);
        let Next::Robots(order) = frontier.next(0) else { panic!("robots.txt comes first") };
        assert_eq!(frontier.next(0), Next::Idle, "one request at a time");
        frontier.robots(0, order.lease, RobotsAnswer { was_requested, ..everything(u64::MAX) });
        match frontier.next(0) {
            Next::Wait(1_000) => assert!(was_requested),
            Next::Fetch(order) => assert!(!was_requested && order.url == "http://a.test/0"),
            next => panic!("{next:?}"),
        }
    }
}

#[test]
fn both_schemes_of_a_name_are_one_host_and_another_port_is_not() {
    let mut frontier = frontier(Rules { domain_share: 0, ..Rules::default() });
    for host in [HOST, "https://a.test", "http://a.test:8080"] {
        frontier.discover(0, &link(host, DOMAIN, "/"));
    }
    let mut origins = Vec::new();
    while let Next::Robots(order) = frontier.next(0) {
        origins.push(order.origin);
    }
    assert_eq!(origins, [HOST, "http://a.test:8080"]);
}

#[test]
fn a_host_that_asks_for_more_than_five_minutes_is_parked_until_told_otherwise() {
    let mut frontier = with_pages(Rules::default(), 1);
    let Next::Robots(order) = frontier.next(0) else { panic!() };
    let answer = RobotsAnswer { delay_ms: Some(301_000), ..everything(u64::MAX) };
    frontier.robots(0, order.lease, answer);
    assert_eq!(frontier.next(10_000_000), Next::Idle);
    let why = Park::CrawlDelay;
    assert_eq!(frontier.explain(0, &link(HOST, DOMAIN, "/x")), Explanation::Parked { why });
    assert!(frontier.unpark(HOST) && !frontier.unpark("http://b.test"));
    assert!(matches!(frontier.next(10_000_000), Next::Robots(_)));
}

#[test]
fn rules_are_looked_at_when_the_turn_comes_not_when_the_link_was_found() {
    #[derive(Debug)]
    struct Nothing;
    impl Permission for Nothing {
        fn allows(&self, _: &str) -> bool {
            false
        }
    }
    let mut frontier = with_pages(Rules::default(), 5);
    let mut now_ms = 0;
    let order = fetch(&mut frontier, &mut now_ms);
    frontier.fetched(now_ms, order.lease, well());
    // A day later the rules have changed.
    frontier.forget_robots(0);
    now_ms += 86_400_000;
    let Next::Robots(order) = frontier.next(now_ms) else { panic!() };
    let permission: Option<Arc<dyn Permission>> = Some(Arc::new(Nothing));
    frontier.robots(now_ms, order.lease, RobotsAnswer { permission, ..everything(u64::MAX) });
    assert_eq!(next_page(&mut frontier, &mut now_ms), Next::Idle);
    assert_eq!((frontier.counts(now_ms).disallowed, frontier.is_done()), (4, true));
}

#[test]
fn three_time_outs_open_the_breaker_ten_park_the_host_and_a_new_owner_knows() {
    let mut frontier = with_pages(Rules::default(), 20);
    let mut disk = Disk::default();
    let mut now_ms = 1_700_000_000_000;
    let robots = everything(u64::MAX);
    let Next::Robots(order) = frontier.next(now_ms) else { panic!() };
    frontier.robots(now_ms, order.lease, robots.clone());
    for failure in 1..=10 {
        let before_ms = now_ms;
        let order = fetch(&mut frontier, &mut now_ms);
        let waited_ms = now_ms - before_ms;
        let least_ms = if failure > 3 { 60_000 << (failure - 4) } else { 1_000 };
        assert!(waited_ms >= least_ms && waited_ms < least_ms * 2, "{failure}: {waited_ms}");
        frontier.fetched(now_ms, order.lease, Outcome::Failed(retry::Failure::TimedOut));
        if failure == 5 {
            disk.commit(frontier.changes());
            frontier = disk.restore(&Rules::default(), true, now_ms);
            assert!(matches!(frontier.next(now_ms), Next::Wait(_)));
            let Next::Robots(order) = frontier.next(now_ms + 300_000) else { panic!() };
            let answer = RobotsAnswer { was_requested: false, ..robots.clone() };
            frontier.robots(now_ms, order.lease, answer);
            let Next::Load(order) = frontier.next(now_ms + 300_000) else { panic!() };
            frontier.loaded(&order, &disk.blocks(&order)).unwrap();
        }
    }
    assert_eq!(next_page(&mut frontier, &mut now_ms), Next::Idle);
    assert_eq!(frontier.host(now_ms, HOST).unwrap().parked, Some(Park::Unreachable));
}

/// A robots.txt that cannot be had, and is asked for again in a minute.
fn missing(now_ms: u64, failure: Option<retry::Failure>, text: &str) -> RobotsAnswer {
    let missing = Some(Missing { failure, text: text.into() });
    RobotsAnswer { permission: None, missing, ..everything(now_ms + 60_000) }
}

#[test]
fn a_host_that_may_not_be_asked_is_parked_at_once_with_the_reason_until_it_is_retried() {
    let why = "`a.test` stands for 10.0.0.1; give --allow-private";
    for is_page in [false, true] {
        let mut frontier = with_pages(Rules::default(), 2);
        let mut now_ms = 0;
        if is_page {
            let order = fetch(&mut frontier, &mut now_ms);
            let said = frontier.fetched(now_ms, order.lease, Outcome::Returned);
            frontier.refuse_host(order.host, why);
            assert_eq!(said, Ending::Returned);
        } else {
            let Next::Robots(order) = frontier.next(0) else { panic!() };
            let answer = missing(0, Some(retry::Failure::Refused), why);
            frontier.robots(0, order.lease, answer);
        }
        assert_eq!((frontier.next(u64::MAX / 2), frontier.is_done()), (Next::Idle, true));
        let (mut disk, parked) = (Disk::default(), Explanation::Parked { why: Park::Refused });
        disk.commit(frontier.changes());
        let mut again = disk.restore(&Rules::default(), true, now_ms);
        for frontier in [&mut frontier, &mut again] {
            let host = frontier.host(now_ms, HOST).unwrap();
            assert_eq!(host.trouble.as_deref(), Some(why));
            assert_eq!(frontier.kept_away(now_ms, 9), [host]);
            assert_eq!(frontier.explain(now_ms, &link(HOST, DOMAIN, "/x")), parked);
            assert_eq!(frontier.retry(), [0]);
            assert_eq!(
                (frontier.queued(), frontier.host(now_ms, HOST).unwrap().trouble),
                (2, None)
            );
            assert!(matches!(frontier.next(now_ms + 9_000), Next::Robots(_)));
        }
    }
}

#[test]
fn a_robots_txt_that_cannot_be_had_parks_its_host_in_the_end_unless_the_crawl_has_none() {
    let recrawl = Some(recrawl::Rules::default());
    for rules in [Rules::default(), Rules { recrawl, ..Rules::default() }] {
        let (mut frontier, mut now_ms) = (with_pages(rules.clone(), 1), 0);
        let mut disk = Disk::default();
        for failure in 1..=12 {
            let Next::Robots(order) = next_robots(&mut frontier, &mut now_ms) else {
                assert_eq!((failure, rules.recrawl), (11, None));
                break;
            };
            frontier.robots(now_ms, order.lease, missing(now_ms, None, "status 503"));
            disk.commit(frontier.changes());
            let again = disk.restore(&rules, true, now_ms);
            for frontier in [&frontier, &again].into_iter().filter(|_| failure < 10) {
                let said = frontier.explain(now_ms, &link(HOST, DOMAIN, "/x"));
                let because = Because::RobotsUnreachable;
                assert!(
                    matches!(said, Explanation::Fetched { because: b, not_before_ms, .. }
                        if b == because && not_before_ms >= now_ms + 60_000),
                    "{said:?}"
                );
                assert_eq!(frontier.counts(now_ms).hosts_resting, 1);
            }
        }
        let host = frontier.host(now_ms, HOST).unwrap();
        assert_eq!(host.trouble.as_deref(), Some("status 503"));
        let parked = rules.recrawl.is_none().then_some(Park::Unreachable);
        assert_eq!((host.parked, host.robots), (parked, RobotsView::Unreachable));
        frontier.retry();
        let Next::Robots(order) = frontier.next(now_ms + 9_000) else { panic!() };
        frontier.robots(now_ms + 9_000, order.lease, everything(u64::MAX));
        assert_eq!(frontier.host(now_ms, HOST).unwrap().trouble, None);
        assert!(matches!(frontier.next(now_ms + 19_000), Next::Fetch(_)));
    }
}

/// Waits until there is something else to do.
fn next_robots(frontier: &mut Frontier, now_ms: &mut u64) -> Next {
    loop {
        match frontier.next(*now_ms) {
            Next::Wait(until_ms) => *now_ms = until_ms,
            next => return next,
        }
    }
}

#[test]
fn an_open_breaker_is_told_by_whoever_reads_the_records() {
    let (mut frontier, mut now_ms) = (with_pages(Rules::default(), 9), 0);
    for _ in 0..3 {
        let order = fetch(&mut frontier, &mut now_ms);
        frontier.fetched(now_ms, order.lease, Outcome::Failed(retry::Failure::TimedOut));
    }
    let mut disk = Disk::default();
    disk.commit(frontier.changes());
    let again = disk.restore(&Rules::default(), true, now_ms);
    let link = link(HOST, DOMAIN, "/8");
    assert_eq!(again.explain(now_ms, &link), frontier.explain(now_ms, &link));
    let said = again.explain(now_ms, &link);
    assert!(matches!(said, Explanation::Fetched { because: Because::Breaker, .. }), "{said:?}");
}

#[test]
fn a_retry_asks_lost_hosts_again_but_none_that_people_or_hosts_want_left_alone() {
    let mut frontier = frontier(Rules { domain_share: 0, ..Rules::default() });
    let hosts = ["http://blocked.test", "http://slow.test", "http://busy.test", "http://lost.test"];
    for host in hosts {
        frontier.discover(0, &link(host, &host[7..], "/"));
    }
    frontier.park(hosts[0], Park::Blocked);
    frontier.park(hosts[1], Park::CrawlDelay);
    frontier.rest(hosts[2], 86_400_000);
    frontier.park(hosts[3], Park::Unreachable);
    let away: Vec<String> = frontier.kept_away(0, 9).into_iter().map(|host| host.name).collect();
    assert_eq!(away, hosts[1..], "people know whom they have blocked");
    assert_eq!(frontier.retry(), [3]);
    assert_eq!(frontier.host(0, hosts[0]).unwrap().parked, Some(Park::Blocked));
    assert_eq!(frontier.host(0, hosts[1]).unwrap().parked, Some(Park::CrawlDelay));
    assert_eq!(frontier.host(0, hosts[2]).unwrap().because, Because::Blocked);
    assert!(matches!(frontier.next(0), Next::Robots(order) if order.origin == hosts[3]));
}

#[test]
fn of_two_requests_at_once_the_second_is_a_gap_after_the_first_was_sent_not_handed_out() {
    let rules = Rules { per_host: 2, ..Rules::default() };
    let (mut frontier, mut now_ms) = (with_pages(rules, 3), 0);
    let first = fetch(&mut frontier, &mut now_ms);
    // It takes long to connect.
    assert_eq!(frontier.next(now_ms + 5_000), Next::Idle);
    frontier.sent(now_ms + 5_000, first.lease);
    assert_eq!(frontier.next(now_ms + 5_000), Next::Wait(now_ms + 6_000));
    let Next::Fetch(second) = frontier.next(now_ms + 6_000) else { panic!() };
    // One that was never sent keeps nobody waiting once it has ended.
    frontier.fetched(now_ms + 6_100, second.lease, Outcome::Failed(retry::Failure::Connection));
    assert!(matches!(frontier.next(now_ms + 7_100), Next::Fetch(_)));
}

#[test]
fn retry_after_blocks_the_host_also_when_the_address_is_given_up() {
    let retry = retry::Rules { attempts_max: 1, ..retry::Rules::default() };
    let (mut frontier, mut now_ms) = (with_pages(Rules { retry, ..Rules::default() }, 2), 0);
    let order = fetch(&mut frontier, &mut now_ms);
    let until_ms = now_ms + 90_000;
    let ending = frontier.fetched(now_ms, order.lease, status(503, Some(90_000)));
    assert_eq!(ending, Ending::Dead);
    assert_eq!(frontier.next(now_ms), Next::Wait(until_ms));
}

#[test]
fn a_rest_holds_for_both_schemes_and_does_not_shorten_a_longer_one() {
    let mut frontier = with_pages(Rules::default(), 2);
    frontier.discover(0, &link("https://a.test", DOMAIN, "/"));
    let mut now_ms = 0;
    let order = fetch(&mut frontier, &mut now_ms);
    frontier.fetched(now_ms, order.lease, status(503, Some(3_600_000)));
    let over_ms = now_ms + 3_600_000;
    for host in [HOST, "https://a.test"] {
        assert!(frontier.rest(host, now_ms + 1_000));
        assert_eq!(frontier.next(now_ms + 1_000), Next::Wait(over_ms), "{host}");
    }
    assert!(frontier.rest("https://a.test", over_ms + 5_000));
    assert_eq!(frontier.next(over_ms), Next::Wait(over_ms + 5_000));
    assert!(!frontier.rest("http://b.test", over_ms));
}

#[test]
fn retry_after_blocks_the_host_and_the_page_comes_back_as_a_second_attempt() {
    let mut frontier = with_pages(Rules::default(), 2);
    let (mut disk, mut now_ms) = (Disk::default(), 0);
    let order = fetch(&mut frontier, &mut now_ms);
    let due_ms = now_ms + 90_000;
    let ending = frontier.fetched(now_ms, order.lease, status(429, Some(90_000)));
    assert_eq!(ending, Ending::Again { due_ms });
    let because = Because::Blocked;
    let explained = frontier.explain(now_ms, &link(HOST, DOMAIN, "/1"));
    assert_eq!(explained, Explanation::Fetched { not_before_ms: due_ms, because, queued: 1 });
    let other = fetch(&mut frontier, &mut now_ms);
    assert_eq!(now_ms, due_ms);
    frontier.fetched(now_ms, other.lease, well());
    disk.commit(frontier.changes());
    disk.later.values().for_each(|later| frontier.again(later));
    let second = fetch(&mut frontier, &mut now_ms);
    assert_eq!((second.url, second.attempt), (order.url, 2));
    assert!(matches!(frontier.fetched(now_ms, second.lease, well()), Ending::Done { .. }));
    assert_eq!(frontier.fetched(now_ms, second.lease, well()), Ending::Unknown);
}

#[test]
fn budgets_depths_and_pages_have_their_limits() {
    let rules = Rules { host_budget: 3, domain_budget: 4, pages_max: Some(2), ..Rules::default() };
    let mut frontier = with_pages(rules, 5);
    let refused = |why| Discovery::Refused(why);
    let deep = Link { depth: 33, ..link(HOST, DOMAIN, "/deep") };
    assert_eq!(frontier.discover(0, &deep), refused(Refusal::TooDeep));
    let hops = Link { hops: 11, ..link(HOST, DOMAIN, "/hops") };
    assert_eq!(frontier.discover(0, &hops), refused(Refusal::TooManyHops));
    assert_eq!(frontier.discover(0, &link(HOST, DOMAIN, "/9")), refused(Refusal::HostBudget));
    let other = "http://b.a.test";
    assert_eq!(frontier.discover(0, &link(other, DOMAIN, "/")), Discovery::Queued);
    assert_eq!(frontier.discover(0, &link(other, DOMAIN, "/1")), refused(Refusal::DomainBudget));
    let mut now_ms = 0;
    for _ in 0..2 {
        let order = fetch(&mut frontier, &mut now_ms);
        frontier.fetched(now_ms, order.lease, well());
    }
    assert_eq!(next_page(&mut frontier, &mut now_ms), Next::Enough);
}

#[test]
fn a_host_that_repeats_itself_goes_last_and_gets_less() {
    let brake = brake::Rules { window: 4, ..brake::Rules::default() };
    let rules = Rules { brake, host_budget: 100, domain_share: 0, ..Rules::default() };
    let mut frontier = with_pages(rules, 10);
    let mut now_ms = 0;
    for _ in 0..4 {
        let order = fetch(&mut frontier, &mut now_ms);
        let answer = Answer { status: 200, simhash: Some(3), ..Answer::default() };
        frontier.fetched(now_ms, order.lease, Outcome::Answer(answer));
    }
    assert!(frontier.host(now_ms, HOST).unwrap().is_braked);
    let more = (10..200).map(|n| frontier.discover(now_ms, &link(HOST, DOMAIN, &format!("/{n}"))));
    assert_eq!(more.filter(|said| *said == Discovery::Queued).count(), 9);
    assert_eq!(frontier.counts(now_ms).queued[3], 9);
}

#[test]
fn a_page_is_looked_at_again_after_its_interval_with_what_is_known_of_it() {
    let recrawl = recrawl::Rules { first_ms: 7_200_000, ..recrawl::Rules::default() };
    let mut frontier = with_pages(Rules { recrawl: Some(recrawl), ..Rules::default() }, 1);
    let (mut disk, mut now_ms) = (Disk::default(), 0);
    let mut interval_ms = None;
    for (is_changed, expected) in [(true, 7_200_000), (true, 3_600_000), (false, 5_400_000)] {
        let order = fetch(&mut frontier, &mut now_ms);
        assert_eq!(order.is_known, interval_ms.is_some());
        let answer = Answer { status: 200, is_changed, interval_ms, ..Answer::default() };
        let ending = frontier.fetched(now_ms, order.lease, Outcome::Answer(answer));
        interval_ms = Some(expected);
        assert_eq!(ending, Ending::Done { interval_ms });
        disk.commit(frontier.changes());
        let later = disk.later.values().next().unwrap().clone();
        assert_eq!(later.due_ms, now_ms + expected);
        now_ms = later.due_ms;
        frontier.again(&later);
    }
}

#[test]
fn a_domain_of_many_hosts_shares_its_token_and_all_of_them_get_on() {
    let rules = Rules { domain_share: 2, ..Rules::default() };
    let mut frontier = frontier(rules);
    let names: Vec<String> = (0..50).map(|n| format!("http://h{n}.a.test")).collect();
    for name in &names {
        frontier.discover(0, &link(name, DOMAIN, "/"));
    }
    let (mut now_ms, mut times) = (0, Vec::new());
    loop {
        match frontier.next(now_ms) {
            Next::Robots(order) => {
                times.push(now_ms);
                frontier.robots(now_ms, order.lease, everything(u64::MAX));
            }
            Next::Fetch(order) => {
                times.push(now_ms);
                frontier.fetched(now_ms, order.lease, well());
            }
            Next::Wait(until_ms) => now_ms = until_ms,
            next => {
                assert_eq!(next, Next::Idle);
                break;
            }
        }
    }
    assert_eq!(times.len(), 100, "robots.txt and a page of each");
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 500), "{times:?}");
    assert_eq!(*times.last().unwrap(), 99 * 500, "the token is never idle");
}

#[test]
fn lower_bands_get_turns_while_higher_ones_are_full() {
    let mut frontier = frontier(Rules { delay_ms: 0, ..Rules::default() });
    for n in 0..64 {
        frontier.discover(0, &Link { depth: 0, ..link(HOST, DOMAIN, &format!("/seed/{n}")) });
        let deep = format!("/a/path/that/is/long/enough/to/be/no/short/one/{n}");
        frontier.discover(0, &Link { depth: 9, ..link(HOST, DOMAIN, &deep) });
    }
    let mut now_ms = 0;
    let mut deep = 0;
    for _ in 0..32 {
        let order = fetch(&mut frontier, &mut now_ms);
        deep += usize::from(order.depth == 9);
        frontier.fetched(now_ms, order.lease, well());
    }
    assert_eq!(deep, 2, "one turn in sixteen");
}

#[test]
fn a_band_that_was_emptied_begins_anew_once_the_store_has_dropped_it() {
    let mut frontier = with_pages(Rules::default(), 2);
    let (mut disk, mut now_ms) = (Disk::default(), 0);
    disk.commit(frontier.changes());
    // Another address comes before what was taken is committed: it is one more of the same queue.
    for taken in 0..2 {
        let order = fetch(&mut frontier, &mut now_ms);
        frontier.fetched(now_ms, order.lease, well());
        if taken == 1 {
            let path = "/comes/before/the/commit/of/what/was/taken";
            frontier.discover(now_ms, &Link { depth: 9, ..link(HOST, DOMAIN, path) });
        }
    }
    let numbers =
        |frontier: &Frontier, band| frontier.hosts[0].queues.numbers(&frontier.pieces, band);
    assert_eq!((numbers(&frontier, 0), numbers(&frontier, 1)), ((1, 1), (1, 1)));
    assert_eq!(numbers(&frontier, 2), (0, 1));
    disk.commit(frontier.changes());
    assert_eq!((numbers(&frontier, 0), numbers(&frontier, 1)), ((0, 0), (0, 0)));
    assert_eq!(disk.blocks.len(), 1, "what was taken is gone");

    frontier.discover(now_ms, &link(HOST, DOMAIN, "/new"));
    disk.commit(frontier.changes());
    assert_eq!(numbers(&frontier, 1), (0, 1));
    let mut again = disk.restore(&Rules::default(), true, now_ms);
    assert_eq!(again.queued(), 2);
    let Next::Robots(order) = again.next(now_ms + 9_000) else { panic!() };
    again.robots(now_ms + 9_000, order.lease, everything(u64::MAX));
    let Next::Load(order) = again.next(now_ms + 18_000) else { panic!() };
    again.loaded(&order, &disk.blocks(&order)).unwrap();
    assert!(
        matches!(again.next(now_ms + 18_000), Next::Fetch(order) if order.url.ends_with("/new"))
    );
}

#[test]
fn what_was_not_sent_goes_back_and_costs_nothing() {
    let mut frontier = with_pages(Rules::default(), 1);
    let mut now_ms = 0;
    let order = fetch(&mut frontier, &mut now_ms);
    assert_eq!(frontier.fetched(now_ms, order.lease, Outcome::Returned), Ending::Returned);
    let again = fetch(&mut frontier, &mut now_ms);
    assert_eq!((again.url, again.attempt, now_ms), (order.url, 1, 1_000));
}

#[test]
fn a_clean_close_keeps_the_times_and_a_crash_costs_a_whole_gap() {
    let mut frontier = with_pages(Rules::default(), 5);
    let (mut disk, mut now_ms) = (Disk::default(), 0);
    let order = fetch(&mut frontier, &mut now_ms);
    frontier.fetched(now_ms, order.lease, well());
    disk.commit(frontier.changes());
    for (was_clean, at_ms) in [(true, now_ms + 1_000), (false, now_ms + 1_400)] {
        let mut restored = disk.restore(&Rules::default(), was_clean, now_ms + 400);
        assert_eq!(restored.next(now_ms + 400), Next::Wait(at_ms));
    }
    // A clock that was set back by a day does not stop the crawl for a day.
    let mut restored = disk.restore(&Rules::default(), true, 5);
    assert_eq!(restored.next(5), Next::Wait(1_005));
}

#[test]
fn broken_records_are_refused_with_the_name_of_the_host() {
    let mut frontier = with_pages(Rules::default(), 2);
    let mut disk = Disk::default();
    disk.commit(frontier.changes());
    let restore = |record: HostRecord| {
        let seen = Seen::new(seen::Settings::default());
        Frontier::restore(Rules::default(), seen, 7, 1, [record], true, 0).map(drop)
    };
    let whole = disk.hosts[&0].clone();
    assert_eq!(restore(whole.clone()), Ok(()));
    for cut in 0..whole.state.len() {
        let state = whole.state[..cut].to_vec();
        let said = restore(HostRecord { state, ..whole.clone() }).unwrap_err().to_string();
        assert!(said.contains(HOST), "{said}");
    }
    assert!(restore(HostRecord { id: 3, ..whole }).is_err());
}

#[test]
fn a_host_is_lent_in_its_turn_alone_and_has_its_gap_afterwards() {
    let (mut frontier, mut now_ms) = (with_pages(Rules::default(), 2), 0);
    let order = fetch(&mut frontier, &mut now_ms);
    let own = link(HOST, DOMAIN, "/part");
    assert_eq!(frontier.borrow(now_ms, &own), Loan::Refused, "it has a request in flight");
    frontier.fetched(now_ms, order.lease, well());
    let due_ms = now_ms + 1_000;
    assert_eq!(frontier.borrow(now_ms, &own), Loan::Later(due_ms));
    let Loan::Granted { lease, host } = frontier.borrow(due_ms, &own) else { panic!() };
    assert_eq!(frontier.host_number(HOST), Some(host));
    assert_eq!(frontier.borrow(due_ms, &own), Loan::Refused, "another page has it");
    assert_eq!(frontier.next(due_ms), Next::Idle, "nobody else has its turn");
    frontier.passed(due_ms + 700, lease, Outcome::Failed(retry::Failure::Forbidden));
    assert_eq!(frontier.borrow(due_ms + 1_000, &own), Loan::Later(due_ms + 1_700));
    assert_eq!(frontier.next(due_ms + 1_000), Next::Wait(due_ms + 1_700));
    frontier.park(HOST, Park::Blocked);
    assert_eq!(frontier.borrow(due_ms + 9_000, &own), Loan::Refused, "it is parked");
    let other = link("http://cdn.test", "cdn.test", "/part");
    assert!(matches!(frontier.borrow(due_ms, &other), Loan::Granted { .. }), "nobody knew it");
}
