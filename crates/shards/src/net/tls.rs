//! How encrypted connections are made: rustls with the certificates that the system trusts, HTTP/2 if the other side wants it.
//!
//! A shard wakes many times an hour and must not read over a hundred files each time, so a process keeps the certificates
//! for [`AGE_MAX`]. What could not be read whole is not kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// The protocols that are offered, the best first.
pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// After so long the certificates of the system are read again, for an authority that it trusts newly or no more.
const AGE_MAX: Duration = Duration::from_secs(3_600);

static SYSTEM: Mutex<System> = Mutex::new(System { kept: None });

/// The settings of TLS: certificates of the system and, for intranets and tests, of further authorities. A system without
/// certificates is no error here; then nobody is believed.
pub fn tls_config(
    authorities: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut system = SYSTEM.lock().unwrap_or_else(PoisonError::into_inner);
    let mut roots = system.roots(Instant::now());
    drop(system);
    for authority in authorities {
        Arc::make_mut(&mut roots).add(authority)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(Arc::new(config))
}

/// The certificates that the system trusts.
struct System {
    /// When they were read.
    kept: Option<(Instant, Arc<RootCertStore>)>,
}

impl System {
    fn roots(&mut self, now: Instant) -> Arc<RootCertStore> {
        let young = |read: Instant| now.saturating_duration_since(read) < AGE_MAX;
        if let Some((_, roots)) = self.kept.as_ref().filter(|(read, _)| young(*read)) {
            return Arc::clone(roots);
        }
        let system = rustls_native_certs::load_native_certs();
        for problem in &system.errors {
            tracing::warn!(%problem, "cannot read certificates of the system");
        }
        let mut roots = RootCertStore::empty();
        // Old authorities of the system that rustls cannot read are passed over.
        roots.add_parsable_certificates(system.certs);
        let roots = Arc::new(roots);
        let is_whole = system.errors.is_empty() && !roots.is_empty();
        self.kept = is_whole.then(|| (now, Arc::clone(&roots)));
        roots
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn certificates_of_the_system_are_read_once_in_an_hour() {
        let (mut system, now) = (System { kept: None }, Instant::now());
        let first = system.roots(now);
        assert!(!first.is_empty(), "certificates are missing; install them: ca-certificates");
        let within = system.roots(now + AGE_MAX - Duration::from_secs(1));
        assert!(Arc::ptr_eq(&first, &within), "they were read again");
        let after = system.roots(now + AGE_MAX);
        assert!(!Arc::ptr_eq(&first, &after), "they were read an hour ago");
        assert_eq!(first.len(), after.len());
    }

    #[test]
    fn what_one_crawl_believes_besides_is_not_believed_by_the_next() {
        let params = CertificateParams::new(["a.test".to_owned()]).unwrap();
        let own = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let count = || {
            let mut system = SYSTEM.lock().unwrap();
            system.roots(Instant::now()).len()
        };
        let before = count();
        tls_config([own.der().clone()]).unwrap();
        assert_eq!(count(), before);
    }
}
