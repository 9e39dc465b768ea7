//! The memory of answers, of all connections together.
//!
//! Up to [`OWN_BYTES`] of an answer are its connection's own affair; what a longer one needs is a [`Reserved`] of the room, until
//! the client has taken it. Nobody waits for room, since those who have it may be slow to give it back: who finds little
//! gets a shorter answer, and asks again.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An answer of up to this many bytes needs no share.
pub(super) const OWN_BYTES: usize = 64 << 10;

/// What one permit stands for.
const UNIT: usize = 1 << 10;

/// The memory that long answers share.
#[derive(Debug)]
pub(super) struct Room(Arc<Semaphore>);

/// An answer's part of the room. It is given back when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Reserved(Option<OwnedSemaphorePermit>);

impl Room {
    /// `bytes` in all.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).min(u32::MAX as usize >> 1))))
    }

    /// Room for an answer of up to `want` bytes, or of fewer: nobody gets more than a quarter of what is left, and so some
    /// is left for everybody.
    pub fn take(&self, want: usize) -> (usize, Reserved) {
        let units = want.div_ceil(UNIT).min(self.0.available_permits() / 4);
        let bytes = want.min(units * UNIT);
        if bytes <= OWN_BYTES {
            return (want.min(OWN_BYTES), Reserved::default());
        }
        let permit = u32::try_from(units).ok().and_then(|n| self.0.clone().try_acquire_many_owned(n).ok());
        // Where it is gone in this moment, a short answer does as well.
        let bytes = if permit.is_some() { bytes } else { OWN_BYTES };
        (bytes, Reserved(permit))
    }
}

impl Reserved {
    /// Gives back what an answer of this many bytes does not need.
    pub fn fit(&mut self, bytes: usize) {
        let needed = if bytes <= OWN_BYTES { 0 } else { bytes.div_ceil(UNIT) };
        if let Some(permit) = &mut self.0 {
            let excess = permit.num_permits().saturating_sub(needed);
            drop(permit.split(excess));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(room.0.available_permits(), 16 << 10);
    }

    #[test]
    fn what_an_answer_does_not_need_is_given_back_at_once() {
        let room = Room::new(16 << 20);
        let (_, mut share) = room.take(1 << 20);
        share.fit(100_000);
        assert_eq!(room.0.available_permits(), (16 << 10) - 98);
        share.fit(1000);
        assert_eq!(room.0.available_permits(), 16 << 10);
        share.fit(1 << 20);
        assert_eq!(room.0.available_permits(), 16 << 10, "and not taken again");
    }
}
