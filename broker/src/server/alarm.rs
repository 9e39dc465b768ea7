//! A time limit for many short waits, one after the other.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// As good as for ever, and a time that a clock can be asked for.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);

/// One timer, which is set again only when it rings. To set one for each wait would cost more than most waits do.
pub(super) struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    pub fn new() -> Self {
        Self(Box::pin(sleep_until(Instant::now())))
    }

    /// Waits for this, but no longer than until then. `None`: it took longer.
    pub async fn until<T>(&mut self, deadline: Instant, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        poll_fn(|cx| match what.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll(deadline, cx).map(|()| None),
        })
        .await
    }

    /// Waits for this, but no longer than for that long. `None`: it took longer.
    pub async fn within<T>(&mut self, limit: Duration, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        let mut deadline = None;
        poll_fn(|cx| match what.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => {
                // What is ready at once never looks at the clock.
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + limit.min(LONGEST));
                self.poll(deadline, cx).map(|()| None)
            }
        })
        .await
    }

    /// Ready at the deadline.
    fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.deadline() > deadline {
            self.0.as_mut().reset(deadline);
        }
        while self.0.as_mut().poll(cx).is_ready() {
            if self.0.deadline() == deadline {
                return Poll::Ready(());
            }
            // It was set for an earlier wait.
            self.0.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_at_its_own_deadline_whatever_came_before_it() {
        let mut alarm = Alarm::new();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        for (deadline, ends) in [(9, 9), (10, 10), (10, 10)] {
            assert_eq!(alarm.until(at(deadline), pending::<()>()).await, None);
            assert_eq!(begun.elapsed().as_secs(), ends);
        }
        assert_eq!(alarm.until(at(100), sleep(Duration::from_secs(1))).await, Some(()));
        assert_eq!(alarm.until(at(12), pending::<()>()).await, None, "earlier than the one before");
        assert_eq!(begun.elapsed().as_secs(), 12);
        assert_eq!(alarm.until(at(13), sleep(Duration::from_millis(500))).await, Some(()));
        assert_eq!(alarm.within(Duration::from_millis(1500), pending::<()>()).await, None, "later");
        assert_eq!(begun.elapsed().as_secs(), 14);
        assert_eq!(alarm.within(Duration::ZERO, ready(1)).await, Some(1), "what is ready is in time");
        assert_eq!(alarm.within(Duration::MAX, sleep(Duration::from_secs(1))).await, Some(()), "no limit");
    }
}
