//! A server that speaks TLS itself, behind something that does, and behind a proxy: commands, workers and programs reach it
//! when they know its authority, and say what is missing when they do not.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::sync::Arc;

use divvy::{Client, Target};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::stack::{Folder, Guarded, Server, end, until};

/// A name that is nowhere but behind the proxy.
const NAME: &str = "divvy.test";

/// A certificate for loopback and [`NAME`], and the authority that signed it as PEM.
fn certificate() -> (CertificateDer<'static>, PrivateKeyDer<'static>, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".into(), NAME.into()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (certificate.der().clone(), key, authority.pem())
}

/// Speaks TLS and hands on what it hears to a server; its address, and the authority of its certificate.
fn front(runtime: &Runtime, server: &Server) -> (SocketAddr, String) {
    let (certificate, key, authority) = certificate();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut config = config
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let to = server.url.trim_start_matches("http://").to_owned();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, to) = (acceptor.clone(), to.clone());
            tokio::spawn(async move {
                // Whoever does not trust the certificate leaves.
                let Ok(mut near) = acceptor.accept(stream).await else { return };
                let mut far = TcpStream::connect(to).await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, authority)
}

/// A proxy of HTTP that leads every tunnel to `to`; tells the first line of each request.
fn proxy(runtime: &Runtime, to: SocketAddr) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    runtime.spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(near.read_u8().await.unwrap());
                }
                tell.send(String::from_utf8(head).unwrap()).unwrap();
                let mut far = TcpStream::connect(to).await.unwrap();
                near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, told)
}

#[test]
fn a_known_authority_opens_https_to_commands_workers_and_programs() {
    let runtime = Runtime::new().unwrap();
    let server = Server::serve(&["--token", "secret"]);
    let (address, authority) = front(&runtime, &server);
    let url = format!("https://{address}");
    let folder = Folder::new();
    folder.write("authority.pem", &authority);
    let file = folder.path().join("authority.pem");

    let reach = ["--server", &url, "--token", "secret", "--ca", "authority.pem"];
    fn with<'a>(args: &[&'a str], reach: &[&'a str]) -> Vec<&'a str> {
        [args, reach].concat()
    }
    folder.run(&with(&["status"], &reach)).expect(0);
    let work = folder.command(&with(&["work", "--no-video", "--name", "behind"], &reach)).spawn();
    let worker = Guarded(work.unwrap());
    let ended =
        folder.run(&with(&["submit", "sleep", "--arg", "ms:=1", "--wait"], &reach)).expect(0);
    assert!(!ended.stdout.is_empty());
    drop(worker);

    let target = Target::new(&url).token("secret");
    let trusting = runtime.block_on(Client::connect(target.clone().ca(file))).unwrap();
    let workers = runtime.block_on(trusting.workers()).unwrap();
    assert!(workers.iter().all(|worker| worker.name == "behind"), "{workers:?}");
    let stranger = runtime.block_on(Client::connect(target)).unwrap_err();
    assert_eq!(stranger.code(), "untrusted", "{stranger}");
}

#[test]
fn an_unknown_authority_is_refused_with_the_cure() {
    let runtime = Runtime::new().unwrap();
    let server = Server::serve(&[]);
    let (address, _) = front(&runtime, &server);
    let url = format!("https://{address}");
    let folder = Folder::new();
    let ended = folder.run(&["status", "--server", &url]).expect(3);
    assert!(ended.stderr.contains("not trusted") && ended.stderr.contains("--ca"), "{ended:?}");
    folder.write("other.pem", &certificate().2);
    let ended = folder.run(&["status", "--server", &url, "--ca", "other.pem"]).expect(3);
    assert!(ended.stderr.contains("not trusted"), "{ended:?}");
    folder.write("empty.pem", "");
    let ended = folder.run(&["status", "--server", &url, "--ca", "empty.pem"]).expect(2);
    assert!(ended.stderr.contains("empty.pem"), "{ended:?}");

    let mut worker = folder.command(&["work", "--no-video", "--server", &url]).spawn().unwrap();
    let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines();
    let worker = Guarded(worker);
    let line = until("the worker says why it is not let in", || {
        lines.next()?.ok().filter(|line| line.contains("no connection"))
    });
    assert!(line.contains("not trusted") && line.contains("--ca"), "{line}");
    drop(worker);
}

#[test]
fn a_proxy_of_the_environment_carries_https_and_sees_no_token() {
    let runtime = Runtime::new().unwrap();
    let server = Server::serve(&["--token", "secret", "--allowed-hosts", NAME]);
    let (address, authority) = front(&runtime, &server);
    let (proxy, mut heads) = proxy(&runtime, address);
    let folder = Folder::new();
    folder.write("authority.pem", &authority);
    let url = format!("https://{NAME}");
    let command = |args: &[&str], url: &str| {
        let reach = ["--server", url, "--token", "secret", "--ca", "authority.pem"];
        let mut command = folder.command(&[args, &reach].concat());
        command.env("HTTPS_PROXY", format!("http://{proxy}")).env_remove("NO_PROXY");
        command.env("HTTP_PROXY", format!("http://{proxy}")).env_remove("no_proxy");
        command
    };
    let work = command(&["work", "--no-video", "--name", "behind"], &url).spawn();
    let worker = Guarded(work.unwrap());
    end(command(&["submit", "sleep", "--arg", "ms:=1", "--wait"], &url), "").expect(0);
    drop(worker);
    let mut seen = 0;
    while let Ok(head) = heads.try_recv() {
        assert!(head.starts_with(&format!("CONNECT {NAME}:443 ")), "{head}");
        assert!(!head.contains("secret"), "{head}");
        seen += 1;
    }
    assert!(seen >= 2, "a worker and a command came by, {seen} seen");

    // Loopback and plain HTTP go their own way.
    end(command(&["status"], &format!("https://{address}")), "").expect(0);
    end(command(&["status"], &server.url), "").expect(0);
    let secure = server.url.replace("http://", "https://");
    let secure = end(command(&["status"], &secure), "").expect(3);
    assert!(secure.stderr.contains("does not speak TLS"), "{secure:?}");
    assert!(secure.stderr.contains("write http://"), "{secure:?}");
    assert!(heads.try_recv().is_err());
}

#[test]
fn a_server_with_a_certificate_of_ours_is_reached_by_those_who_have_its_authority() {
    let folder = Folder::new();
    folder.run(&["cert", "new", "--name", "divvy.test"]).expect(0);
    // Renewed, it is still one of the same authority.
    let authority = std::fs::read(folder.path().join("divvy-tls/authority.pem")).unwrap();
    let named = ["--name", "a.test,b.test", "--name", "c.test"];
    let renew = [&["cert", "new", "--json"], &named[..]].concat();
    let made = folder.run(&renew).expect(0).json().remove(0);
    assert_eq!(made["names"][1], "127.0.0.1");
    let names = made["names"].as_array().unwrap();
    assert!(
        ["a.test", "b.test", "c.test"].iter().all(|name| names.contains(&json!(name))),
        "{made}"
    );
    assert_eq!(std::fs::read(folder.path().join("divvy-tls/authority.pem")).unwrap(), authority);
    let files = ["--tls-cert", "divvy-tls/server.pem", "--tls-key", "divvy-tls/server-key.pem"];
    let up = [&["up", "--workers", "1", "--token", "secret"], &files[..]].concat();
    let alone = folder.run(&[&up[..], &["--listen", "127.0.0.1:0"]].concat()).expect(5);
    assert!(alone.stderr.contains("local workers") && alone.stderr.contains("--ca"), "{alone:?}");
    folder.run(&["serve", "--tls-cert", "divvy-tls/server.pem"]).expect(2);

    let ca = ["--ca", "divvy-tls/authority.pem"];
    let server = Server::start(folder, &[&up[..], &ca[..]].concat());
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let token = ["--token", "secret"];
    let submit = ["submit", "noop", "--wait"];
    server.run(&[&submit[..], &ca[..], &token[..]].concat()).expect(0);
    let stranger = server.run(&[&submit[..], &token[..]].concat()).expect(3);
    assert!(stranger.stderr.contains("not trusted"), "{stranger:?}");
    server.run(&[&submit[..], &ca[..]].concat()).expect(5);
    let plain = server.url.replace("https://", "http://");
    let plain = server.run(&["status", "--server", &plain]).expect(3);
    assert!(plain.stderr.contains("speaks TLS") && plain.stderr.contains("https://"), "{plain:?}");

    let file = server.folder.path().join("divvy-tls/authority.pem");
    let runtime = Runtime::new().unwrap();
    let target = Target::new(&server.url).token("secret");
    let program = runtime.block_on(Client::connect(target.clone().ca(file))).unwrap();
    assert_eq!(runtime.block_on(program.workers()).unwrap().len(), 1);
    assert_eq!(runtime.block_on(Client::connect(target)).unwrap_err().code(), "untrusted");
}
