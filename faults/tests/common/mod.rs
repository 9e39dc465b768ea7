//! What the tests of single faults share.
#![allow(dead_code, missing_docs)] // each test file uses a part of it

use std::io;

use faults::{Config, Disk, Errno, Fault, File, Kind, Op, Open, Process, Profile};

/// An empty disk, and a process on it.
pub fn disk() -> (Disk, Process) {
    let disk = Disk::new(Config::new(Profile::Strict));
    let process = disk.process();
    (disk, process)
}

/// A disk with one durable file of these bytes, open.
pub fn disk_with(bytes: &[u8]) -> (Disk, Process, File) {
    let (disk, process) = disk();
    disk.put("/a.log", bytes).unwrap();
    let file = process.open("/a.log", Open::Write).unwrap();
    (disk, process, file)
}

/// What an operation was told.
pub fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Errno {
    Errno(result.unwrap_err().raw_os_error().unwrap())
}

/// What a reader sees.
pub fn read(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; 100_000];
    let n = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(n);
    bytes
}

/// Arms a fault that makes sense.
pub fn aim(disk: &Disk, fault: Fault) {
    disk.aim(fault).unwrap();
}

/// The next write to a log has it.
pub fn write_fault(kind: Kind) -> Fault {
    Fault::new(Op::Write, "*.log", kind)
}
