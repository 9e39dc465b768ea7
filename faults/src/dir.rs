//! An open directory: whoever has one can sync it, also when no more descriptors are left.

use std::io;
use std::panic::Location;
use std::path::Path;

use crate::event::{Op, Site};
use crate::file::{File, sync};
use crate::machine::Call;
use crate::path::Parsed;
use crate::process::{Process, hold};

/// An open directory.
#[derive(Debug)]
pub struct Dir(File);

impl Process {
    /// Opens a directory.
    #[track_caller]
    pub fn open_dir(&self, path: impl AsRef<Path>) -> io::Result<Dir> {
        let path = Parsed::new(path.as_ref())?;
        let mut machine = hold(&self.machine);
        let call = Call::at(Op::Open, path.as_str(), Location::caller());
        let number = machine.run(&self.life, &call, |machine, _| {
            machine.has_descriptor_left(self.life.id)?;
            let ino = machine.state.lookup(&path)?;
            Ok((machine.open(self.life.id, ino, &path, false), 0))
        })?;
        drop(machine);
        Ok(Dir(File { machine: self.machine.clone(), life: self.life.clone(), number }))
    }
}

impl Dir {
    /// Makes its entries durable; of a file, its data.
    #[track_caller]
    pub fn sync(&self) -> io::Result<()> {
        let site = Site::from(Location::caller());
        self.0.run(Op::SyncDir, (0, 0), Some(site), |machine, call, _, kind| {
            sync(machine, call, kind, site, self.0.number)?;
            machine.sweep();
            Ok(((), 0))
        })
    }
}
