//! Who leads: of the requests that wait for room in memory, one at a time gets all that it needs.
//!
//! Turn and turn about, the one that lacks the fewest bytes leads, and the one that has waited for longest. The first is done
//! soonest, if its client sends at all: clients that announce much, send some of it and stop do not hold up all the others, one
//! after another. And whoever lacks much has its turn all the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Those that want to lead. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Leads(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    is_taken: bool,
    /// Whether the next one is that which has waited for longest.
    oldest_is_next: bool,
    /// The oldest first.
    waiting: Vec<Waits>,
}

#[derive(Debug)]
struct Waits {
    /// How many bytes it lacks.
    lacks: usize,
    leads: oneshot::Sender<Lead>,
}

/// Whoever has this leads. It goes to the next one when it is dropped.
#[derive(Debug)]
pub(super) struct Lead(Option<Leads>);

impl Leads {
    /// Waits to lead. `lacks`: how many bytes the request needs to be whole.
    pub async fn wait(&self, lacks: usize) -> Lead {
        let (leads, lead) = oneshot::channel();
        let is_free = {
            let mut queue = self.lock();
            let is_free = !std::mem::replace(&mut queue.is_taken, true);
            if !is_free {
                queue.waiting.retain(|one| !one.leads.is_closed());
                queue.waiting.push(Waits { lacks, leads });
            }
            is_free
        };
        if is_free {
            return Lead(Some(self.clone()));
        }
        lead.await.expect("whoever leads passes it on")
    }

    /// Whoever has led does no more.
    fn pass_on(self) {
        let mut next = self.lock().next();
        while let Some(waits) = next {
            match waits.leads.send(Lead(Some(self.clone()))) {
                Ok(()) => return,
                // It has given up.
                Err(mut lead) => lead.0 = None,
            }
            next = self.lock().next();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Takes out the next one. Where there is none, nobody leads.
    fn next(&mut self) -> Option<Waits> {
        self.waiting.retain(|one| !one.leads.is_closed());
        let shortest = self.waiting.iter().enumerate().min_by_key(|(_, one)| one.lacks);
        let Some((shortest, _)) = shortest else {
            self.is_taken = false;
            return None;
        };
        let next = if self.oldest_is_next { 0 } else { shortest };
        self.oldest_is_next = !self.oldest_is_next;
        Some(self.waiting.remove(next))
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(leads) = self.0.take() {
            leads.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::Pin;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Lead> + 'a>>;

    /// One that waits for the lead, which somebody has.
    fn waits(leads: &Leads, lacks: usize) -> Waiting<'_> {
        let mut waiting: Waiting<'_> = Box::pin(leads.wait(lacks));
        assert!((&mut waiting).now_or_never().is_none());
        waiting
    }

    /// The lead, where this one has it now.
    fn leads(waiting: &mut Waiting<'_>) -> Option<Lead> {
        waiting.now_or_never()
    }

    #[test]
    fn neither_many_that_lack_much_nor_many_that_lack_little_keep_out_the_other() {
        let all = Leads::default();
        let mut lead = all.wait(10).now_or_never().expect("nobody else wants it");
        let (mut first, mut second) = (waits(&all, 900), waits(&all, 900));
        let (mut small, mut smallest) = (waits(&all, 20), waits(&all, 10));
        drop(lead);
        lead = leads(&mut smallest).expect("it lacks the least");
        drop(lead);
        lead = leads(&mut first).expect("it is the oldest");
        let mut later = waits(&all, 15);
        drop(lead);
        lead = leads(&mut later).expect("it lacks the least");
        drop(lead);
        lead = leads(&mut second).expect("it is the oldest");
        drop(lead);
        drop(leads(&mut small).expect("it is the last"));
        assert!(all.wait(1).now_or_never().is_some(), "nobody leads");
    }

    #[test]
    fn who_gives_up_does_not_lead() {
        let all = Leads::default();
        let lead = all.wait(1).now_or_never();
        let (gone, mut there, late) = (waits(&all, 1), waits(&all, 3), waits(&all, 2));
        drop(gone);
        // It has been given the lead, and does not take it.
        drop(lead);
        drop(late);
        let lead = leads(&mut there).expect("the others have gone");
        drop((lead, there));
        assert!(all.wait(1).now_or_never().is_some());
    }
}
