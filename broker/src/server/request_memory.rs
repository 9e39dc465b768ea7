//! The memory that long requests share.
//!
//! A connection has a small buffer of its own; what a longer request needs beyond it comes from here. Three rules:
//!
//! - **Bytes are charged as they come**, until the log has them. A buffer may grow to twice what has been received, and no
//!   further: a client that announces a long request and sends nothing holds nothing. To hold memory, it has to send half
//!   as much.
//! - **One request leads.** Requests that have come in part and wait for room hold what the others wait for, so all could
//!   wait for ever. Therefore room for one whole request, of any length that is allowed, is kept apart from the rest.
//!   Who finds the rest taken waits for some of it, or for the lead. The leader never waits: it ends when it is whole, or
//!   when its time is over, and then the next one leads: which, is in [`lead`](super::lead).
//! - **Who hinders others has to keep up.** While somebody waits, a long request of which less has come in the last second
//!   than would make it whole within its time (`Limits::frame_time`) is given up, not at the end of that time but now. Who
//!   keeps that pace is never given up.
//!
//! So a client waits, at worst, for requests that are coming in as fast as they must, and not for long even where many are
//! begun and go on no further.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lead::{Lead, Leads};
use super::waiting::Waiting;

/// What all connections of a server share.
pub(super) struct Pool {
    /// Bytes, without those of the leader.
    common: Arc<Semaphore>,
    /// Room for one request of any length.
    leads: Leads,
    waiting: Waiting,
}

/// What one connection has of it. Goes back when it is dropped.
#[derive(Default)]
pub(super) struct Share {
    common: Option<OwnedSemaphorePermit>,
    lead: Option<Lead>,
}

impl Pool {
    /// `bytes` in all, and at least one request of `longest` bytes.
    pub fn new(bytes: usize, longest: usize) -> Self {
        let common = bytes.saturating_sub(longest).min(Semaphore::MAX_PERMITS);
        Self {
            common: Arc::new(Semaphore::new(common)),
            leads: Leads::default(),
            waiting: Waiting::default(),
        }
    }

    /// Whether somebody waits for room.
    pub fn is_wanted(&self) -> bool {
        self.waiting.is_any()
    }

    /// Makes a share cover at least `bytes`, where there is room.
    pub fn try_grow(&self, share: &mut Share, bytes: usize) -> bool {
        match share.lacks(bytes) {
            0 => true,
            more => self.common.clone().try_acquire_many_owned(more).map(|more| share.add(more)).is_ok(),
        }
    }

    /// Makes a share cover at least `bytes`, waiting where there is no room. `lacks`: how many bytes the request needs to be whole.
    pub async fn grow(&self, share: &mut Share, bytes: usize, lacks: usize) {
        if share.leads() || self.try_grow(share, bytes) {
            return;
        }
        let more = share.lacks(bytes);
        let _waits = self.waiting.begin();
        tokio::select! {
            biased;
            lead = self.leads.wait(lacks) => share.lead = Some(lead),
            more = self.common.clone().acquire_many_owned(more) => {
                share.add(more.expect("the pool is never closed"));
            }
        }
    }
}

impl Share {
    /// Bytes of the common part.
    pub fn bytes(&self) -> usize {
        self.common.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Whether it has the lead: then it covers any request.
    pub fn leads(&self) -> bool {
        self.lead.is_some()
    }

    /// Passes the lead on, where it has it, and says so.
    pub fn stop_leading(&mut self) -> bool {
        self.lead.take().is_some()
    }

    pub fn covers(&self, bytes: usize) -> bool {
        self.leads() || self.bytes() >= bytes
    }

    /// How much of the common part it would take to cover so many.
    fn lacks(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.saturating_sub(self.bytes())).unwrap_or(u32::MAX)
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.common {
            Some(common) => common.merge(more),
            None => self.common = Some(more),
        }
    }

    /// Gives back all but `bytes` of the common part.
    pub fn shrink(&mut self, bytes: usize) {
        let less = self.bytes().saturating_sub(bytes);
        if let Some(common) = &mut self.common {
            drop(common.split(less));
        }
        self.common.take_if(|common| common.num_permits() == 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn grow(pool: &Pool, share: &mut Share, bytes: usize) -> bool {
        pool.grow(share, bytes, bytes).now_or_never().is_some()
    }

    #[test]
    fn whoever_leads_never_waits_and_the_next_one_leads_after_it() {
        let pool = Pool::new(150, 100);
        let (mut one, mut two, mut three) = (Share::default(), Share::default(), Share::default());
        assert!(grow(&pool, &mut one, 30) && !one.leads());
        assert!(grow(&pool, &mut two, 30) && two.leads(), "the common part has 20 left");
        assert!(grow(&pool, &mut two, 100) && two.covers(100));
        assert!(!grow(&pool, &mut one, 100), "it waits, and holds its part");
        assert_eq!(one.bytes(), 30);
        assert!(!pool.is_wanted(), "a wait that was given up is none");
        assert!(grow(&pool, &mut three, 20), "smaller steps go on");
        drop(two);
        assert!(grow(&pool, &mut one, 100) && one.leads());
    }

    /// Of many that have sent some of a long request and no more, each may lead until it is given up. Whoever has little to send
    /// waits for one of them, or two, and not for all.
    #[test]
    fn many_that_lack_much_do_not_keep_out_one_that_lacks_little() {
        let pool = Pool::new(100, 100);
        let mut leader = Share::default();
        assert!(grow(&pool, &mut leader, 50) && leader.leads());
        let stalled = || async {
            let mut share = Share::default();
            pool.grow(&mut share, 30, 70).await;
            share
        };
        let mut stalled: Vec<_> = (0..60).map(|_| Box::pin(stalled())).collect();
        assert!(stalled.iter_mut().all(|one| one.now_or_never().is_none()));
        let mut small = Share::default();
        let mut wants = Box::pin(pool.grow(&mut small, 10, 10));
        assert!((&mut wants).now_or_never().is_none());
        let mut given_up = 1;
        drop(leader);
        while (&mut wants).now_or_never().is_none() {
            let led = stalled.iter_mut().find_map(|one| one.now_or_never());
            drop(led.expect("one of them leads"));
            given_up += 1;
        }
        drop(wants);
        assert!(small.leads() && given_up <= 2, "after {given_up}");
    }

    #[test]
    fn a_share_that_shrinks_or_goes_is_there_for_others() {
        let pool = Pool::new(200, 100);
        let (mut one, mut two) = (Share::default(), Share::default());
        assert!(grow(&pool, &mut one, 100) && !one.leads());
        one.shrink(40);
        assert!(grow(&pool, &mut two, 60) && !two.leads());
        drop(one);
        assert!(grow(&pool, &mut two, 100) && !two.leads());
    }

    #[test]
    fn room_for_one_request_there_always_is() {
        let pool = Pool::new(0, 100);
        let mut one = Share::default();
        assert!(grow(&pool, &mut one, 100) && one.covers(100));
    }
}
