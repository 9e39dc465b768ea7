//! The answers of one connection, on their way from the loop that executes to the loop that sends.
//!
//! Both loops are one task, and [`Answers::pass`] polls the second whenever it has polled the first. So neither has to
//! wake the other, which would be as dear as the rest of a short request.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;

use futures_util::future::try_join;

/// A queue that is bounded by bytes and by number.
pub(super) struct Answers<T> {
    bytes: usize,
    number: usize,
    state: Mutex<State<T>>,
}

struct State<T> {
    queue: VecDeque<(T, usize)>,
    /// Those in the queue, and those that were taken out of it and have not been sent.
    bytes: usize,
    /// What the first loop waits for room for; 0 when it does not.
    wanted: usize,
    /// Whether nothing more will come.
    ended: bool,
    /// Whether the second loop is to give back the memory that it keeps.
    release: bool,
}

impl<T> Answers<T> {
    /// For `number` answers of `bytes` in all; one that is longer counts as so many.
    pub fn new(bytes: usize, number: usize) -> Self {
        let state = State { queue: VecDeque::new(), bytes: 0, wanted: 0, ended: false, release: false };
        Self { bytes: bytes.max(1), number, state: Mutex::new(state) }
    }

    /// Runs the two loops that have these answers between them to their ends. The first one's end is told; an error of
    /// either ends both.
    pub async fn pass<E>(
        &self,
        execute: impl Future<Output = io::Result<E>>,
        send: impl Future<Output = io::Result<()>>,
    ) -> io::Result<E> {
        let execute = async {
            let end = execute.await;
            self.state().ended = true;
            end
        };
        // In this order, so that what the first has just executed the second sends at once.
        let mut both = pin!(try_join(execute, send));
        let (end, ()) = poll_fn(|cx| {
            loop {
                match both.as_mut().poll(cx) {
                    Poll::Pending if self.has_new_room() => {}
                    polled => return polled,
                }
            }
        })
        .await?;
        Ok(end)
    }

    /// Queues an answer when there is room for it.
    pub async fn put(&self, answer: T, bytes: usize) {
        let bytes = bytes.clamp(1, self.bytes);
        self.room_for(bytes).await;
        let mut state = self.state();
        state.bytes += bytes;
        state.queue.push_back((answer, bytes));
    }

    /// Waits until all have been sent.
    pub async fn until_all_sent(&self) {
        self.room_for(self.bytes).await;
    }

    /// Waits for room for so many bytes.
    async fn room_for(&self, bytes: usize) {
        poll_fn(|_| {
            let mut state = self.state();
            state.wanted = bytes;
            if !self.has_room(&state) {
                return Poll::Pending;
            }
            state.wanted = 0;
            Poll::Ready(())
        })
        .await;
    }

    /// The next one, if there is one, and its bytes: for [`Answers::sent`].
    pub fn try_next(&self) -> Option<(T, usize)> {
        self.state().queue.pop_front()
    }

    /// The next one. `None`: there will be no more. `release` is called where memory is to be given back meanwhile.
    pub async fn next(&self, mut release: impl FnMut()) -> Option<(T, usize)> {
        poll_fn(|_| {
            let mut state = self.state();
            if std::mem::take(&mut state.release) {
                release();
            }
            match state.queue.pop_front() {
                None if !state.ended => Poll::Pending,
                next => Poll::Ready(next),
            }
        })
        .await
    }

    /// Gives back the memory of a connection on which nothing comes.
    pub fn release(&self) {
        let mut state = self.state();
        state.queue.shrink_to_fit();
        state.release = true;
    }

    /// So many bytes of answers have been sent.
    pub fn sent(&self, bytes: usize) {
        self.state().bytes -= bytes;
    }

    /// Whether all have been sent.
    pub fn all_sent(&self) -> bool {
        self.state().bytes == 0
    }

    /// Whether there is room for what is wanted.
    fn has_room(&self, state: &State<T>) -> bool {
        state.bytes + state.wanted <= self.bytes && state.queue.len() < self.number
    }

    /// Whether the first loop can go on because the second has sent something.
    fn has_new_room(&self) -> bool {
        let state = self.state();
        state.wanted > 0 && self.has_room(&state)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    /// What the second loop takes when the first puts answers of these bytes.
    fn pass(answers: &Answers<usize>, bytes: &[usize]) -> Vec<usize> {
        let mut taken = Vec::new();
        let execute = async {
            for (nth, &bytes) in bytes.iter().enumerate() {
                answers.put(nth, bytes).await;
            }
            Ok("the end")
        };
        let send = async {
            let mut unsent = Vec::new();
            while let Some((nth, bytes)) = answers.next(|| ()).await {
                taken.push(nth);
                unsent.push(bytes);
                if answers.state().queue.is_empty() {
                    unsent.drain(..).for_each(|bytes| answers.sent(bytes));
                }
            }
            Ok(())
        };
        assert_eq!(answers.pass(execute, send).now_or_never().expect("nobody waits").unwrap(), "the end");
        taken
    }

    #[test]
    fn all_come_through_in_order_and_none_has_to_be_woken() {
        for (bytes, number) in [(1000, 100), (1000, 1), (10, 100), (1, 1), (0, 1)] {
            let answers = Answers::new(bytes, number);
            assert_eq!(pass(&answers, &[3, 0, 8, 8, 2000, 1, 1, 9]), (0..8).collect::<Vec<_>>());
            assert!(answers.all_sent());
        }
    }

    #[test]
    fn what_is_over_a_bound_waits_for_what_is_before_it_to_be_sent() {
        let answers = Answers::new(10, 3);
        for nth in 0..2 {
            answers.put(nth, 5).now_or_never().expect("there is room");
        }
        assert!(answers.put(2, 1).now_or_never().is_none(), "ten bytes are under way");
        let (_, bytes) = answers.try_next().expect("there are two");
        assert!(answers.put(2, 1).now_or_never().is_none(), "taken is not sent");
        answers.sent(bytes);
        for nth in 2..4 {
            answers.put(nth, 1).now_or_never().expect("there is room");
        }
        assert!(answers.put(4, 1).now_or_never().is_none(), "three wait");
    }

    #[test]
    fn all_are_sent_when_none_is_under_way() {
        let answers = Answers::new(10, 3);
        answers.until_all_sent().now_or_never().expect("there is none");
        answers.put(0, 1).now_or_never().expect("there is room");
        assert!(answers.until_all_sent().now_or_never().is_none());
        let (_, bytes) = answers.try_next().expect("there is one");
        assert!(answers.until_all_sent().now_or_never().is_none(), "taken is not sent");
        answers.sent(bytes);
        answers.until_all_sent().now_or_never().expect("it is sent");
    }

    #[test]
    fn an_error_of_either_ends_both() {
        let answers = Answers::<()>::new(10, 3);
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let waits = std::future::pending::<io::Result<()>>;
        assert!(answers.pass(waits(), async { Err(broken()) }).now_or_never().expect("ends").is_err());
        let fails = async { Err::<(), _>(broken()) };
        assert!(answers.pass(fails, waits()).now_or_never().expect("ends").is_err());
    }
}
