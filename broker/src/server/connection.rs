//! One connection: a loop that executes (here), a loop that sends (`send`), and a bounded queue between them (`answers`).
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

use prost::{DecodeError, Message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::alarm::Alarm;
use super::answer_memory::Room;
use super::answers::Answers;
use super::execute::{self, Other};
use super::input::Input;
use super::limits::Limits;
use super::request_memory::Pool;
use super::run::{Batches, Run, Spare};
use super::send::{Answer, Sender};
use crate::broker::Broker;
use crate::disk::Disk;
use crate::error::{Code, Error};
use crate::metrics::{Kind, Metrics};
use crate::partition::Partition;
use crate::units::Offset;
use crate::wire::proto::{self, request};
use crate::wire::{self, Frame, PREFIX_BYTES, ProduceFinder};

/// A connection that is silent for this long keeps no memory; one whose request comes slowly is looked at so often.
const SILENCE: Duration = Duration::from_secs(1);

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

/// Serves one connection to its end, and says how it ended.
pub(super) async fn run<S, D>(stream: S, context: &Context<D>) -> String
where
    S: AsyncRead + AsyncWrite + Unpin,
    D: Disk,
{
    let (read, write) = tokio::io::split(stream);
    let (answers, spare) = (Answers::new(context.limits.in_flight_bytes, ANSWERS), Spare::default());
    let mut executor = Executor::new(read, &answers, &spare, context);
    let mut sender = Sender::new(write, &answers, &spare, context);
    match answers.pass(executor.run(), sender.run()).await {
        Ok(End::Closed) => "closed by the client".into(),
        Ok(End::Ended(why)) => {
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

/// Whether nobody knows yet whether what ends there is durable.
fn is_unsettled<D: Disk>((partition, end): &(Partition<D>, Offset)) -> bool {
    matches!(partition.is_committed(*end), Ok(false))
}

/// The first loop.
struct Executor<'a, S, D: Disk> {
    stream: ReadHalf<S>,
    context: &'a Context<D>,
    input: Input,
    /// Finds produces in `input`.
    find: ProduceFinder,
    /// The produces that are being gathered.
    run: Box<Run<D>>,
    batches: Batches,
    spare: &'a Spare<D>,
    answers: &'a Answers<Answer<D>>,
    alarm: Alarm,
    /// What was appended and was not durable at once.
    unsettled: Vec<(Partition<D>, Offset)>,
}

impl<'a, S: AsyncRead, D: Disk> Executor<'a, S, D> {
    fn new(
        stream: ReadHalf<S>,
        answers: &'a Answers<Answer<D>>,
        spare: &'a Spare<D>,
        context: &'a Context<D>,
    ) -> Self {
        Self {
            stream,
            context,
            input: Input::new(context.limits.frame_bytes),
            find: ProduceFinder::default(),
            run: Box::default(),
            batches: Batches::default(),
            spare,
            answers,
            alarm: Alarm::new(),
            unsettled: Vec::new(),
        }
    }

    /// Executes until there is nothing more to execute.
    async fn run(&mut self) -> io::Result<End> {
        let context = self.context;
        let mut stopped = pin!(context.stop.cancelled());
        loop {
            if let Some(end) = self.execute_all().await {
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
                    // Time in which nothing was taken of the client is not the client's; but from now on it holds what others may
                    // wait for.
                    begun += asked.elapsed();
                    (look, seen) = (Instant::now() + SILENCE, self.input.received().len());
                }
                let deadline = begun + allowed;
                let until = deadline.min(look);
                let read = self.alarm.until(until, self.input.read(&mut self.stream));
                let read = tokio::select! {
                    biased;
                    () = &mut stopped => return self.stop().await,
                    read = read => read,
                };
                match read {
                    Some(Ok(0)) => return self.end_of_stream().await,
                    Some(Ok(_)) if self.input.has_whole_frame() => break,
                    // A frame that has begun has its own time.
                    Some(Ok(_)) if between => break,
                    Some(Ok(_)) => {}
                    Some(Err(e)) => return Err(e),
                    None if until < deadline => {
                        if context.pool.is_wanted() && self.input.is_slow(seen, SILENCE, allowed) {
                            return self.hinders(begun.elapsed()).await;
                        }
                        seen = self.input.received().len();
                        self.release();
                        // What is under way now is to be given back, too.
                        let all =
                            self.unsettled.is_empty() && self.answers.all_sent() && !self.input.is_charged();
                        look = if all { deadline } else { Instant::now() + SILENCE };
                    }
                    None if between && !self.answers.all_sent() => break,
                    None => return self.timed_out(between).await,
                }
            }
        }
    }

    /// Gives back the memory of a connection that says nothing.
    fn release(&mut self) {
        self.input.fit();
        self.batches = Batches::default();
        self.find = ProduceFinder::default();
        // What was gathered has been appended.
        *self.run = Run::default();
        self.spare.take();
        self.answers.release();
        // Partitions, which may have been deleted and have files open.
        self.unsettled.retain(is_unsettled);
        self.unsettled.shrink_to_fit();
    }

    /// Executes the whole frames that are there.
    async fn execute_all(&mut self) -> Option<End> {
        let end = loop {
            let len = match self.input.frame() {
                Frame::Whole(len) => len,
                Frame::Partial(_) => break None,
                Frame::TooLarge(len) => {
                    let limit = self.context.limits.frame_bytes;
                    let what =
                        format!("a message of {len} bytes is over the limit of {limit} (max-frame-bytes)");
                    break Some(self.end(Code::FrameTooLarge, what).await);
                }
            };
            self.execute(len).await;
        };
        self.finish_run().await;
        end
    }

    /// Executes the frame at the start of the input, or adds it to the run.
    async fn execute(&mut self, len: usize) {
        let message = PREFIX_BYTES..PREFIX_BYTES + len;
        let max = self.context.limits.request_records;
        if self.find.find(&self.input.received()[message.clone()], max) {
            if !self.run.takes(self.find.topic(&self.input.received()[message.clone()])) {
                self.finish_run().await;
            }
            let bytes = &self.input.received()[message];
            let records = self.find.records(bytes);
            let (topic, partition) = (self.find.topic(bytes), self.find.partition());
            self.run.add(&self.context.broker, &mut self.batches, topic, partition, records);
            self.input.advance(PREFIX_BYTES + len);
            return;
        }
        if wire::count_records(&self.input.received()[message.clone()], max) > max {
            let what = format!("a request has at most {max} records (max-request-records)");
            self.run.refuse(&Error::InvalidRequest { what });
            self.input.advance(PREFIX_BYTES + len);
            return;
        }
        let request = proto::Request::decode(&self.input.received()[message]);
        self.input.advance(PREFIX_BYTES + len);
        self.execute_decoded(request).await;
    }

    async fn execute_decoded(&mut self, request: Result<proto::Request, DecodeError>) {
        match request {
            Ok(proto::Request { kind: Some(request::Kind::Produce(produce)) }) => {
                if !self.run.takes(&produce.topic) {
                    self.finish_run().await;
                }
                let records = produce.records.iter().map(|r| (r.key.as_deref(), &r.value[..]));
                let (topic, partition) = (&produce.topic, produce.partition);
                self.run.add(&self.context.broker, &mut self.batches, topic, partition, records);
            }
            Ok(proto::Request { kind: Some(kind) }) => self.execute_other(kind).await,
            Ok(proto::Request { kind: None }) => {
                self.context.metrics.requests(Kind::unknown, 1);
                let what = "the request is of no kind that this server knows: produce, consume, create_topic, \
                            delete_topic, list_topics, list_partitions, list_offsets";
                self.answer_error(Code::InvalidRequest, what).await;
            }
            Err(e) => {
                self.context.metrics.requests(Kind::unknown, 1);
                let what = format!("the message is not a Request of broker.v1: {e}");
                self.answer_error(Code::InvalidRequest, &what).await;
            }
        }
    }

    /// Executes a request other than a produce, after all that came before.
    async fn execute_other(&mut self, kind: request::Kind) {
        self.finish_run().await;
        // It may have to wait: for new records, or for room for its answer.
        self.input.fit();
        for (partition, end) in self.unsettled.drain(..) {
            // Its own answer says whether it is durable; this one only waits until that is settled.
            let _ = partition.committed(end).await;
        }
        // A pipeline of requests that never have to wait leaves others their turn.
        tokio::task::coop::consume_budget().await;
        // While it waits, it holds nothing that others wait for: where much has come behind it, it does not.
        let charged = self.input.is_charged();
        let unwaited = async {
            if !charged {
                self.input.end(&mut self.stream).await;
            }
        };
        match execute::other(kind, self.context, self.answers, unwaited).await {
            Other::Consumed(fetched, room) => {
                let bytes = fetched.bytes.len();
                self.answers.put(Answer::Consumed(fetched, room), bytes).await;
            }
            Other::List(frame, room) => {
                let bytes = frame.len();
                self.answers.put(Answer::List(frame, room), bytes).await;
            }
            Other::Response(response) => self.answer(response).await,
        }
    }

    /// Appends the produces that were gathered, and queues their answers.
    async fn finish_run(&mut self) {
        if self.run.is_empty() {
            self.input.settle(&self.context.pool, SILENCE);
            return;
        }
        let mut run = std::mem::replace(&mut self.run, self.spare.take());
        run.append(&mut self.batches, &self.context.metrics).await;
        // Not before: an append may wait. And not later: so may the answer.
        self.input.settle(&self.context.pool, SILENCE);
        self.unsettled.retain(is_unsettled);
        self.unsettled.extend(run.unsettled());
        let bytes = run.answer_bytes();
        self.answers.put(Answer::Produced(run), bytes).await;
    }

    async fn answer_error(&mut self, code: Code, message: &str) {
        self.finish_run().await;
        self.context.metrics.error(code);
        self.answer(proto::ErrorResponse::new(code, message).into()).await;
    }

    /// Queues an answer, when there is room for it.
    async fn answer(&mut self, response: proto::Response) {
        let bytes = response.encoded_len();
        self.answers.put(Answer::Other(response), bytes).await;
    }

    /// The server is stopping: finishes what has been received.
    async fn stop(&mut self) -> io::Result<End> {
        let mut received = 0;
        while received < self.context.limits.in_flight_bytes {
            let read = poll_fn(|cx| match pin!(self.input.read(&mut self.stream)).poll(cx) {
                Poll::Ready(read) => Poll::Ready(Some(read)),
                Poll::Pending => Poll::Ready(None),
            });
            match read.await {
                Some(Ok(n)) if n > 0 => received += n,
                _ => break,
            }
        }
        if let Some(end) = self.execute_all().await {
            return Ok(end);
        }
        if !self.input.is_empty() {
            let what = "the server is stopping, and a request had not come whole; nothing of it was done";
            self.end(Code::ShuttingDown, what.into()).await;
        }
        Ok(End::Ended("the server is stopping".into()))
    }

    async fn end_of_stream(&mut self) -> io::Result<End> {
        if self.input.is_empty() {
            // Answers may be to come yet.
            self.input = Input::new(self.context.limits.frame_bytes);
            return Ok(End::Closed);
        }
        let what =
            format!("the stream ended within a message, after {} bytes of it", self.input.received().len());
        Ok(self.end(Code::InvalidRequest, what).await)
    }

    async fn timed_out(&mut self, idle: bool) -> io::Result<End> {
        let limits = &self.context.limits;
        let what = if idle {
            format!("the connection was idle for {:?} (idle-timeout)", limits.idle)
        } else {
            format!("a message was not whole {:?} after its beginning (frame-timeout)", limits.frame_time)
        };
        Ok(self.end(Code::Timeout, what).await)
    }

    /// Ends a connection whose slow message takes up memory that others wait for.
    async fn hinders(&mut self, after: Duration) -> io::Result<End> {
        let what = format!(
            "{} bytes of a long message had come after {after:.1?}, too slowly to be whole within {:?} (frame-timeout), \
             while others waited for the memory it held (max-buffer-bytes)",
            self.input.received().len(),
            self.context.limits.frame_time
        );
        Ok(self.end(Code::Timeout, what).await)
    }

    /// Tells the client why the server ends the connection. What has come of a request goes now, however long it takes to tell.
    async fn end(&mut self, code: Code, what: String) -> End {
        // Not before what was gathered is in the log.
        self.finish_run().await;
        self.input = Input::new(self.context.limits.frame_bytes);
        self.answer_error(code, &what).await;
        End::Ended(what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::request_memory::Share;
    use super::*;
    use std::path::Path;

    use futures_util::FutureExt;
    use tokio::io::{AsyncWriteExt, DuplexStream};
    use tokio::time::sleep;

    use crate::broker::World;
    use crate::clock::SystemClock;
    use crate::disk::OsDisk;
    use crate::settings::{Durability, Settings, TopicSettings};
    use crate::work::InLine;

    fn context(dir: &Path, limits: Limits, durability: Durability) -> Context<OsDisk> {
        let world = World { disk: OsDisk, clock: Arc::new(SystemClock), work: Arc::new(InLine) };
        let settings = Settings { durability, ..Settings::default() };
        let (broker, _) = Broker::open(world, dir, settings, &|_, _, _| {}).expect("it opens");
        Context::new(broker, limits, CancellationToken::new(), Arc::new(Metrics::new()))
    }

    /// A server with memory for one long request at a time, and a connection over which the beginning of one has come.
    async fn long_request_begun(dir: &Path) -> (Context<OsDisk>, DuplexStream, DuplexStream) {
        let limits = Limits { frame_bytes: 1 << 20, buffer_bytes: 0, ..Limits::default() };
        let (mut client, stream) = tokio::io::duplex(1 << 20);
        let request = [&(1u32 << 20).to_be_bytes()[..], &[7; 100_000]].concat();
        client.write_all(&request).await.expect("it is taken");
        (context(dir, limits, Durability::Os), client, stream)
    }

    /// A client that never stops would make the list of what is not durable yet grow for ever.
    #[tokio::test]
    async fn what_is_durable_by_now_is_not_kept_in_mind() {
        let dir = tempfile::tempdir().expect("a directory");
        let context = context(dir.path(), Limits::default(), Durability::Always);
        context.broker.create_topic("t", TopicSettings::with_partitions(1)).await.expect("it is made");
        let (mut client, stream) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(stream);
        let (answers, spare) = (Answers::new(1 << 20, ANSWERS), Spare::default());
        let mut executor = Executor::new(read, &answers, &spare, &context);
        let mut sender = Sender::new(write, &answers, &spare, &context);
        let produces = async {
            for _ in 0..20 {
                let mut request = Vec::new();
                wire::encode_produce(&mut request, "t", None, [(None, &b"v"[..])].into_iter());
                client.write_all(&request).await.expect("it is taken");
                let len = client.read_u32().await.expect("an answer");
                client.read_exact(&mut vec![0; len as usize]).await.expect("all of it");
            }
        };
        tokio::select! {
            _ = answers.pass(executor.run(), sender.run()) => panic!("the client goes on"),
            () = produces => {}
        }
        assert!(executor.unsettled.len() <= 1, "{} appends", executor.unsettled.len());
    }

    /// Of a long request, the connection that leads gives way at once: telling its client may take long.
    #[tokio::test(start_paused = true)]
    async fn who_hinders_others_holds_nothing_while_it_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let (context, _client, stream) = long_request_begun(dir.path()).await;
        let (read, _write) = tokio::io::split(stream);
        let (answers, spare) = (Answers::new(1 << 20, ANSWERS), Spare::default());
        let mut executor = Executor::new(read, &answers, &spare, &context);
        let mut other = Share::default();
        let mut waits = pin!(async {
            sleep(SILENCE / 2).await;
            context.pool.grow(&mut other, 100_000, 100_000).await;
        });
        let ended = tokio::select! {
            ended = executor.run() => ended,
            () = &mut waits => panic!("there is room for one"),
        };
        assert!(matches!(ended, Ok(End::Ended(why)) if why.contains("others waited")));
        assert!(waits.now_or_never().is_some());
    }

    /// Nor does any other whose connection ends, however long its client takes to hear of it.
    #[tokio::test(start_paused = true)]
    async fn who_has_ended_holds_nothing_while_it_is_told() {
        for (how, expected) in
            [("silent", "frame-timeout"), ("gone", "the stream ended"), ("stop", "stopping")]
        {
            let dir = tempfile::tempdir().expect("a directory");
            let (context, mut client, stream) = long_request_begun(dir.path()).await;
            let (read, _write) = tokio::io::split(stream);
            let (answers, spare) = (Answers::new(1 << 20, ANSWERS), Spare::default());
            let mut executor = Executor::new(read, &answers, &spare, &context);
            {
                let mut run = pin!(executor.run());
                assert!(run.as_mut().now_or_never().is_none());
                match how {
                    "gone" => client.shutdown().await.expect("it can be"),
                    "stop" => context.stop.cancel(),
                    _ => {}
                }
                let ended = run.await;
                assert!(matches!(ended, Ok(End::Ended(why)) if why.contains(expected)), "{how}");
            }
            let grows = context.pool.grow(&mut Share::default(), 100_000, 100_000).now_or_never();
            assert!(grows.is_some(), "{how}: it holds the lead still");
        }
    }
}
