//! `divvy cert`: a private authority and the certificate of a server, for those who have no other.
//!
//! The key of the authority stays in the folder, so that the certificate can be renewed and clients need not be told
//! anything new. Whoever has that key can pretend to be the server: it is for its owner only, like that of the server.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use divvy_types::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use crate::args::access::{Cert, NewCert};
use crate::exit::{Code, Failure};
use crate::output::{Output, words};

const AUTHORITY: &str = "authority.pem";
const AUTHORITY_KEY: &str = "authority-key.pem";
const SERVER: &str = "server.pem";
const SERVER_KEY: &str = "server-key.pem";
/// How an authority of ours is called. Certificates name it, so it is the same when one is renewed.
const AUTHORITY_NAME: &str = "divvy private authority";
/// The names by which local workers and commands reach a server.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// How long an authority is good: ten years.
const AUTHORITY_DAYS: u32 = 3_652;
/// Clocks that are behind by a day still trust a new certificate.
const EARLIER: Duration = Duration::from_secs(86_400);
const DAY_MS: u64 = 86_400_000;

/// Does what is asked. Asks nobody and reads no settings.
pub(super) fn run(args: &Cert, output: &Output) -> Result<Code> {
    let Cert::New(args) = args;
    let names: Vec<String> = LOOPBACK
        .into_iter()
        .map(ToOwned::to_owned)
        .chain(args.name.iter().flat_map(|names| names.0.iter().map(ToString::to_string)))
        .collect();
    let ends = make(args, &names, words::now())?;
    let path = |name: &str| args.folder.join(name).display().to_string();
    if output.is_json() {
        output.object(&json!({
            "authority": path(AUTHORITY), "certificate": path(SERVER), "key": path(SERVER_KEY),
            "names": names, "expires_at": ends,
        }))?;
        return Ok(Code::Done);
    }
    let (authority, server, key) = (path(AUTHORITY), path(SERVER), path(SERVER_KEY));
    output.data(format_args!("certificate for {} until {ends}", names.join(", ")))?;
    output.data(format_args!("  server   divvy serve --tls-cert {server} --tls-key {key}"))?;
    output.data(format_args!("  clients  copy {authority} to them: --ca FILE or DIVVY_CA=FILE"))?;
    output.data(format_args!(
        "  here     divvy up --tls-cert {server} --tls-key {key} --ca {authority}"
    ))?;
    output.note(format_args!("keep {} secret; it is needed to renew", path(AUTHORITY_KEY)));
    Ok(Code::Done)
}

/// Writes all files; the end of the server's certificate.
fn make(args: &NewCert, names: &[String], now: Timestamp) -> Result<Timestamp> {
    let folder = &args.folder;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot create {}", folder.display()))?;
    let issuer = authority(folder, now)?;
    let key = KeyPair::generate().context("cannot make a key")?;
    let params = CertificateParams::new(names.to_vec());
    let mut params = params.map_err(|error| Failure::usage(format!("--name: {error}")))?;
    params.distinguished_name.push(DnType::CommonName, "divvy server");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let ends = limit(&mut params, now, args.days);
    let certificate = params.signed_by(&key, &issuer).context("cannot sign the certificate")?;
    // The key comes first: a server that looks in between finds a pair that does not fit, and waits.
    write(&folder.join(SERVER_KEY), &key.serialize_pem(), 0o600)?;
    write(&folder.join(SERVER), &certificate.pem(), 0o644)?;
    Ok(ends)
}

/// The authority in the folder, or a new one.
fn authority(folder: &Path, now: Timestamp) -> Result<Issuer<'static, KeyPair>> {
    let (file, key_file) = (folder.join(AUTHORITY), folder.join(AUTHORITY_KEY));
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    match (file.exists(), key_file.exists()) {
        (true, true) => {
            let text = std::fs::read_to_string(&key_file);
            let text = text.with_context(|| format!("cannot read {}", key_file.display()))?;
            let key = KeyPair::from_pem(&text).map_err(|error| {
                Failure::usage(format!("{} is not a key: {error}", key_file.display()))
            })?;
            return Ok(Issuer::new(params, key));
        }
        (false, false) => {}
        _ => {
            let problem = format!("{} has only half of an authority", folder.display());
            let cure = "name another folder, or put authority.pem and authority-key.pem back";
            return Err(Failure::usage(problem).cure(cure).into());
        }
    }
    limit(&mut params, now, AUTHORITY_DAYS);
    let key = KeyPair::generate().context("cannot make a key")?;
    let certificate = params.self_signed(&key).context("cannot make an authority")?;
    write(&key_file, &key.serialize_pem(), 0o600)?;
    write(&file, &certificate.pem(), 0o644)?;
    Ok(Issuer::new(params, key))
}

/// Makes a certificate good for so many days from `now`; its end.
fn limit(params: &mut CertificateParams, now: Timestamp, days: u32) -> Timestamp {
    let epoch = || rcgen::date_time_ymd(1970, 1, 1);
    let ends = now.plus_ms(u64::from(days) * DAY_MS);
    params.not_before = epoch() + Duration::from_micros(now.0).saturating_sub(EARLIER);
    params.not_after = epoch() + Duration::from_micros(ends.0);
    ends
}

/// Replaces a file whole, with this mode.
fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let written = replace(path, &path.with_extension("new"), text, mode);
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn replace(path: &Path, fresh: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    // What was left behind may be open to others.
    match std::fs::remove_file(fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(fresh, path)
}
