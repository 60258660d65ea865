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
    // Nobody lends other hosts to it.
    let (lender, _) = mpsc::channel(1);
    PageVisit { order, known: None, session, permission, lender }
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

/// Each host and what it is for: `page` takes parts from the others.
fn a_page_of_parts(host: &str, path: &str, port: u16) -> (String, String) {
    let ok =
        |kind: &str| format!("200 OK\r\naccess-control-allow-origin: *\r\ncontent-type: {kind}");
    let script = |name: &str| format!("<script src='http://{name}.test:{port}/part.js'></script>");
    match (host, path) {
        ("shut", "/robots.txt") => (ok("text/plain"), "User-agent: *\nDisallow: /\n".to_owned()),
        ("ill", "/robots.txt") => ("503 Ill".to_owned(), String::new()),
        (_, "/robots.txt") => (ok("text/plain"), "User-agent: *\nDisallow: /private\n".to_owned()),
        ("page", "/") => {
            let scripts: String =
                ["open", "shut", "ill", "blocked"].into_iter().map(script).collect();
            let more = format!(
                "<script>for (const path of ['private', '1', '2', '3'])
                   fetch('http://open.test:{port}/' + path).catch(() => 0);</script>"
            );
            (
                ok("text/html"),
                format!(
                    "<title>bare</title>{scripts}{more}<a href='http://open.test:{port}/'>x</a>"
                ),
            )
        }
        (_, "/part.js") => (
            ok("text/javascript"),
            "document.title += ' ' + document.currentScript.src.split('/')[2].split('.')[0]"
                .to_owned(),
        ),
        _ => (ok("text/html"), "<title>a page</title>".to_owned()),
    }
}

#[test]
fn parts_of_a_page_are_taken_only_from_hosts_that_allow_it_and_have_their_turn() {
    let web = errands::Web::start(a_page_of_parts);
    // Longer than a browser needs to see that nothing more comes.
    let delay = Duration::from_millis(2_000);
    let delay_ms = delay.as_millis() as u64;
    let rules = Rules { render: Mode::Always, delay_ms, ..Rules::default() };
    let (folder, _) = errands::crawl_of(1, &web, &["page"], rules);
    let place = Folder::new(folder.path());
    let mut control: Control = read_json(&place.control()).unwrap().unwrap();
    control.blocked.insert(format!("blocked.test:{}", web.port));
    show_json(&place.control(), &control).unwrap();
    let ended = errands::turns_of(folder.path(), 0);
    assert!(ended, "it does not come to its end");

    let title = shown(folder.path()).pages.iter().map(|page| page.note.clone()).collect::<Vec<_>>();
    assert!(title.contains(&"bare open".to_owned()), "{title:?}");
    assert_eq!(web.paths("shut"), ["/robots.txt"]);
    assert_eq!(web.paths("ill"), ["/robots.txt"]);
    assert!(web.paths("blocked").is_empty());
    let open = web.of("open");
    let paths: Vec<&str> = open.iter().map(|seen| seen.path.as_str()).collect();
    // What it permits is asked once for the page, and once for the crawl, which has a turn of its own.
    assert_eq!(paths[..5], ["/robots.txt", "/part.js", "/1", "/2", "/3"]);
    assert_eq!(paths[5..], ["/robots.txt", "/"]);
    for (at, pair) in open.windows(2).enumerate() {
        let gap = pair[1].came.checked_duration_since(pair[0].ready);
        assert!(gap.is_some(), "two at once: {pair:#?}");
        assert!(at < 4 || gap >= Some(delay), "{gap:?} between {pair:#?}");
    }
}
