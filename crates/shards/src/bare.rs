//! A client that only fetches: one connection per host, kept alive, pages by their numbers, nothing read from them. What no
//! crawler can be below, and what benchmarks compare one with.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::Request;
use http::header::HOST;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Hosts that are asked at once.
const AT_ONCE: usize = 256;

/// Fetches so many pages of each of these hosts, which are all at one address; says how many those were.
pub fn fetch_all(
    address: SocketAddr,
    hosts: Vec<String>,
    pages: u32,
) -> BoxFuture<'static, Result<u64>> {
    async move {
        let mut fetching = stream::iter(hosts)
            .map(|host| tokio::spawn(all_of(address, host, pages)))
            .buffer_unordered(AT_ONCE);
        let mut total = 0;
        while let Some(done) = fetching.next().await {
            total += done??;
        }
        Ok(total)
    }
    .boxed()
}

async fn all_of(address: SocketAddr, host: String, pages: u32) -> Result<u64> {
    let stream = TcpStream::connect(address).await.context("connecting to the web")?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::spawn(connection);
    let name = format!("{host}:{}", address.port());
    for page in 0..pages {
        let path = if page == 0 { "/".to_owned() } else { format!("/page/{page}") };
        let request = Request::get(path).header(HOST, &name).body(Empty::<Bytes>::new())?;
        sender.ready().await?;
        let mut body = sender.send_request(request).await?.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
    }
    drop(sender);
    driving.await??;
    Ok(pages.into())
}
