//! The server: connections in, requests to the broker, answers out.
//!
//! Each connection is two loops in one task. The first reads what is there, finds the whole frames in it, and executes
//! them in order; consecutive produce requests become one append for each partition. The second sends the answers, in
//! the order of the requests, each as soon as what it says is durable, and as many at once as there are. Between them is
//! a bounded queue: a client that sends faster than it reads, or faster than the disk syncs, is no longer read from.
//!
//! What a client can take up is bounded by [`Limits`]. At a limit it is told so, and the others go on.

mod limits;

pub use limits::Limits;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::disk::Disk;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::net::Listener;

/// Serves until `stop` is cancelled. Then what was received is finished and answered, within the time that the limits
/// give, and the broker is closed; the error is that of closing it.
pub async fn serve<L: Listener, D: Disk>(
    listener: L,
    broker: Broker<D>,
    limits: Limits,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
) -> Result<(), Error> {
    todo!()
}
