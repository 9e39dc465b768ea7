//! What whoever looks after the server is told of a partition, in its log: once for each trouble, not once for each client
//! that meets it.

use std::io;
use std::path::Path;

use super::Partition;
use super::state::State;
use crate::disk::Disk;
use crate::segment::View;
use crate::units::{Offset, Position};

/// Of how many damaged places of a partition readers' findings are logged.
const DAMAGE_TOLD: usize = 100;

impl<D: Disk> Partition<D> {
    /// Tells whoever looks after the server, once until it works again, that records are refused.
    pub(super) fn tell_failing(&self, state: &mut State<D>, path: &Path, source: &io::Error) {
        if !std::mem::replace(&mut state.failing, true) {
            let (name, path) = (self.name(), path.display());
            tracing::warn!("{name}: records are refused until this works: {path}: {source}");
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
