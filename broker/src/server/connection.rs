//! One connection: a loop that executes, a loop that answers, and a bounded queue between them.
//!
//! A request is executed when the one before has been; it does not wait for the answer to the one before to leave, nor, if
//! both are produces, to be durable. Any other request waits until the produces before it are durable, so that a
//! pipeline shows nothing that one request at a time would not.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::try_join;
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::execute::{self, Other};
use super::input::Input;
use super::limits::Limits;
use super::pool::Pool;
use super::room::{Room, Share};
use super::run::{Batches, Run};
use crate::broker::Broker;
use crate::disk::Disk;
use crate::error::{Code, Error};
use crate::metrics::{Kind, Metrics};
use crate::partition::{Fetched, Partition};
use crate::units::Offset;
use crate::wire::proto::{self, request};
use crate::wire::{self, ConsumeEncoder, Frame, PREFIX_BYTES, Produce};

/// A connection that is silent for this long keeps no memory; one whose request comes slowly is looked at so often.
const SILENCE: Duration = Duration::from_secs(1);

/// Answers are sent when there are this many bytes of them, even where more are ready.
const SEND_BYTES: usize = 128 << 10;

/// A consume answer longer than this is sent in pieces. Large ones: each write of a socket wakes the reader.
const PIECE_BYTES: usize = 1 << 20;

/// How many answers, those of a run of produces counting as one, wait to be sent at most.
const ANSWERS: usize = 256;

/// How long a connection that the server has ended is listened to, so that what was said last is not lost in a reset.
const LINGER: Duration = Duration::from_secs(1);

/// What the connections of a server share.
pub(super) struct Context<D: Disk> {
    pub broker: Broker<D>,
    pub limits: Limits,
    pub stop: CancellationToken,
    pub metrics: Arc<Metrics>,
    /// The memory of long requests.
    pool: Pool,
    /// The memory of long answers.
    pub room: Room,
}

impl<D: Disk> Context<D> {
    pub fn new(broker: Broker<D>, limits: Limits, stop: CancellationToken, metrics: Arc<Metrics>) -> Self {
        let pool = Pool::new(limits.buffer_bytes, limits.frame_bytes.saturating_add(PREFIX_BYTES));
        let room = Room::new(limits.answer_bytes);
        Self { broker, limits, stop, metrics, pool, room }
    }
}

/// An answer on its way, with its share of the bytes in flight.
struct Answer<D: Disk> {
    what: What<D>,
    holds: Holds,
}

/// What an answer holds until it has been sent.
struct Holds {
    _in_flight: OwnedSemaphorePermit,
    _room: Share,
}

enum What<D: Disk> {
    /// To consecutive produces.
    Produced(Box<Run<D>>),
    Consumed(Fetched),
    Other(proto::Response),
}

/// Serves one connection to its end, and says how it ended.
pub(super) async fn run<S, D>(stream: S, context: &Context<D>) -> String
where
    S: AsyncRead + AsyncWrite + Unpin,
    D: Disk,
{
    let (read, write) = tokio::io::split(stream);
    let (answers, queue) = mpsc::channel(ANSWERS);
    let mut executor = Executor::new(read, answers, context);
    // In this order, so that what the first has just executed the second sends at once.
    let served = try_join(executor.run(), send(write, queue, context)).await;
    match served {
        Ok((End::Closed, _)) => "closed by the client".into(),
        Ok((End::Ended(why), _)) => {
            let _ = timeout(LINGER, linger(&mut executor.stream)).await;
            why
        }
        Err(e) => e.to_string(),
    }
}

/// Reads and forgets until the client closes.
pub(super) async fn linger(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut sink = [0; 4096];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

/// Why no more is read.
enum End {
    /// The client has no more requests.
    Closed,
    /// The server has had enough.
    Ended(String),
}

/// The first loop.
struct Executor<'a, S, D: Disk> {
    stream: ReadHalf<S>,
    context: &'a Context<D>,
    input: Input,
    /// Finds produces in `input`.
    find: Produce,
    /// The produces that are being gathered.
    run: Box<Run<D>>,
    batches: Batches,
    answers: Option<mpsc::Sender<Answer<D>>>,
    in_flight: Arc<Semaphore>,
    /// What was appended and was not durable at once.
    unsettled: Vec<(Partition<D>, Offset)>,
}

impl<'a, S: AsyncRead, D: Disk> Executor<'a, S, D> {
    fn new(stream: ReadHalf<S>, answers: mpsc::Sender<Answer<D>>, context: &'a Context<D>) -> Self {
        Self {
            stream,
            context,
            input: Input::new(context.limits.frame_bytes),
            find: Produce::default(),
            run: Box::default(),
            batches: Batches::default(),
            answers: Some(answers),
            in_flight: Arc::new(Semaphore::new(context.in_flight())),
            unsettled: Vec::new(),
        }
    }

    /// Executes until there is nothing more to execute. The queue ends with it.
    async fn run(&mut self) -> io::Result<End> {
        let end = self.requests().await;
        self.answers = None;
        end
    }

    async fn requests(&mut self) -> io::Result<End> {
        let context = self.context;
        let mut stopped = pin!(context.stop.cancelled());
        loop {
            if let Some(end) = self.execute_all().await? {
                return Ok(end);
            }
            // What is left is the beginning of a frame, or nothing.
            let between = self.input.is_empty();
            let allowed = if between { context.limits.idle } else { context.limits.frame_time };
            let mut begun = Instant::now();
            let (mut look, mut seen) = (begun + SILENCE, self.input.received().len());
            loop {
                if !self.input.has_room() {
                    let asked = Instant::now();
                    tokio::select! {
                        biased;
                        () = &mut stopped => return self.stop().await,
                        () = self.input.make_room(&context.pool) => {}
                    }
                    // Time in which nothing was taken of the client is not the client's.
                    let waited = asked.elapsed();
                    (begun, look) = (begun + waited, look + waited);
                }
                let deadline = begun + allowed;
                let until = deadline.min(look);
                let read = timeout_at(until, self.input.read(&mut self.stream));
                let read = tokio::select! {
                    biased;
                    () = &mut stopped => return self.stop().await,
                    read = read => read,
                };
                match read {
                    Ok(Ok(0)) => return self.end_of_stream().await,
                    Ok(Ok(_)) if self.input.has_whole_frame() => break,
                    // A frame that has begun has its own time.
                    Ok(Ok(_)) if between => break,
                    Ok(Ok(_)) => {}
                    Ok(Err(e)) => return Err(e),
                    Err(_) if until < deadline => {
                        if context.pool.is_wanted() && self.input.is_slow(seen, SILENCE, allowed) {
                            return self.hinders(begun.elapsed()).await;
                        }
                        seen = self.input.received().len();
                        self.release();
                        look = if self.input.is_charged() { Instant::now() + SILENCE } else { deadline };
                    }
                    Err(_) if between && self.is_busy() => break,
                    Err(_) => return self.timed_out(between).await,
                }
            }
        }
    }

    /// Gives back the memory of a connection that says nothing.
    fn release(&mut self) {
        self.input.fit();
        self.batches = Batches::default();
        self.find = Produce::default();
    }

    /// Whether answers are still to be sent.
    fn is_busy(&self) -> bool {
        self.in_flight.available_permits() < self.context.in_flight()
    }

    /// Executes the whole frames that are there.
    async fn execute_all(&mut self) -> io::Result<Option<End>> {
        let end = loop {
            let len = match self.input.frame() {
                Frame::Whole(len) => len,
                Frame::Partial(_) => break None,
                Frame::TooLarge(len) => {
                    let limit = self.context.limits.frame_bytes;
                    let what =
                        format!("a message of {len} bytes is over the limit of {limit} (max-frame-bytes)");
                    self.answer_error(Code::FrameTooLarge, &what).await?;
                    break Some(End::Ended(what));
                }
            };
            self.execute(len).await?;
            self.input.advance(PREFIX_BYTES + len, &self.context.pool, SILENCE);
        };
        self.finish_run().await?;
        Ok(end)
    }

    /// Executes the frame at the start of the input.
    async fn execute(&mut self, len: usize) -> io::Result<()> {
        let message = PREFIX_BYTES..PREFIX_BYTES + len;
        let max = self.context.limits.request_records;
        if self.find.find(&self.input.received()[message.clone()], max) {
            if !self.run.takes(self.find.topic(&self.input.received()[message.clone()])) {
                self.finish_run().await?;
            }
            let bytes = &self.input.received()[message];
            let records = self.find.records(bytes);
            let (topic, partition) = (self.find.topic(bytes), self.find.partition());
            self.run.add(&self.context.broker, &mut self.batches, topic, partition, records);
            return Ok(());
        }
        if wire::count_records(&self.input.received()[message.clone()], max) > max {
            let what = format!("a request has at most {max} records (max-request-records)");
            self.run.refuse(Error::InvalidRequest { what });
            return Ok(());
        }
        match proto::Request::decode(&self.input.received()[message]) {
            Ok(proto::Request { kind: Some(request::Kind::Produce(produce)) }) => {
                if !self.run.takes(&produce.topic) {
                    self.finish_run().await?;
                }
                let records = produce.records.iter().map(|r| (r.key.as_deref(), &r.value[..]));
                let (topic, partition) = (&produce.topic, produce.partition);
                self.run.add(&self.context.broker, &mut self.batches, topic, partition, records);
                Ok(())
            }
            Ok(proto::Request { kind: Some(kind) }) => self.execute_other(kind).await,
            Ok(proto::Request { kind: None }) => {
                self.context.metrics.requests(Kind::unknown, 1);
                let what = "the request is of no kind that this server knows: produce, consume, create_topic, \
                            delete_topic, list_topics, list_partitions, list_offsets";
                self.answer_error(Code::InvalidRequest, what).await
            }
            Err(e) => {
                self.context.metrics.requests(Kind::unknown, 1);
                let what = format!("the message is not a Request of broker.v1: {e}");
                self.answer_error(Code::InvalidRequest, &what).await
            }
        }
    }

    /// Executes a request other than a produce, after all that came before.
    async fn execute_other(&mut self, kind: request::Kind) -> io::Result<()> {
        self.finish_run().await?;
        for (partition, end) in self.unsettled.drain(..) {
            // Its own answer says whether it is durable; this one only waits until that is settled.
            let _ = partition.committed(end).await;
        }
        match execute::other(kind, self.context).await {
            Other::Consumed(fetched, room) => {
                let bytes = fetched.bytes.len();
                self.answer(What::Consumed(fetched), bytes, room).await
            }
            Other::Response(response) => {
                let bytes = response.encoded_len();
                self.answer(What::Other(response), bytes, Share::default()).await
            }
        }
    }

    /// Appends the produces that were gathered, and queues their answers.
    async fn finish_run(&mut self) -> io::Result<()> {
        if self.run.is_empty() {
            return Ok(());
        }
        let mut run = std::mem::take(&mut self.run);
        run.append(&mut self.batches, &self.context.metrics).await;
        self.unsettled.retain(|(partition, end)| !matches!(partition.is_committed(*end), Ok(true) | Err(_)));
        self.unsettled.extend(run.unsettled());
        let bytes = run.answer_bytes();
        self.answer(What::Produced(run), bytes, Share::default()).await
    }

    async fn answer_error(&mut self, code: Code, message: &str) -> io::Result<()> {
        self.finish_run().await?;
        self.context.metrics.error(code);
        let error = proto::ErrorResponse::new(code, message);
        self.answer(What::Other(error.into()), message.len(), Share::default()).await
    }

    /// Queues an answer, when there is room for it.
    async fn answer(&mut self, what: What<D>, bytes: usize, room: Share) -> io::Result<()> {
        let share = permits(bytes.clamp(1, self.context.in_flight()));
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let in_flight = self.in_flight.clone().acquire_many_owned(share).await.map_err(|_| gone())?;
        let Some(answers) = &self.answers else { return Err(gone()) };
        let holds = Holds { _in_flight: in_flight, _room: room };
        answers.send(Answer { what, holds }).await.map_err(|_| gone())
    }

    /// The server is stopping: finishes what has been received.
    async fn stop(&mut self) -> io::Result<End> {
        let mut received = 0;
        while received < self.context.in_flight() {
            let read = poll_fn(|cx| match pin!(self.input.read(&mut self.stream)).poll(cx) {
                Poll::Ready(read) => Poll::Ready(Some(read)),
                Poll::Pending => Poll::Ready(None),
            });
            match read.await {
                Some(Ok(n)) if n > 0 => received += n,
                _ => break,
            }
        }
        if let Some(end) = self.execute_all().await? {
            return Ok(end);
        }
        if !self.input.is_empty() {
            let what = "the server is stopping, and a request had not come whole; nothing of it was done";
            self.answer_error(Code::ShuttingDown, what).await?;
        }
        Ok(End::Ended("the server is stopping".into()))
    }

    async fn end_of_stream(&mut self) -> io::Result<End> {
        if self.input.is_empty() {
            return Ok(End::Closed);
        }
        let what =
            format!("the stream ended within a message, after {} bytes of it", self.input.received().len());
        self.answer_error(Code::InvalidRequest, &what).await?;
        Ok(End::Ended(what))
    }

    async fn timed_out(&mut self, idle: bool) -> io::Result<End> {
        let limits = &self.context.limits;
        let what = if idle {
            format!("the connection was idle for {:?} (idle-timeout)", limits.idle)
        } else {
            format!("a message was not whole {:?} after its beginning (frame-timeout)", limits.frame_time)
        };
        self.answer_error(Code::Timeout, &what).await?;
        Ok(End::Ended(what))
    }

    /// Ends a connection whose slow message takes up memory that others wait for.
    async fn hinders(&mut self, after: Duration) -> io::Result<End> {
        let what = format!(
            "{} bytes of a long message had come after {after:.1?}, too slowly to be whole within {:?} (frame-timeout), \
             while others waited for the memory it held (max-buffer-bytes)",
            self.input.received().len(),
            self.context.limits.frame_time
        );
        // At once, however long it takes to tell.
        self.input = Input::new(self.context.limits.frame_bytes);
        self.answer_error(Code::Timeout, &what).await?;
        Ok(End::Ended(what))
    }
}

impl<D: Disk> Context<D> {
    fn in_flight(&self) -> usize {
        self.limits.in_flight_bytes.clamp(1, u32::MAX as usize >> 1)
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The second loop: sends answers until the queue ends.
async fn send<S, D>(
    mut stream: WriteHalf<S>,
    mut queue: mpsc::Receiver<Answer<D>>,
    context: &Context<D>,
) -> io::Result<()>
where
    S: AsyncWrite,
    D: Disk,
{
    let mut output = Vec::new();
    // Goes back when the answers have been sent.
    let mut held = Vec::new();
    loop {
        let answer = match queue.try_recv() {
            Ok(answer) => answer,
            Err(_) => {
                flush(&mut stream, &mut output, context.limits.write_time).await?;
                held.clear();
                match queue.recv().await {
                    Some(answer) => answer,
                    None => break,
                }
            }
        };
        match answer.what {
            What::Produced(mut run) => {
                if !run.is_settled() {
                    // Those that are ready do not wait for it.
                    flush(&mut stream, &mut output, context.limits.write_time).await?;
                    held.clear();
                    run.settle().await;
                }
                run.encode(&mut output, &context.metrics);
            }
            What::Consumed(fetched) => {
                let (start, end) = (fetched.range.start, fetched.range.end);
                let mut encoder = ConsumeEncoder::begin(&mut output, &fetched.bytes, start, end);
                while !encoder.go_on(&mut output, PIECE_BYTES) {
                    flush(&mut stream, &mut output, context.limits.write_time).await?;
                }
            }
            What::Other(response) => wire::put(&mut output, &response),
        }
        held.push(answer.holds);
        if output.len() >= SEND_BYTES {
            flush(&mut stream, &mut output, context.limits.write_time).await?;
            held.clear();
        }
    }
    timeout(context.limits.write_time, stream.shutdown()).await??;
    Ok(())
}

/// Sends `output` and empties it.
async fn flush<S: AsyncWrite>(
    stream: &mut WriteHalf<S>,
    output: &mut Vec<u8>,
    limit: Duration,
) -> io::Result<()> {
    if output.is_empty() {
        return Ok(());
    }
    let sent = async {
        stream.write_all(output).await?;
        stream.flush().await
    };
    let slow =
        |_| io::Error::new(io::ErrorKind::TimedOut, format!("an answer was not taken within {limit:?}"));
    timeout(limit, sent).await.map_err(slow)??;
    output.clear();
    if output.capacity() > 2 * SEND_BYTES {
        *output = Vec::new();
    }
    Ok(())
}
