//! Servers on this machine for tests: one that is told byte by byte what to answer, and one that speaks TLS and HTTP/2.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use divvy::net::Reach;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{Connector, Resolve, TableResolver, UserAgent, tls_config};

/// What a server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Sends this and waits for the next request.
    Send(Vec<u8>),
    /// Sends this and closes.
    SendAndClose(Vec<u8>),
    /// Sends this and then nothing more.
    SendAndHang(Vec<u8>),
}

/// A server that answers by a function of the head of a request. It ends with this.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<(usize, String)>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, 0, answer).await
    }

    pub(crate) async fn start_at(
        address: Ipv4Addr,
        port: u16,
        answer: impl Fn(&str) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (seen.clone(), Arc::new(answer));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            let mut number = 0;
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(converse(stream, number, log.clone(), answer.clone()));
                number += 1;
            }
        });
        Self { address, seen, task }
    }

    /// The heads of the requests so far, with the number of the connection that each came by.
    pub(crate) fn seen(&self) -> Vec<(usize, String)> {
        self.seen.lock().unwrap().clone()
    }

    /// The URL of a path of this server under a name.
    pub(crate) fn url(&self, name: &str, path: &str) -> url::Url {
        format!("http://{name}:{}{path}", self.address.port()).parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(
    mut stream: TcpStream,
    number: usize,
    log: Arc<Mutex<Vec<(usize, String)>>>,
    answer: Arc<impl Fn(&str) -> Reply>,
) {
    let mut read = Vec::new();
    loop {
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let head = String::from_utf8(std::mem::take(&mut read)).unwrap();
        log.lock().unwrap().push((number, head.clone()));
        // A client that has read enough hangs up, which is no fault of the server.
        match answer(&head) {
            Reply::Send(bytes) => drop(stream.write_all(&bytes).await),
            Reply::SendAndClose(bytes) => {
                let _ = stream.write_all(&bytes).await;
                return;
            }
            Reply::SendAndHang(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.read(&mut [0]).await;
                return;
            }
        }
    }
}

/// An answer with a body and further headers.
pub(crate) fn page(status: &str, headers: &str, body: &[u8]) -> Reply {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n");
    Reply::Send([head.as_bytes(), body].concat())
}

/// A connector for which every name is this machine, and which may reach it.
pub(crate) fn connector() -> Connector {
    connector_with(TableResolver::all_at(Ipv4Addr::LOCALHOST.into()), &["127.0.0.0/8"], [])
}

pub(crate) fn connector_with(
    resolver: impl Resolve,
    networks: &[&str],
    authorities: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Connector {
    let reach = Reach::within(networks.iter().map(|network| network.parse().unwrap()));
    Connector::new(
        Arc::new(resolver),
        reach,
        tls_config(authorities).unwrap(),
        UserAgent::loopback(),
    )
}

/// A server with TLS for the name `secure.test` that answers every request with its protocol; where it listens, and whose
/// certificate it has.
pub(crate) async fn secure_server(protocols: &[&str]) -> (SocketAddr, CertificateDer<'static>) {
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).unwrap().der().clone();
    let issuer = Issuer::new(authority, authority_key);
    let params = CertificateParams::new(vec!["secure.test".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service =
                    service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                        let host = request.uri().authority().map(ToString::to_string);
                        let text =
                            format!("{:?} {} {host:?}", request.version(), request.uri().path());
                        Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(
                            Bytes::from(text),
                        )))
                    });
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (address, root)
}
