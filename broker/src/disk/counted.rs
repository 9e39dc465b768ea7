//! A file in memory that counts what is read of it: a cost that is the same on every machine.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::DiskFile;

#[derive(Debug)]
pub struct Counted {
    bytes: Mutex<Vec<u8>>,
    read: AtomicU64,
}

impl Counted {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: Mutex::new(bytes), read: AtomicU64::new(0) }
    }

    /// What is in it.
    pub fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap()
    }

    /// How many bytes have been read.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl DiskFile for Counted {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let bytes = self.bytes();
        let from = bytes.len().min(usize::try_from(position).unwrap());
        let len = buf.len().min(bytes.len() - from);
        buf[..len].copy_from_slice(&bytes[from..from + len]);
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        unreachable!("it is only read")
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        unreachable!("it is only read")
    }
    fn sync_data(&self) -> io::Result<()> {
        unreachable!("it is only read")
    }
}
