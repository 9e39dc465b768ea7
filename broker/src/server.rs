//! The server: connections in, requests to the broker, answers out.
//!
//! Each connection is two loops in one task (see `connection`). The first reads what is there, finds the whole frames in
//! it, and executes them in order; consecutive produce requests become one append for each partition (see `run`). The
//! second sends the answers, in the order of the requests, each as soon as what it says is durable, and as many at once
//! as there are. Between them is a bounded queue: a client that sends faster than it reads, or faster than the disk
//! syncs, is no longer read from.
//!
//! What a client can take up is bounded by [`Limits`]. At a limit it is told so, and the others go on; how memory for long
//! requests is shared out is in `pool`.

mod alarm;
mod answers;
mod connection;
mod execute;
mod input;
mod limits;
mod pace;
mod pool;
mod room;
mod run;
mod send;
mod waiting;

pub use limits::Limits;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::Broker;
use crate::disk::Disk;
use crate::error::{Code, Error};
use crate::metrics::Metrics;
use crate::net::Listener;
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
    let tracker = TaskTracker::new();
    let abandon = CancellationToken::new();
    let slots = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    let context = Arc::new(Context::new(broker, limits, stop.clone(), metrics));
    let mut pause = ACCEPT_PAUSE.0;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                context.metrics.accept_errors.inc();
                tracing::warn!("a connection could not be accepted, trying again in {pause:?}: {e}");
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = sleep(pause) => {}
                }
                pause = (pause * 2).min(ACCEPT_PAUSE.1);
                continue;
            }
        };
        pause = ACCEPT_PAUSE.0;
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            context.metrics.connections_refused.inc();
            tracing::debug!("{peer} is turned away: there are {} connections", context.limits.connections);
            if let Ok(refusal) = refusals.clone().try_acquire_owned() {
                let (context, abandon) = (context.clone(), abandon.clone());
                tracker.spawn(async move {
                    abandon.run_until_cancelled(refuse(stream, &context)).await;
                    drop(refusal);
                });
            }
            continue;
        };
        let (context, abandon) = (context.clone(), abandon.clone());
        tracker.spawn(async move {
            context.metrics.connections_accepted.inc();
            context.metrics.connections.inc();
            let end = abandon.run_until_cancelled(connection::run(stream, &context)).await;
            context.metrics.connections.dec();
            tracing::debug!(
                "{peer}: {}",
                end.as_deref().unwrap_or("abandoned at the end of the time to stop")
            );
            drop(slot);
        });
    }
    drop(listener);
    tracker.close();
    if timeout(context.limits.stop_time, tracker.wait()).await.is_err() {
        tracing::warn!("{} connections did not finish in time and are cut off", tracker.len());
        abandon.cancel();
        tracker.wait().await;
    }
    let closed = context.broker.close().await;
    housekeeping.abort();
    closed
}

/// Tells a client that there are too many.
async fn refuse<D: Disk>(
    mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    context: &Context<D>,
) {
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
