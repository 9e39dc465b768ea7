//! The network of the world: turmoil's, wrapped in what turmoil leaves out.
//!
//! - **Shape.** turmoil hands over each write whole, which hides framing bugs. Here a stream can split and join what it
//!   reads and writes, as TCP may, by draws from the network's own random stream. Each burst begins with the smallest
//!   pieces, and goes on with larger ones: a long answer is cut in some places, and not in thousands.
//! - **Gate.** A crash happens inside a disk operation, but the simulation can kill a host only between two ticks. From the
//!   instant its disk is dead, nothing that the broker says gets out: an answer of a process that no longer exists would be
//!   an acknowledgement that nobody gave.
//! - **Order.** When a host is killed, tokio drops its tasks in an order that hangs on how many tasks the process has made
//!   before, in other runs too. Each connection that goes draws a latency: so all of them go in the order in which they were
//!   accepted, with the first.
//! - **Counters.** How many connections the broker holds, for the promise that clients cannot exhaust it (P12).
//!
//! Latency and partitions are turmoil's own. A lost segment is never sent again there, so a connection that lived through a
//! partition is silent for ever: clients need timeouts, and reconnect.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use broker::net::{Connector, Listener};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::stall::Stalls;

/// The port that the broker listens on, in the world.
pub const PORT: u16 = 7070;

/// The broker's process, as its connections see it.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Nothing gets through from the instant that its disk has died.
    pub process: faults::Process,
    /// Nothing moves while it hangs in a slow disk.
    pub stalls: Stalls,
    /// So many accepts fail, for want of a file descriptor.
    pub accept_errors: Arc<AtomicU64>,
}

/// How streams deliver bytes.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The most bytes in the first pieces of a burst; `None` leaves pieces as they are.
    chunk: Option<usize>,
    seed: u64,
    streams: Arc<AtomicU64>,
}

impl Shape {
    /// Bursts that begin with pieces of 1 to `chunk` bytes where it is given; draws come from `seed`.
    pub fn new(chunk: Option<usize>, seed: u64) -> Self {
        Self { chunk: chunk.map(|c| c.max(1)), seed, streams: Arc::default() }
    }

    /// The same network without chunks, for connections that are not what a scenario is about.
    #[must_use]
    pub fn plain(&self) -> Self {
        Self { chunk: None, ..self.clone() }
    }

    fn next_stream(&self) -> Option<Chunks> {
        let number = self.streams.fetch_add(1, Ordering::Relaxed);
        let chunk = self.chunk?;
        let rng = ChaCha8Rng::seed_from_u64(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Some(Chunks { smallest: chunk, rng, read: 0, written: 0, scratch: Vec::new() })
    }
}

#[derive(Debug)]
struct Chunks {
    /// The most bytes of the first pieces of a burst.
    smallest: usize,
    rng: ChaCha8Rng,
    /// The pieces read since there was last nothing to read.
    read: u32,
    /// The pieces written since the last flush.
    written: u32,
    scratch: Vec<u8>,
}

impl Chunks {
    fn draw_read(&mut self) -> usize {
        self.read += 1;
        self.draw(self.read)
    }

    fn draw_write(&mut self) -> usize {
        self.written += 1;
        self.draw(self.written)
    }

    /// The length of the nth piece of a burst.
    fn draw(&mut self, nth: u32) -> usize {
        let twice = nth.saturating_sub(SMALL_PIECES).min(LARGEST_PIECE.ilog2());
        let most = (self.smallest << twice).min(LARGEST_PIECE.max(self.smallest));
        self.rng.random_range(1..=most)
    }
}

/// So many pieces of a burst are of the smallest kind; from there on each may be twice as long as the one before.
const SMALL_PIECES: u32 = 4;

/// How long pieces become.
const LARGEST_PIECE: usize = 1 << 16;

/// The connections that the broker holds.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    /// In the order in which they were accepted.
    open: BTreeMap<u64, Inner>,
    accepted: u64,
    most: usize,
}

impl Connections {
    /// Open now.
    pub fn open(&self) -> u64 {
        self.lock().open.len() as u64
    }

    /// The most that were open at the same time.
    pub fn most(&self) -> u64 {
        self.lock().most as u64
    }

    /// Gives its number.
    fn enter(&self, stream: &Inner) -> u64 {
        let mut held = self.lock();
        let number = held.accepted;
        held.accepted += 1;
        held.open.insert(number, stream.clone());
        held.most = held.most.max(held.open.len());
        number
    }

    fn leave(&self, number: u64) {
        self.lock().open.remove(&number);
    }

    /// All of them go at once, in order.
    fn close_all(&self) {
        let open = std::mem::take(&mut self.lock().open);
        open.into_values().for_each(|stream| drop(locked(&stream).take()));
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// turmoil's stream, until it is closed.
type Inner = Arc<Mutex<Option<turmoil::net::TcpStream>>>;

fn locked(inner: &Inner) -> MutexGuard<'_, Option<turmoil::net::TcpStream>> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_one(counter: &AtomicU64) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
}

/// The broker's listener.
pub struct WorldListener {
    inner: turmoil::net::TcpListener,
    shape: Shape,
    gate: Gate,
    connections: Connections,
}

impl WorldListener {
    /// Listens on [`PORT`] of the host that calls it.
    pub async fn bind(shape: Shape, gate: Gate, connections: Connections) -> io::Result<Self> {
        let inner = turmoil::net::TcpListener::bind(("0.0.0.0", PORT)).await?;
        Ok(Self { inner, shape, gate, connections })
    }
}

impl Listener for WorldListener {
    type Stream = WorldStream;

    async fn accept(&mut self) -> io::Result<(WorldStream, SocketAddr)> {
        if take_one(&self.gate.accept_errors) {
            return Err(faults::Errno::EMFILE.into());
        }
        let (inner, peer) = self.inner.accept().await?;
        let (inner, chunks) = (Arc::new(Mutex::new(Some(inner))), self.shape.next_stream());
        let number = self.connections.enter(&inner);
        let broker =
            Some(BrokerSide { gate: self.gate.clone(), connections: self.connections.clone(), number });
        Ok((WorldStream { inner, chunks, broker, thaw: None }, peer))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// Makes a client's connections.
#[derive(Clone, Debug)]
pub struct WorldConnector {
    shape: Shape,
}

impl WorldConnector {
    /// Connections whose streams have this shape.
    pub fn new(shape: Shape) -> Self {
        Self { shape }
    }
}

impl Connector for WorldConnector {
    type Stream = WorldStream;

    async fn connect(&self, addr: &str) -> io::Result<WorldStream> {
        let inner = turmoil::net::TcpStream::connect(addr).await?;
        let inner = Arc::new(Mutex::new(Some(inner)));
        Ok(WorldStream { inner, chunks: self.shape.next_stream(), broker: None, thaw: None })
    }
}

/// A connection.
pub struct WorldStream {
    inner: Inner,
    chunks: Option<Chunks>,
    /// On the broker's side only.
    broker: Option<BrokerSide>,
    thaw: Option<Pin<Box<Sleep>>>,
}

/// The broker's side of a connection.
struct BrokerSide {
    gate: Gate,
    connections: Connections,
    /// Which of them it is.
    number: u64,
}

impl Drop for BrokerSide {
    fn drop(&mut self) {
        if self.gate.process.is_dead() {
            self.connections.close_all();
        }
        self.connections.leave(self.number);
    }
}

impl WorldStream {
    /// A dead process neither reads nor writes, and nobody wakes it; one that hangs does so later.
    fn poll_gate(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.broker {
            None => Poll::Ready(()),
            Some(broker) if broker.gate.process.is_dead() => Poll::Pending,
            Some(broker) => broker.gate.stalls.poll(&mut self.thaw, cx),
        }
    }
}

/// What turmoil's stream says; one that is closed says nothing more.
fn poll_open<T>(
    inner: &Inner,
    poll: impl FnOnce(Pin<&mut turmoil::net::TcpStream>) -> Poll<io::Result<T>>,
) -> Poll<io::Result<T>> {
    locked(inner).as_mut().map_or(Poll::Pending, |stream| poll(Pin::new(stream)))
}

impl AsyncRead for WorldStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_gate(cx));
        let this = self.get_mut();
        let Some(chunks) = &mut this.chunks else {
            return poll_open(&this.inner, |stream| stream.poll_read(cx, buf));
        };
        let want = chunks.draw_read().min(buf.remaining());
        if chunks.scratch.len() < want {
            chunks.scratch.resize(want, 0);
        }
        let mut piece = ReadBuf::new(&mut chunks.scratch[..want]);
        let Poll::Ready(read) = poll_open(&this.inner, |stream| stream.poll_read(cx, &mut piece)) else {
            chunks.read = 0;
            return Poll::Pending;
        };
        read?;
        // Joined: what else has come already, up to the same length.
        while !piece.filled().is_empty() && piece.remaining() > 0 {
            let before = piece.filled().len();
            match poll_open(&this.inner, |stream| stream.poll_read(cx, &mut piece)) {
                Poll::Ready(Ok(())) if piece.filled().len() > before => {}
                _ => break, // an end or an error is found again by the next read
            }
        }
        buf.put_slice(piece.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WorldStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_gate(cx));
        let this = self.get_mut();
        let most = this.chunks.as_mut().map_or(buf.len(), Chunks::draw_write);
        poll_open(&this.inner, |stream| stream.poll_write(cx, &buf[..most.min(buf.len())]))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_gate(cx));
        let this = self.get_mut();
        if let Some(chunks) = &mut this.chunks {
            chunks.written = 0;
        }
        poll_open(&this.inner, |stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_gate(cx));
        poll_open(&self.inner, |stream| stream.poll_shutdown(cx))
    }
}
