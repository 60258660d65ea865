//! Resolve, check, connect. One answer of the resolver is checked whole and then used: the connection goes to an address of
//! that answer, never to a second answer. One address that may not be reached refuses the name: a name that mixes them is up
//! to something.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use divvy::net::Reach;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{ConnectError, Resolve, Target, UserAgent, tls};

/// The least time that one of several addresses gets.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(250);

/// The only way out of the crawler. Cheap to clone.
#[derive(Clone)]
pub struct Connector {
    resolver: Arc<dyn Resolve>,
    reach: Reach,
    tls: Arc<ClientConfig>,
    user_agent: UserAgent,
}

/// A connection, and to where.
#[derive(Debug)]
pub struct Connected {
    /// The bytes.
    pub stream: Stream,
    /// The address that was checked.
    pub address: SocketAddr,
    /// What is spoken.
    pub protocol: Protocol,
}

/// Which HTTP was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, or 1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

/// The bytes of a connection.
#[derive(Debug)]
pub enum Stream {
    /// As they are.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connector {
    /// A connector that resolves with `resolver`, reaches as far as `reach`, and makes nobody wonder who `user_agent` is.
    pub fn new(
        resolver: Arc<dyn Resolve>,
        reach: Reach,
        tls: Arc<ClientConfig>,
        user_agent: UserAgent,
    ) -> Self {
        Self { resolver, reach, tls, user_agent }
    }

    /// Who the crawler says it is.
    pub fn user_agent(&self) -> &UserAgent {
        &self.user_agent
    }

    /// A connection to a target, encrypted if it asks for that, within the time.
    pub async fn connect(
        &self,
        target: &Target,
        limit: Duration,
    ) -> Result<Connected, ConnectError> {
        let late = || ConnectError::Timeout { target: target.to_string(), limit };
        timeout(limit, self.connect_whole(target, limit)).await.map_err(|_| late())?
    }

    /// A connection to a target as a stream of bytes, for somebody else's encryption, within the time.
    pub async fn tunnel(
        &self,
        target: &Target,
        limit: Duration,
    ) -> Result<(TcpStream, SocketAddr), ConnectError> {
        let late = || ConnectError::Timeout { target: target.to_string(), limit };
        let reached = async {
            let addresses = self.addresses(target).await?;
            reach_any(target, &addresses, limit).await
        };
        timeout(limit, reached).await.map_err(|_| late())?
    }

    async fn connect_whole(
        &self,
        target: &Target,
        limit: Duration,
    ) -> Result<Connected, ConnectError> {
        let addresses = self.addresses(target).await?;
        let (stream, address) = reach_any(target, &addresses, limit).await?;
        if !target.is_https() {
            return Ok(Connected {
                stream: Stream::Plain(stream),
                address,
                protocol: Protocol::Http1,
            });
        }
        let failed = |source| ConnectError::Tls { target: target.to_string(), source };
        let name = ServerName::try_from(target.host().to_owned())
            .map_err(|e| failed(io::Error::new(io::ErrorKind::InvalidInput, e)))?;
        let stream =
            TlsConnector::from(self.tls.clone()).connect(name, stream).await.map_err(failed)?;
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(tls::HTTP2) => Protocol::Http2,
            _ => Protocol::Http1,
        };
        Ok(Connected { stream: Stream::Tls(Box::new(stream)), address, protocol })
    }

    /// What the host stands for, if all of it may be reached.
    async fn addresses(&self, target: &Target) -> Result<Vec<IpAddr>, ConnectError> {
        let host = target.host();
        let addresses = match target.address() {
            Some(address) => vec![address],
            None => self.resolver.resolve(host).await?,
        };
        for address in &addresses {
            self.reach.check(host, *address)?;
            if !self.user_agent.has_contact() && !address.to_canonical().is_loopback() {
                return Err(ConnectError::Unidentified(host.to_owned()));
            }
        }
        Ok(addresses)
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// Connects to the first address that answers. Each gets half of the time that is left, and the last all of it.
async fn reach_any(
    target: &Target,
    addresses: &[IpAddr],
    limit: Duration,
) -> Result<(TcpStream, SocketAddr), ConnectError> {
    let mut share = limit;
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
    for (index, address) in addresses.iter().enumerate() {
        let is_last = index + 1 == addresses.len();
        share = if is_last { limit } else { (share / 2).max(ADDRESS_TIME_MIN) };
        let address = SocketAddr::new(*address, target.port());
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Requests are written whole; waiting for more would only delay them.
                let _ = stream.set_nodelay(true);
                return Ok((stream, address));
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    let target = target.to_string();
    match last.kind() {
        io::ErrorKind::TimedOut => Err(ConnectError::Timeout { target, limit }),
        _ => Err(ConnectError::Connect { target, source: last }),
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
