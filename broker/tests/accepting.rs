//! Connections as a server takes them: when they cannot be accepted, and when there are as many as there may be.

mod common;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use broker::client::{Client, Options};
use broker::net::{Listener, TcpConnector};
use broker::server::{Limits, serve};
use broker::settings::Settings;
use common::given::Given;
use common::{ok, open};
use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;

/// Fails to accept a few times, as where file descriptors have run out.
struct Flaky(tokio::net::TcpListener, u32);

impl broker::net::Listener for Flaky {
    type Stream = tokio::net::TcpStream;

    async fn accept(&mut self) -> std::io::Result<(Self::Stream, std::net::SocketAddr)> {
        if self.1 > 0 {
            self.1 -= 1;
            return Err(std::io::Error::from_raw_os_error(24));
        }
        self.0.accept().await
    }

    fn local_addr(&self) -> std::io::Result<std::net::SocketAddr> {
        self.0.local_addr()
    }
}

#[tokio::test]
async fn accepting_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path(), Settings::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let stop = tokio_util::sync::CancellationToken::new();
    let metrics = std::sync::Arc::new(broker::metrics::Metrics::new());
    let flaky = Flaky(listener, 3);
    let served =
        tokio::spawn(broker::server::serve(flaky, broker, Limits::default(), stop.clone(), metrics.clone()));
    assert_eq!(ok(Client::new(TcpConnector, addr, Options::default()).topics().await), []);
    assert_eq!(metrics.accept_errors.get(), 3);
    stop.cancel();
    served.await.unwrap().unwrap();
}

/// Gives each connection, or none, at once, and says when it was asked.
struct Scripted {
    gives: std::collections::VecDeque<bool>,
    asked: std::sync::mpsc::Sender<tokio::time::Instant>,
    stop: CancellationToken,
}

impl Listener for Scripted {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        self.asked.send(tokio::time::Instant::now()).unwrap();
        match self.gives.pop_front() {
            Some(true) => Ok((tokio::io::duplex(1).0, self.local_addr()?)),
            Some(false) => Err(io::Error::from_raw_os_error(24)),
            None => {
                self.stop.cancel();
                std::future::pending().await
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(([127, 0, 0, 1], 1).into())
    }
}

/// Where connections cannot be accepted, the pause until the next try grows; after one that could be, it is short again.
#[tokio::test(start_paused = true)]
async fn a_pause_after_connections_that_cannot_be_accepted_grows_only_while_none_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let (stop, (asked, times)) = (CancellationToken::new(), std::sync::mpsc::channel());
    let gives = [false, false, false, true, false, true].into();
    let listener = Scripted { gives, asked, stop: stop.clone() };
    let broker = open(dir.path(), Settings::default());
    serve(listener, broker, Limits::default(), stop, Arc::default()).await.unwrap();
    let times: Vec<_> = times.iter().collect();
    let pauses: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert_eq!(pauses, [10, 20, 40, 0, 10, 0]);
}

/// The longest silent of the connections for metrics gives way to one that asks, whoever was answered before; and all of them
/// go when their time is over.
#[tokio::test(start_paused = true)]
async fn who_has_been_silent_for_longest_gives_way_to_who_asks_for_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let (give, given) = tokio::sync::mpsc::unbounded_channel();
    let broker = open(dir.path(), Settings::default());
    tokio::spawn(broker::metrics::http::serve(Given(given), broker, Arc::default()));
    let connect = || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        give.send(theirs).unwrap();
        ours
    };
    let ask = async || {
        let mut stream = connect();
        stream.write_all(b"GET /health HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let begun = tokio::time::Instant::now();
    assert!(ask().await.starts_with("HTTP/1.1 200"));
    let mut silent: Vec<_> = (0..16).map(|_| connect()).collect();
    for gone in 0..3 {
        assert!(ask().await.starts_with("HTTP/1.1 200"));
        assert_eq!(begun.elapsed(), Duration::ZERO, "nobody waits for it");
        let is_closed = |stream: &mut DuplexStream| stream.read_u8().now_or_never().is_some();
        let closed: Vec<_> = silent.iter_mut().map(is_closed).collect();
        assert!(closed.iter().enumerate().all(|(n, closed)| *closed == (n <= gone)), "{closed:?}");
        silent.push(connect());
    }
    for stream in &mut silent {
        stream.read_u8().await.unwrap_err();
    }
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
}
