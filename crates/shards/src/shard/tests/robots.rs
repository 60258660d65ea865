//! A robots.txt that redirects, asked for outside of any crawl: how far it is followed, and what it then permits.

use std::net::Ipv4Addr;

use super::*;
use crate::net::testing::{Reply, Server, page};
use crate::shard::robots::{self, Asked, ask, meaning};

const RULES: &[u8] = b"User-agent: *\nDisallow: /private\n";

/// Where a name leads; nothing for the one that has the rules.
type Leads = fn(&str) -> Option<String>;

/// A web of names that redirect their robots.txt, and what came of asking `http://NAME.test`. The names that were asked, in
/// their order.
async fn ask_for(name: &str, resolve: &[&str], leads: Leads) -> (Asked, Vec<String>) {
    let answer = move |head: &str| -> Reply {
        let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let (name, port) = host.split_once(":").unwrap_or((host, "80"));
        match leads(name.trim_end_matches(".test")) {
            Some(next) => {
                let place = next.replace("PORT", port);
                page("302 Found", &format!("location: {place}\r\n"), b"")
            }
            None => page("200 OK", "content-type: text/plain\r\n", RULES),
        }
    };
    let server = Server::start_at(Ipv4Addr::new(127, 0, 0, 1), 0, answer).await;
    let resolve: Vec<String> = resolve.iter().map(ToString::to_string).collect();
    let here =
        Rules { resolve: [resolve, vec!["*.test=127.0.0.1".into()]].concat(), ..Rules::default() };
    let origin = format!("http://{name}.test:{}", server.address.port());
    let asked = ask(&*gear(here).await, &origin, &mut Session::default()).await;
    let names = server.seen().into_iter().map(|(_, head)| {
        let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
        host.split('.').next().unwrap().to_owned()
    });
    (asked, names.collect())
}

fn allows(asked: &Asked, path: &str) -> bool {
    let answer = meaning(&asked.standing, asked.ended_ms, asked.ended_ms, true);
    answer.permission.is_some_and(|permission| permission.allows(path))
}

fn to(name: &str) -> Option<String> {
    Some(format!("http://{name}.test:PORT/robots.txt"))
}

#[tokio::test]
async fn rules_of_the_host_at_the_end_hold() {
    let leads: Leads = |name| match name {
        "bare" => to("middle"),
        "middle" => to("www"),
        _ => None,
    };
    let (asked, names) = ask_for("bare", &[], leads).await;
    assert_eq!(names, ["bare", "middle", "www"]);
    assert!(matches!(&asked.last, robots::Reply::Answer { body, .. } if body == RULES));
    assert!(allows(&asked, "/") && !allows(&asked, "/private"));
}

#[tokio::test]
async fn five_redirects_are_followed_and_a_sixth_means_that_there_is_none() {
    // Each name is a number and leads to the one below it.
    let leads: Leads = |name| match name.parse::<u32>() {
        Ok(0) | Err(_) => None,
        Ok(n) => to(&(n - 1).to_string()),
    };
    let (asked, names) = ask_for("5", &[], leads).await;
    assert_eq!(names, ["5", "4", "3", "2", "1", "0"]);
    assert!(!allows(&asked, "/private"));
    let (asked, names) = ask_for("6", &[], leads).await;
    assert_eq!(names, ["6", "5", "4", "3", "2", "1"]);
    assert!(allows(&asked, "/private"), "RFC 9309, 2.3.1.2");
}

#[tokio::test]
async fn a_loop_and_a_way_to_nowhere_end() {
    let (asked, names) = ask_for("a", &[], |name| to(if name == "a" { "b" } else { "a" })).await;
    assert_eq!(names, ["a", "b", "a", "b", "a", "b"]);
    assert!(allows(&asked, "/private"));
    let (asked, names) = ask_for("a", &[], |_| Some("ftp://a.test/robots.txt".to_owned())).await;
    assert_eq!(names, ["a"]);
    assert!(allows(&asked, "/private"));
}

#[tokio::test]
async fn a_private_address_is_not_reached_by_a_redirect() {
    let leads: Leads =
        |name| (name == "a").then(|| "http://inside.test:PORT/robots.txt".to_owned());
    let (asked, names) = ask_for("a", &["inside.test=10.0.0.1"], leads).await;
    assert_eq!(names, ["a"]);
    let robots::Reply::Nothing { text: problem, .. } = &asked.last else { panic!("{asked:?}") };
    assert!(problem.contains("10.0.0.1"), "{problem}");
    assert!(!allows(&asked, "/"), "who cannot be asked permits nothing");
}
