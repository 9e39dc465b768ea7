//! The lines of standard input on their way to the server.
//!
//! Several requests are under way at once. Where one is refused, or the input ends in a line that makes no record, no more
//! are sent, and those under way are waited for: only then is it known of each line what became of it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal};

use broker::client::{Connection, Failure, Outcome, Placed, Produced, Refusal};
use broker::error::Code;
use broker::units::Offset;
use rustix::process::Signal;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::input::{BadInput, Batch, Line, read_lines};
use super::lines::LineSet;
use super::resume::{self, LookUp};
use super::tally::Tally;
use super::{Args, connect};
use crate::cli::output::say;
use crate::cli::quantity::count;
use crate::cli::signals::Signals;
use crate::cli::{Stop, acknowledged, is_away};

/// No more is taken of the input while so much waits to be sent: lines can be long, and a server slow.
const UNSENT_BYTES: usize = 16 << 20;

/// Appends all lines of standard input.
pub async fn run(args: &Args) -> Result<(), Stop> {
    let what = format!("cannot produce to {:?}", args.topic);
    let partitions = acknowledged(&what, args.server.client().partitions(&args.topic).await)?;
    if io::stdin().is_terminal() {
        say(format_args!("each line is a record; end with Ctrl-D"));
    }
    let signals = Signals::listen().map_err(|e| format!("cannot wait for signals: {e}"))?;
    let input = read_lines(args).map_err(|e| format!("cannot start a thread that reads the input: {e}"))?;
    let pipeline = Pipeline {
        args,
        signals,
        asked_to_end: None,
        input,
        no_more: false,
        connection: connect(&args.server).await?,
        sent: VecDeque::new(),
        again: VecDeque::new(),
        away: None,
        tally: Tally::new(args.skip.clone()),
        ends: partitions.into_iter().map(|p| (p.number, p.log_end)).collect(),
        lost_since: None,
    };
    pipeline.run().await
}

/// The lines on their way.
struct Pipeline<'a> {
    args: &'a Args,
    signals: Signals,
    /// By which signal: then what is under way is waited for, and no more.
    asked_to_end: Option<Signal>,
    input: mpsc::Receiver<Result<Batch, BadInput>>,
    /// Nothing more is taken of the input.
    no_more: bool,
    connection: Connection<TcpStream>,
    /// What was sent and not answered, in the order in which it was.
    sent: VecDeque<Batch>,
    /// What was not done because the server is away, and is to be sent again.
    again: VecDeque<Batch>,
    /// The server has said so: when all answers have come, the connection is of no more use.
    away: Option<String>,
    tally: Tally,
    /// Where each partition ends, by what was acknowledged: what lies behind is new.
    ends: BTreeMap<u32, Offset>,
    /// Since when the connection has been lost without a line acknowledged.
    lost_since: Option<Instant>,
}

impl Pipeline<'_> {
    async fn run(mut self) -> Result<(), Stop> {
        while !self.is_done() {
            if self.sent.is_empty()
                && let Some(why) = self.away.take()
            {
                self.resume(&why).await?;
                continue;
            }
            let room = self.sent.len() < self.args.in_flight as usize
                && self.connection.unsent() < UNSENT_BYTES
                && self.away.is_none();
            tokio::select! {
                biased;
                signal = self.signals.next() => self.ends_by(signal)?,
                read = self.input.recv(), if room && !self.no_more => self.take(read),
                answer = timeout(self.args.server.timeout, self.connection.receive_produced()), if !self.sent.is_empty() => {
                    let answer = match answer {
                        Ok(answer) => answer,
                        Err(_) => self.wait_on().await?,
                    };
                    self.answer(answer).await?;
                }
            }
        }
        if self.tally.is_troubled() {
            return Err(self.end());
        }
        say(format_args!("{} acknowledged", count(self.tally.stored(), "line")));
        Ok(())
    }

    /// Whether there is nothing more to do. In trouble, nothing is sent again.
    fn is_done(&self) -> bool {
        let done = self.tally.is_troubled() || self.again.is_empty() && self.away.is_none();
        done && self.no_more && self.sent.is_empty()
    }

    /// Somebody wants it to end, or cannot even wait for what is under way.
    fn ends_by(&mut self, signal: Signal) -> Result<(), Stop> {
        if self.asked_to_end.replace(signal).is_some() {
            return Err(self.give_up("not waited for"));
        }
        self.tally.add_end(&ended_by(signal));
        self.no_more = true;
        Ok(())
    }

    /// Takes what came of the input.
    fn take(&mut self, read: Option<Result<Batch, BadInput>>) {
        match read {
            Some(Ok(batch)) => self.send(batch),
            Some(Err(bad)) => {
                self.tally.add_end(&bad.why);
                bad.line.into_iter().for_each(|line| self.tally.blame(line));
                self.no_more = true;
            }
            None => self.no_more = true,
        }
    }

    fn send(&mut self, batch: Batch) {
        if self.sent.is_empty() && !self.connection.is_fresh() {
            // Closed while there was nothing to send: so nobody has these lines.
            let said = self.connection.try_receive().ok().flatten().map(Outcome::of);
            self.away = Some(match said {
                Some(Outcome::Refused(refusal)) => refusal.message,
                _ => "the server closed it".into(),
            });
            self.again.push_back(batch);
            return;
        }
        let records = batch.iter().map(|line| (line.record.key.as_deref(), &line.record.value[..]));
        self.connection.send_produce(&self.args.topic, self.args.partition, records);
        batch.back().into_iter().for_each(|last| self.tally.add_sent(last.number));
        self.sent.push_back(batch);
    }

    /// The server is silent, and may yet store what it has received: to send that again elsewhere could store it twice.
    async fn wait_on(&mut self) -> Result<io::Result<Produced>, Stop> {
        let (limit, retry) = (self.args.server.timeout, self.args.retry);
        say(format_args!(
            "no answer within {limit:?}; waiting {retry:?} more, since the server may still store the lines"
        ));
        tokio::select! {
            biased;
            signal = self.signals.next() => Err(self.gives_up_for(signal)),
            answer = timeout(retry, self.connection.receive_produced()) => match answer {
                Ok(answer) => Ok(answer),
                Err(_) => Err(self.give_up(&format!("no answer within {:?}", limit.saturating_add(retry)))),
            }
        }
    }

    /// Takes what came instead of, or as, the answer to the oldest lines.
    async fn answer(&mut self, answer: io::Result<Produced>) -> Result<(), Stop> {
        match answer {
            Ok(answer) => {
                self.answered(answer);
                Ok(())
            }
            // It goes on behind what cannot be understood, and what it does is not known.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                Err(self.give_up(&format!("an answer cannot be understood: {e}")))
            }
            Err(e) => {
                let why = self.away.take().unwrap_or_else(|| e.to_string());
                self.resume(&why).await
            }
        }
    }

    fn answered(&mut self, answer: Produced) {
        let batch = self.sent.pop_front().unwrap_or_default();
        let outcomes = answer.outcomes(batch.len());
        let (mut away, mut refused, mut unknown) = (Batch::new(), Batch::new(), Batch::new());
        let (mut refusals, mut reason) = ([None, None], None);
        for (line, outcome) in batch.into_iter().zip(outcomes) {
            match outcome.into_result() {
                Ok(placed) => self.stored(line.number, placed),
                Err(Failure::Refused(refusal)) if is_away(refusal.code) => {
                    away.push_back(line);
                    refusals[0] = Some(refusal);
                }
                Err(Failure::Refused(refusal)) => {
                    refused.push_back(line);
                    refusals[1].get_or_insert(refusal);
                }
                Err(Failure::Unknown(doubt)) => {
                    unknown.push_back(line);
                    reason.get_or_insert(doubt.why);
                }
            }
        }
        if let Some(reason) = reason {
            self.tally.add_unknown(&numbers(&unknown), &reason);
            self.no_more = true;
        }
        let [is_away, is_refused] = refusals;
        if let Some(refusal) = is_refused {
            self.refused(&refused, &refusal);
        }
        if let Some(refusal) = is_away {
            self.again.push_back(away);
            self.away(&refusal);
        }
    }

    fn stored(&mut self, line: u64, Placed { partition, offset }: Placed) {
        self.tally.add_stored(line);
        let end = self.ends.entry(partition).or_default();
        *end = (*end).max(offset.next());
        self.lost_since = None;
    }

    /// These are not stored, and will not be by sending them again as they are, nor are any behind them sent.
    fn refused(&mut self, lines: &Batch, refusal: &Refusal) {
        self.no_more = true;
        let mut why = refusal.message.clone();
        let longest = lines.iter().max_by_key(|line| line.bytes()).map_or(0, |line| line.number);
        match refusal.code {
            Code::RecordTooLarge => {
                if lines.len() > 1 {
                    why += &format!("; the longest of them is line {longest}");
                }
                self.tally.blame(longest);
            }
            Code::FrameTooLarge if lines.len() == 1 => self.tally.blame(longest),
            Code::FrameTooLarge | Code::InvalidRequest if lines.len() > 1 => {
                why += "; a smaller --batch makes smaller requests";
            }
            _ => {}
        }
        self.tally.add_refused(&numbers(lines), &why);
        if ends_connection(refusal.code) {
            self.away(refusal);
        }
    }

    /// The server has ended this connection, or is stopping.
    fn away(&mut self, refusal: &Refusal) {
        if ends_connection(refusal.code) {
            self.again.append(&mut self.sent);
        }
        self.away = Some(refusal.message.clone());
    }

    /// The connection was lost: looks up what was stored, and sends the rest again.
    async fn resume(&mut self, lost: &str) -> Result<(), Stop> {
        if self.lost_since.is_some() {
            // Again, and nothing came of it.
            sleep(resume::PAUSE).await;
        }
        let since = *self.lost_since.get_or_insert_with(Instant::now);
        let patience = self.args.retry.saturating_sub(since.elapsed());
        let lines = |batches: &VecDeque<Batch>| batches.iter().map(Batch::len).sum::<usize>();
        let unknown = lines(&self.sent);
        say(format_args!(
            "the connection was lost ({lost}) with {} acknowledged, {unknown} in flight and {} to be sent; \
             trying to reconnect for {:?}",
            count(self.tally.stored(), "line"),
            lines(&self.again),
            self.args.retry
        ));
        let mut look_up = LookUp::new(self.args, &mut self.sent, &mut self.ends);
        let resumed = tokio::select! {
            biased;
            signal = self.signals.next() => Err(Given::UpFor(signal)),
            resumed = look_up.run(patience, lost) => resumed.map_err(Given::Up),
        };
        let (found, waited) = (look_up.found, look_up.waited);
        found.iter().for_each(|&line| self.tally.add_stored(line));
        self.connection = match resumed {
            Ok(connection) => connection,
            Err(Given::Up(why)) => return Err(self.give_up(&why)),
            Err(Given::UpFor(signal)) => return Err(self.gives_up_for(signal)),
        };
        match unknown {
            0 => say(format_args!("reconnected")),
            _ => say(format_args!(
                "reconnected: of the lines in flight, {} of {unknown} are in the log",
                found.len()
            )),
        }
        self.lost_since = match found.is_empty() {
            true => Some(since + waited),
            false => None,
        };
        // A server that ends first said which lines it has not taken, and then was lost with those behind them.
        let mut rest = std::mem::take(&mut self.again);
        rest.append(&mut self.sent);
        match self.tally.is_troubled() {
            true => self.again = rest,
            false => rest.into_iter().filter(|batch| !batch.is_empty()).for_each(|batch| self.send(batch)),
        }
        Ok(())
    }

    /// Ends because somebody wants it to, without waiting for a server that is away or silent.
    fn gives_up_for(&mut self, signal: Signal) -> Stop {
        self.asked_to_end = Some(signal);
        self.give_up(&ended_by(signal))
    }

    /// Ends without an answer to what was sent.
    fn give_up(&mut self, why: &str) -> Stop {
        let unknown = std::mem::take(&mut self.sent);
        match unknown.iter().all(Batch::is_empty) {
            true => self.tally.add_end(why),
            false => self.tally.add_unknown(&unknown.iter().flatten().map(|line| line.number).collect(), why),
        }
        self.end()
    }

    /// Says what is known of each line.
    fn end(&mut self) -> Stop {
        let again = std::mem::take(&mut self.again);
        // Among what was to be sent again is what had come to a closed connection, and was never sent.
        let was_sent = |line: &u64| self.tally.was_sent(*line);
        let absent = again.iter().flatten().map(|line| line.number).filter(was_sent).collect();
        self.tally.add_absent(&absent);
        match self.asked_to_end {
            None => Stop::Because(self.tally.report()),
            Some(signal) => {
                say(format_args!("{}", self.tally.report()));
                Stop::Signal(signal)
            }
        }
    }
}

/// Why nobody goes on looking for a server.
enum Given {
    Up(String),
    UpFor(Signal),
}

fn ended_by(signal: Signal) -> String {
    match signal {
        Signal::INT => "ended by SIGINT".into(),
        _ => "ended by SIGTERM".into(),
    }
}

fn numbers(lines: &Batch) -> LineSet {
    lines.iter().map(|line: &Line| line.number).collect()
}

/// Whether a server that refuses with this code closes the connection, and does nothing of what follows on it.
fn ends_connection(code: Code) -> bool {
    matches!(code, Code::FrameTooLarge | Code::Timeout | Code::TooManyConnections)
}
