//! The memory of answers, of all connections together.
//!
//! Up to [`OWN_BYTES`] of an answer are its connection's own affair; what a longer one needs is a [`Reserved`] of the room,
//! until the client has taken it. Those who have it may be slow to give it back, so who finds little gets a shorter answer, and
//! asks again. Only for a single record that is longer than that, and for a list, there is no shorter answer: it is waited for.
//! Nothing is reserved for an answer before all those before it, on its connection, have been sent: who has some is sending.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::OWN_BYTES;
use super::waiting::Waiting;

/// What one permit stands for.
const UNIT: usize = 1 << 10;

/// The memory that long answers share.
#[derive(Debug)]
pub(super) struct Room {
    free: Arc<Semaphore>,
    units: usize,
    waiting: Waiting,
}

/// An answer's part of the room. It is given back when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Reserved(Option<OwnedSemaphorePermit>);

impl Room {
    /// `bytes` in all.
    pub fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT).min(u32::MAX as usize >> 1);
        Self { free: Arc::new(Semaphore::new(units)), units, waiting: Waiting::default() }
    }

    /// Room for an answer of up to `want` bytes, or of fewer: nobody gets more than a quarter of what is left, and so some
    /// is left for everybody.
    pub fn take(&self, want: usize) -> (usize, Reserved) {
        let units = want.div_ceil(UNIT).min(self.free.available_permits() / 4);
        let bytes = want.min(units * UNIT);
        if bytes <= OWN_BYTES {
            return (want.min(OWN_BYTES), Reserved::default());
        }
        let permit = u32::try_from(units).ok().and_then(|n| self.free.clone().try_acquire_many_owned(n).ok());
        // Where it is gone in this moment, a short answer does as well.
        let bytes = if permit.is_some() { bytes } else { OWN_BYTES };
        (bytes, Reserved(permit))
    }

    /// Waits for room for an answer of so many bytes, which cannot be shorter; for all there is, where that is less.
    pub async fn wait(&self, bytes: usize) -> Reserved {
        let units = u32::try_from(bytes.div_ceil(UNIT).min(self.units)).unwrap_or(u32::MAX);
        if let Ok(permit) = self.free.clone().try_acquire_many_owned(units) {
            return Reserved(Some(permit));
        }
        let _waits = self.waiting.begin();
        Reserved(self.free.clone().acquire_many_owned(units).await.ok())
    }

    /// Whether somebody waits: then those who have some of it have to keep up (see `pace`).
    pub fn is_wanted(&self) -> bool {
        self.waiting.is_any()
    }
}

impl Reserved {
    /// Whether it is none of the room at all.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|permit| permit.num_permits() == 0)
    }

    /// Gives back what an answer of this many bytes does not need. `false`: it needs more.
    pub fn fit(&mut self, bytes: usize) -> bool {
        let needed = if bytes <= OWN_BYTES { 0 } else { bytes.div_ceil(UNIT) };
        let Some(permit) = &mut self.0 else { return needed == 0 };
        let excess = permit.num_permits().saturating_sub(needed);
        drop(permit.split(excess));
        permit.num_permits() >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn everybody_gets_something_and_gives_it_back() {
        let room = Room::new(16 << 20);
        let (bytes, first) = room.take(1 << 20);
        assert_eq!(bytes, 1 << 20);
        let (bytes, second) = room.take(8 << 20);
        assert_eq!(bytes, (15 << 20) / 4, "a quarter of what is left");
        let mut shares = Vec::new();
        let last = loop {
            let (bytes, share) = room.take(8 << 20);
            if share.0.is_none() {
                break bytes;
            }
            shares.push(share);
        };
        assert_eq!(last, OWN_BYTES);
        assert_eq!(room.take(10).0, 10);
        drop((first, second, shares));
        assert_eq!(room.free.available_permits(), 16 << 10);
    }

    #[test]
    fn what_an_answer_does_not_need_is_given_back_at_once() {
        let room = Room::new(16 << 20);
        let (_, mut share) = room.take(1 << 20);
        assert!(share.fit(100_000));
        assert_eq!(room.free.available_permits(), (16 << 10) - 98);
        assert!(share.fit(1000));
        assert_eq!(room.free.available_permits(), 16 << 10);
        assert!(!share.fit(1 << 20));
        assert_eq!(room.free.available_permits(), 16 << 10, "and not taken again");
    }

    #[test]
    fn what_cannot_be_shorter_waits_and_never_for_more_than_there_is() {
        let room = Room::new(1 << 20);
        let all = room.wait(64 << 20).now_or_never().expect("nobody else has any");
        assert!(room.wait(100_000).now_or_never().is_none());
        drop(all);
        assert!(room.wait(100_000).now_or_never().is_some());
    }
}
