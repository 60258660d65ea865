//! The sockets of the demo web: one port on many addresses of loopback, and a log of what was asked when.
//!
//! The log is what politeness is judged by: a line per request, with the microseconds at which it was read and at which
//! its answer was ready, how many requests of the same host were in work then, the host, the path and the status.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use divvy_workload::console::output::words::now;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::site::Site;

/// The addresses: so many from here on.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 0);
const ADDRESSES: u32 = 64;
/// The same as a network.
pub const NETWORK: &str = "127.77.0.0/26";
/// Lines of the log that wait to be written.
const LINES_MAX: usize = 65_536;

/// A web that is being served.
#[derive(Debug)]
pub struct Served {
    /// How it looks.
    pub site: Site,
    listeners: Vec<TcpListener>,
    log: Log,
}

/// Where requests are noted.
#[derive(Clone, Debug, Default)]
struct Log {
    lines: Option<mpsc::SyncSender<String>>,
    open: Arc<Mutex<HashMap<String, u32>>>,
}

impl Served {
    /// Takes the addresses; a port of 0 means any that is free.
    pub async fn bind(mut site: Site, log: Option<&Path>) -> Result<Self> {
        let mut listeners = Vec::with_capacity(ADDRESSES as usize);
        for at in 0..ADDRESSES {
            let address = SocketAddrV4::new(Ipv4Addr::from(u32::from(FIRST) + at), site.port);
            let listener = TcpListener::bind(address)
                .await
                .with_context(|| format!("cannot listen on {address}; choose another --port"))?;
            site.port = listener.local_addr()?.port();
            listeners.push(listener);
        }
        let log = match log {
            Some(path) => Log::to(path)?,
            None => Log::default(),
        };
        Ok(Self { site, listeners, log })
    }

    /// Answers until it is dropped.
    pub fn run(self) -> BoxFuture<'static, ()> {
        let (site, log) = (Arc::new(self.site), self.log);
        let accepting = self.listeners.into_iter().map(|listener| {
            let (site, log) = (Arc::clone(&site), log.clone());
            async move {
                loop {
                    // A connection that was given up before it was taken is no reason to stop.
                    let Ok((stream, _)) = listener.accept().await else { continue };
                    // Answers are small; a delay to collect more of them would be all that is measured.
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(converse(stream, Arc::clone(&site), log.clone()));
                }
            }
        });
        futures_util::future::join_all(accepting).map(|_: Vec<()>| ()).boxed()
    }
}

async fn converse(stream: tokio::net::TcpStream, site: Arc<Site>, log: Log) {
    let service = service_fn(move |request| {
        let (site, log) = (Arc::clone(&site), log.clone());
        async move { Ok::<_, Infallible>(answer(&site, &log, &request).await) }
    });
    // A visitor who hangs up in the middle is nobody's fault.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(site: &Site, log: &Log, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let name = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = name.split(':').next().unwrap_or_default();
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut noted = log.begin(host, path);
    let answer = site.answer(host, path);
    if !answer.after.is_zero() {
        tokio::time::sleep(answer.after).await;
    }
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    if let Some((name, value)) = answer.header
        && let Ok(value) = HeaderValue::from_str(&value)
    {
        headers.insert(name, value);
    }
    noted.status = answer.status;
    response
}

impl Log {
    fn to(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (lines, incoming) = mpsc::sync_channel::<String>(LINES_MAX);
        std::thread::spawn(move || {
            let mut out = BufWriter::new(file);
            while let Ok(line) = incoming.recv() {
                let mut failed = out.write_all(line.as_bytes()).is_err();
                while let Ok(line) = incoming.try_recv() {
                    failed |= out.write_all(line.as_bytes()).is_err();
                }
                // Whoever reads the log sees it as soon as nothing more comes.
                if failed || out.flush().is_err() {
                    return;
                }
            }
        });
        Ok(Self { lines: Some(lines), open: Arc::default() })
    }

    /// Notes a request that was just read; the line is written when the answer is ready, or given up.
    fn begin(&self, host: &str, path: &str) -> Noted {
        let mut noted = Noted { log: self.clone(), line: None, status: 0 };
        if self.lines.is_some() {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let count = open.entry(host.to_owned()).or_default();
            *count += 1;
            noted.line = Some((now().0, *count, host.to_owned(), path.to_owned()));
        }
        noted
    }
}

/// A request in work.
struct Noted {
    log: Log,
    line: Option<(u64, u32, String, String)>,
    /// What it was answered with; 0 if whoever asked went away before.
    status: u16,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let (Some(lines), Some((began, count, host, path))) = (&self.log.lines, self.line.take())
        else {
            return;
        };
        {
            let mut open = self.log.open.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = open.get_mut(&host) {
                *count -= 1;
            }
        }
        let line = format!("{began} {} {count} {host} {path} {}\n", now().0, self.status);
        // A writer that is gone has told why.
        let _ = lines.send(line);
    }
}
