//! The second loop of a connection: it sends the answers, in order, each as soon as what it says is durable.

use std::io;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::{AsyncWrite, AsyncWriteExt, WriteHalf};
use tokio::time::{Instant, timeout};

use super::alarm::{Alarm, LONGEST};
use super::answer_memory::Reserved;
use super::answers::Answers;
use super::connection::Context;
use super::pace::Pace;
use super::run::{Run, Spare};
use crate::disk::Disk;
use crate::partition::Fetched;
use crate::wire::{self, ConsumeEncoder, proto};

/// Answers are sent when there are this many bytes of them, even where more are ready, and a longer one is sent in such pieces:
/// with megabytes, for which there is fresh memory each time, consuming small records is a tenth slower.
const SEND_BYTES: usize = 128 << 10;

/// Where an answer is taken slowly, its pace is looked at so often.
const LOOK: Duration = Duration::from_secs(1);

/// What is to be answered.
pub(super) enum Answer<D: Disk> {
    /// Consecutive produces.
    Produced(Box<Run<D>>),
    /// A consume, with the room that its records take.
    Consumed(Fetched, Reserved),
    /// The frame of a list, with the room that it takes.
    List(Vec<u8>, Reserved),
    Other(proto::Response),
}

/// Encodes and sends the answers of one connection.
pub(super) struct Sender<'a, S, D: Disk> {
    stream: WriteHalf<S>,
    context: &'a Context<D>,
    answers: &'a Answers<Answer<D>>,
    spare: &'a Spare<D>,
    output: Vec<u8>,
    /// The bytes of the answers in `output`, as they were queued, and the room that they take.
    unsent: (usize, Vec<Reserved>),
    /// How those that take room are taken.
    pace: Option<Pace>,
    alarm: Alarm,
}

impl<'a, S: AsyncWrite, D: Disk> Sender<'a, S, D> {
    pub fn new(
        stream: WriteHalf<S>,
        answers: &'a Answers<Answer<D>>,
        spare: &'a Spare<D>,
        context: &'a Context<D>,
    ) -> Self {
        let (output, unsent) = (Vec::new(), (0, Vec::new()));
        Self { stream, context, answers, spare, output, unsent, pace: None, alarm: Alarm::new() }
    }

    /// Sends answers until there will be no more.
    pub async fn run(&mut self) -> io::Result<()> {
        loop {
            let (answer, bytes) = match self.answers.try_next() {
                Some(next) => next,
                None => {
                    self.flush().await?;
                    match self.answers.next(|| self.output = Vec::new()).await {
                        Some(next) => next,
                        None => break,
                    }
                }
            };
            self.encode(answer).await?;
            self.unsent.0 += bytes;
            if self.output.len() >= SEND_BYTES {
                self.flush().await?;
            }
        }
        timeout(self.context.limits.write_time, self.stream.shutdown()).await??;
        Ok(())
    }

    /// Adds an answer to the output.
    async fn encode(&mut self, answer: Answer<D>) -> io::Result<()> {
        match answer {
            Answer::Produced(mut run) => {
                if !run.is_settled() {
                    // Those that are ready do not wait for it.
                    self.flush().await?;
                    run.settle().await;
                }
                run.encode(&mut self.output, &self.context.metrics);
                self.spare.give(run);
            }
            Answer::Consumed(fetched, room) => {
                self.hold(room, fetched.bytes.len());
                let (start, end) = (fetched.range.start, fetched.range.end);
                let mut encoder = ConsumeEncoder::begin(&mut self.output, &fetched.bytes, start, end);
                while !encoder.go_on(&mut self.output, SEND_BYTES) {
                    self.write().await?;
                }
            }
            Answer::List(frame, room) if room.is_empty() => self.output.extend_from_slice(&frame),
            Answer::List(frame, room) => {
                // It is sent from where it is: a copy would take as much again.
                self.flush().await?;
                self.hold(room, frame.len());
                self.output = frame;
            }
            Answer::Other(response) => wire::put(&mut self.output, &response),
        }
        Ok(())
    }

    /// The answer that comes next takes so much room, and has so many bytes, about.
    fn hold(&mut self, room: Reserved, bytes: usize) {
        if !room.is_empty() {
            self.unsent.1.push(room);
            self.pace.get_or_insert_with(Pace::begin).add(self.output.len() + bytes);
        }
    }

    /// Sends the output, of whole answers.
    async fn flush(&mut self) -> io::Result<()> {
        self.write().await?;
        self.answers.sent(std::mem::take(&mut self.unsent.0));
        self.unsent.1.clear();
        self.pace = None;
        Ok(())
    }

    /// Sends the output, and empties it.
    async fn write(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        // What is taken at once never looks at the clock.
        let taken = self.stream.write(&self.output).now_or_never().transpose()?.unwrap_or(0);
        if let Some(pace) = &mut self.pace {
            pace.took(taken);
        }
        if taken < self.output.len() {
            self.write_slowly(taken).await?;
        }
        let limit = self.context.limits.write_time;
        self.alarm.within(limit, self.stream.flush()).await.ok_or_else(|| slow(limit))??;
        self.output.clear();
        if self.output.capacity() > 2 * SEND_BYTES {
            self.output = Vec::new();
        }
        Ok(())
    }

    /// Sends the rest of the output, as fast as it is taken.
    async fn write_slowly(&mut self, mut taken: usize) -> io::Result<()> {
        let limit = self.context.limits.write_time;
        let deadline = Instant::now() + limit.min(LONGEST);
        while taken < self.output.len() {
            let until = deadline.min(Instant::now() + LOOK);
            let more = match self.alarm.until(until, self.stream.write(&self.output[taken..])).await {
                Some(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Some(written) => written?,
                None if until == deadline => return Err(slow(limit)),
                None => 0,
            };
            taken += more;
            if let Some(pace) = &mut self.pace {
                pace.took(more);
                if pace.is_slow(limit) && self.context.room.is_wanted() {
                    return Err(hinders(limit));
                }
            }
        }
        Ok(())
    }
}

fn slow(limit: Duration) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("an answer was not taken within {limit:?} (write-timeout)"),
    )
}

fn hinders(limit: Duration) -> io::Error {
    let what = format!(
        "a long answer was taken too slowly for {limit:?} (write-timeout), while others waited for the memory it held \
         (max-answer-bytes)"
    );
    io::Error::new(io::ErrorKind::TimedOut, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Arc;

    use tokio::io::AsyncReadExt;
    use tokio_util::sync::CancellationToken;

    use crate::broker::{Broker, World};
    use crate::clock::SystemClock;
    use crate::disk::OsDisk;
    use crate::error::Code;
    use crate::metrics::Metrics;
    use crate::server::Limits;
    use crate::settings::Settings;
    use crate::work::InLine;

    fn context(dir: &Path, limits: Limits) -> Context<OsDisk> {
        let world = World { disk: OsDisk, clock: Arc::new(SystemClock), work: Arc::new(InLine) };
        let (broker, _) = Broker::open(world, dir, Settings::default(), &|_, _, _| {}).expect("it opens");
        Context::new(broker, limits, CancellationToken::new(), Arc::new(Metrics::new()))
    }

    #[tokio::test]
    async fn a_connection_on_which_nothing_comes_keeps_no_output() {
        let dir = tempfile::tempdir().expect("a directory");
        let context = context(dir.path(), Limits::default());
        let (stream, _client) = tokio::io::duplex(1 << 20);
        let (_, write) = tokio::io::split(stream);
        let (answers, spare) = (Answers::new(1 << 20, 10), Spare::default());
        let mut sender = Sender::new(write, &answers, &spare, &context);
        for _ in 0..2 {
            let answer = proto::ErrorResponse::new(Code::InvalidRequest, "long ".repeat(10_000));
            answers.put(Answer::Other(answer.into()), 50_000).await;
            assert!(sender.run().now_or_never().is_none(), "it waits for the next one");
            assert!(answers.all_sent() && sender.output.capacity() >= 50_000, "which may come soon");
            answers.release();
            assert!(sender.run().now_or_never().is_none());
            assert_eq!(sender.output.capacity(), 0);
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_not_taken_yet_has_its_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let context = context(dir.path(), Limits { answer_bytes: 300_000, ..Limits::default() });
        let (stream, mut client) = tokio::io::duplex(1000);
        let (_, write) = tokio::io::split(stream);
        let (answers, spare) = (Answers::new(1 << 20, 10), Spare::default());
        let mut sender = Sender::new(write, &answers, &spare, &context);
        let another = || context.room.wait(200_000).now_or_never();
        let room = another().expect("nobody else has any");
        answers.put(Answer::List(vec![7; 200_000], room), 200_000).await;
        assert!(sender.run().now_or_never().is_none(), "it waits for the client");
        assert!(another().is_none());
        let takes = async { client.read_exact(&mut vec![0; 200_000]).await };
        tokio::select! {
            ended = sender.run() => panic!("more may come: {ended:?}"),
            taken = takes => assert_eq!(taken.expect("it comes"), 200_000),
        }
    }
}
