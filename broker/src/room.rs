//! Room on a full disk: what the logs have of it ahead of their records is given back when something finds none, which is then
//! tried once more. A file system that preallocates by itself does the same (XFS). Otherwise a disk would be full for one
//! partition while others keep blocks that they may never need.

use std::fmt::Debug;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use crate::disk;

/// Something that has blocks of the disk that it can do without.
pub(crate) trait Spares: Debug + Send + Sync {
    /// Gives them back. Who has others later is listed again.
    fn give_back(&self);
}

/// Who has such blocks, of all partitions of a broker.
#[derive(Debug, Default)]
pub(crate) struct Room {
    listed: Mutex<Listed>,
    /// Held while they are given back: who comes meanwhile waits for that.
    making: Mutex<()>,
}

#[derive(Debug, Default)]
struct Listed {
    who: Vec<Weak<dyn Spares>>,
    /// So many are having them given back, or wait for it.
    asking: usize,
}

impl Room {
    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of one that has some. It is forgotten when it is asked for them.
    pub fn list(&self, who: Weak<dyn Spares>) {
        let mut listed = self.listed();
        if listed.who.len() == listed.who.capacity() {
            // Before it takes more memory: those that are gone, with a topic that was deleted.
            listed.who.retain(|who| who.strong_count() > 0);
        }
        listed.who.push(who);
    }

    /// Whether another try may find room where one has met this error.
    pub fn may_be_made_for(&self, error: &io::Error) -> bool {
        let listed = self.listed();
        disk::is_full(error) && (listed.asking > 0 || !listed.who.is_empty())
    }

    /// Has all of them give back what they have. Takes their locks, and waits for the disk.
    pub fn make(&self) {
        self.listed().asking += 1;
        {
            let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            let who = std::mem::take(&mut self.listed().who);
            who.iter().filter_map(Weak::upgrade).for_each(|spares| spares.give_back());
        }
        self.listed().asking -= 1;
    }

    /// Does something, and once more where there was no room for it and some could be made.
    #[track_caller]
    pub fn with<T>(&self, job: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match job() {
            Err(e) if self.may_be_made_for(&e) => {
                self.make();
                job()
            }
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug, Default)]
    struct Given(AtomicUsize);

    impl Spares for Given {
        fn give_back(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn list(room: &Room, who: &Arc<Given>) {
        let who: Weak<Given> = Arc::downgrade(who);
        room.list(who);
    }

    #[test]
    fn what_finds_no_room_is_tried_once_more_where_somebody_can_give_some_back() {
        let (room, one, tries) = (Room::default(), Arc::<Given>::default(), AtomicUsize::new(0));
        let fails = |kind: io::ErrorKind| {
            tries.store(0, Ordering::Relaxed);
            let job = || -> io::Result<()> {
                tries.fetch_add(1, Ordering::Relaxed);
                Err(kind.into())
            };
            assert_eq!(room.with(job).unwrap_err().kind(), kind);
            (tries.load(Ordering::Relaxed), one.0.load(Ordering::Relaxed))
        };
        assert_eq!(fails(io::ErrorKind::StorageFull), (1, 0), "nobody has any");
        list(&room, &one);
        assert_eq!(fails(io::ErrorKind::PermissionDenied), (1, 0), "it is not for want of room");
        assert_eq!(fails(io::ErrorKind::QuotaExceeded), (2, 1));
        assert_eq!(fails(io::ErrorKind::StorageFull), (1, 1), "it has none any more");
    }

    #[test]
    fn those_that_are_gone_do_not_stay_on_the_list() {
        let room = Room::default();
        let stays = Arc::<Given>::default();
        list(&room, &stays);
        (0..1000).for_each(|_| list(&room, &Arc::default()));
        assert!(room.listed().who.len() < 10, "{}", room.listed().who.len());
        room.make();
        assert_eq!(stays.0.load(Ordering::Relaxed), 1);
    }
}
