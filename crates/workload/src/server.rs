//! What a server gives to a workload, and what it gets: addresses, pages, work in the background, metrics.

use std::fmt;
use std::path::PathBuf;

use divvy::Client;
use divvy::objects::Objects;
use divvy_http::Mounted;
use divvy_http::frame::{Frame, Link};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::settings::Sources;
use crate::workload::BoxFuture;

/// What a server that starts gives.
#[derive(Clone, Debug)]
pub struct ServerContext {
    /// Speaks to this very server, without sockets.
    pub client: Client,
    /// The server's objects.
    pub objects: Objects,
    /// The data folder.
    pub data: PathBuf,
    /// Where settings come from.
    pub sources: Sources,
    /// The frame of all pages of the server; those of the workload stand in it.
    pub frame: Frame,
    /// Cancelled when the server stops; streams and work in the background end then.
    pub shutdown: CancellationToken,
}

/// What a workload brings to a server.
#[derive(Default)]
pub struct ServerPart {
    /// Its addresses.
    pub routes: Mounted,
    /// Titles and paths of its pages for people, as they stand in HTML. The bar at the top of every page leads to them.
    pub pages: Vec<Link>,
    /// Work in the background. It ends by itself when the server stops.
    pub background: Vec<BoxFuture<'static, ()>>,
    /// Registers what it measures, told beside the server's own figures.
    pub metrics: Option<RegisterMetrics>,
}

/// Registers metrics once, at the start of a server.
pub type RegisterMetrics = Box<dyn FnOnce(&mut Registry) + Send>;

impl fmt::Debug for ServerPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerPart")
            .field("routes", &self.routes)
            .field("pages", &self.pages)
            .field("background", &self.background.len())
            .field("metrics", &self.metrics.is_some())
            .finish()
    }
}
