//! How a robots.txt comes: up to five redirects, each a request of its own that keeps the gap, and what it then permits.

use std::sync::Arc;
use std::time::Duration;

use divvy_frontier::frontier::{Everything, Missing, Permission, RobotsAnswer};
use divvy_frontier::robots::{self, Answer, REDIRECTS_MAX, Robots, Standing};
use divvy_frontier::rules::retry::Failure;
use url::Url;

use super::gear::Gear;
use super::visit::failure;
use crate::fetch::{Fetched, Order, Purpose, Session};

/// When a copy is asked for anew, and when one that could not be renewed is tried again at the latest.
const REFRESH_MS: u64 = 18 * 3_600_000;
const AGAIN_MS: u64 = 3_600_000;

/// What came, and when the last request ended.
pub struct Asked {
    /// What it says of the host.
    pub standing: Standing,
    /// When the last request ended.
    pub ended_ms: u64,
    /// How it was answered, if it was.
    pub status: Option<u16>,
    pub(crate) body: Vec<u8>,
    /// Why it could not be had.
    pub problem: Option<(Failure, String)>,
    /// Other hosts that were asked, on the way or at its end.
    pub(crate) others: Vec<String>,
}

/// Asks an origin for its robots.txt.
pub async fn ask(
    gear: &Gear,
    origin: &str,
    mut standing: Standing,
    session: &mut Session,
) -> Asked {
    let mut asked = Asked {
        standing: Standing::default(),
        ended_ms: 0,
        status: None,
        body: Vec::new(),
        problem: None,
        others: Vec::new(),
    };
    let came = follow(gear, origin, session, &mut asked).await;
    asked.ended_ms = gear.clock.end_ms();
    let answer = match &came {
        Came::Answer(fetched) => {
            asked.status = Some(fetched.status);
            Answer::Status {
                status: fetched.status,
                body: &fetched.body,
                retry_after_ms: fetched.retry_after_ms(asked.ended_ms),
            }
        }
        Came::Lost => Answer::LostInRedirects,
        Came::Nothing => Answer::Unreachable,
    };
    standing.answered(asked.ended_ms, answer, gear.agent.product());
    asked.standing = standing;
    if let Came::Answer(fetched) = came {
        asked.body = fetched.body.to_vec();
        asked.body.truncate(robots::BYTES_MAX);
    }
    asked
}

enum Came {
    Answer(Box<Fetched>),
    Lost,
    Nothing,
}

async fn follow(gear: &Gear, origin: &str, session: &mut Session, asked: &mut Asked) -> Came {
    let Ok(mut url) = Url::parse(&format!("{origin}/robots.txt")) else { return Came::Nothing };
    let mut elsewhere = Session::default();
    for hop in 0..=REDIRECTS_MAX {
        let is_home = url.origin().ascii_serialization() == origin;
        if hop > 0 {
            // Each hop is a request: the lease of the host is held meanwhile, so nobody else asks it.
            tokio::time::sleep(Duration::from_millis(gear.delay_ms)).await;
        }
        let used = if is_home {
            &mut *session
        } else {
            asked.others.push(url.origin().ascii_serialization());
            &mut elsewhere
        };
        let order = Order { url: &url, validators: None, purpose: Purpose::Robots };
        match gear.fetcher.fetch(order, used).await {
            Ok(fetched) => match fetched.redirect.clone() {
                Some(next) => url = next,
                None if (300..400).contains(&fetched.status) => return Came::Lost,
                None => return Came::Answer(Box::new(fetched)),
            },
            Err(error) => {
                asked.problem = Some((failure(&error), error.to_string()));
                return Came::Nothing;
            }
        }
    }
    Came::Lost
}

/// What a standing means for the frontier.
pub fn meaning(
    standing: &Standing,
    fetched_ms: u64,
    now_ms: u64,
    was_requested: bool,
) -> RobotsAnswer {
    let (permission, delay_ms, bytes): (Option<Arc<dyn Permission>>, _, _) =
        match standing.robots(now_ms) {
            Some(robots) => {
                let bytes: usize = robots.rules().iter().map(|rule| 40 + rule.pattern.len()).sum();
                (Some(Arc::new(Rules(robots.clone()))), robots.delay_ms(), bytes)
            }
            None if standing.is_absent(now_ms) => (Some(Arc::new(Everything)), None, 0),
            None => (None, None, 0),
        };
    let until_ms = match standing.permission(now_ms, "/") {
        robots::Permission::Wait { until_ms } => until_ms,
        _ if standing.failures() > 0 => now_ms + AGAIN_MS,
        _ => fetched_ms + REFRESH_MS,
    };
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    RobotsAnswer { permission, delay_ms, until_ms, bytes, was_requested, missing: None }
}

/// Why a robots.txt was not had, for its host.
pub(super) fn missing(asked: &Asked) -> Missing {
    match (&asked.problem, asked.status) {
        (Some((failure, text)), _) => Missing { failure: Some(*failure), text: text.clone() },
        (None, Some(status)) => {
            Missing { failure: None, text: format!("it was answered with status {status}") }
        }
        (None, None) => Missing { failure: None, text: "it was not answered".to_owned() },
    }
}

#[derive(Debug)]
struct Rules(Robots);

impl Permission for Rules {
    fn allows(&self, path_and_query: &str) -> bool {
        self.0.allows(path_and_query)
    }
}
