//! How a server is set up, and why it may not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use divvy_client::reqwest::Url;
use divvy_http::frame::{Frame, Link};
use divvy_types::limits::WORKFLOW_NAME_LEN_MAX as HOST_LEN_MAX;
use prometheus_client::registry::Registry;

use crate::lab::Lab;
use crate::scale::Scaling;
use crate::settings_file::SettingsFile;
use crate::tls::TlsFiles;
use crate::tokens::Tokens;

/// Characters of the token with which a server on another address than loopback is started: who can try for long finds a
/// shorter one.
pub const TOKEN_LEN_MIN: usize = 16;

/// How a server listens and whom it lets in.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 picks a free one.
    pub listen: SocketAddr,
    /// What allows everything when a caller presents it as `Authorization: Bearer …`. It or one of `tokens` is needed for
    /// any address that is not loopback.
    pub token: Option<String>,
    /// What else callers may present, and what each of these allows.
    pub tokens: Tokens,
    /// The certificate and key with which the server speaks TLS, and only that.
    pub tls: Option<TlsFiles>,
    /// Host names by which callers may address the server, besides loopback names and the listen address.
    /// Each is `name` (any port) or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Files that the process may open, from which follows how many connections there may be; without it, as many as
    /// the operating system allows, which the server asks for.
    pub files: Option<u64>,
    /// How long a silent worker keeps its leases, as workers are told: the `lease_ms` of the engine.
    pub lease_ms: u64,
    /// The settings file that someone watches for this server, as the API shows it.
    pub settings_file: SettingsFile,
    /// What there is for pools of workers.
    pub scaling: Scaling,
    /// Where the history of the charts is kept; without it, it is forgotten with the process.
    pub history: Option<PathBuf>,
    /// Experiments and plans that people may run from a page.
    pub lab: Option<Lab>,
    /// Where it is kept which alerts fire, in the data folder; without it, it is forgotten with the process.
    pub alerts_file: Option<PathBuf>,
    /// The collector that spans of tasks are sent to, over OTLP/HTTP; without it there are none.
    pub otlp: Option<String>,
    /// Where objects are kept; without it there are none.
    pub objects: Option<divvy_objects::Folder>,
    /// More addresses, answered behind the same guard.
    pub mounted: Vec<divvy_http::Mounted>,
    /// Their figures for monitors, told beside the server's own.
    pub metrics: Arc<Registry>,
    /// What they have for people: titles and paths, as they stand in HTML. The bar at the top of every page leads to them.
    pub pages: Vec<Link>,
    /// The frame of all pages. Its bar leads to the pages of the server and to these.
    pub frame: Frame,
}

impl Options {
    /// The port that divvy uses unless told otherwise.
    pub const DEFAULT_PORT: u16 = 7171;

    /// A server at this address with every other setting at its default.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            token: None,
            tokens: Tokens::default(),
            tls: None,
            allowed_hosts: Vec::new(),
            files: None,
            lease_ms: divvy_engine::Options::default().lease_ms,
            settings_file: SettingsFile::default(),
            scaling: Scaling::default(),
            history: None,
            lab: None,
            alerts_file: None,
            otlp: None,
            objects: None,
            mounted: Vec::new(),
            metrics: Arc::default(),
            pages: Vec::new(),
            frame: Frame::default(),
        }
    }

    /// Checks what can be checked before anything is opened.
    ///
    /// # Errors
    /// If the options make no sense.
    pub fn check(&self) -> Result<(), Error> {
        let is_loopback = self.listen.ip().is_loopback();
        match &self.token {
            None if !is_loopback && self.tokens.is_empty() => {
                return Err(Error::NotLoopback { address: self.listen });
            }
            Some(token) if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) => {
                return Err(Error::BadToken);
            }
            Some(token) if !is_loopback && token.len() < TOKEN_LEN_MIN => {
                return Err(Error::ShortToken { address: self.listen, len: token.len() });
            }
            _ => {}
        }
        let bad = |host: &&String| {
            host.is_empty()
                || host.len() > HOST_LEN_MAX
                || host.contains(['/', '@', ' '])
                || !host.is_ascii()
        };
        if let Some(url) = self.otlp.as_deref().filter(|url| !is_web_address(url)) {
            return Err(Error::BadCollector(url.to_owned()));
        }
        match self.allowed_hosts.iter().find(bad) {
            Some(host) => Err(Error::BadHost(host.clone())),
            None => Ok(()),
        }
    }
}

fn is_web_address(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

impl Default for Options {
    fn default() -> Self {
        Self::new(SocketAddr::from(([127, 0, 0, 1], Self::DEFAULT_PORT)))
    }
}

/// Why a server cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Someone else listens there.
    #[error(
        "address {address} is in use: another divvy server or another program listens there; stop it, or listen elsewhere, such as --listen 127.0.0.1:0 for any free port"
    )]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// Open to others without a secret.
    #[error(
        "refusing to listen on {address} without a token: whoever reaches it could run tasks; set DIVVY_TOKEN, make one with `divvy token create NAME --scope admin --data DIR`, or listen on 127.0.0.1"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// A token that can be guessed.
    #[error(
        "refusing to listen on {address} with a token of {len} characters: it could be guessed; use at least {TOKEN_LEN_MIN} random ones, such as: openssl rand -hex 32"
    )]
    ShortToken {
        /// The address.
        address: SocketAddr,
        /// How long the token is.
        len: usize,
    },
    /// The certificate or its key is of no use.
    #[error("cannot speak TLS with {}: {problem}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and the cure.
        problem: String,
    },
    /// A token that cannot be sent in a header.
    #[error(
        "token is empty or has characters that a header cannot carry; use visible ASCII characters without spaces"
    )]
    BadToken,
    /// An allowed host that is no host.
    #[error(
        "allowed host `{0}` is not a host; give `name` or `name:port`, without a scheme or a path"
    )]
    BadHost(String),
    /// A collector that is no address.
    #[error(
        "collector `{0}` is not an address; give that of OTLP over HTTP, such as http://127.0.0.1:4318"
    )]
    BadCollector(String),
    /// The folder of objects cannot be used.
    #[error("cannot keep objects: {0}")]
    Objects(#[from] divvy_objects::Error),
    /// The operating system refuses for another reason.
    #[error(
        "cannot listen on {address}: {source}; check that the address belongs to this machine and that the port is 1024 or above"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What it says.
        source: io::Error,
    },
}
