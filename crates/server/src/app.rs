//! What every request handler may reach: the engine, the address and the shutdown signal.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use divvy_engine::Handle;
use divvy_http::{ApiError, Frame};
use divvy_proto::v1::MachineLoad;
use divvy_types::{Name, Timestamp};
use divvy_wire::budget::Budget;
use divvy_wire::changes::Changes;
use divvy_wire::edge::{self, Crew, Edge};
use http::StatusCode;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::alerts::Watch;
use crate::http::metrics;
use crate::lab::{Desk, Lab};
use crate::objects::Stored;
use crate::options::Options;
use crate::pulse::Pulse;
use crate::samples::{self, Samples};
use crate::scale::Scale;
use crate::settings_file::SettingsFile;
use crate::tokens::Tokens;

/// The version of this server, as it tells everybody.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A cheap clone of what handlers share.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

/// What handlers share.
pub(crate) struct Shared {
    /// The engine.
    pub(crate) handle: Handle,
    /// What is known when the server has its port.
    bound: OnceLock<Bound>,
    /// When it began to.
    pub(crate) started: Instant,
    /// What workers are told about silence.
    pub(crate) lease_ms: u64,
    /// Cancelled when the server stops: endless answers end then.
    pub(crate) shutdown: CancellationToken,
    /// Room for submissions that wait for the engine.
    pub(crate) budget: Budget,
    /// Open connections.
    pub(crate) connections: AtomicU64,
    /// Requests that came over them, HTTP and gRPC calls alike.
    pub(crate) requests: Arc<AtomicU64>,
    /// The last samples of the load.
    pub(crate) samples: Samples,
    /// What is known of alerts.
    pub(crate) watch: Watch,
    /// Pools of workers.
    pub(crate) scale: Scale,
    /// The settings file that is followed.
    pub(crate) settings_file: SettingsFile,
    /// What callers may show.
    pub(crate) tokens: Tokens,
    /// Experiments and plans, if there are any, and their runs.
    pub(crate) lab: Option<Lab>,
    pub(crate) lab_runs: Desk,
    /// What dashboards follow.
    pub(crate) pulse: Pulse,
    /// The latest changes of tasks.
    pub(crate) changes: Changes,
    /// The engine's figures for monitors, kept while the server runs.
    metrics: Registry,
    /// The objects, if this server keeps any.
    objects: Option<Stored>,
}

#[derive(Debug)]
struct Bound {
    address: SocketAddr,
    frame: Frame,
    metrics: Arc<Registry>,
}

impl App {
    pub(crate) fn new(handle: Handle, options: &Options, objects: Option<Stored>) -> Self {
        let mut metrics = Registry::with_prefix(metrics::PREFIX);
        handle.register_metrics(&mut metrics);
        let shutdown = CancellationToken::new();
        let changes = Changes::new(handle.clone(), shutdown.clone());
        Self(Arc::new(Shared {
            handle,
            bound: OnceLock::new(),
            started: Instant::now(),
            lease_ms: options.lease_ms,
            shutdown,
            budget: Budget::default(),
            connections: AtomicU64::new(0),
            requests: Arc::default(),
            samples: Samples::default(),
            watch: Watch::new(options.alerts_file.clone()),
            scale: Scale::new(options.scaling.clone()),
            settings_file: options.settings_file.clone(),
            tokens: options.tokens.clone(),
            lab: options.lab.clone(),
            lab_runs: Desk::default(),
            pulse: Pulse::new(options.history.clone()),
            changes,
            metrics,
            objects,
        }))
    }

    /// The server has its port.
    pub(crate) fn bind(&self, address: SocketAddr, options: &Options) {
        options.frame.lead_to(divvy_dash::PAGES.to_vec(), options.pages.clone());
        let (frame, metrics) = (options.frame.clone(), Arc::clone(&options.metrics));
        // A server is bound once.
        let _ = self.bound.set(Bound { address, frame, metrics });
    }

    /// What the services of gRPC reach of it.
    pub(crate) fn edge(&self) -> Edge {
        let shared = edge::Shared {
            handle: self.handle.clone(),
            budget: self.budget.clone(),
            lease_ms: self.lease_ms,
            shutdown: self.shutdown.clone(),
            crew: Box::new(self.clone()),
        };
        shared.into()
    }

    /// Figures for monitors that are kept while the server runs: the engine's, then the extension's.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &Registry> {
        std::iter::once(&self.metrics).chain(self.bound.get().map(|bound| bound.metrics.as_ref()))
    }

    /// Where the server listens, for people.
    pub(crate) fn address(&self) -> String {
        self.bound.get().map_or_else(|| "this process".to_owned(), |it| it.address.to_string())
    }

    /// The frame of all pages.
    pub(crate) fn frame(&self) -> Frame {
        self.bound.get().map(|bound| bound.frame.clone()).unwrap_or_default()
    }

    /// The objects of this server.
    pub(crate) fn objects(&self) -> Result<&Stored, ApiError> {
        self.objects.as_ref().ok_or_else(|| {
            let message = "this server keeps no objects: it has no folder for them; start it with a data folder";
            ApiError::new(StatusCode::NOT_FOUND, "no_objects", message)
        })
    }
}

impl Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// What the parts of the server learn of workers.
impl Crew for App {
    fn changed(&self) {
        self.scale.note();
        self.pulse.note();
    }

    fn came(&self, worker: &Name, now: Timestamp) {
        self.watch.came(worker, now);
    }

    fn spoke(&self) {
        samples::note(self);
    }

    fn is_loaded(&self, worker: &Name, load: MachineLoad) {
        self.scale.loads.note(worker, Instant::now(), load);
    }

    fn left(&self, worker: &Name) {
        self.scale.loads.forget(worker);
    }
}
