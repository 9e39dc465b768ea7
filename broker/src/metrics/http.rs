//! Metrics and health over HTTP/1.1: two pages, one request a connection, everything bounded.
//!
//! Whoever can connect can also connect and say nothing. So that they do not keep others out, the connection that has been silent
//! for longest goes when there are as many as there may be and another one comes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use super::health::Health;
use super::{Metrics, Now};
use crate::broker::{Broker, Topic};
use crate::disk::Disk;
use crate::net::Listener;

/// Connections at the same time; more wait in the system's queue, where none of these is silent.
const CONNECTIONS: usize = 16;
/// Bytes of a request's head.
const HEAD_BYTES: usize = 8 << 10;
/// From the first byte to the last of the answer.
const TIME: Duration = Duration::from_secs(5);

/// Serves `/metrics` and `/health` until it is dropped.
pub async fn serve<L: Listener, D: Disk>(mut listener: L, broker: Broker<D>, metrics: Arc<Metrics>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    // Those that have not asked yet, the oldest first. Each goes when its sender is dropped.
    let mut silent = VecDeque::<oneshot::Sender<()>>::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                tracing::debug!("a request for metrics could not be accepted: {e}");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        silent.retain(|one| !one.is_closed());
        if slots.available_permits() == 0 {
            silent.pop_front();
        }
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let (stays, goes) = oneshot::channel();
        silent.push_back(stays);
        let (broker, metrics) = (broker.clone(), metrics.clone());
        tokio::spawn(async move {
            // A client that does not listen gets nothing, and that is all.
            let _ = timeout(TIME, answer(stream, goes, &broker, &metrics)).await;
            drop(slot);
        });
    }
}

async fn answer<S, D>(
    mut stream: S,
    goes: oneshot::Receiver<()>,
    broker: &Broker<D>,
    metrics: &Metrics,
) -> std::io::Result<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    D: Disk,
{
    let head = tokio::select! {
        biased;
        head = head(&mut stream) => head?,
        _ = goes => return Ok(()),
    };
    let (status, kind, body) = page(&head, broker, metrics);
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if !head.starts_with(b"HEAD ") {
        answer.push_str(&body);
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// The head of a request, or what there is of it. Lines may end as they do in a terminal.
async fn head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut limited = stream.take(HEAD_BYTES as u64);
    while !(contains(&head, b"\r\n\r\n") || contains(&head, b"\n\n")) {
        if limited.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(head)
}

fn contains(head: &[u8], end: &[u8]) -> bool {
    head.windows(end.len()).any(|bytes| bytes == end)
}

fn page<D: Disk>(head: &[u8], broker: &Broker<D>, metrics: &Metrics) -> (&'static str, &'static str, String) {
    const TEXT: &str = "text/plain; charset=utf-8";
    const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let line = head.split(|&b| b == b'\r' || b == b'\n').next().unwrap_or_default();
    let target = line.strip_prefix(b"GET ").or_else(|| line.strip_prefix(b"HEAD "));
    match target.and_then(|rest| rest.split(|&b| b == b' ' || b == b'?').next()) {
        Some(b"/metrics") => ("200 OK", METRICS, metrics.text_with(broker.stats(), now(broker))),
        Some(b"/health") => health(broker),
        Some(_) => ("404 Not Found", TEXT, "there are /metrics and /health\n".into()),
        None => ("400 Bad Request", TEXT, "only GET and HEAD are understood\n".into()),
    }
}

/// `ok` where everything is served, and then what is wrong all the same: see [`Health`].
fn health<D: Disk>(broker: &Broker<D>) -> (&'static str, &'static str, String) {
    const TEXT: &str = "text/plain; charset=utf-8";
    let Health { refuses, refused, lost } = Health::of(broker);
    let (status, first) = match refuses.is_empty() {
        true => ("200 OK", Some("ok".to_owned())),
        false => ("503 Service Unavailable", None),
    };
    let lines = first.into_iter().chain(refuses).chain(refused).chain(lost);
    (status, TEXT, lines.map(|line| line + "\n").collect())
}

/// What the partitions are like at this moment.
fn now<D: Disk>(broker: &Broker<D>) -> Now {
    let mut now = Now::default();
    for partition in broker.topics().iter().flat_map(Topic::partitions) {
        match (partition.fenced(), partition.refusing()) {
            (Some(_), _) => now.fenced += 1,
            (None, Some(_)) => now.refusing += 1,
            (None, None) => {}
        }
    }
    now
}
