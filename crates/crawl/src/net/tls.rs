//! How encrypted connections are made: rustls with the certificates that the system trusts, HTTP/2 if the other side wants it.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// The protocols that are offered, the best first.
pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The settings of TLS: certificates of the system and, for intranets and tests, of further authorities. A system without
/// certificates is no error here; then nobody is believed.
pub fn tls_config(
    authorities: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for problem in &system.errors {
        tracing::warn!(%problem, "cannot read certificates of the system");
    }
    // Old authorities of the system that rustls cannot read are passed over.
    roots.add_parsable_certificates(system.certs);
    for authority in authorities {
        roots.add(authority)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(Arc::new(config))
}
