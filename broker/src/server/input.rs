//! What a connection has received and not executed yet.
//!
//! One buffer: requests are executed where they lie in it, and what comes next is read behind them. Up to [`OWN_BYTES`] of
//! a request are the connection's own affair; what a longer one needs is a [`Share`] of the [`Pool`], and so is what is read
//! ahead of a stream of requests. The share stays with the buffer as long as that is large, so that a client which sends
//! nothing but long requests asks for it once.

use std::future::pending;
use std::io;
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use super::limits::OWN_BYTES;
use super::request_memory::{Pool, Share};
use crate::wire::{self, Frame};

/// How much is asked of the socket at once: [`OWN_BYTES`] at first, and of a connection that fills them, up to four times as much.
const READ_BYTES_MAX: usize = 4 * OWN_BYTES;

/// How much where the pool has room for it, and for the records that are made of it: of a stream of requests, more are then one
/// write to the log.
const AHEAD_BYTES: usize = 16 * OWN_BYTES;

pub(super) struct Input {
    bytes: Vec<u8>,
    /// Before it is what has been executed.
    start: usize,
    /// The longest message.
    limit: usize,
    /// How much to ask of the socket next time.
    read_bytes: usize,
    share: Share,
    /// Whether as much as that has just come.
    fills_reads: bool,
    /// When the share was last needed.
    needed: Instant,
    /// Whether it was a frame with the lead that has been taken.
    led: bool,
    /// Whether no more comes.
    ended: bool,
}

impl Input {
    /// For messages of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let (bytes, share) = (Vec::new(), Share::default());
        let (start, read_bytes, needed) = (0, OWN_BYTES, Instant::now());
        Self { bytes, start, limit, read_bytes, fills_reads: false, share, needed, led: false, ended: false }
    }

    /// What has been received.
    pub fn received(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub fn is_empty(&self) -> bool {
        self.received().is_empty()
    }

    /// What the first bytes are.
    pub fn frame(&self) -> Frame {
        wire::frame(self.received(), self.limit)
    }

    /// Whether there is something to do: a whole frame, or one that has to be refused.
    pub fn has_whole_frame(&self) -> bool {
        !matches!(self.frame(), Frame::Partial(_))
    }

    /// The frame at the start, of `len` bytes in all, has been taken. Its memory still counts: see [`Input::settle`].
    pub fn advance(&mut self, len: usize) {
        self.start += len;
        self.led |= self.share.leads();
        if len > OWN_BYTES {
            self.needed = Instant::now();
        }
    }

    /// What was taken has been executed: its memory goes where another connection wants it, or where it has not been
    /// needed for `kept`.
    pub fn settle(&mut self, pool: &Pool, kept: Duration) {
        if self.fills_reads && pool.try_grow(&mut self.share, 2 * AHEAD_BYTES) {
            (self.read_bytes, self.needed) = (AHEAD_BYTES, Instant::now());
        }
        if !self.is_charged() {
            return;
        }
        let led = std::mem::take(&mut self.led) && self.share.stop_leading();
        if led || pool.is_wanted() || self.needed.elapsed() > kept {
            self.fit();
        }
    }

    /// The bytes of the frame in arrival, where it is a long one.
    fn long(&self) -> Option<usize> {
        match self.frame() {
            Frame::Partial(len) if len > OWN_BYTES => Some(len),
            _ => None,
        }
    }

    /// How many bytes may be read.
    fn room(&self) -> usize {
        let received = self.received().len();
        match self.long() {
            None => self.read_bytes.max(self.bytes.capacity() - self.bytes.len()),
            Some(len) if self.share.covers(len) => {
                let ahead = (self.share.bytes() + READ_BYTES_MAX).saturating_sub(received);
                self.read_bytes.min(ahead).max(len - received)
            }
            Some(_) => self.share.bytes().max(OWN_BYTES).saturating_sub(received),
        }
    }

    /// Whether more can be read without more of the pool.
    pub fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Waits for room to read more.
    pub async fn make_room(&mut self, pool: &Pool) {
        if let Some(len) = self.long() {
            let received = self.received().len();
            pool.grow(&mut self.share, len.min(2 * received), len - received).await;
        }
    }

    /// Reads once, as much as there is room for. Nothing: the client sends no more.
    pub async fn read(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.read_up_to(self.room(), stream).await
    }

    /// Keeps what comes, up to [`OWN_BYTES`] in all, and ends when it is known that no more will.
    pub async fn end(&mut self, stream: &mut (impl AsyncRead + Unpin)) {
        while !self.ended {
            match OWN_BYTES.saturating_sub(self.received().len()) {
                0 => pending().await,
                // Whether somebody still listens after an error, the next answer finds out.
                room => self.ended = self.read_up_to(room, stream).await.is_err() || self.ended,
            }
        }
    }

    async fn read_up_to(&mut self, room: usize, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        if self.bytes.capacity() - self.bytes.len() < room {
            self.bytes.drain(..self.start);
            self.start = 0;
            self.bytes.reserve_exact(room);
        }
        let n = stream.read_buf(&mut (&mut self.bytes).limit(room)).await?;
        self.ended = n == 0 && room > 0;
        self.fills_reads = n >= READ_BYTES_MAX;
        if n >= self.read_bytes {
            self.read_bytes = self.read_bytes.max(READ_BYTES_MAX);
        }
        Ok(n)
    }

    /// Whether it holds a part of the pool.
    pub fn is_charged(&self) -> bool {
        self.share.leads() || self.share.bytes() > 0
    }

    /// Gives back memory that the frame in arrival does not need.
    pub fn fit(&mut self) {
        let received = self.received().len();
        let needed = match self.long() {
            Some(len) if received > OWN_BYTES => len.min(2 * received),
            _ => 0,
        };
        if self.share.leads() || (needed == 0 && received > READ_BYTES_MAX) {
            // Its frame is still coming, or about to be executed.
            return;
        }
        if received == 0 {
            (self.bytes, self.start, self.read_bytes) = (Vec::new(), 0, OWN_BYTES);
        } else if self.bytes.capacity() > needed + OWN_BYTES + READ_BYTES_MAX {
            let mut bytes = Vec::with_capacity(needed.max(received));
            bytes.extend_from_slice(self.received());
            (self.bytes, self.start) = (bytes, 0);
        }
        self.read_bytes = self.read_bytes.min(READ_BYTES_MAX);
        self.share.shrink(needed);
    }

    /// Whether the long frame in arrival comes too slowly, where it had `before` bytes some time ago: so that it would take
    /// longer than `allowed` for all of them.
    pub fn is_slow(&self, before: usize, ago: Duration, allowed: Duration) -> bool {
        let came = (self.received().len() - before) as u128;
        self.long().is_some_and(|len| came * allowed.as_nanos() < len as u128 * ago.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const KEPT: Duration = Duration::from_secs(1);

    fn frame(len: usize) -> Vec<u8> {
        let mut frame = u32::try_from(len).unwrap().to_be_bytes().to_vec();
        frame.resize(wire::PREFIX_BYTES + len, 7);
        frame
    }

    async fn receive(input: &mut Input, pool: &Pool, len: usize) {
        let frame = frame(len);
        let mut rest = &frame[..];
        while !input.has_whole_frame() {
            if !input.has_room() {
                input.make_room(pool).await;
            }
            input.read(&mut rest).await.unwrap();
        }
    }

    /// Receives a frame and executes it.
    async fn one(input: &mut Input, pool: &Pool, len: usize) {
        receive(input, pool, len).await;
        input.advance(wire::PREFIX_BYTES + len);
        input.settle(pool, KEPT);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_of_long_requests_is_kept_for_as_long_as_they_come() {
        let pool = Pool::new(8 << 20, 1 << 20);
        let mut input = Input::new(1 << 20);
        one(&mut input, &pool, 100).await;
        assert!(!input.is_charged());
        for _ in 0..5 {
            one(&mut input, &pool, 500_000).await;
            assert!(input.is_charged());
            advance(KEPT * 2 / 3).await;
            one(&mut input, &pool, 100).await;
            assert!(input.is_charged(), "there may be more");
        }
        advance(KEPT).await;
        one(&mut input, &pool, 100).await;
        assert!(!input.is_charged(), "there were none for some time");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_of_long_requests_goes_at_once_where_another_waits_for_it() {
        let pool = Pool::new(2 << 20, 1 << 20);
        let (mut one_leads, mut input) = (Share::default(), Input::new(1 << 20));
        one(&mut input, &pool, 500_000).await;
        // Of the megabyte that all share, some is taken; the first that waits for all of it leads.
        pool.grow(&mut one_leads, 1 << 20, 1 << 20).await;
        assert!(one_leads.leads());
        let mut waits = Share::default();
        let mut waiting = std::pin::pin!(pool.grow(&mut waits, 1 << 20, 1 << 20));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert!(input.is_charged());
        one(&mut input, &pool, 100).await;
        assert!(!input.is_charged());
        waiting.await;
    }

    #[tokio::test]
    async fn a_long_request_that_is_whole_keeps_its_memory_until_it_is_executed() {
        let pool = Pool::new(8 << 20, 1 << 20);
        let mut input = Input::new(1 << 20);
        receive(&mut input, &pool, 500_000).await;
        // As before a request that waits, when a long one has come behind it.
        input.fit();
        assert!(input.is_charged());
        input.advance(wire::PREFIX_BYTES + 500_000);
        assert!(input.is_charged());
        input.settle(&pool, KEPT);
        input.fit();
        assert!(!input.is_charged());
    }

    /// The most that is read at once of a stream of requests of these bytes.
    async fn at_once(input: &mut Input, pool: &Pool, len: usize) -> usize {
        at_once_of(input, pool, &frame(len).repeat((8 << 20) / len)).await
    }

    async fn at_once_of(input: &mut Input, pool: &Pool, mut rest: &[u8]) -> usize {
        let mut most = 0;
        while !rest.is_empty() {
            if !input.has_room() {
                input.make_room(pool).await;
            }
            most = most.max(input.read(&mut rest).await.unwrap());
            let covered = input.share.bytes() + READ_BYTES_MAX + OWN_BYTES;
            assert!(input.received().len() <= covered, "{} of {covered}", input.received().len());
            while let Frame::Whole(len) = input.frame() {
                input.advance(wire::PREFIX_BYTES + len);
            }
            input.settle(pool, KEPT);
        }
        most
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_stream_more_is_read_at_once_where_there_is_room() {
        for len in [100, 50_000, 100_000, 900_000] {
            let mut input = Input::new(1 << 20);
            advance(2 * KEPT).await;
            assert_eq!(at_once(&mut input, &Pool::new(3 << 20, 1 << 20), len).await, AHEAD_BYTES, "{len}");
        }

        // Nor is it more than was asked for, whatever comes behind a request that is longer.
        let (mut input, pool) = (Input::new(4 << 20), Pool::new(16 << 20, 4 << 20));
        at_once(&mut input, &pool, 100).await;
        let request = frame(3_000_000);
        let (begin, end) = request.split_at(2_950_000);
        for piece in begin.chunks(150_000) {
            at_once_of(&mut input, &pool, piece).await;
        }
        at_once_of(&mut input, &pool, &[end, &frame(100).repeat(20_000)].concat()).await;

        // What comes in small pieces needs no more.
        let mut input = Input::new(1 << 20);
        let pieces = frame(100).repeat(2000);
        at_once_of(&mut input, &Pool::new(3 << 20, 1 << 20), &pieces).await;
        assert!(!input.is_charged());
        let mut input = Input::new(1 << 20);
        assert_eq!(at_once(&mut input, &Pool::new(2 << 20, 1 << 20), 100).await, READ_BYTES_MAX);
        assert!(!input.is_charged());
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_to_read_ahead_goes_where_it_is_wanted_and_when_it_is_not_needed() {
        let pool = Pool::new(3 << 20, 1 << 20);
        let mut input = Input::new(1 << 20);
        at_once(&mut input, &pool, 100).await;
        assert!(input.is_charged());
        let mut leads = Share::default();
        pool.grow(&mut leads, 1 << 20, 1 << 20).await;
        let mut waiting = Box::pin(async {
            let mut share = Share::default();
            pool.grow(&mut share, 1 << 20, 1 << 20).await;
            share
        });
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(at_once(&mut input, &pool, 100).await, AHEAD_BYTES, "what had come when it was wanted");
        assert!(!input.is_charged());
        let waited = waiting.await;
        assert_eq!(at_once(&mut input, &pool, 100).await, READ_BYTES_MAX);

        drop(waited);
        at_once(&mut input, &pool, 100).await;
        assert!(input.is_charged());
        advance(KEPT).await;
        one(&mut input, &pool, 100).await;
        advance(KEPT).await;
        one(&mut input, &pool, 100).await;
        assert!(!input.is_charged());
        assert!(input.bytes.capacity() <= OWN_BYTES + READ_BYTES_MAX, "{}", input.bytes.capacity());
    }

    #[tokio::test(start_paused = true)]
    async fn who_led_gives_back_what_it_had_besides() {
        let pool = Pool::new((1 << 20) + 300_000, 1 << 20);
        let mut input = Input::new(1 << 20);
        one(&mut input, &pool, 500_000).await;
        assert!(!input.is_charged(), "it had the lead, and some of the rest");
    }

    #[tokio::test(start_paused = true)]
    async fn who_leads_does_so_until_its_request_is_whole() {
        let pool = Pool::new(1 << 20, 1 << 20);
        let mut input = Input::new(1 << 20);
        for _ in 0..2 {
            let request = frame(500_000);
            let mut begin = &request[..200_000];
            while !begin.is_empty() {
                if !input.has_room() {
                    input.make_room(&pool).await;
                }
                input.read(&mut begin).await.unwrap();
            }
            // As before an answer that says that the rest has not come.
            input.settle(&pool, KEPT);
            assert!(input.share.leads());
            input.read(&mut &request[200_000..]).await.unwrap();
            input.advance(request.len());
            input.settle(&pool, KEPT);
            assert!(!input.is_charged());
        }
    }
}
