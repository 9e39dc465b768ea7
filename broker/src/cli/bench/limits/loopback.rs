//! What loopback allows: two threads of one process, each with a tokio of its own, and TCP between them.

use std::io;
use std::net::SocketAddr;
use std::thread::Builder;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bytes of a request, and of its answer: about those of a produce of 100 bytes.
pub const REQUEST: usize = 128;
pub const ANSWER: usize = 32;

/// So much is asked of a socket or a file at once.
pub const PIECE: usize = 256 << 10;

pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Does this on a thread of its own. An error ends it, and shows at whoever waits for it.
pub fn aside(job: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let no_thread = |e| io::Error::other(format!("no thread can be started: {e}"));
    Builder::new().spawn(job).map_err(no_thread).map(drop)
}

/// A thread that serves whoever connects; gives the address.
pub fn other_side(
    serve: impl AsyncFnOnce(TcpListener) -> io::Result<()> + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let addr = listener.local_addr()?;
    aside(move || runtime()?.block_on(async { serve(TcpListener::from_std(listener)?).await }))?;
    Ok(addr)
}

pub async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub async fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends requests, each when the one before is answered, for so long; how many.
pub async fn trips(addr: SocketAddr, time: Duration) -> io::Result<u64> {
    let mut stream = connect(addr).await?;
    let mut buf = [0; REQUEST];
    let begun = Instant::now();
    let mut trips = 0;
    while begun.elapsed() < time {
        stream.write_all(&buf).await?;
        stream.read_exact(&mut buf[..ANSWER]).await?;
        trips += 1;
    }
    Ok(trips)
}

/// Round trips a second; each request has this done to it before it is answered.
pub fn ping_pong(
    time: Duration,
    mut each: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
) -> io::Result<f64> {
    let addr = other_side(async move |listener| {
        let mut stream = accept(&listener).await?;
        let mut buf = [0; REQUEST];
        loop {
            let n = stream.read(&mut buf).await?;
            if n == 0 {
                return Ok(());
            }
            each(&buf[..n])?;
            stream.write_all(&buf[..ANSWER]).await?;
        }
    })?;
    let begun = Instant::now();
    let trips = runtime()?.block_on(trips(addr, time))?;
    Ok(trips as f64 / begun.elapsed().as_secs_f64())
}

/// The same bytes again and again, with nothing done to them.
pub fn page(_: &mut [u8]) -> io::Result<usize> {
    Ok(PIECE)
}

/// Has a thread send what this fills pieces with, until nobody takes more; gives the address.
pub fn sends(
    mut fill: impl FnMut(&mut [u8]) -> io::Result<usize> + Send + 'static,
) -> io::Result<SocketAddr> {
    other_side(async move |listener| {
        let mut stream = accept(&listener).await?;
        let mut piece = vec![b'v'; PIECE];
        loop {
            let n = fill(&mut piece)?;
            stream.write_all(&piece[..n]).await?;
        }
    })
}

/// What comes of a stream that does not end.
pub async fn read(stream: &mut TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    match stream.read(buf).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => Ok(n),
    }
}

/// Bytes a second from a thread that fills pieces with this to one that forgets them.
pub fn one_way(
    time: Duration,
    fill: impl FnMut(&mut [u8]) -> io::Result<usize> + Send + 'static,
) -> io::Result<f64> {
    let addr = sends(fill)?;
    runtime()?.block_on(async {
        let mut stream = connect(addr).await?;
        let mut buf = vec![0; PIECE];
        let begun = Instant::now();
        let mut bytes = 0;
        while begun.elapsed() < time {
            bytes += read(&mut stream, &mut buf).await? as u64;
        }
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    })
}
