//! What whoever looks after the server is told of a partition, in its log: once for each trouble, not once for each client
//! that meets it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::state::State;
use super::{Partition, Shared};
use crate::disk::Disk;
use crate::segment::View;
use crate::units::{Offset, Position};

/// Of how many damaged places of a partition readers' findings are logged.
const DAMAGE_TOLD: usize = 100;

/// That records are refused is told again after so long.
const REFUSALS_PAUSE: Duration = Duration::from_secs(5);

/// Tells what has not been told in the meantime and still is so.
async fn end_pause<D: Disk>(partition: Weak<Shared<D>>) {
    tokio::time::sleep(REFUSALS_PAUSE).await;
    if let Some(partition) = partition.upgrade().map(Partition) {
        let mut state = partition.lock();
        state.refusals.pause = false;
        partition.tell_refusals(&mut state);
    }
}

impl<D: Disk> Partition<D> {
    /// Takes note, until it works again, that records are refused.
    pub(super) fn tell_failing(&self, state: &mut State<D>, path: &Path, source: &io::Error) {
        state.refusals.now.get_or_insert_with(|| format!("{}: {source}", path.display()));
        self.tell_refusals(state);
    }

    /// Tells whoever looks after the server whether records are refused, where that is news. A disk that has room for small
    /// records and none for large ones refuses and stores them in turn: that is told now and then, and not each time.
    pub(super) fn tell_refusals(&self, state: &mut State<D>) {
        let (name, refusals) = (self.name(), &mut state.refusals);
        match &refusals.now {
            Some(why) if !refusals.told && !refusals.pause => {
                tracing::warn!("{name}: records are refused until this works: {why}");
                (refusals.told, refusals.pause) = (true, true);
                tokio::spawn(end_pause(Arc::downgrade(&self.0)));
            }
            None if refusals.told => {
                tracing::info!("{name}: records are stored again");
                refusals.told = false;
            }
            _ => {}
        }
    }

    /// Fences it, and tells whoever looks after the server.
    pub(super) fn fence_now(&self, state: &mut State<D>, reason: String) {
        if state.fenced.is_none() {
            let name = self.name();
            tracing::error!(
                "{name} takes no writes from now on, what it has can be read: {reason}; restart to recover it"
            );
        }
        state.fence(reason);
    }

    /// Tells whoever looks after the server of damage that a reader has met, once for each place.
    pub(super) fn tell_damage(&self, view: &View<D::File>, position: Position, from: Offset, next: Offset) {
        let told = &mut self.lock().damage_told;
        if told.len() < DAMAGE_TOLD && told.insert((view.base, position)) {
            let (name, segment) = (self.name(), view.path.display());
            tracing::error!(
                "{name}: a reader has met damage in {segment} at byte {position}: of the offsets from {from} on, those \
                 before {next} cannot be read"
            );
        }
    }
}
