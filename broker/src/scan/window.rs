//! A window over a log: its bytes in pieces, and the record at a place.

use std::io;

use super::sums::Sums;
use crate::disk::{self, DiskFile};
use crate::record::{self, CRC_AT, HEADER_BYTES, Invalid, RecordRef};
use crate::settings::Settings;
use crate::units::{Offset, Position};

/// How much a scan reads at a time.
const CHUNK: usize = 256 << 10;
/// How much is read to look at single records.
const SMALL_CHUNK: usize = 4 << 10;

/// Where a read fails, it is tried again in pieces of this: what a device reads whole or not at all.
const SECTOR: usize = 512;
/// A file in which more sectors than this fail is not read around: each may cost the device seconds.
const SECTORS_MAX: usize = 64;

/// The largest size that a header is believed to announce.
pub(super) const BOUND: u32 = Settings::RECORD_BYTES_MAX;

/// A window that moves forward over a file.
#[derive(Debug)]
pub struct Window<'a, F> {
    file: &'a F,
    /// The byte after the last that belongs to the log.
    limit: u64,
    chunk: usize,
    buf: Vec<u8>,
    /// The file position of `buf[0]`.
    buf_at: u64,
    unreadable: Vec<Unreadable>,
    sectors_failed: usize,
    /// What was computed to tell records from what only looks like their headers.
    sums: Option<Box<Sums<'a, F>>>,
    /// From where on.
    summed_from: u64,
    /// How many bytes may still be looked through for proof, where something that may do is found: no more than all of them.
    pub(super) credit: u64,
}

/// Bytes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The first.
    pub position: u64,
    /// The one behind the last.
    pub end: u64,
    /// What the disk said.
    pub why: String,
}

impl<'a, F: DiskFile> Window<'a, F> {
    /// Looks at the first `limit` bytes of a file.
    pub fn new(file: &'a F, limit: u64) -> Self {
        let (buf, unreadable) = (Vec::new(), Vec::new());
        let (chunk, sectors_failed, sums, summed_from, credit) = (CHUNK, 0, None, 0, limit);
        Self { file, limit, chunk, buf, buf_at: 0, unreadable, sectors_failed, sums, summed_from, credit }
    }

    /// The same, for a look at few records.
    pub fn small(file: &'a F, limit: u64) -> Self {
        Self { chunk: SMALL_CHUNK, ..Self::new(file, limit) }
    }

    /// Up to `want` bytes from `position` on, or more; fewer only where the log ends.
    #[inline]
    pub fn bytes(&mut self, position: u64, want: usize) -> io::Result<&[u8]> {
        let have_to = self.buf_at + self.buf.len() as u64;
        let want_to = (position + want as u64).min(self.limit);
        if position < self.buf_at || position > have_to || want_to > have_to {
            self.load(position, want)?;
        }
        let skip = usize::try_from(position.saturating_sub(self.buf_at)).unwrap_or(usize::MAX);
        Ok(self.buf.get(skip..).unwrap_or_default())
    }

    /// So many bytes from `position` on, where it has just read them.
    pub(super) fn held(&self, position: u64, len: usize) -> Option<&[u8]> {
        let skip = usize::try_from(position.checked_sub(self.buf_at)?).ok()?;
        self.buf.get(skip..)?.get(..len)
    }

    fn load(&mut self, position: u64, want: usize) -> io::Result<()> {
        let available = self.limit.saturating_sub(position);
        let available = usize::try_from(available).unwrap_or(usize::MAX);
        self.buf.resize(available.min(want.max(self.chunk)), 0);
        let n = match disk::read_full_at(self.file, &mut self.buf, position) {
            Ok(n) => n,
            Err(_) => self.read_around(position).inspect_err(|_| self.buf.clear())?,
        };
        self.buf.truncate(n);
        self.buf_at = position;
        Ok(())
    }

    /// Fills the buffer sector by sector, with zeros for what cannot be read: those are no record.
    fn read_around(&mut self, position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < self.buf.len() {
            let at = position + done as u64;
            let in_sector = usize::try_from(at % SECTOR as u64).unwrap_or(0);
            let len = (SECTOR - in_sector).min(self.buf.len() - done);
            // To try once more what has failed may take seconds again.
            let is_known = |bad: &Unreadable| bad.position <= at && at + len as u64 <= bad.end;
            let has_failed = self.unreadable.iter().any(is_known);
            let piece = &mut self.buf[done..done + len];
            if has_failed {
                piece.fill(0);
                done += len;
                continue;
            }
            match disk::read_full_at(self.file, piece, at) {
                Ok(n) if n < len => return Ok(done + n),
                Ok(_) => {}
                Err(e) if self.sectors_failed == SECTORS_MAX => return Err(e),
                Err(e) => {
                    piece.fill(0);
                    self.sectors_failed += 1;
                    self.fails(at, at + len as u64, &e);
                }
            }
            done += len;
        }
        Ok(done)
    }

    fn fails(&mut self, position: u64, end: u64, why: &io::Error) {
        match self.unreadable.last_mut() {
            // The next sector, or the same again.
            Some(last) if (last.position..=last.end).contains(&position) => last.end = last.end.max(end),
            _ => self.unreadable.push(Unreadable { position, end, why: why.to_string() }),
        }
    }

    /// The first bytes from `position` to `end` that could not be read, of those that were tried.
    pub fn unreadable_in(&self, position: u64, end: u64) -> Option<&Unreadable> {
        self.unreadable.iter().find(|bad| bad.end > position && bad.position < end)
    }

    /// All bytes that could not be read.
    pub fn into_unreadable(self) -> Vec<Unreadable> {
        self.unreadable
    }

    /// The record at `position`, if one is there.
    pub fn record(&mut self, position: u64) -> io::Result<Result<RecordRef<'_>, Invalid>> {
        let need = match record::announced_len(self.bytes(position, HEADER_BYTES)?, BOUND) {
            Ok(len) => len,
            Err(invalid) => return Ok(Err(invalid)),
        };
        let available = self.limit.saturating_sub(position);
        if need as u64 > available {
            return Ok(Err(Invalid::Short { needed: need as u64, available }));
        }
        self.bytes(position, need)?;
        // The zeros in the place of what cannot be read may even be right; nobody has seen that.
        if let Some(bad) = self.unreadable_in(position, position + need as u64) {
            return Ok(Err(Invalid::Short {
                needed: need as u64,
                available: bad.position.saturating_sub(position),
            }));
        }
        Ok(record::decode(self.bytes(position, need)?, BOUND))
    }

    /// Goes from record to record, from `place` on, each following the one before it, up to the first at which `stops`. Where
    /// none follows, the answer is no. Either way `place` is where it has come to.
    pub fn walk(
        &mut self,
        place: &mut (Offset, Position),
        mut stops: impl FnMut(&RecordRef<'_>) -> bool,
    ) -> io::Result<bool> {
        loop {
            match self.record(place.1.get())? {
                Ok(found) if found.offset != place.0 => return Ok(false),
                Ok(found) if stops(&found) => return Ok(true),
                Ok(found) => *place = (place.0.next(), place.1.plus(found.len() as u64)),
                Err(_) => return Ok(false),
            }
        }
    }

    /// Whether the record with the offset `holder`, which a walk from `place` comes to, has this timestamp.
    pub fn confirms_time(
        &mut self,
        place: &mut (Offset, Position),
        holder: Offset,
        time: u64,
    ) -> io::Result<bool> {
        let mut is_it = false;
        let stopped = self.walk(place, |found| {
            is_it = found.timestamp.get() == time;
            found.offset == holder
        })?;
        Ok(stopped && is_it)
    }

    /// From here on checksums of stretches before this byte are not asked for.
    pub(super) fn sum_from(&mut self, position: u64) {
        self.summed_from = position;
        if let Some(sums) = &mut self.sums {
            sums.go_to(position);
        }
    }

    /// Whether the record that begins with `head`, at `at`, has the right checksum, if it has this length: all of it is there.
    pub(super) fn confirms_sum(&mut self, head: &[u8; CRC_AT.end], at: u64, len: usize) -> io::Result<bool> {
        let fresh = || Box::new(Sums::new(self.file, self.limit, self.summed_from));
        let mut sums = self.sums.take().unwrap_or_else(fresh);
        let confirmed = sums.confirm(self, head, at, len as u64);
        self.sums = Some(sums);
        confirmed
    }

    /// The byte after the last.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::ops::Range;

    use super::super::unread::Known;
    use super::*;
    use crate::batch::Batch;
    use crate::units::Timestamp;

    /// A file whose reads fail where they touch these bytes.
    #[derive(Debug)]
    pub(in crate::scan) struct Bad {
        pub bytes: Vec<u8>,
        pub bad: Range<u64>,
    }

    impl DiskFile for Bad {
        fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
            if position < self.bad.end && position + buf.len() as u64 > self.bad.start {
                return Err(io::Error::from_raw_os_error(5));
            }
            let from = self.bytes.len().min(usize::try_from(position).unwrap());
            let len = buf.len().min(self.bytes.len() - from);
            buf[..len].copy_from_slice(&self.bytes[from..from + len]);
            Ok(len)
        }
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            unreachable!("it is only read")
        }
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("it is only read")
        }
        fn sync_data(&self) -> io::Result<()> {
            unreachable!("it is only read")
        }
    }

    /// A hundred records of 128 bytes: four in a sector.
    fn file(bad: Range<u64>) -> Bad {
        let mut batch = Batch::new();
        (0..100).for_each(|_| batch.push(None, &[7; 100]));
        batch.seal(Offset::ZERO, Timestamp::ZERO);
        Bad { bytes: batch.bytes().to_vec(), bad }
    }

    #[test]
    fn a_bad_sector_takes_the_records_in_it_and_no_others() {
        for small in [false, true] {
            let file = file(1100..1101);
            let len = file.len().unwrap();
            let mut window = if small { Window::small(&file, len) } else { Window::new(&file, len) };
            for nth in 0..100 {
                let found = window.record(nth * 128).unwrap();
                assert_eq!(found.is_ok(), !(8..12).contains(&nth), "record {nth}: {found:?}");
            }
            let ahead =
                window.look_forward(8 * 128, Offset::new(8), Known::end(Some(Offset::new(100)))).unwrap();
            assert_eq!((ahead.follows, ahead.misplaced), (Some((12 * 128, Offset::new(12))), None));
            let bad = window.unreadable_in(1000, 1100).expect("the sector is known");
            assert_eq!((bad.position, bad.end), (1024, 1536));
            assert_eq!(window.unreadable_in(1536, u64::MAX), None);
            assert_eq!(window.into_unreadable().len(), 1);
        }
    }

    /// The last byte of a header without a key, and nothing behind it.
    #[test]
    fn a_record_is_none_where_what_cannot_be_read_of_it_is_zeros() {
        let mut batch = Batch::new();
        batch.push(Some(b""), &[7; 512 + 1 - 28 - 28]);
        batch.push(Some(b""), b"");
        batch.push(Some(b""), b"");
        batch.seal(Offset::ZERO, Timestamp::ZERO);
        let (second, third) = (batch.start(1) as u64, batch.start(2) as u64);
        assert_eq!(third, 513);
        let file = Bad { bytes: batch.bytes().to_vec(), bad: 512..513 };
        let mut window = Window::new(&file, file.len().unwrap());
        assert!(window.record(0).unwrap().is_ok());
        assert!(window.record(second).unwrap().is_err());
        assert!(window.record(third).unwrap().is_err());
    }

    /// However often the window comes back to it: a look for records does.
    #[test]
    fn a_bad_sector_counts_once() {
        let file = file(1100..1101);
        let mut window = Window::small(&file, file.len().unwrap());
        for _ in 0..2 * SECTORS_MAX {
            assert!(window.record(8 * 128).unwrap().is_err());
            assert!(window.record(90 * 128).unwrap().is_ok());
        }
    }

    #[test]
    fn a_file_that_fails_everywhere_is_an_error_after_some_sectors() {
        let mut bytes = Vec::new();
        (0..20).for_each(|_| bytes.extend_from_slice(&file(0..0).bytes));
        let file = Bad { bad: 0..bytes.len() as u64, bytes };
        let mut window = Window::new(&file, file.len().unwrap());
        assert_eq!(window.record(0).unwrap_err().raw_os_error(), Some(5));
        assert_eq!(window.sectors_failed, SECTORS_MAX);
    }
}
