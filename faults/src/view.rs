//! Three views of a file: what processes see, what is durable, and what is pending between the two.

use std::path::Path;

use crate::disk::Disk;
use crate::node::{DataChange, Ino, ROOT};
use crate::path::Parsed;
use crate::process::hold;
use crate::state::State;

/// A file as its three views show it. The two halves are looked up by the same path, each among its own names: after a
/// rename that was not synced they are two different files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// What processes read; none where they find no file.
    pub seen: Option<Vec<u8>>,
    /// What the medium certainly has; none where the name is not on it.
    pub durable: Option<Vec<u8>>,
    /// What was asked of the file that processes see and is not certainly on the medium, in order.
    pub pending: Vec<Pending>,
    /// Whether the name itself is pending: made, removed, or pointing to another file.
    pub name_pending: bool,
}

/// Something that was asked for and is not certainly on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Bytes, from a position on.
    Write {
        /// Where.
        position: u64,
        /// How many.
        len: u64,
    },
    /// A length without bytes.
    Length {
        /// Which.
        len: u64,
    },
}

impl Disk {
    /// The three views of a file.
    pub fn view(&self, path: impl AsRef<Path>) -> View {
        let nothing = View { seen: None, durable: None, pending: Vec::new(), name_pending: false };
        let Ok(path) = Parsed::new(path.as_ref()) else { return nothing };
        let machine = hold(&self.machine);
        let state = &machine.state;
        let (seen, durable) = (state.lookup(&path).ok(), lookup_durable(state, &path));
        let file = seen.and_then(|ino| state.file(ino));
        View {
            seen: file.map(|file| file.seen.to_vec()),
            durable: durable.and_then(|ino| state.file(ino)).map(|file| file.durable.to_vec()),
            pending: file.into_iter().flat_map(|file| &file.log).map(pending).collect(),
            name_pending: seen != durable,
        }
    }

    /// What processes read of a file; none where there is none.
    pub fn seen(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let machine = hold(&self.machine);
        let ino = machine.state.lookup(&Parsed::new(path.as_ref()).ok()?).ok()?;
        machine.state.file(ino).map(|file| file.seen.to_vec())
    }

    /// What the medium certainly has of a file; none where its name is not on it.
    pub fn durable(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let machine = hold(&self.machine);
        let ino = lookup_durable(&machine.state, &Parsed::new(path.as_ref()).ok()?)?;
        machine.state.file(ino).map(|file| file.durable.to_vec())
    }

    /// What processes see, by path: files with their lengths; directories end in a slash.
    pub fn list_all(&self) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        crate::image::list_tree(&hold(&self.machine).state, ROOT, "/", &mut |path, file| {
            all.push((path, file.map_or(0, |file| file.len())));
        });
        all
    }
}

fn pending(op: &crate::node::DataOp) -> Pending {
    match &op.change {
        DataChange::Write { position, data } => {
            Pending::Write { position: *position, len: data.len() as u64 }
        }
        DataChange::SetLen => Pending::Length { len: op.len },
    }
}

fn lookup_durable(state: &State, path: &Parsed) -> Option<Ino> {
    path.names().try_fold(ROOT, |ino, name| state.dir(ino)?.durable.get(name).copied())
}
