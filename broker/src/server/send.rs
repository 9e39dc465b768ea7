//! The second loop of a connection: it sends the answers, in order, each as soon as what it says is durable.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt, WriteHalf};
use tokio::time::timeout;

use super::alarm::Alarm;
use super::answers::Answers;
use super::connection::Context;
use super::room::Reserved;
use super::run::{Run, Spare};
use crate::disk::Disk;
use crate::partition::Fetched;
use crate::wire::{self, ConsumeEncoder, proto};

/// Answers are sent when there are this many bytes of them, even where more are ready, and a longer one is sent in such pieces:
/// with megabytes, for which there is fresh memory each time, consuming small records is a tenth slower.
const SEND_BYTES: usize = 128 << 10;

/// What is to be answered.
pub(super) enum Answer<D: Disk> {
    /// Consecutive produces.
    Produced(Box<Run<D>>),
    /// A consume, with the room that its records take.
    Consumed(Fetched, Reserved),
    /// The frame of another long answer, with the room that it takes.
    Long(Vec<u8>, Reserved),
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
        Self { stream, context, answers, spare, output, unsent, alarm: Alarm::new() }
    }

    /// Sends answers until there will be no more.
    pub async fn run(&mut self) -> io::Result<()> {
        loop {
            let (answer, bytes) = match self.answers.try_next() {
                Some(next) => next,
                None => {
                    self.flush().await?;
                    match self.answers.next().await {
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
                self.unsent.1.push(room);
                let (start, end) = (fetched.range.start, fetched.range.end);
                let mut encoder = ConsumeEncoder::begin(&mut self.output, &fetched.bytes, start, end);
                while !encoder.go_on(&mut self.output, SEND_BYTES) {
                    self.write().await?;
                }
            }
            Answer::Long(frame, room) => {
                // It is sent from where it is: a copy would take as much again.
                self.flush().await?;
                self.unsent.1.push(room);
                self.output = frame;
            }
            Answer::Other(response) => wire::put(&mut self.output, &response),
        }
        Ok(())
    }

    /// Sends the output, of whole answers.
    async fn flush(&mut self) -> io::Result<()> {
        self.write().await?;
        self.answers.sent(std::mem::take(&mut self.unsent.0));
        self.unsent.1.clear();
        Ok(())
    }

    /// Sends the output, and empties it.
    async fn write(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let sent = async {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await
        };
        let limit = self.context.limits.write_time;
        let slow =
            || io::Error::new(io::ErrorKind::TimedOut, format!("an answer was not taken within {limit:?}"));
        self.alarm.within(limit, sent).await.ok_or_else(slow)??;
        self.output.clear();
        if self.output.capacity() > 2 * SEND_BYTES {
            self.output = Vec::new();
        }
        Ok(())
    }
}
