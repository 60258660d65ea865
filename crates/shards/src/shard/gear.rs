//! What the visits of a shard share: the way out, how pages are read, what is written, who renders.

use std::sync::Arc;

use divvy::net::Reach;
use divvy_frontier::address;
use tokio::sync::Mutex;

use super::clock::Clock;
use super::task::Site;
use super::{ShardError, parts};
use crate::fetch::{Fetcher, Limits};
use crate::net::{Connector, Proxy, UserAgent, tls_config};
use crate::output::Format;
use crate::page::{self, Extractor};
use crate::render::{self, Hosts, Renderer};
use crate::settings::Spec;
use crate::settings::resolve::{Names, networks};

/// What the visits of a shard share.
pub struct Gear {
    pub(crate) clock: Clock,
    pub(crate) fetcher: Fetcher,
    pub(crate) extractor: Extractor,
    pub(crate) addresses: address::Rules,
    /// As whom it asks.
    pub agent: UserAgent,
    pub(crate) formats: Vec<Format>,
    pub(crate) mode: render::Mode,
    pub(crate) browser: Option<Rendering>,
    /// What hosts permit from which pages take parts.
    pub(crate) known: parts::Known,
    pub(crate) delay_ms: u64,
}

/// The browser of a shard, one page at a time, behind the crawler's own way out.
pub(crate) struct Rendering {
    pub(crate) renderer: Mutex<Renderer>,
    /// Apart, so that pages that need no browser do not wait for it.
    pub(crate) hosts: std::sync::Mutex<Hosts>,
    _proxy: Proxy,
}

impl Gear {
    /// The gear of a crawl on this machine.
    ///
    /// # Errors
    /// If TLS cannot be set up, or a browser is wanted and there is none.
    pub async fn new(spec: &Spec, site: &Site, clock: Clock) -> Result<Arc<Self>, ShardError> {
        let wrong = |problem: String| ShardError::Settings(problem);
        let agent = spec.agent();
        let names = Names::read(&spec.rules.resolve).map_err(wrong)?;
        let networks = networks(&spec.rules.allow_private).map_err(wrong)?;
        // A crawl asks for private networks; the worker decides whether there are any for it.
        let reach = if site.allow_private { Reach::within(networks) } else { Reach::from(false) };
        let tls = tls_config([]).map_err(|error| ShardError::system("set up TLS", &error))?;
        let connector = Connector::new(Arc::new(names), reach, tls, agent.clone());
        let extractor = Extractor::new(page::Options {
            robot: agent.product().to_owned(),
            addresses: spec.rules.addresses(),
            rules: spec.rules.extractions().map_err(|bad| wrong(bad.problem))?,
            with_resources: false,
        });
        let browser = match (spec.rules.render, &site.chromium) {
            (render::Mode::Off, _) => None,
            (_, None) => {
                return Err(wrong(
                    "this worker has no browser, and the crawl renders pages".into(),
                ));
            }
            (_, Some(program)) => {
                let proxy = Proxy::start(connector.clone()).await;
                let proxy = proxy.map_err(|error| ShardError::system("start the proxy", &error))?;
                let options = render::Options {
                    program: program.clone(),
                    proxy: proxy.address(),
                    agent: agent.to_string(),
                };
                let renderer = Mutex::new(Renderer::new(options));
                Some(Rendering { renderer, hosts: std::sync::Mutex::default(), _proxy: proxy })
            }
        };
        Ok(Arc::new(Self {
            clock,
            fetcher: Fetcher::new(connector, Limits::default()),
            extractor,
            addresses: spec.rules.addresses(),
            agent,
            formats: spec.rules.formats.clone(),
            mode: spec.rules.render,
            browser,
            known: parts::Known::default(),
            delay_ms: spec.rules.delay_ms,
        }))
    }
}

impl std::fmt::Debug for Gear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gear").field("agent", &self.agent).finish_non_exhaustive()
    }
}
