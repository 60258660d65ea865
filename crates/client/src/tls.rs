//! Whom a connection trusts: the authorities of this machine, or those of one file and no other.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::{Error, Target};

/// The protocols that are offered to the server, most wanted first.
pub(crate) const JSON: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// gRPC needs HTTP/2.
pub(crate) const GRPC: [&[u8]; 1] = [b"h2"];

/// How to make sure that the server is the one that was named.
pub(crate) fn config(target: &Target, protocols: &[&[u8]]) -> Result<ClientConfig, Error> {
    let roots = match &target.ca {
        Some(file) => authority(file)?,
        None => machine(target)?,
    };
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| untrusted(target, error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

fn authority(file: &Path) -> Result<RootCertStore, Error> {
    let wrong = |problem: String| Error::Authority { path: file.to_owned(), problem };
    let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in found {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("it has no certificate".into()));
    }
    Ok(roots)
}

fn machine(target: &Target) -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Machines carry certificates that are old or odd; one of them must not spoil the rest.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(untrusted(target, "this machine trusts no authority at all"));
    }
    Ok(roots)
}

fn untrusted(target: &Target, problem: impl ToString) -> Error {
    Error::Untrusted { server: target.server.clone(), problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused_with_its_name() {
        let target = Target::new("https://a");
        for file in ["no-such-file.pem", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
            let error = config(&target.clone().ca(file), &JSON).unwrap_err();
            assert_eq!(error.code(), "bad_authority");
            assert!(
                error.to_string().contains(file) && error.to_string().contains("--ca"),
                "{error}"
            );
        }
    }
}
