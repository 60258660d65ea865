//! One connection to the server: says hello, takes grants, answers and stops, until it breaks or is closed.
//!
//! Decides what of the server's words is final (a refused hello) and what is worth another try: only what bears divvy's
//! mark is the server's word, the rest is a proxy's and passes. Does not decide when to try again; that is
//! [`crate::worker`]'s. How the server is reached is decided in `divvy-client`.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use divvy_client::{Channel, MARK};
use divvy_proto::v1::work_client::WorkClient;
use divvy_proto::{granted_spec_from_wire, saved_from_wire, task_id, upstream_from_wire, v1};
use divvy_types::limits::{CREDIT_MAX, MESSAGE_BYTES_MAX};
use divvy_types::view::Upstream;
use divvy_types::{ErrorClass, FailureVerdict, TaskId, Token};
use tonic::{Code as Status, Request};
use v1::to_worker::Message;

use crate::attempt::Context;
use crate::handler::{failed, no_handler};
use crate::outgoing;
use crate::run::Runners;
use crate::state::{Key, Waiting};
use crate::{Attempt, CancelReason, Error, Options, Registry, Tier};

/// How long the server has to be reached and to answer hello.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest time between heartbeats, whatever the server says.
const BEAT_EVERY_MIN: Duration = Duration::from_millis(10);

/// Where to connect and as whom.
pub(crate) struct Connector {
    channel: Channel,
    hello: v1::Hello,
    no_upstream: Arc<[Upstream]>,
}

/// How a connection ended.
pub(crate) enum SessionEnd {
    /// It is worth another try; this is what went wrong.
    Lost(String),
    /// Another try would not help.
    Refused(Error),
}

impl Connector {
    pub(crate) fn new(options: &Options, runners: &Runners) -> Result<Self, Error> {
        let registry = &runners.registry;
        let tiers = tiers(options, registry);
        let sum = |of: fn(&v1::Tier) -> u32| tiers.iter().map(of).sum();
        let names = |list: &[divvy_types::Name]| list.iter().map(ToString::to_string).collect();
        let hello = v1::Hello {
            name: options.name.to_string(),
            queues: names(&options.queues),
            kinds: registry.kinds().map(ToString::to_string).collect(),
            capabilities: names(&options.capabilities),
            credit: sum(|tier| tier.credit),
            held: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            slots: sum(|tier| tier.slots),
            tiers,
            instance: instance(),
        };
        Ok(Self { channel: channel(options)?, hello, no_upstream: Arc::default() })
    }

    pub(crate) fn server(&self) -> &str {
        self.channel.server()
    }

    /// Connects and works until the connection ends. `welcomed` is called when it has come up, `drained` is called when the server asks to drain.
    pub(crate) async fn session(
        &self,
        runners: &Arc<Runners>,
        welcomed: impl Fn() + Sync,
        drained: impl Fn() + Sync,
    ) -> SessionEnd {
        let opened = tokio::time::timeout(WELCOME_TIMEOUT, self.open(runners)).await;
        let (mut inbound, welcome) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(status)) => return self.judge(&status),
            Err(_) => {
                return SessionEnd::Lost(format!(
                    "no welcome within {} s",
                    WELCOME_TIMEOUT.as_secs()
                ));
            }
        };
        welcomed();
        let beat_every = (Duration::from_millis(welcome.lease_ms) / 3).max(BEAT_EVERY_MIN);
        runners.hold.welcome(beat_every, welcome.checkpoints);
        loop {
            let problem = match inbound.message().await {
                Ok(Some(v1::ToWorker { message: Some(message) })) => {
                    self.handle(runners, message, &drained);
                    continue;
                }
                Ok(Some(_)) => continue,
                Ok(None) => "the server closed the connection".to_owned(),
                Err(status) => self.problem(&status),
            };
            return SessionEnd::Lost(problem);
        }
    }

    async fn open(
        &self,
        runners: &Arc<Runners>,
    ) -> Result<(tonic::Streaming<v1::ToWorker>, v1::Welcome), tonic::Status> {
        let mut client = WorkClient::with_origin(self.channel.clone(), self.channel.origin())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let (link, held) = runners.hold.link_up();
        let lease = |(task, token): Key| v1::Lease {
            task: Bytes::copy_from_slice(&task.to_bytes()),
            token: token.0,
        };
        let hello = v1::Hello { held: held.into_iter().map(lease).collect(), ..self.hello.clone() };
        let request = Request::new(outgoing::messages(Arc::clone(runners), link, hello));
        let mut inbound = client.work(request).await?.into_inner();
        match inbound.message().await?.and_then(|first| first.message) {
            Some(Message::Welcome(welcome)) => Ok((inbound, welcome)),
            Some(_) => Err(tonic::Status::unimplemented(
                "its first message is not a welcome: is it another version?",
            )),
            None => Err(tonic::Status::unavailable(
                "the server closed the connection before its welcome",
            )),
        }
    }

    /// What a failure before the welcome means.
    fn judge(&self, status: &tonic::Status) -> SessionEnd {
        let is_final = matches!(
            status.code(),
            Status::InvalidArgument
                | Status::Unauthenticated
                | Status::PermissionDenied
                | Status::FailedPrecondition
                | Status::Unimplemented
        );
        let mark = status.metadata().get(MARK).and_then(|mark| mark.to_str().ok());
        let Some(mark) = mark.filter(|_| is_final) else {
            return SessionEnd::Lost(self.problem(status));
        };
        let cure = match status.code() {
            Status::Unauthenticated => "; give this worker a token with the scope `work`",
            Status::PermissionDenied if mark == "scope_missing" => {
                "; give this worker a token with the scope `work`"
            }
            Status::Unimplemented => "; is a divvy server of this version at that address?",
            _ => "",
        };
        SessionEnd::Refused(Error::Refused {
            server: self.server().to_owned(),
            code: mark.to_owned(),
            message: format!("{}{cure}", status.message()),
        })
    }

    /// What a failed call says, without what everybody knows.
    fn problem(&self, status: &tonic::Status) -> String {
        match self.channel.error(status) {
            divvy_client::Error::Unreachable { problem, .. } => problem,
            error => error.to_string(),
        }
    }

    fn handle(&self, runners: &Arc<Runners>, message: Message, drained: &impl Fn()) {
        match message {
            Message::Grants(grants) => {
                let grants =
                    grants.grants.into_iter().filter_map(|grant| self.read_grant(runners, grant));
                runners.take(grants.collect());
            }
            Message::Answers(answers) => runners.hold.answered(
                answers
                    .answers
                    .iter()
                    .filter_map(|a| Some((key_from_wire(&a.task, a.token)?, a.recorded))),
            ),
            Message::Stops(stops) => {
                for stop in stops.stops {
                    if let Some(key) = key_from_wire(&stop.task, stop.token) {
                        runners.stop(key, CancelReason::Stopped(stop.reason.into()));
                    }
                }
            }
            Message::Recalls(recalls) => runners.recall(
                recalls
                    .recalls
                    .iter()
                    .filter_map(|r| Some((key_from_wire(&r.task, r.token)?, r.begun_too))),
            ),
            Message::Drain(_) => drained(),
            Message::Welcome(_) => tracing::debug!("the server said welcome twice"),
        }
    }

    /// A grant in the worker's own words; one that cannot run is reported as failed at once.
    fn read_grant(&self, runners: &Runners, grant: v1::Grant) -> Option<(Tier, Waiting)> {
        let token = Token(grant.token);
        let wire = grant.task.unwrap_or_default();
        let id = match task_id("grant.task.id", &wire.id) {
            Ok(id) => id,
            Err(error) => {
                tracing::warn!("the server granted a task without an id: {error}");
                return None;
            }
        };
        let upstream_cut = grant.upstream_cut;
        let upstream: Result<Arc<[Upstream]>, _> = match grant.upstream {
            none if none.is_empty() => Ok(Arc::clone(&self.no_upstream)),
            some => some.into_iter().map(upstream_from_wire).collect(),
        };
        let (task, upstream) = match granted_spec_from_wire(wire)
            .and_then(|task| Ok((task, upstream?)))
        {
            Ok(both) => both,
            Err(error) => {
                let message = format!("the worker cannot read the task: {error}");
                runners
                    .hold
                    .refuse((id, token), failed(ErrorClass::Failed, FailureVerdict::Dead, message));
                return None;
            }
        };
        let Some(entry) = runners.registry.get(&task.kind) else {
            runners.hold.refuse((id, token), no_handler(&task.kind));
            return None;
        };
        let context = Arc::new(Context::new(id, token, Some(Arc::clone(&runners.hold.board))));
        let attempt = Attempt {
            task,
            token,
            attempt: grant.attempt,
            threads: 1,
            upstream,
            upstream_cut,
            resume_point: grant.checkpoint.map(saved_from_wire),
            context,
        };
        Some((entry.tier, Waiting { attempt, code: entry.code.clone() }))
    }
}

/// What tells this worker from all others of its name, and is the same on all its connections.
fn instance() -> String {
    // Its keys are made from the chance of the operating system, and no two of one process are alike.
    let chance = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", chance(), chance())
}

/// The tiers that have kinds, with what they take; all together at most what a server allows.
fn tiers(options: &Options, registry: &Registry) -> Vec<v1::Tier> {
    let mut free = CREDIT_MAX - options.slots.total().min(CREDIT_MAX);
    let used = Tier::ALL.into_iter().filter(|tier| registry.uses(*tier));
    used.map(|tier| {
        let slots = options.slots.of(tier);
        let ahead = options.prefetch.unwrap_or(slots).min(free);
        free -= ahead;
        let kinds = registry.kinds().filter(|kind| registry.tier(kind) == Some(tier));
        v1::Tier { kinds: kinds.map(ToString::to_string).collect(), credit: slots + ahead, slots }
    })
    .collect()
}

fn key_from_wire(task: &[u8], token: u64) -> Option<Key> {
    Some((TaskId::from_slice(task)?, Token(token)))
}

/// Checks what is needed to connect, before anything runs.
pub(crate) fn check_target(options: &Options) -> Result<(), Error> {
    channel(options).map(|_| ())
}

fn channel(options: &Options) -> Result<Channel, Error> {
    use divvy_client::Error as Client;
    Channel::to(options.target.clone()).map_err(|error| match &error {
        Client::Address { url, problem } => Error::option(
            "server",
            format!("is `{url}`: {problem}; expected an address such as http://127.0.0.1:7171"),
        ),
        Client::Token => {
            let problem = "has characters that a header cannot carry; use printable ASCII";
            Error::option("token", problem)
        }
        _ => Error::option("ca", format!("is of no use: {error}")),
    })
}
