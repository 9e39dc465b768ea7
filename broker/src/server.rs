//! The server: connections in, requests to the broker, answers out.
//!
//! Each connection is two loops in one task (see `connection`). The first reads what is there, finds the whole frames in
//! it, and executes them in order; consecutive produce requests become one append for each partition (see `run`). The
//! second sends the answers, in the order of the requests, each as soon as what it says is durable, and as many at once
//! as there are. Between them is a bounded queue: a client that sends faster than it reads, or faster than the disk
//! syncs, is no longer read from.
//!
//! What a client can take up is bounded by [`Limits`]. At a limit it is told so, and the others go on; how memory for long
//! requests is shared out is in `request_memory`, and that for long answers in `answer_memory`.

mod alarm;
mod answer_memory;
mod answers;
mod connection;
mod execute;
mod input;
mod lead;
mod limits;
mod pace;
mod request_memory;
mod run;
mod send;
mod waiting;

pub use limits::Limits;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::io::AsyncWriteExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::Broker;
use crate::disk::Disk;
use crate::error::{Code, Error};
use crate::metrics::Metrics;
use crate::net::{Listener, Stream};
use crate::wire::{self, proto};
use connection::Context;

/// How long the server waits after a failed accept, at first and at most. Where file descriptors have run out, trying at
/// once would only take the processor from those whose connections could end.
const ACCEPT_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How many connections at a time are told that there are too many; the others are just closed.
const REFUSALS: usize = 64;

/// How long such a connection may take to hear it.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Serves until `stop` is cancelled, and does the broker's housekeeping meanwhile. Then what was received is finished
/// and answered, within the time that the limits give, and the broker is closed; the error is that of closing it.
pub async fn serve<L: Listener, D: Disk>(
    mut listener: L,
    broker: Broker<D>,
    limits: Limits,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
) -> Result<(), Error> {
    let housekeeping = tokio::spawn(broker.clone().housekeeping());
    let context = Arc::new(Context::new(broker, limits, stop, metrics));
    let connections = Connections {
        tracker: TaskTracker::new(),
        abandon: CancellationToken::new(),
        slots: Arc::new(Semaphore::new(context.limits.connections.min(Semaphore::MAX_PERMITS))),
        refusals: Arc::new(Semaphore::new(REFUSALS)),
        context: context.clone(),
    };
    while let Some((stream, peer)) = accept(&mut listener, &context).await {
        match connections.slots.clone().try_acquire_owned() {
            Ok(slot) => connections.take(stream, peer, slot),
            Err(_) => connections.turn_away(stream, peer),
        }
    }
    drop(listener);
    connections.end().await;
    let closed = context.broker.close().await;
    housekeeping.abort();
    closed
}

/// The next connection; `None` once the server is to stop. Goes on trying where none can be accepted.
async fn accept<L: Listener, D: Disk>(
    listener: &mut L,
    context: &Context<D>,
) -> Option<(L::Stream, SocketAddr)> {
    let mut pause = ACCEPT_PAUSE.0;
    let accepted = async {
        loop {
            match listener.accept().await {
                Ok(accepted) => return accepted,
                Err(e) => {
                    context.metrics.accept_errors.inc();
                    tracing::warn!("a connection could not be accepted, trying again in {pause:?}: {e}");
                    sleep(pause).await;
                    pause = (pause * 2).min(ACCEPT_PAUSE.1);
                }
            }
        }
    };
    context.stop.run_until_cancelled(accepted).await
}

/// The connections of a server.
struct Connections<D: Disk> {
    tracker: TaskTracker,
    /// Cancelled where the time to stop is over.
    abandon: CancellationToken,
    slots: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    context: Arc<Context<D>>,
}

impl<D: Disk> Connections<D> {
    fn take(&self, stream: impl Stream, peer: SocketAddr, slot: OwnedSemaphorePermit) {
        let (context, abandon) = (self.context.clone(), self.abandon.clone());
        self.tracker.spawn(async move {
            context.metrics.connections_accepted.inc();
            let open = Open::new(&context.metrics.connections);
            let end = abandon.run_until_cancelled(connection::run(stream, &context)).await;
            drop(open);
            tracing::debug!(
                "{peer}: {}",
                end.as_deref().unwrap_or("abandoned at the end of the time to stop")
            );
            drop(slot);
        });
    }

    fn turn_away(&self, stream: impl Stream, peer: SocketAddr) {
        let limit = self.context.limits.connections;
        self.context.metrics.connections_refused.inc();
        tracing::debug!("{peer} is turned away: there are {limit} connections");
        if let Ok(refusal) = self.refusals.clone().try_acquire_owned() {
            let (context, abandon) = (self.context.clone(), self.abandon.clone());
            self.tracker.spawn(async move {
                abandon.run_until_cancelled(refuse(stream, &context)).await;
                drop(refusal);
            });
        }
    }

    /// Lets them finish, for as long as a stop may take.
    async fn end(&self) {
        self.tracker.close();
        if timeout(self.context.limits.stop_time, self.tracker.wait()).await.is_err() {
            // Not those that are being turned away.
            let open = self.context.metrics.connections.get();
            if open > 0 {
                tracing::warn!("{open} connections did not finish in time and are cut off");
            }
            self.abandon.cancel();
            self.tracker.wait().await;
        }
    }
}

/// Counts an open connection until it is dropped: also where a panic ends it.
struct Open<'a>(&'a Gauge);

impl<'a> Open<'a> {
    fn new(open: &'a Gauge) -> Self {
        open.inc();
        Self(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Tells a client that there are too many.
async fn refuse<D: Disk>(mut stream: impl Stream, context: &Context<D>) {
    let limit = context.limits.connections;
    let message =
        format!("the server has {limit} connections, which is its limit (max-connections); try again later");
    context.metrics.error(Code::TooManyConnections);
    let error = proto::ErrorResponse::new(Code::TooManyConnections, message);
    let mut frame = Vec::new();
    wire::put(&mut frame, &proto::Response::from(error));
    let told = async {
        stream.write_all(&frame).await?;
        stream.shutdown().await?;
        connection::linger(&mut stream).await
    };
    // Whether it listened is its own affair.
    let _ = timeout(REFUSAL_TIME, told).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_a_panic_has_ended_is_not_open() {
        let open = Gauge::default();
        let panics = || {
            let _open = Open::new(&open);
            assert_eq!(open.get(), 0, "as the test wants it");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(open.get(), 0);
    }
}
