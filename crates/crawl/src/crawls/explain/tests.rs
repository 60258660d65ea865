//! Each rule that can decide about an address, told from the file of a shard alone.

use divvy_frontier::frontier::{Everything, Missing, Next, Order, Outcome, RobotsAnswer};
use divvy_frontier::robots::Answer;
use divvy_frontier::rules::retry::Failure;
use std::sync::Arc;

use super::*;
use crate::folder::control::Ended;
use crate::settings::NewCrawl;
use crate::store::{Batch, Opening, RobotsCopy};

/// A day of many; the file is made a while before.
const NOW: u64 = 1_700_000_000_000;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// Hosts whose names say what happens to them.
const HOSTS: [&str; 10] =
    ["ready", "resting", "breaker", "delay", "waits", "refused", "lost", "slow", "gone", "full"];
/// Addresses of a host, of which all but one are found, and of the host that is full all.
const PATHS: [&str; 4] = ["/first", "/second", "/third", "/fourth"];

/// A shard after some work.
struct Shard {
    _folder: tempfile::TempDir,
    file: ShardFile,
}

impl Shard {
    fn new(spec: &Spec) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let opening = Opening { epoch: 1, seen: seen::Mode::Exact };
        let mut file = ShardFile::open(&folder.path().join("shard"), opening).unwrap();
        let from_ms = NOW - 100 * HOUR;
        let seen = file.seen(seen::Settings::default()).unwrap();
        let mut frontier = file.frontier(spec.rules.frontier(), seen, 0, from_ms).unwrap();
        for host in HOSTS {
            let origin = format!("http://{host}.test");
            let found = if host == "full" { PATHS.len() } else { PATHS.len() - 1 };
            for path in PATHS.into_iter().take(found) {
                let link = Link {
                    host: &origin,
                    domain: &origin[7..],
                    path,
                    depth: 0,
                    hops: 0,
                    is_sitemap: false,
                };
                frontier.discover(from_ms, &link);
            }
        }
        let mut batch = Batch::default();
        work(&mut frontier, &mut batch, from_ms);
        batch.changes = frontier.changes();
        file.commit(&batch).unwrap();
        file.close().unwrap();
        let file = ShardFile::look(&folder.path().join("shard")).unwrap().unwrap();
        Self { _folder: folder, file }
    }
}

/// Does everything that can be done until now.
fn work(frontier: &mut Frontier, batch: &mut Batch, mut at_ms: u64) {
    while at_ms <= NOW {
        match frontier.next(at_ms) {
            Next::Robots(order) => {
                let host = order.origin[7..].trim_end_matches(".test");
                let answer = robots(host, at_ms);
                if answer.permission.is_some() {
                    batch.robots.push(copy(order.host, at_ms));
                }
                frontier.robots(at_ms, order.lease, answer);
            }
            Next::Fetch(order) => fetch(frontier, batch, at_ms, order),
            Next::Errand(errand) => panic!("nobody sent {errand:?}"),
            Next::Wait(until_ms) => at_ms = until_ms,
            Next::Load(_) | Next::Idle | Next::Enough => return,
        }
    }
}

fn robots(host: &str, at_ms: u64) -> RobotsAnswer {
    let well = RobotsAnswer {
        permission: Some(Arc::new(Everything)),
        delay_ms: None,
        until_ms: u64::MAX,
        bytes: 0,
        was_requested: true,
        missing: None,
    };
    let missing = |failure, text: &str, until_ms| RobotsAnswer {
        permission: None,
        until_ms,
        missing: Some(Missing { failure, text: text.to_owned() }),
        ..well.clone()
    };
    match host {
        "waits" => missing(None, "it was answered with status 503", NOW + HOUR),
        "lost" => missing(Some(Failure::TimedOut), "nobody answers", at_ms + MINUTE),
        "refused" => missing(Some(Failure::Refused), "give --allow-private", at_ms),
        "slow" => RobotsAnswer { delay_ms: Some(301_000), ..well },
        _ => well,
    }
}

/// A copy as a shard keeps it.
fn copy(host: u32, at_ms: u64) -> RobotsCopy {
    let mut standing = Standing::default();
    let body = b"user-agent: *\ndisallow: /private";
    let answer = Answer::Status { status: 200, body, retry_after_ms: None };
    standing.answered(NOW - HOUR, answer, "divvybot");
    let about = serde_json::to_string(&standing).unwrap();
    RobotsCopy { host, fetched_ms: at_ms, about, body: body.to_vec() }
}

fn fetch(frontier: &mut Frontier, batch: &mut Batch, at_ms: u64, order: Order) {
    use divvy_frontier::frontier::{Answer, Ending};
    let is_first = order.url.ends_with("first");
    let answer = |status, retry_after_ms| {
        Outcome::Answer(Answer { status, retry_after_ms, is_changed: true, ..Answer::default() })
    };
    let timed_out = Outcome::Failed(Failure::TimedOut);
    let (ended_ms, outcome) = match order.url[7..].split_once(".test").unwrap().0 {
        "resting" => (NOW, answer(429, Some(HOUR))),
        "breaker" if order.url.ends_with("third") => (NOW, timed_out),
        "breaker" => (at_ms, timed_out),
        "delay" => (NOW, answer(200, None)),
        "gone" if is_first => (at_ms, Outcome::Failed(Failure::Forbidden)),
        _ => (at_ms, answer(200, None)),
    };
    let end = match frontier.fetched(ended_ms, order.lease, outcome) {
        Ending::Done { .. } => PageEnd::Done,
        Ending::Again { .. } => PageEnd::Failing,
        _ => PageEnd::Dead,
    };
    batch.pages.push(PageState {
        fingerprint: order.fingerprint,
        host: order.host,
        path: order.url[order.path_at..].to_owned(),
        end,
        status: if end == PageEnd::Done { 200 } else { 0 },
        fetched_ms: ended_ms,
        depth: 0,
        attempts: order.attempt,
        digest: 0,
        changes: 0,
        interval_ms: (end == PageEnd::Done && frontier.rules().recrawl.is_some()).then_some(HOUR),
        etag: None,
        last_modified: None,
        reason: None,
    });
}

fn spec(recrawl_ms: Option<u64>) -> Spec {
    let mut new = NewCrawl { seeds: vec!["http://ready.test/".into()], ..NewCrawl::default() };
    for host in HOSTS {
        new.seeds.push(format!("http://{host}.test/"));
    }
    new.rules.resolve.push("*.test=127.0.0.1".into());
    new.rules.host_pages = PATHS.len() as u32;
    new.rules.recrawl_ms = recrawl_ms;
    new.rules.max_pages = Some(100);
    new.check("c".into(), 1).unwrap().0
}

/// How a crawl is that goes on.
fn running(spec: &Spec, path: &str) -> Question {
    let address = format!("http://{path}").parse().unwrap();
    Question { spec: spec.clone(), control: Control::default(), pages: 9, address, now_ms: NOW }
}

#[test]
fn each_rule_that_decides_is_told_with_its_reason_and_its_time() {
    let spec = spec(None);
    let shard = Shard::new(&spec);
    // The address, the rule, whether it is fetched, whether a time is told, a part of the reason.
    let deep = format!("ready.test/{}", "a/".repeat(40));
    let table = [
        ("elsewhere.example/", "scope", false, false, "scope `domain`"),
        (deep.as_str(), "segments_max", false, false, "no:"),
        ("ready.test/first", "done", true, false, "status 200"),
        ("gone.test/first", "dead", false, false, "divvy crawl retry"),
        ("ready.test/private", "robots", false, false, "`Disallow: /private` in line 2"),
        ("full.test/new", "host_pages", false, false, "its budget"),
        ("ready.test/new", "ready", true, true, "now"),
        ("new.ready.test/", "robots_first", true, true, "comes first"),
        ("resting.test/first", "retry", true, true, "in 60 min at the earliest"),
        ("resting.test/new", "resting", true, true, "asked to be left alone"),
        ("breaker.test/new", "breaker", true, true, "in a row"),
        ("delay.test/new", "delay", true, true, "ms at the earliest"),
        ("waits.test/new", "robots_unreachable", true, true, "answered with status 503"),
        ("refused.test/new", "refused", false, false, "give --allow-private"),
        ("lost.test/new", "unreachable", false, false, "nobody answers; divvy crawl retry"),
        ("slow.test/new", "crawl_delay", false, false, "longer delay"),
    ];
    for (path, rule, fetched, has_time, reason) in table {
        let said = running(&spec, path).answer(Some(&shard.file)).unwrap();
        assert_eq!((said.rule.as_str(), said.fetched), (rule, fetched), "{said:?}");
        assert_eq!(said.not_before_ms.is_some(), has_time, "{said:?}");
        assert!(said.text.contains(reason), "{said:?}");
    }
    let unread = running(&spec, "ready.test/new").answer(None).unwrap();
    assert_eq!((unread.rule.as_str(), unread.fetched), ("new", true));
}

#[test]
fn what_people_want_and_the_end_of_the_crawl_decide_about_what_is_to_come() {
    let spec = spec(None);
    let shard = Shard::new(&spec);
    let ended = |state| Some(Ended { at_ms: NOW, state, reason: None });
    type Change = fn(&mut Question);
    let table: [(&str, Change); 3] = [
        ("max_pages", |question| question.pages = 100),
        ("stopped", |question| question.control.stopped = true),
        ("blocked", |question| question.control.blocked = ["resting.test".to_owned()].into()),
    ];
    let answer = |question: &Question| question.answer(Some(&shard.file)).unwrap();
    for (rule, change) in table {
        for path in ["resting.test/new", "resting.test/first"] {
            let mut question = running(&spec, path);
            change(&mut question);
            let said = answer(&question);
            assert_eq!((said.rule.as_str(), said.fetched), (rule, false), "{path}: {said:?}");
            assert_eq!(said.not_before_ms, None);
        }
    }
    for (state, rule) in [(CrawlState::Stopped, "stopped"), (CrawlState::Done, "ended")] {
        let mut question = running(&spec, "ready.test/new");
        question.control.ended = ended(state);
        assert_eq!(answer(&question).rule, rule);
        // What keeps the host away is worth more, and what was fetched was fetched.
        for (path, rule) in [("refused.test/new", "refused"), ("ready.test/first", "done")] {
            question.address = format!("http://{path}").parse().unwrap();
            assert_eq!(answer(&question).rule, rule);
        }
    }
}

#[test]
fn a_page_that_is_looked_at_again_says_when() {
    let spec = spec(Some(30 * 24 * HOUR));
    let shard = Shard::new(&spec);
    let said = running(&spec, "ready.test/first").answer(Some(&shard.file)).unwrap();
    assert!(said.rule == "done" && said.text.contains("looked at again in"), "{said:?}");
    assert!(said.not_before_ms.is_some_and(|due| due > NOW), "{said:?}");
}
