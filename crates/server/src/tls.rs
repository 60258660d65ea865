//! TLS: the certificate that the server shows, and the key that proves it. Both are PEM files that are read again when
//! they change, and on SIGHUP; connections that are open keep what they began with.
//!
//! Files that do not fit together change nothing: they are logged, and read again when they change. So a certificate and
//! its key may be replaced one after the other.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use divvy_wire::connection::Greeted;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::options::Error;

/// How long the two sides may take to agree.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// How often the files are looked at for a change.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What TLS begins with, and no request of plain HTTP does.
const HANDSHAKE: u8 = 0x16;

/// Where the certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, then those of the authorities between it and the one that clients trust.
    pub certificate: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
}

/// What speaks TLS for the server.
#[derive(Clone)]
pub(crate) struct Tls {
    files: TlsFiles,
    shown: Arc<Shown>,
    acceptor: TlsAcceptor,
}

/// The certificate that new connections are shown.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// What changes when a file is replaced.
type Stamp = Option<(SystemTime, u64, u64)>;

impl Tls {
    /// Reads the files.
    pub(crate) fn open(files: TlsFiles) -> Result<Self, Error> {
        let shown = Arc::new(Shown(RwLock::new(read(&files)?)));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let mut config = config
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&files.certificate, error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { files, shown, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Agrees with a caller; nothing if they do not, or take too long. One who begins without TLS comes back as it is.
    pub(crate) async fn greet(&self, stream: TcpStream) -> Option<Greeted> {
        let agree = async {
            let mut first = [HANDSHAKE];
            stream.peek(&mut first).await?;
            if first != [HANDSHAKE] {
                return Ok(Either::Left(stream));
            }
            self.acceptor.accept(stream).await.map(Either::Right)
        };
        match tokio::time::timeout(HANDSHAKE_WITHIN, agree).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a caller does not speak TLS as this server does");
                None
            }
            Err(_) => {
                tracing::debug!("a caller took too long to agree on TLS");
                None
            }
        }
    }

    /// Follows the files until `stop`.
    pub(crate) async fn follow(self, stop: CancellationToken) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hangup = Hangup::listen();
        let mut seen = self.stamps().await;
        loop {
            let asked = tokio::select! {
                () = stop.cancelled() => return,
                () = hangup.next() => true,
                _ = looks.tick() => false,
            };
            let stamps = self.stamps().await;
            if asked || stamps != seen {
                seen = stamps;
                self.reload().await;
            }
        }
    }

    async fn reload(&self) {
        let files = self.files.clone();
        let Ok(read) = tokio::task::spawn_blocking(move || read(&files)).await else { return };
        match read {
            Ok(key) => {
                *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = key;
                tracing::info!(file = %self.files.certificate.display(), "certificate reloaded");
            }
            Err(error) => tracing::error!("certificate not reloaded, the old one holds: {error}"),
        }
    }

    async fn stamps(&self) -> [Stamp; 2] {
        [stamp(&self.files.certificate).await, stamp(&self.files.key).await]
    }
}

fn read(files: &TlsFiles) -> Result<Arc<CertifiedKey>, Error> {
    let TlsFiles { certificate, key } = files;
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(certificate, error))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "it has no certificate; give a PEM file that has"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
    let pair = CertifiedKey::from_der(chain, private, &ring::default_provider());
    let cure = "give the key that belongs to the first certificate of --tls-cert";
    pair.map(Arc::new).map_err(|error| wrong(key, format!("{error}; {cure}")))
}

fn wrong(path: &Path, problem: impl ToString) -> Error {
    Error::Tls { path: path.to_owned(), problem: problem.to_string() }
}

async fn stamp(path: &Path) -> Stamp {
    let metadata = tokio::fs::metadata(path).await.ok()?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let number = 0;
    Some((metadata.modified().ok()?, metadata.len(), number))
}

/// SIGHUP, where there is such a thing.
struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    fn listen() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    /// Waits for the next one. May be dropped while it waits.
    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal {
            signal.recv().await;
            return;
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn write(folder: &Path, name: &str) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let files = TlsFiles {
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}-key.pem")),
        };
        std::fs::write(&files.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    #[test]
    fn what_is_missing_empty_or_does_not_fit_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (write(folder.path(), "a"), write(folder.path(), "b"));
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        let missing = folder.path().join("missing.pem");
        let cases = [
            (empty.clone(), a.key.clone(), "empty.pem"),
            (missing.clone(), a.key.clone(), "missing.pem"),
            (a.certificate.clone(), empty, "empty.pem"),
            (a.certificate.clone(), missing, "missing.pem"),
            (a.certificate, b.key, "b-key.pem"),
        ];
        for (certificate, key, named) in cases {
            let error = read(&TlsFiles { certificate, key }).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[tokio::test]
    async fn a_reload_takes_the_new_pair_and_never_half_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (write(folder.path(), "old"), write(folder.path(), "new"));
        let tls = Tls::open(old.clone()).unwrap();
        let shown = || tls.shown.0.read().unwrap().cert.clone();
        let first = shown();
        std::fs::copy(&new.certificate, &old.certificate).unwrap();
        tls.reload().await;
        assert_eq!(shown(), first, "the key is still the old one");
        std::fs::copy(&new.key, &old.key).unwrap();
        tls.reload().await;
        assert_ne!(shown(), first);
    }
}
