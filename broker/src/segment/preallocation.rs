//! Blocks of the disk that are asked for ahead of a log that grows.
//!
//! A write to blocks that are there already costs the kernel about two thirds of one that has to find them (ext4, Linux 6.18).
//! The length of the file stays what it is, so that nothing but the speed hangs on it: where the file system cannot do it, or has
//! no room to spare, the log does without. XFS does so by itself, on the same terms: the more, the longer the file is,
//! and given back when nothing more is to come. What a process that was killed had asked for, the next start gives back.

use crate::disk::DiskFile;

/// A log that is shorter, in bytes, gets none: a thousand small partitions should take no more than their records.
const LOG_MIN: u64 = 256 << 10;
/// The most that is asked for ahead, in bytes. More makes it no faster.
const AHEAD_MAX: u64 = 8 << 20;

/// What was asked for.
#[derive(Debug, Default)]
pub struct Preallocation {
    /// Up to where in the file, in bytes; 0 where nothing was.
    to: u64,
    /// Whether they were refused: who asks a full disk with each append is slow.
    refused: bool,
    /// Whether the log is being synced. To ask for blocks would wait for the end of that, on ext4, and so would whoever appends.
    syncing: bool,
}

impl Preallocation {
    /// To be called before bytes are written from `start` up to `end`.
    pub fn extend(&mut self, file: &impl DiskFile, start: u64, end: u64) {
        if end <= self.to || end < LOG_MIN || self.refused || self.syncing {
            return;
        }
        let ahead = (end / 2).min(AHEAD_MAX);
        // Not for what lies there already: a log that a start has found may be long.
        match file.reserve(self.to.max(start)..end + ahead) {
            Ok(()) => self.to = end + ahead,
            // Of what was asked for, a full file system may have given a part, which others need.
            Err(_) => self.give_back(file),
        }
    }

    /// Gives them back, for the want of others, and asks for no more. Nothing may be written meanwhile.
    pub fn give_back(&mut self, file: &impl DiskFile) {
        let _ = file.give_back();
        *self = Self { to: 0, refused: true, ..*self };
    }

    /// A sync of the log begins: no blocks are asked for until it has ended.
    pub fn sync_begins(&mut self) {
        self.syncing = true;
    }

    /// It has ended.
    pub fn sync_ends(&mut self) {
        self.syncing = false;
    }

    /// Whether there are some behind an end.
    pub fn is_left(&self, end: u64) -> bool {
        self.to > end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::ops::Range;
    use std::sync::Mutex;

    /// A file that notes what blocks it was asked for, and gives them as far as this.
    #[derive(Debug)]
    struct Asked(Mutex<Vec<Range<u64>>>, u64);

    /// What notes that all was given back.
    const ALL_BACK: Range<u64> = 0..0;

    impl DiskFile for Asked {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            unreachable!("it is only asked for blocks")
        }
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            unreachable!("it is only asked for blocks")
        }
        fn len(&self) -> io::Result<u64> {
            unreachable!("it is only asked for blocks")
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("it is only asked for blocks")
        }
        fn sync_data(&self) -> io::Result<()> {
            unreachable!("it is only asked for blocks")
        }
        fn reserve(&self, bytes: Range<u64>) -> io::Result<()> {
            let gives = bytes.end <= self.1;
            self.0.lock().unwrap().push(bytes);
            if gives { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }
        fn give_back(&self) -> io::Result<()> {
            self.0.lock().unwrap().push(ALL_BACK);
            Ok(())
        }
    }

    /// What a log asks for that grows from 0 by this much at a time.
    fn asked(step: u64, to: u64, gives: u64) -> Vec<Range<u64>> {
        asked_from(0, step, to, gives)
    }

    fn asked_from(start: u64, step: u64, to: u64, gives: u64) -> Vec<Range<u64>> {
        let (file, mut blocks) = (Asked(Mutex::default(), gives), Preallocation::default());
        for start in (start..to).step_by(usize::try_from(step).unwrap()) {
            blocks.extend(&file, start, start + step);
        }
        file.0.into_inner().unwrap()
    }

    #[test]
    fn the_longer_a_log_is_the_more_it_asks_for_up_to_a_bound() {
        const KIB: u64 = 1 << 10;
        assert_eq!(asked(100 * KIB, 200 * KIB, u64::MAX), []);
        let asked = asked(100 * KIB, 64 << 20, u64::MAX);
        assert_eq!(asked[..2], [200 * KIB..450 * KIB, 450 * KIB..750 * KIB]);
        assert!(asked.windows(2).all(|two| two[0].end == two[1].start), "{asked:?}");
        assert!(asked.iter().all(|bytes| bytes.end - bytes.start <= AHEAD_MAX + 100 * KIB), "{asked:?}");
        assert!(asked.len() < 20, "{asked:?}");
    }

    #[test]
    fn who_is_refused_gives_back_what_it_has_and_does_not_ask_again() {
        let asked = asked(1 << 20, 64 << 20, 3 << 20);
        assert_eq!(asked, [0..3 << 19, 3 << 19..3 << 20, 3 << 20..6 << 20, ALL_BACK]);
    }

    #[test]
    fn nothing_is_asked_for_while_the_log_is_synced() {
        const MIB: u64 = 1 << 20;
        let (file, mut blocks) = (Asked(Mutex::default(), u64::MAX), Preallocation::default());
        blocks.sync_begins();
        blocks.extend(&file, MIB, 2 * MIB);
        assert_eq!(*file.0.lock().unwrap(), []);
        blocks.sync_ends();
        blocks.extend(&file, 2 * MIB, 4 * MIB);
        assert_eq!(file.0.lock().unwrap()[0], 2 * MIB..6 * MIB, "and not for what was written meanwhile");
    }

    #[test]
    fn a_log_that_was_there_asks_for_nothing_that_it_has() {
        const MIB: u64 = 1 << 20;
        assert_eq!(asked_from(600 * MIB, MIB, 602 * MIB, u64::MAX)[0], 600 * MIB..609 * MIB);
    }
}
