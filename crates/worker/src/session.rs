//! One connection to the server: says hello, takes grants, answers and stops, until it breaks or is closed.
//!
//! Decides what of the server's words is final (a refused hello) and what is worth another try. Does not decide when
//! to try again; that is [`crate::worker`]'s.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use divvy_proto::v1::work_client::WorkClient;
use divvy_proto::{granted_spec_from_wire, saved_from_wire, task_id, upstream_from_wire, v1};
use divvy_types::limits::{CREDIT_MAX, MESSAGE_BYTES_MAX};
use divvy_types::view::Upstream;
use divvy_types::{ErrorClass, FailureVerdict, TaskId, Token};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code as Status, Request};
use v1::to_worker::Message;

use crate::attempt::Context;
use crate::handler::{failed, no_handler};
use crate::outgoing;
use crate::run::Runners;
use crate::state::{Key, Waiting};
use crate::{Attempt, CancelReason, Error, Options, Registry, Tier};

/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the server has to answer hello.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a silent connection is checked for life.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
/// How long the check may take.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes on the way on one stream: grants arrive in large batches.
const WINDOW_BYTES: u32 = 4 << 20;
/// The shortest time between heartbeats, whatever the server says.
const BEAT_EVERY_MIN: Duration = Duration::from_millis(10);

/// Where to connect and as whom.
pub(crate) struct Connector {
    endpoint: Endpoint,
    authorization: Option<MetadataValue<Ascii>>,
    hello: v1::Hello,
    server: String,
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
        };
        Ok(Self {
            endpoint: endpoint(&options.server)?,
            authorization: options.token.as_deref().map(authorization).transpose()?,
            hello,
            server: options.server.clone(),
            no_upstream: Arc::default(),
        })
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Connects and works until the connection ends. `welcomed` is called when it has come up, `drained` is called when the server asks to drain.
    pub(crate) async fn session(
        &self,
        runners: &Arc<Runners>,
        welcomed: impl Fn() + Sync,
        drained: impl Fn() + Sync,
    ) -> SessionEnd {
        let channel = match self.endpoint.connect().await {
            Ok(channel) => channel,
            Err(error) => return SessionEnd::Lost(with_causes(&error)),
        };
        let opened = tokio::time::timeout(WELCOME_TIMEOUT, self.open(channel, runners)).await;
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
                Err(status) => with_causes(&status),
            };
            return SessionEnd::Lost(problem);
        }
    }

    async fn open(
        &self,
        channel: Channel,
        runners: &Arc<Runners>,
    ) -> Result<(tonic::Streaming<v1::ToWorker>, v1::Welcome), tonic::Status> {
        let mut client = WorkClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let (link, held) = runners.hold.link_up();
        let lease = |(task, token): Key| v1::Lease {
            task: Bytes::copy_from_slice(&task.to_bytes()),
            token: token.0,
        };
        let hello = v1::Hello { held: held.into_iter().map(lease).collect(), ..self.hello.clone() };
        let mut request = Request::new(outgoing::messages(Arc::clone(runners), link, hello));
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
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
        let refused = matches!(
            status.code(),
            Status::InvalidArgument
                | Status::Unauthenticated
                | Status::PermissionDenied
                | Status::FailedPrecondition
                | Status::Unimplemented
        );
        if !refused {
            return SessionEnd::Lost(with_causes(status));
        }
        let cure = match status.code() {
            Status::Unauthenticated => "; give this worker a valid token",
            Status::PermissionDenied => "; give this worker a token with the scope `work`",
            Status::Unimplemented => "; is a divvy server of this version at that address?",
            _ => "",
        };
        let (code, message) =
            (status.code().description().to_owned(), format!("{}{cure}", status.message()));
        SessionEnd::Refused(Error::Refused { server: self.server.clone(), code, message })
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
pub(crate) fn check_address(options: &Options) -> Result<(), Error> {
    endpoint(&options.server)?;
    options.token.as_deref().map(authorization).transpose()?;
    Ok(())
}

fn endpoint(server: &str) -> Result<Endpoint, Error> {
    if server.starts_with("https://") {
        return Err(Error::option(
            "server",
            format!("is `{server}`, but TLS is not built into this worker; use http://"),
        ));
    }
    if !server.starts_with("http://") {
        return Err(Error::option(
            "server",
            format!("is `{server}`, expected an address such as http://127.0.0.1:7171"),
        ));
    }
    let endpoint = Endpoint::from_shared(server.to_owned()).map_err(|e| {
        Error::option("server", format!("is `{server}`, which is no address ({})", with_causes(&e)))
    })?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE_EVERY)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES))
}

fn authorization(token: &str) -> Result<MetadataValue<Ascii>, Error> {
    let invalid = |_| {
        Error::option("token", "has characters that a header cannot carry; use printable ASCII")
    };
    let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(invalid)?;
    value.set_sensitive(true);
    Ok(value)
}

/// An error and what caused it, without saying anything twice.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
