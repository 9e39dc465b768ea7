//! The addresses that a server listens on.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted: as many as the standard library lets.
const BACKLOG: u32 = 1024;

/// The addresses for clients and for metrics, reserved before the data directory is opened: one that somebody listens on is noticed
/// by then. Nobody can connect until they are listened on: while the logs are recovered, a client is refused at once, and does not
/// wait. Two servers that start at the same moment on one address can both reserve it, though. The one that comes to listen later
/// stops then, cleanly.
pub struct Sockets {
    clients: Reserved,
    metrics: Option<Reserved>,
}

impl Sockets {
    pub fn reserve(listen: &str, metrics: Option<&str>) -> Result<Self, String> {
        let metrics = metrics.map(|addr| Reserved::new(addr, "--metrics")).transpose()?;
        let clients = Reserved::new(listen, "--listen")?;
        match metrics {
            Some(metrics) if overlap(clients.addr()?, metrics.addr()?) => Err(format!(
                "cannot listen on {} for both clients and metrics\n  --metrics chooses another address",
                metrics.addr
            )),
            metrics => Ok(Self { clients, metrics }),
        }
    }

    pub fn listen(self) -> Result<(TcpListener, Option<TcpListener>), String> {
        Ok((self.clients.listen()?, self.metrics.map(Reserved::listen).transpose()?))
    }
}

/// Whether not both can be listened on. The system lets both be reserved: it counts only who listens already. All addresses of
/// version 6 are those of version 4 as well, unless a socket says otherwise.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    let is_all = |all: IpAddr, of: IpAddr| all.is_unspecified() && (all.is_ipv6() || of.is_ipv4());
    one.port() == other.port() && (a == b || is_all(a, b) || is_all(b, a))
}

/// An address that is reserved and not yet listened on.
struct Reserved {
    socket: TcpSocket,
    addr: String,
    flag: &'static str,
}

impl Reserved {
    fn new(addr: &str, flag: &'static str) -> Result<Self, String> {
        let bind = |at: SocketAddr| {
            let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // Connections of a server that has just ended do not keep its address from the next.
            socket.set_reuseaddr(true)?;
            socket.bind(at)?;
            Ok(socket)
        };
        let first = |addrs: std::vec::IntoIter<SocketAddr>| {
            let nothing = Err(io::Error::other("the name has no address"));
            addrs.map(bind).reduce(Result::or).unwrap_or(nothing)
        };
        match addr.to_socket_addrs().and_then(first) {
            Ok(socket) => Ok(Self { socket, addr: addr.to_owned(), flag }),
            Err(e) => Err(cannot_listen(addr, flag, &e)),
        }
    }

    fn addr(&self) -> Result<SocketAddr, String> {
        self.socket.local_addr().map_err(|e| cannot_listen(&self.addr, self.flag, &e))
    }

    fn listen(self) -> Result<TcpListener, String> {
        self.socket.listen(BACKLOG).map_err(|e| cannot_listen(&self.addr, self.flag, &e))
    }
}

fn cannot_listen(addr: &str, flag: &str, why: &io::Error) -> String {
    format!("cannot listen on {addr}: {why}\n  {flag} chooses another address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_where_one_is_the_other_or_covers_it() {
        let overlap = |one: &str, other: &str| overlap(one.parse().unwrap(), other.parse().unwrap());
        assert!(overlap("127.0.0.1:1", "127.0.0.1:1") && overlap("[::1]:1", "[::1]:1"));
        assert!(overlap("0.0.0.0:1", "127.0.0.1:1") && overlap("127.0.0.1:1", "0.0.0.0:1"));
        for other in ["[::1]:1", "127.0.0.1:1", "0.0.0.0:1"] {
            assert!(overlap("[::]:1", other) && overlap(other, "[::]:1"), "{other}");
        }
        for (one, other) in
            [("127.0.0.1:1", "127.0.0.1:2"), ("127.0.0.1:1", "127.0.0.2:1"), ("0.0.0.0:1", "[::1]:1")]
        {
            assert!(!overlap(one, other), "{one} {other}");
        }
    }
}
