//! A listener without a network.

use std::io;
use std::net::SocketAddr;

use broker::net::Listener;
use tokio::io::DuplexStream;
use tokio::sync::mpsc::UnboundedReceiver;

/// Connections that a test makes.
pub struct Given(pub UnboundedReceiver<DuplexStream>);

impl Listener for Given {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(stream) => Ok((stream, self.local_addr()?)),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(([127, 0, 0, 1], 1).into())
    }
}
