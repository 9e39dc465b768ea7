//! What the clients of a server can take up.

use std::time::Duration;

/// So much of a request, and of an answer, is its connection's own affair. Only what is longer takes of the memory that all
/// connections share.
pub(super) const OWN_BYTES: usize = 64 << 10;

/// Bounds on what clients can make a server hold, or wait for. The bound on a record is the log's
/// ([`Settings::max_record_bytes`](crate::settings::Settings::max_record_bytes)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time. One more is told so and closed.
    pub connections: usize,
    /// The longest message of a client, in bytes. A longer one is refused before any of it is read.
    pub frame_bytes: usize,
    /// Records in one request.
    pub request_records: usize,
    /// Bytes of requests and answers that one connection may have under way before it is no longer read from; one
    /// request and one answer may be larger.
    pub in_flight_bytes: usize,
    /// Bytes of requests longer than 64 KiB, and of streams of requests that are read ahead, of all connections together. They
    /// count as they come, not when they are announced, and until they are in the log. A connection that finds no room waits
    /// for others to finish, and those who are too slow to be whole within `frame_time` are given up for it. At least
    /// `frame_bytes`.
    pub buffer_bytes: usize,
    /// Bytes of records in one answer, where a client asks for more; one record may be larger.
    pub fetch_bytes: usize,
    /// Bytes of answers longer than 64 KiB, of records or lists, of all connections together, from when they are read until
    /// the client has taken them. Where little of it is left, answers of records are shorter; what cannot be shorter waits.
    pub answer_bytes: usize,
    /// How long a consume waits for a record, where a client asks for longer. It does not wait once the client has ended its
    /// side of the connection.
    pub wait: Duration,
    /// How long a connection may be silent between two requests.
    pub idle: Duration,
    /// How long a message may take from its first byte to its last.
    pub frame_time: Duration,
    /// How long a client may take to accept an answer that is ready, or 128 KiB of a longer one of records. While others wait
    /// for memory (`answer_bytes`), it has to take a tenth of a long answer in each tenth of this time.
    pub write_time: Duration,
    /// How long a stop waits for connections to finish.
    pub stop_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            frame_bytes: 16 << 20,
            request_records: 100_000,
            in_flight_bytes: 1 << 20,
            buffer_bytes: 256 << 20,
            fetch_bytes: 8 << 20,
            answer_bytes: 256 << 20,
            wait: Duration::from_secs(30),
            idle: Duration::from_secs(600),
            frame_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            stop_time: Duration::from_secs(10),
        }
    }
}
