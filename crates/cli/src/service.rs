//! A server in this process: store, engine and network edge, started together and stopped in the right order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use divvy::Client;
use divvy::objects::Objects;
use divvy_engine::{Engine, Handle, Stopper};
use divvy_objects::Folder;
use divvy_server::{FileSections, Port, Scaling, Server, SettingsFile, TlsFiles, Tokens, Unbound};
use divvy_store::SqliteStore;
use divvy_workload::ServerContext;
use divvy_workload::http::Frame;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::service::ServerFlags;
use crate::commands::Context;
use crate::config::Settings;
use crate::exit::{Code, Failure};
use crate::laboratory;
use crate::output::words;
use crate::reload::Follower;

/// Where in the data folder objects are.
pub(crate) const OBJECTS: &str = "objects";
/// Where in the data folder tokens are.
pub(crate) const TOKENS: &str = "tokens.json";
/// Where in the data folder what pools of workers learnt is.
const SCALE: &str = "scale.json";
/// Where in the data folder the history of the charts is.
const HISTORY: &str = "pulse.jsonl";

/// What a server needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    /// Where the data is.
    pub(crate) data: PathBuf,
    token: Option<String>,
    tls: Option<TlsFiles>,
    allowed_hosts: Vec<String>,
    lease_ms: u64,
    grace_ms: u64,
    retention_days: u32,
    /// What there is for pools of workers.
    pub(crate) scaling: Scaling,
    /// The settings file, and what it says about scheduling.
    file: Option<PathBuf>,
    scheduling: FileSections,
}

/// Shorter leases would be lost by a worker that is merely slow.
const LEASE_MS_MIN: u64 = 1_000;
const LEASE_MS_MAX: u64 = 3_600_000;

impl Plan {
    /// Flags over settings.
    pub(crate) fn new(flags: &ServerFlags, settings: &Settings) -> Result<Self> {
        let lease = flags.lease.unwrap_or(settings.lease.value);
        if !(LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease.as_ms()) {
            return Err(Failure::usage(format!("--lease is {lease}, expected 1s to 1h")).into());
        }
        let retention_days = flags.retention_days.unwrap_or(settings.retention_days.value);
        if retention_days == 0 {
            return Err(Failure::usage("--retention-days is 0, expected at least 1").into());
        }
        let allowed_hosts =
            flags.allowed_hosts.clone().unwrap_or_else(|| settings.allowed_hosts.value.clone());
        let data = flags.data.clone().unwrap_or_else(|| settings.data.value.clone());
        let scaling = Scaling { file: Some(data.join(SCALE)), ..Scaling::default() };
        Ok(Self {
            listen: flags.listen.unwrap_or(settings.listen.value),
            data,
            scaling,
            token: settings.token.value.clone(),
            tls: tls_files(flags, settings)?,
            allowed_hosts: allowed_hosts.0.iter().map(ToString::to_string).collect(),
            lease_ms: lease.as_ms(),
            grace_ms: flags.grace.unwrap_or(settings.grace.value).as_ms(),
            retention_days,
            file: settings.file.clone(),
            scheduling: settings.scheduling.clone(),
        })
    }

    /// What the network edge needs to know before there is an engine.
    fn options(&self, tokens: Tokens) -> divvy_server::Options {
        divvy_server::Options {
            token: self.token.clone(),
            tokens,
            tls: self.tls.clone(),
            allowed_hosts: self.allowed_hosts.clone(),
            lease_ms: self.lease_ms,
            scaling: self.scaling.clone(),
            history: Some(self.data.join(HISTORY)),
            lab: Some(laboratory::lab()),
            ..divvy_server::Options::new(self.listen)
        }
    }
}

/// Both files or neither, flags over settings.
fn tls_files(flags: &ServerFlags, settings: &Settings) -> Result<Option<TlsFiles>> {
    let certificate = flags.tls_cert.clone().or_else(|| settings.tls_cert.value.clone());
    let key = flags.tls_key.clone().or_else(|| settings.tls_key.value.clone());
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (Some(_), None) => Err(Failure::usage("--tls-cert needs --tls-key beside it").into()),
        (None, Some(_)) => Err(Failure::usage("--tls-key needs --tls-cert beside it").into()),
    }
}

/// A running server.
pub(crate) struct Service {
    address: SocketAddr,
    scheme: &'static str,
    /// Who is let in besides those with the token that it was started with.
    pub(crate) tokens: Tokens,
    shutdown: CancellationToken,
    stopper: Stopper,
    edge: Option<JoinHandle<Result<(), divvy_server::Error>>>,
    engine: Option<JoinHandle<Result<(), divvy_engine::Error>>>,
}

impl Service {
    /// Takes the port, opens the store, recovers, takes in the workloads, and listens. In this order, so that a start
    /// that is refused leaves no store behind.
    pub(crate) async fn start(plan: &Plan, context: &Context) -> Result<Self> {
        let path = plan.data.join(TOKENS);
        let tokens =
            Tokens::open(path).map_err(|error| Failure::new(Code::Failed, error.to_string()))?;
        let options = plan.options(tokens.clone());
        options.check().map_err(edge_failure)?;
        let port = Port::take(plan.listen).await.map_err(edge_failure)?;
        let (handle, engine, objects) = open(plan.clone()).await?;
        let settings_file = follow(plan, &handle).await?;
        let shutdown = CancellationToken::new();
        let options = divvy_server::Options {
            settings_file: settings_file.clone(),
            objects: Some(objects),
            ..options
        };
        let stopper = engine.stopper();
        let server = match bind(options, port, handle.clone(), plan, context, &shutdown).await {
            Ok(server) => server,
            Err(error) => {
                shutdown.cancel();
                stopper.stop();
                // The reason not to start is told; what the engine says to its early end would only hide it.
                let _ = engine.join().await;
                return Err(error);
            }
        };
        // What is no regular file, such as a pipe, can be read only once.
        if let Some(path) = plan.file.clone().filter(|path| path.is_file()) {
            let (said, workloads) = (plan.scheduling.clone(), context.workloads.clone());
            let follower = Follower { path, shown: settings_file, handle, said, workloads };
            tokio::spawn(follower.run(shutdown.clone()));
        }
        Ok(Self {
            address: server.address(),
            scheme: if plan.tls.is_some() { "https" } else { "http" },
            tokens,
            edge: Some(tokio::spawn(server.run(shutdown.clone()))),
            engine: Some(tokio::spawn(engine.join())),
            shutdown,
            stopper,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it is reached at this address.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        format!("{}://{address}", self.scheme)
    }

    /// Waits until it ends by itself, which it does only when something is broken, and says what. May be dropped
    /// while it waits.
    pub(crate) async fn broken(&mut self) -> anyhow::Error {
        let (Some(edge), Some(engine)) = (&mut self.edge, &mut self.engine) else {
            return std::future::pending().await;
        };
        tokio::select! {
            ended = edge => {
                self.edge = None;
                broken_part("the network edge", ended)
            }
            ended = engine => {
                self.engine = None;
                broken_part("the engine", ended)
            }
        }
    }

    /// Stops accepting, lets requests finish, then writes down what is open.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.shutdown.cancel();
        if let Some(edge) = self.edge.take() {
            edge.await?.map_err(edge_failure)?;
        }
        self.stopper.stop();
        if let Some(engine) = self.engine.take() {
            engine.await?.map_err(|error| Failure::new(Code::Failed, error.to_string()))?;
        }
        Ok(())
    }
}

/// Takes in what the workloads bring, and then the connections. They speak to the server in this process, as its owner.
async fn bind(
    options: divvy_server::Options,
    port: Port,
    handle: Handle,
    plan: &Plan,
    context: &Context,
    shutdown: &CancellationToken,
) -> Result<Server> {
    let folder = options.objects.clone();
    let mut server = Unbound::new(options, handle).map_err(edge_failure)?;
    let has_session = plan.token.is_some() || !server.options.tokens.is_empty();
    server.options.frame = Frame::new(has_session);
    let theirs = ServerContext {
        client: Client::in_process(server.service()),
        objects: Objects::in_folder(folder.context("the server has no objects")?),
        data: plan.data.clone(),
        sources: context.settings.sources.clone(),
        frame: server.options.frame.clone(),
        shutdown: shutdown.clone(),
    };
    let (mut background, mut metrics) = (Vec::new(), Registry::default());
    for workload in context.workloads.iter() {
        let part = workload.serve(&theirs).await?;
        server.options.mounted.push(part.routes);
        server.options.pages.extend(part.pages);
        background.extend(part.background);
        if let Some(register) = part.metrics {
            register(metrics.sub_registry_with_prefix(workload.name()));
        }
    }
    server.options.metrics = Arc::new(metrics);
    let server = server.bind_to(port);
    background.into_iter().for_each(|work| drop(tokio::spawn(work)));
    Ok(server)
}

/// An address that listens on all interfaces is reached over loopback from here.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        let loopback = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
        address.set_ip(loopback.parse().expect("loopback is an address"));
    }
    address
}

/// Makes what the settings file says hold.
async fn follow(plan: &Plan, handle: &Handle) -> Result<SettingsFile> {
    let Some(path) = &plan.file else { return Ok(SettingsFile::default()) };
    let file = SettingsFile::new(path.display().to_string());
    let applied = file.apply(handle, plan.scheduling.clone(), words::now()).await;
    applied.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    Ok(file)
}

fn broken_part<E: std::fmt::Display>(
    part: &str,
    ended: Result<Result<(), E>, tokio::task::JoinError>,
) -> anyhow::Error {
    let why = match ended {
        Ok(Ok(())) => "it ended without being asked".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Failure::new(Code::Failed, format!("{part} stopped: {why}"))
        .cure("nothing acknowledged is lost; look at the cause and start again")
        .into()
}

/// Opens the store and recovers, off the async threads because both read the disk.
async fn open(plan: Plan) -> Result<(Handle, Engine, Folder)> {
    tokio::task::spawn_blocking(move || {
        let options = divvy_store::sqlite::Options {
            retention_days: plan.retention_days,
            ..Default::default()
        };
        let store = SqliteStore::open(&plan.data, options).map_err(store_failure)?;
        let failed = |error: String| Failure::new(Code::Failed, error);
        let objects = Folder::open(plan.data.join(OBJECTS));
        let objects = objects.map_err(|error| failed(error.to_string()))?;
        let options = divvy_engine::Options {
            lease_ms: plan.lease_ms,
            away_grace_ms: plan.grace_ms,
            ..Default::default()
        };
        let started = Engine::start(Box::new(store), options);
        let (handle, engine) = started.map_err(|error| failed(error.to_string()))?;
        Ok((handle, engine, objects))
    })
    .await?
}

/// A store's error with its exit code.
pub(crate) fn store_failure(error: divvy_store::Error) -> Failure {
    let code = match &error {
        divvy_store::Error::InUse(_) | divvy_store::Error::Full(_) => Code::Refused,
        _ => Code::Failed,
    };
    Failure::new(code, error.to_string())
}

fn edge_failure(error: divvy_server::Error) -> Failure {
    let code = match &error {
        divvy_server::Error::BadToken
        | divvy_server::Error::BadHost(_)
        | divvy_server::Error::Tls { .. } => Code::Usage,
        _ => Code::Refused,
    };
    Failure::new(code, error.to_string())
}
