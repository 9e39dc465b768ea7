//! One connection: requests go out and answers come in, in the same order, as many at a time as the caller likes.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::{DecodeError, Message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::types::{self, Outcome, Placed};
use crate::units::Offset;
use crate::wire::{self, ConsumeAnswer, ConsumeFinder, Frame, PREFIX_BYTES, proto};

/// How much is asked of the socket at once.
const READ_BYTES: usize = 256 << 10;

/// How much memory is got ready at once for an answer whose length is known.
const ROOM_BYTES: usize = 2 << 20;

/// The longest message that a frame can hold.
const MESSAGE_BYTES_MAX: u64 = u32::MAX as u64;

/// What a record and a request take at most besides their keys, values and topic.
const AROUND_BYTES: u64 = 32;

/// Why these records cannot be in one request, where they are too many bytes.
pub(super) fn too_long<'a>(
    topic: &str,
    records: impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])>,
) -> Option<String> {
    let record = |(key, value): (Option<&[u8]>, &[u8])| (key.map_or(0, <[u8]>::len) + value.len()) as u64;
    let bytes = records.fold(topic.len() as u64, |sum, next| sum + record(next) + AROUND_BYTES);
    (bytes > MESSAGE_BYTES_MAX - AROUND_BYTES).then(|| {
        format!(
            "a request of {bytes} bytes is longer than a message can be (4 GiB); send fewer records in one"
        )
    })
}

/// Removes a whole frame with a message of this length, and reads the message.
type Take<T> = fn(&mut BytesMut, usize) -> Result<T, DecodeError>;

/// An answer to a produce.
#[derive(Clone, Debug, PartialEq)]
pub enum Produced {
    /// All records are in one partition, one after the other.
    Appended {
        /// The partition.
        partition: u32,
        /// The offset of the first.
        base: Offset,
        /// How many.
        count: u32,
    },
    /// Anything else: several partitions, or an error.
    Other(proto::Response),
}

impl Produced {
    fn take(input: &mut BytesMut, len: usize) -> Result<Self, DecodeError> {
        match wire::find_appended(&input[PREFIX_BYTES..PREFIX_BYTES + len]) {
            Some((partition, base, count)) => {
                input.advance(PREFIX_BYTES + len);
                Ok(Self::Appended { partition, base, count })
            }
            None => wire::take(input, len).map(Self::Other),
        }
    }

    /// The outcome of each of the `count` records that it answers for.
    pub fn outcomes(self, count: usize) -> Vec<Outcome<Placed>> {
        match self {
            Self::Appended { partition, base, count: appended } if appended as usize == count => (0..count
                as u64)
                .map(|nth| Outcome::Acknowledged(Placed { partition, offset: base.plus(nth) }))
                .collect(),
            Self::Appended { .. } => {
                vec![Outcome::unanswered("the answer does not fit the records"); count]
            }
            Self::Other(response) => types::produce_outcomes(Outcome::of(response), count),
        }
    }
}

fn take_consumed(
    input: &mut BytesMut,
    len: usize,
    finder: ConsumeFinder,
) -> Result<Outcome<ConsumeAnswer>, DecodeError> {
    input.advance(PREFIX_BYTES);
    let message = input.split_to(len).freeze();
    if let Some(answer) = finder.finish(&message) {
        return Ok(Outcome::Acknowledged(answer));
    }
    // Fields in another order, or another answer: in order once it has been decoded and encoded again.
    let outcome = Outcome::of(proto::Response::decode(message)?);
    Ok(outcome.and_then(|kind| {
        let again = Bytes::from(proto::Response::from(kind).encode_to_vec());
        let unfit = || Outcome::unanswered("the answer is not one to a consume");
        ConsumeAnswer::find(&again).map_or_else(unfit, Outcome::Acknowledged)
    }))
}

/// A connection to a server, for pipelines: what is sent waits in a buffer until it is flushed or an answer is awaited.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    output: Vec<u8>,
    /// How much of `output` has left.
    written: usize,
    input: BytesMut,
    frame_bytes: usize,
    awaited: usize,
    /// What could not be sent.
    unsendable: Option<String>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Over this stream. `frame_bytes` is the longest answer that is read.
    pub fn new(stream: S, frame_bytes: usize) -> Self {
        let (output, input) = (Vec::new(), BytesMut::new());
        Self { stream, output, written: 0, input, frame_bytes, awaited: 0, unsendable: None }
    }

    /// Sends a request, at the next [`Connection::flush`] or [`Connection::receive`].
    pub fn send(&mut self, request: &proto::Request) {
        self.forget_written();
        wire::put(&mut self.output, request);
        self.awaited += 1;
    }

    /// Sends a produce request, likewise. `records` gives key and value of each. Where they are too long for one message,
    /// nothing is sent, and there will be no more answers than those that are there: waiting for one is an error.
    pub fn send_produce<'a>(
        &mut self,
        topic: &str,
        partition: Option<u32>,
        records: impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])> + Clone,
    ) {
        if let Some(why) = too_long(topic, records.clone()) {
            self.unsendable = Some(why);
            return;
        }
        self.forget_written();
        wire::encode_produce(&mut self.output, topic, partition, records);
        self.awaited += 1;
    }

    /// Gives room for more. Where requests come faster than they leave, the buffer is never empty: so what has left goes as soon as
    /// it is more than the rest, which has to be moved for it.
    fn forget_written(&mut self) {
        if self.written > self.unsent() {
            self.output.drain(..std::mem::take(&mut self.written));
        }
    }

    /// How many answers are to come.
    pub fn awaited(&self) -> usize {
        self.awaited
    }

    /// How many bytes wait to be sent.
    pub fn unsent(&self) -> usize {
        self.output.len() - self.written
    }

    /// Waits until everything is sent. Takes in what answers come meanwhile: a server that cannot get rid of its
    /// answers stops reading.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| {
            while let Poll::Ready(read) = self.poll_read(cx) {
                read?;
            }
            self.poll_flush(cx)
        })
        .await
    }

    /// Waits for the next answer; sends what is unsent meanwhile. An error leaves it unknown which of the awaited
    /// requests were executed. May be dropped and called again.
    pub async fn receive(&mut self) -> io::Result<proto::Response> {
        self.take_whole(wire::take).await
    }

    /// Likewise, where the next answer is one to a produce.
    pub async fn receive_produced(&mut self) -> io::Result<Produced> {
        self.take_whole(Produced::take).await
    }

    /// Likewise, where the next answer is one to a consume. Its records are read when they are asked for.
    pub async fn receive_consumed(&mut self) -> io::Result<Outcome<ConsumeAnswer>> {
        let mut finder = ConsumeFinder::default();
        loop {
            if let Some(len) = self.whole()? {
                return self.take(len, |input, len| take_consumed(input, len, finder));
            }
            // While the rest is on its way.
            finder.go_on(self.input.get(PREFIX_BYTES..).unwrap_or_default());
            self.more().await?;
        }
    }

    /// The next answer, if it is there.
    pub fn try_receive(&mut self) -> io::Result<Option<proto::Response>> {
        self.try_take(wire::take)
    }

    /// The next answer, if it is there and is one to a produce.
    pub fn try_receive_produced(&mut self) -> io::Result<Option<Produced>> {
        self.try_take(Produced::take)
    }

    /// Takes the next answer's message, as soon as it is whole.
    async fn take_whole<T>(&mut self, take: Take<T>) -> io::Result<T> {
        loop {
            if let Some(taken) = self.try_take(take)? {
                return Ok(taken);
            }
            self.more().await?;
        }
    }

    /// Waits until more has come; sends what is unsent meanwhile.
    async fn more(&mut self) -> io::Result<()> {
        if let Some(why) = &self.unsendable {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why.clone()));
        }
        poll_fn(|cx| {
            // A server that stops or refuses may close before it has read everything: what it said counts, so a
            // failed write is left for the read to explain.
            let wrote = self.poll_flush(cx);
            match (self.poll_read(cx), wrote) {
                (Poll::Ready(read), _) => Poll::Ready(read),
                (Poll::Pending, Poll::Ready(Err(e))) => Poll::Ready(Err(e)),
                (Poll::Pending, _) => Poll::Pending,
            }
        })
        .await
    }

    fn try_take<T>(&mut self, take: Take<T>) -> io::Result<Option<T>> {
        let Some(len) = self.whole()? else { return Ok(None) };
        self.take(len, take).map(Some)
    }

    /// The length of the next answer's message, if it is there whole.
    fn whole(&self) -> io::Result<Option<usize>> {
        match wire::frame(&self.input, self.frame_bytes) {
            Frame::Partial(_) => Ok(None),
            Frame::TooLarge(len) => {
                Err(invalid(format!("an answer of {len} bytes is over the limit of {}", self.frame_bytes)))
            }
            Frame::Whole(len) => Ok(Some(len)),
        }
    }

    fn take<T>(
        &mut self,
        len: usize,
        take: impl FnOnce(&mut BytesMut, usize) -> Result<T, DecodeError>,
    ) -> io::Result<T> {
        self.awaited = self.awaited.saturating_sub(1);
        take(&mut self.input, len).map_err(|e| invalid(e.to_string()))
    }

    /// Whether it can be used for a next request: nothing is awaited, and the server has neither closed it nor said
    /// anything unasked, such as that it was idle for too long.
    pub fn is_fresh(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.awaited == 0
            && self.unsent() == 0
            && self.input.is_empty()
            && self.poll_read(&mut cx).is_pending()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.output.len() {
            let n = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.output[self.written..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += n;
        }
        self.output.clear();
        self.written = 0;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Reads what is there; the end of the stream is an error.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = match wire::frame(&self.input, self.frame_bytes) {
            Frame::Partial(len) => (len - self.input.len()).clamp(READ_BYTES, ROOM_BYTES),
            _ => READ_BYTES,
        };
        self.input.reserve(room);
        let mut input = (&mut self.input).limit(READ_BYTES);
        let read = pin!(self.stream.read_buf(&mut input));
        match ready!(read.poll(cx))? {
            0 => Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed it"))),
            _ => Poll::Ready(Ok(())),
        }
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    /// As over a slow network, where something always waits to be sent.
    #[tokio::test]
    async fn what_has_left_takes_no_memory_though_more_waits() {
        let (stream, mut server) = tokio::io::duplex(1000);
        let mut connection = Connection::new(stream, 1000);
        let mut come = [0; 1000];
        for _ in 0..100 {
            connection.send_produce("t", None, std::iter::once((None, &[7; 1000][..])));
            tokio::task::yield_now().await;
            assert!(futures_util::poll!(Box::pin(connection.flush())).is_pending());
            assert!(connection.unsent() > 0);
            assert_eq!(server.read(&mut come).await.unwrap(), come.len());
        }
        let (kept, unsent) = (connection.output.capacity(), connection.unsent());
        assert!(kept < 4 * unsent + 4000, "{kept} bytes are kept for {unsent}");
    }

    /// As of a server that refuses a connection, says why, and closes it while a request is on its way.
    #[tokio::test]
    async fn what_a_server_has_said_counts_where_it_takes_no_more() {
        let said = proto::Response::from(proto::ErrorResponse::new(Code::TooManyConnections, "full"));
        let mut answer = Vec::new();
        wire::put(&mut answer, &said);
        let (closed, _) = tokio::io::duplex(1);
        let mut connection = Connection::new(tokio::io::join(&answer[..], closed), 1 << 20);
        connection.send(&proto::request::Kind::ListTopics(proto::ListTopicsRequest {}).into());
        assert_eq!(connection.receive().await.expect("it is there"), said);
        connection.send(&proto::request::Kind::ListTopics(proto::ListTopicsRequest {}).into());
        assert!(connection.receive().await.is_err(), "and no more than that");
    }
}
