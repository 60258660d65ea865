//! What is asked on the way to a robots.txt, one request at a time, and what it then permits. When the next one may be made
//! is decided elsewhere: in a shard by the turn of the host that it goes to.

use std::sync::Arc;
use std::time::Duration;

use divvy_frontier::frontier::{self, Everything, Missing, Outcome, Permission, RobotsAnswer};
use divvy_frontier::robots::{self, Answer, Robots, Standing};
use divvy_frontier::rules::retry::Failure;
use serde::{Deserialize, Serialize};
use url::Url;

use super::gear::Gear;
use super::visit::failure;
use crate::fetch::{Order, Purpose, Session};

/// When a copy is asked for anew, and when one that could not be renewed is tried again at the latest.
const REFRESH_MS: u64 = 18 * 3_600_000;
const AGAIN_MS: u64 = 3_600_000;

/// What one request gave. It may travel to the shard that owns the host whose robots.txt this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// An answer that is no redirect.
    Answer {
        /// Its status.
        status: u16,
        /// Its body, cut to what is read of a robots.txt.
        #[serde(with = "base64_text")]
        body: Vec<u8>,
        /// How long it asks to be left alone.
        retry_after_ms: Option<u64>,
    },
    /// A redirect.
    Redirect {
        /// Its status.
        status: u16,
        /// Where it leads; nothing if that is nowhere.
        to: Option<String>,
    },
    /// None.
    Nothing {
        /// How the request failed; nothing if it was not made.
        failure: Option<Failure>,
        /// The same in words.
        text: String,
    },
}

impl Reply {
    /// No request was made.
    pub(crate) fn not_asked(text: String) -> Self {
        Self::Nothing { failure: None, text }
    }

    /// What it says of the host that was asked.
    pub(crate) fn outcome(&self) -> Outcome {
        let of = |status: u16, retry_after_ms: Option<u64>| {
            Outcome::Answer(frontier::Answer {
                status,
                retry_after_ms,
                ..frontier::Answer::default()
            })
        };
        match self {
            Self::Answer { status, retry_after_ms, .. } => of(*status, *retry_after_ms),
            Self::Redirect { status, .. } => of(*status, None),
            // Nothing was sent to a host that may not be asked.
            Self::Nothing { failure: Some(Failure::Refused) | None, .. } => Outcome::Returned,
            Self::Nothing { failure: Some(failure), .. } => Outcome::Failed(*failure),
        }
    }

    /// What follows for the host whose robots.txt it is.
    pub(crate) fn tell(&self, standing: &mut Standing, at_ms: u64, product: &str) {
        let answer = match self {
            Self::Answer { status, body, retry_after_ms } => {
                Answer::Status { status: *status, body, retry_after_ms: *retry_after_ms }
            }
            Self::Redirect { to: Some(to), .. } => Answer::Redirect(to),
            Self::Redirect { to: None, .. } => Answer::LostInRedirects,
            Self::Nothing { .. } => Answer::Unreachable,
        };
        standing.answered(at_ms, answer, product);
    }

    /// Why a robots.txt was not had by it, for its host.
    pub(super) fn missing(&self) -> Missing {
        match self {
            Self::Answer { status, .. } | Self::Redirect { status, .. } => {
                Missing { failure: None, text: format!("it was answered with status {status}") }
            }
            Self::Nothing { failure, text } => Missing { failure: *failure, text: text.clone() },
        }
    }
}

/// Makes one request.
pub(crate) async fn request(gear: &Gear, url: &str, session: &mut Session) -> Reply {
    let Ok(url) = Url::parse(url) else {
        return Reply::not_asked(format!("{url} is no address"));
    };
    let order = Order { url: &url, validators: None, purpose: Purpose::Robots };
    match gear.fetcher.fetch(order, session).await {
        Ok(fetched) if (300..400).contains(&fetched.status) => {
            Reply::Redirect { status: fetched.status, to: fetched.redirect.map(Into::into) }
        }
        Ok(fetched) => {
            let retry_after_ms = fetched.retry_after_ms(gear.clock.now_ms());
            let mut body = fetched.body.to_vec();
            body.truncate(robots::BYTES_MAX);
            Reply::Answer { status: fetched.status, body, retry_after_ms }
        }
        Err(error) => Reply::Nothing { failure: Some(failure(&error)), text: error.to_string() },
    }
}

/// The place of the robots.txt of an origin.
pub(crate) fn place_of(origin: &str) -> String {
    format!("{origin}/robots.txt")
}

/// What came of the robots.txt of a host that is asked outside of any crawl.
#[derive(Debug)]
pub struct Asked {
    /// What it says of the host.
    pub standing: Standing,
    /// When the last request ended.
    pub ended_ms: u64,
    /// What that gave.
    pub last: Reply,
}

/// Asks an origin for its robots.txt, for somebody who asks nothing else: it goes on to other hosts after a delay each.
pub async fn ask(gear: &Gear, origin: &str, session: &mut Session) -> Asked {
    let (mut standing, mut place) = (Standing::default(), place_of(origin));
    loop {
        let last = request(gear, &place, session).await;
        let ended_ms = gear.clock.end_ms();
        last.tell(&mut standing, ended_ms, gear.agent.product());
        match standing.leads_to(ended_ms) {
            None => return Asked { standing, ended_ms, last },
            Some(next) => next.clone_into(&mut place),
        }
        tokio::time::sleep(Duration::from_millis(gear.delay_ms)).await;
    }
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

#[derive(Debug)]
struct Rules(Robots);

impl Permission for Rules {
    fn allows(&self, path_and_query: &str) -> bool {
        self.0.allows(path_and_query)
    }
}

/// Bytes as text that JSON does not blow up.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)
    }
}
