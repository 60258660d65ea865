//! A page of the demo web whose script asks for everything, rendered by a real browser: judged by the log of the web.

use divvy_frontier::frontier::Link;

use super::*;
use crate::fetch::Order;
use crate::render::Mode;
use crate::shard::robots::{ask, meaning};
use crate::shard::visit;
use crate::web::{Served, Site as Web};

/// One line of the log.
#[derive(Debug)]
struct Request {
    ended_us: u64,
    at_once: u32,
    path: String,
}

/// The requests up to that for `last`, once they are written.
async fn log_until(path: &Path, last: &str) -> Vec<Request> {
    let reading = async {
        loop {
            let text = std::fs::read_to_string(path).unwrap();
            if text.lines().any(|line| line.contains(last)) {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let text = tokio::time::timeout(Duration::from_secs(60), reading).await.expect("it is written");
    let read = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        Request {
            ended_us: words[1].parse().unwrap(),
            at_once: words[2].parse().unwrap(),
            path: words[4].to_owned(),
        }
    };
    text.lines().map(read).collect()
}

/// The order for a page of a host whose robots.txt was asked for, and what that permits.
async fn order(gear: &Gear, frontier: &mut Frontier, origin: &str, path: &str) -> PageVisit {
    let link = Link { host: origin, domain: origin, path, depth: 0, hops: 0, is_sitemap: false };
    frontier.discover(0, &link);
    let Next::Robots(order) = frontier.next(0) else { panic!("robots.txt comes first") };
    let mut session = Session::default();
    let asked = ask(gear, origin, &mut session).await;
    frontier.robots(0, order.lease, meaning(&asked.standing, 0, 0, true));
    let Next::Fetch(order) = frontier.next(1_000) else { panic!("then the page") };
    let permission = frontier.permission(order.host);
    PageVisit { order, known: None, session, permission }
}

#[tokio::test]
async fn a_rendered_page_is_asked_for_once_and_nothing_that_is_forbidden() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let web =
        Web { hosts: 4, pages: 8, page_bytes: 1_000, traps: true, slow: Duration::ZERO, port: 0 };
    let served = Served::bind(web, Some(&log)).await.unwrap();
    let origin = format!("http://{}:{}", Web::host(1), served.site.port);
    tokio::spawn(served.run());
    let gear = gear(Rules { render: Mode::Always, ..Rules::default() }).await;
    let seen = Seen::new(seen::Settings::default());
    let mut frontier = Frontier::new(divvy_frontier::rules::Rules::default(), seen, 7, 1);

    let visit = order(&gear, &mut frontier, &origin, "/app").await;
    let Done::Page(done) = visit::page(Arc::clone(&gear), visit).await else { panic!() };
    // Everything before it is in the log when this is.
    let last = format!("{origin}/page/7").parse().unwrap();
    gear.fetcher.fetch(Order::page(&last), &mut Session::default()).await.unwrap();
    let requests = log_until(&log, "/page/7").await;

    let product = done.outcome.unwrap();
    assert_eq!(product.title.as_deref(), Some("Made by a script"));
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    let expected = ["/robots.txt", "/app", "/app.js", "/page/1", "/page/2", "/page/3", "/page/7"];
    assert_eq!(paths, expected, "one request for the page, nothing under /private/");
    assert!(requests.iter().all(|request| request.at_once == 1), "{requests:?}");
    let (_, before) = requests.split_last().unwrap();
    let last_us = before.iter().map(|request| request.ended_us).max().unwrap();
    assert!(done.ended_ms * 1_000 >= last_us, "the turn of the host ends after {last_us}");
    // Where its script wanted to go is a page for a turn of its own, if that is allowed.
    let leads_on = format!("{origin}/private/away");
    assert!(product.links.iter().any(|link| link.url.as_str() == leads_on), "{:?}", product.links);
    gear.browser.as_ref().unwrap().renderer.lock().await.close().await;
}
