//! How fast a client takes long answers, whose memory others may wait for.
//!
//! The memory of an answer is free when all of it has been taken, so a client that takes a little now and then could hold it
//! for as long as it likes. Therefore, while somebody waits for such memory ([`Room::wait`](super::answer_memory::Room::wait)),
//! a tenth of an answer has to be taken in each tenth of its time (`Limits::write_time`). Not in each second: the system tells
//! of what was taken in large pieces.

use std::time::Duration;

use tokio::time::Instant;

/// So many parts of its time are looked at, one after the other.
const PARTS: u32 = 10;

/// Answers that hold memory and are being sent.
#[derive(Debug)]
pub(super) struct Pace {
    /// When this part of the time began.
    begun: Instant,
    /// Bytes taken since then.
    taken: usize,
    /// Bytes of the answers, about.
    bytes: usize,
}

impl Pace {
    pub fn begin() -> Self {
        Self { begun: Instant::now(), taken: 0, bytes: 0 }
    }

    /// An answer of about so many bytes is one of them.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// So many bytes have been taken.
    pub fn took(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Whether too little was taken in the last part of `limit`.
    pub fn is_slow(&mut self, limit: Duration) -> bool {
        let elapsed = self.begun.elapsed();
        if elapsed < limit / PARTS {
            return false;
        }
        let slow = self.taken as u128 * limit.as_nanos() < self.bytes as u128 * elapsed.as_nanos();
        (self.begun, self.taken) = (Instant::now(), 0);
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const LIMIT: Duration = Duration::from_secs(30);
    const BYTES: usize = 3 << 20;

    /// After how many seconds who takes this at first, and then that each second, is too slow.
    async fn slow_after(at_first: usize, a_second: usize) -> Option<u32> {
        let mut pace = Pace::begin();
        pace.add(BYTES);
        pace.took(at_first);
        for second in 1..=30 {
            advance(Duration::from_secs(1)).await;
            pace.took(a_second);
            if pace.is_slow(LIMIT) {
                return Some(second);
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn who_keeps_the_pace_is_never_too_slow_and_who_does_not_is_soon() {
        assert_eq!(slow_after(0, BYTES / 30 + 1).await, None);
        assert_eq!(slow_after(0, BYTES / 31).await, Some(3));
        assert_eq!(slow_after(0, 0).await, Some(3));
        assert_eq!(slow_after(BYTES - 1, 0).await, Some(6), "what the system takes at first says nothing");
    }
}
