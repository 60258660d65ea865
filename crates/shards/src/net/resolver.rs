//! What a name stands for. Three ways to know: the system's resolver, a table for tests and demonstrations, and a bounded
//! cache in front of another. None of them decides whether an address may be reached; the connector does.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

/// Addresses of one name that are kept.
const ADDRESSES_MAX: usize = 8;
/// Names that the system resolves at a time: each binds a thread while it waits.
const LOOKUPS_MAX: usize = 64;
/// Names in the cache.
const NAMES_MAX: usize = 10_000;
/// How long an answer is believed. The system does not say how long it would be.
const FOUND_FOR: Duration = Duration::from_secs(300);
/// How long it is believed that there is no answer.
const MISSED_FOR: Duration = Duration::from_secs(60);

/// Knows what names stand for.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of a name, at least one.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, NameError>>;
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// There is no such name, or it has no address.
    #[error("`{0}` is not known: there is no such name, or it has no address")]
    Unknown(String),
    /// Nobody could say.
    #[error("`{name}` could not be resolved: {problem}")]
    Failed {
        /// The name.
        name: String,
        /// What the resolver said.
        problem: String,
    },
}

/// The system's resolver, a bounded number of questions at a time.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, NameError>> {
        Box::pin(async move {
            let failed = |problem: String| NameError::Failed { name: name.to_owned(), problem };
            let permit =
                self.lookups.clone().acquire_owned().await.map_err(|e| failed(e.to_string()))?;
            let asked = name.to_owned();
            // The thread holds the permit: a caller that gives up does not end the question.
            let lookup = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                (asked.as_str(), 0).to_socket_addrs().map(|found| found.map(|a| a.ip()).collect())
            });
            let found: io::Result<Vec<IpAddr>> = lookup.await.map_err(|e| failed(e.to_string()))?;
            match found {
                Ok(found) if found.is_empty() => Err(NameError::Unknown(name.to_owned())),
                Ok(found) => Ok(distinct(found)),
                Err(error) if is_unknown(&error) => Err(NameError::Unknown(name.to_owned())),
                Err(error) => Err(failed(error.to_string())),
            }
        })
    }
}

/// The standard library passes on only the text of what `getaddrinfo` answers.
fn is_unknown(error: &io::Error) -> bool {
    let text = error.to_string();
    ["Name or service not known", "No address associated", "nodename nor servname"]
        .iter()
        .any(|known| text.contains(known))
}

fn distinct(found: Vec<IpAddr>) -> Vec<IpAddr> {
    let mut kept: Vec<IpAddr> = Vec::with_capacity(found.len().min(ADDRESSES_MAX));
    for address in found {
        if kept.len() < ADDRESSES_MAX && !kept.contains(&address) {
            kept.push(address);
        }
    }
    kept
}

/// A private resolver: names in a table, and perhaps an answer for all others. It asks nobody.
#[derive(Clone, Debug, Default)]
pub struct TableResolver {
    names: BTreeMap<String, Vec<IpAddr>>,
    others: Others,
}

#[derive(Clone, Copy, Debug, Default)]
enum Others {
    #[default]
    Unknown,
    At(IpAddr),
    Spread,
}

impl TableResolver {
    /// Every name stands for this address.
    pub fn all_at(address: IpAddr) -> Self {
        Self { others: Others::At(address), ..Self::default() }
    }

    /// Every name stands for an address of its own in 127.0.0.0/8, the same each time.
    pub fn spread() -> Self {
        Self { others: Others::Spread, ..Self::default() }
    }

    /// This name stands for these addresses.
    #[must_use]
    pub fn with(mut self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.names.insert(name.to_ascii_lowercase(), addresses.into_iter().collect());
        self
    }

    fn find(&self, name: &str) -> Option<Vec<IpAddr>> {
        match (self.names.get(name), self.others) {
            (Some(addresses), _) => Some(addresses.clone()),
            (None, Others::Unknown) => None,
            (None, Others::At(address)) => Some(vec![address]),
            (None, Others::Spread) => Some(vec![spread(name)]),
        }
    }
}

impl Resolve for TableResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, NameError>> {
        let found = self.find(name).filter(|found| !found.is_empty());
        Box::pin(std::future::ready(found.ok_or_else(|| NameError::Unknown(name.to_owned()))))
    }
}

/// An address from 127.1.1.1 to 127.254.254.254.
fn spread(name: &str) -> IpAddr {
    let [a, b, c, ..] = xxh3_64(name.as_bytes()).to_le_bytes();
    let part = |byte: u8| 1 + byte % 254;
    Ipv4Addr::new(127, part(a), part(b), part(c)).into()
}

/// Answers of another resolver, kept for a while.
#[derive(Debug)]
pub struct Cache<R> {
    resolver: R,
    answers: Mutex<Answers>,
}

impl<R: Resolve> Cache<R> {
    /// A cache in front of a resolver.
    pub fn new(resolver: R) -> Self {
        Self { resolver, answers: Mutex::new(Answers::new(NAMES_MAX)) }
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Resolve> Resolve for Cache<R> {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, NameError>> {
        Box::pin(async move {
            if let Some(answer) = self.answers().get(name, Instant::now()) {
                return answer;
            }
            let answer = self.resolver.resolve(name).await;
            self.answers().put(name, &answer, Instant::now());
            answer
        })
    }
}

type Answer = Result<Vec<IpAddr>, NameError>;

/// Answers and how long they hold; the oldest leave first when there are too many.
#[derive(Debug)]
struct Answers {
    answers: BTreeMap<String, (Answer, Instant)>,
    order: VecDeque<String>,
    names_max: usize,
}

impl Answers {
    fn new(names_max: usize) -> Self {
        Self { answers: BTreeMap::new(), order: VecDeque::new(), names_max }
    }

    fn get(&self, name: &str, now: Instant) -> Option<Answer> {
        let (answer, until) = self.answers.get(name)?;
        (now < *until).then(|| answer.clone())
    }

    fn put(&mut self, name: &str, answer: &Answer, now: Instant) {
        let holds = match answer {
            Ok(_) => FOUND_FOR,
            Err(NameError::Unknown(_)) => MISSED_FOR,
            // A resolver that is down says nothing about the name.
            Err(NameError::Failed { .. }) => return,
        };
        if self.answers.insert(name.to_owned(), (answer.clone(), now + holds)).is_none() {
            self.order.push_back(name.to_owned());
        }
        while self.answers.len() > self.names_max {
            let Some(oldest) = self.order.pop_front() else { return };
            self.answers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Vec<IpAddr> {
        vec![text.parse().unwrap()]
    }

    #[tokio::test]
    async fn a_table_answers_for_every_name() {
        let table = TableResolver::spread().with("a.test", at("127.0.0.9"));
        assert_eq!(table.resolve("a.test").await, Ok(at("127.0.0.9")));
        let b = table.resolve("b.test").await.unwrap();
        assert!(b[0].is_loopback());
        assert_eq!(table.resolve("b.test").await.unwrap(), b);
        assert_ne!(table.resolve("c.test").await.unwrap(), b);
        let all = TableResolver::all_at("127.0.0.1".parse().unwrap());
        assert_eq!(all.resolve("x.test").await, Ok(at("127.0.0.1")));
        let none = TableResolver::default().resolve("x.test").await;
        assert_eq!(none, Err(NameError::Unknown("x.test".to_owned())));
    }

    #[tokio::test]
    async fn the_system_knows_its_own_name() {
        let found = SystemResolver::default().resolve("localhost").await.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    }

    #[test]
    fn answers_are_kept_for_their_time_and_are_bounded() {
        let mut answers = Answers::new(2);
        let start = Instant::now();
        let unknown = Err(NameError::Unknown("b".to_owned()));
        let failed = Err(NameError::Failed { name: "c".to_owned(), problem: String::new() });
        answers.put("a", &Ok(at("127.0.0.1")), start);
        answers.put("b", &unknown, start);
        answers.put("c", &failed, start);
        assert_eq!(answers.get("a", start), Some(Ok(at("127.0.0.1"))));
        assert_eq!(answers.get("b", start), Some(unknown));
        assert_eq!(answers.get("c", start), None, "the next question may find a resolver");
        assert_eq!(answers.get("b", start + MISSED_FOR), None);
        assert_eq!(answers.get("a", start + FOUND_FOR), None);
        answers.put("d", &Ok(at("127.0.0.2")), start);
        assert_eq!((answers.get("a", start), answers.answers.len()), (None, 2), "the oldest left");
    }
}
