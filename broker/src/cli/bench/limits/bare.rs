//! What a program makes of this machine that does nothing but move and check the bytes as a broker has to: no protocol, no records,
//! no reader that looks at them. Loopback alone, or the disk alone, is a limit that nothing can come near which needs both,
//! with two cores for everything.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use broker::disk::{DiskFile, write_full_at};
use broker::record::HEADER_BYTES;
use broker::segment::Preallocation;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::loopback::{
    self, ANSWER, PIECE, REQUEST, accept, aside, connect, one_way, other_side, ping_pong, runtime, trips,
};
use super::{checksum, filler, nameless};

/// Clients that each wait for their answer.
const CONNECTIONS: usize = 64;
/// A file is synced when it has so much unsynced, as the broker's are.
const UNSYNCED: u64 = 64 << 20;
/// No file gets longer: that would be the disk's speed.
const FILE_MAX: u64 = 1 << 30;

#[derive(Debug, Default, Serialize)]
pub struct Bare {
    /// Round trips of which each request is checked and written behind the others before it is answered.
    pub appending_ping_pong_per_second: f64,
    /// Bytes from loopback, checked and written behind each other, and synced meanwhile; with blocks ahead, as the broker has them.
    pub into_file_bytes_per_second: f64,
    /// Bytes out of the page cache, checked as records of 100 bytes, to a thread that forgets them.
    pub out_of_file_128_bytes_per_second: f64,
    /// The same, as records of 1 KiB.
    pub out_of_file_1k_bytes_per_second: f64,
    /// Requests of 64 connections, each answered when a sync has covered it; one sync covers all that have come.
    pub group_commit_per_second: f64,
}

impl Bare {
    pub fn measure(time: Duration, dir: &Path) -> io::Result<Self> {
        Ok(Self {
            appending_ping_pong_per_second: appending(time, dir)?,
            into_file_bytes_per_second: into_file(time, dir)?,
            out_of_file_128_bytes_per_second: out_of_file(time, dir, HEADER_BYTES + 100)?,
            out_of_file_1k_bytes_per_second: out_of_file(time, dir, HEADER_BYTES + (1 << 10))?,
            group_commit_per_second: group_commit(time, dir)?,
        })
    }
}

fn appending(time: Duration, dir: &Path) -> io::Result<f64> {
    let (file, mut end) = (nameless(dir)?, 0);
    ping_pong(time, move |request| {
        write_full_at(&file, request, end)?;
        end += checksum(request, REQUEST);
        Ok(())
    })
}

fn into_file(time: Duration, dir: &Path) -> io::Result<f64> {
    let file = nameless(dir)?;
    let (synced, syncing) = (file.try_clone()?, Arc::new(AtomicBool::new(false)));
    let (sync, wanted) = channel();
    let is_done = syncing.clone();
    aside(move || {
        wanted.iter().try_for_each(|()| {
            let result = synced.sync_data();
            is_done.store(false, Relaxed);
            result
        })
    })?;
    let addr = loopback::sends(loopback::page)?;
    runtime()?.block_on(async {
        let mut stream = connect(addr).await?;
        let mut buf = vec![0; PIECE];
        let (mut blocks, begun) = (Preallocation::default(), Instant::now());
        let (mut end, mut unsynced) = (0, 0);
        while end < FILE_MAX && begun.elapsed() < time {
            let n = loopback::read(&mut stream, &mut buf).await?;
            let next = end + checksum(&buf[..n], HEADER_BYTES + (1 << 10));
            if !syncing.load(Relaxed) {
                blocks.extend(&file, end, next);
            }
            write_full_at(&file, &buf[..n], end)?;
            unsynced += next - end;
            end = next;
            if unsynced >= UNSYNCED && !syncing.swap(true, Relaxed) {
                unsynced = 0;
                sync.send(()).map_err(io::Error::other)?;
            }
        }
        Ok(end as f64 / begun.elapsed().as_secs_f64())
    })
}

/// `record`: bytes of each that is checked.
fn out_of_file(time: Duration, dir: &Path, record: usize) -> io::Result<f64> {
    let (file, piece) = (nameless(dir)?, filler(PIECE));
    let len = 1024 * PIECE as u64;
    (0..len).step_by(PIECE).try_for_each(|at| write_full_at(&file, &piece, at))?;
    let mut at = 0;
    one_way(time, move |piece| {
        let n = file.read_at(piece, at)?;
        at = (at + n as u64) % len;
        Ok(usize::try_from(checksum(&piece[..n], record)).unwrap_or(n))
    })
}

/// A request, and whom to tell that it is durable.
type Pending = ([u8; REQUEST], oneshot::Sender<()>);

fn group_commit(time: Duration, dir: &Path) -> io::Result<f64> {
    let (file, (append, pending)) = (nameless(dir)?, channel());
    aside(move || commit_groups(&file, &pending))?;
    let addr = other_side(async move |listener| {
        let mut connections = JoinSet::new();
        for _ in 0..CONNECTIONS {
            connections.spawn(serve(accept(&listener).await?, append.clone()));
        }
        drop(append);
        connections.join_all().await.into_iter().collect()
    })?;
    runtime()?.block_on(async {
        let begun = Instant::now();
        let mut clients = JoinSet::new();
        (0..CONNECTIONS).for_each(|_| drop(clients.spawn(trips(addr, time))));
        let mut requests = 0;
        for client in clients.join_all().await {
            requests += client?;
        }
        Ok(requests as f64 / begun.elapsed().as_secs_f64())
    })
}

async fn serve(mut stream: TcpStream, append: Sender<Pending>) -> io::Result<()> {
    let mut buf = [0; REQUEST];
    while stream.read(&mut buf).await? > 0 {
        let (tells, durable) = oneshot::channel();
        append.send((buf, tells)).map_err(io::Error::other)?;
        durable.await.map_err(io::Error::other)?;
        stream.write_all(&buf[..ANSWER]).await?;
    }
    Ok(())
}

/// Writes and syncs all that have come, again and again, until none can come any more.
fn commit_groups(file: &impl DiskFile, pending: &Receiver<Pending>) -> io::Result<()> {
    let (mut bytes, mut durable, mut end) = (Vec::new(), Vec::new(), 0);
    while let Ok(first) = pending.recv() {
        bytes.clear();
        for (request, tells) in std::iter::once(first).chain(pending.try_iter()) {
            bytes.extend_from_slice(&request);
            durable.push(tells);
        }
        checksum(&bytes, REQUEST);
        write_full_at(file, &bytes, end)?;
        file.sync_data()?;
        end += bytes.len() as u64;
        // Whoever has gone does not wait for it.
        durable.drain(..).for_each(|tells| {
            let _ = tells.send(());
        });
    }
    Ok(())
}
