//! A proxy between a worker and its server whose connections the test breaks.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

/// Forwards connections to a server; ends with the test.
pub struct Proxy {
    address: SocketAddr,
    cut: Arc<broadcast::Sender<()>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Starts to forward to a port of this machine.
    pub async fn to(port: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let cut = Arc::new(broadcast::Sender::new(1));
        let cuts = Arc::clone(&cut);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, port, cuts.subscribe()));
            }
        });
        Ok(Self { address, cut, accepting })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Breaks all connections; says how many there were.
    pub fn cut(&self) -> usize {
        self.cut.send(()).unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn forward(mut client: TcpStream, port: u16, mut cut: broadcast::Receiver<()>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    tokio::select! {
        // Either side may end it too.
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = cut.recv() => {}
    }
}
