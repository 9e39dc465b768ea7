//! The net seam: where connections come from. Real: tokio's TCP listener; a simulation wraps its own.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// One connection.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// Accepts connections.
pub trait Listener: Send + 'static {
    /// One connection.
    type Stream: Stream;

    /// Waits for the next connection. An error concerns that one attempt: the caller backs off and tries again.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
    /// Where clients connect to.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, peer))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpListener::local_addr(self)
    }
}

/// Makes connections, for the client.
pub trait Connector: Clone + Send + Sync + 'static {
    /// One connection.
    type Stream: Stream;

    /// Connects to `host:port`.
    fn connect(&self, addr: &str) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Connects over TCP, to the first of a name's addresses that takes it.
#[derive(Clone, Debug, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    type Stream = TcpStream;

    async fn connect(&self, addr: &str) -> io::Result<TcpStream> {
        let stream = connect(addresses(addr).await?).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Connects to the first of these that takes it. That a connection was refused is said only where nobody listens at any of them: who
/// asks may take it for a sign that a server has ended.
async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("the name has no address");
    let mut is_first = true;
    for addr in addresses {
        match TcpStream::connect(addr).await {
            Ok(stream) => return Ok(stream),
            Err(e) if std::mem::take(&mut is_first) || e.kind() != io::ErrorKind::ConnectionRefused => {
                failed = e
            }
            Err(_) => {}
        }
    }
    Err(failed)
}

/// The addresses of `host:port`. Whoever looks up a name waits for it, on a thread of its own: tokio's would panic where the system
/// grants none, and a program that no longer wants to know would wait for it at its end.
async fn addresses(addr: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(addr) = addr.parse() {
        return Ok(vec![addr]);
    }
    let (found, finds) = oneshot::channel();
    let name = addr.to_owned();
    let look_up = move || found.send(name.to_socket_addrs().map(Iterator::collect));
    let no_thread = |e| io::Error::other(format!("no thread can be started that looks up its address: {e}"));
    std::thread::Builder::new().name("look-up".into()).spawn(look_up).map_err(no_thread)?;
    finds.await.unwrap_or_else(|gone| Err(io::Error::other(gone)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_refused_at_one_address_and_not_heard_at_another_is_not_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let there = listener.local_addr().expect("it has an address");
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr();
        let nobody = closed.expect("it has an address");
        // No stream leads to all of a network.
        let all = SocketAddr::from(([255, 255, 255, 255], 9));
        let refused = async |addresses: &[SocketAddr]| {
            let connected = connect(addresses.to_vec()).await;
            connected.map_err(|e| e.kind() == io::ErrorKind::ConnectionRefused).err()
        };
        assert_eq!(refused(&[nobody, nobody]).await, Some(true));
        assert_eq!(refused(&[nobody, all]).await, Some(false));
        assert_eq!(refused(&[all, nobody]).await, Some(false));
        assert_eq!(refused(&[]).await, Some(false));
        assert_eq!(refused(&[all, nobody, there]).await, None);
    }
}
