//! Syncs that fail, or lie: what is on the medium then, and who is told.

mod common;

use std::io;

use faults::{Errno, Fault, Kind, Op, Open};

use common::{aim, disk_with, errno, read, write_fault};

#[test]
fn a_failed_sync_drops_the_pages_and_tells_each_descriptor_once() {
    let (disk, process, file) = disk_with(b"old");
    let other = process.open("/a.log", Open::Read).unwrap();
    file.write_at(b"lost", 3).unwrap();
    aim(&disk, Fault::error(Op::Sync, "*.log", Errno::EIO));
    assert_eq!(errno(file.sync_data()), Errno::EIO);
    file.sync_data().unwrap();
    assert_eq!(errno(other.sync_data()), Errno::EIO);
    other.sync_data().unwrap();
    process.open("/a.log", Open::Read).unwrap().sync_data().unwrap();
    assert_eq!(read(&file), b"oldlost", "the pages stay readable");
    assert_eq!(disk.durable("/a.log").unwrap(), b"old\0\0\0\0", "the length is durable, the bytes are gone");
    disk.power_loss();
    assert_eq!(disk.seen("/a.log").unwrap(), b"old\0\0\0\0");
}

#[test]
fn pages_that_a_failed_sync_dropped_are_written_once_they_change_again() {
    let (disk, _process, file) = disk_with(b"old");
    file.write_at(b"lost", 3).unwrap();
    aim(&disk, Fault::error(Op::Sync, "*.log", Errno::EIO));
    file.sync_data().unwrap_err();
    file.write_at(b"!", 7).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.durable("/a.log").unwrap(), b"oldlost!");
}

#[test]
fn a_cache_that_is_dropped_shows_what_a_failed_sync_lost() {
    let (disk, _process, file) = disk_with(b"old");
    file.write_at(b"new", 0).unwrap();
    aim(&disk, Fault::error(Op::Sync, "*.log", Errno::EIO));
    file.sync_data().unwrap_err();
    disk.drop_caches();
    assert_eq!(read(&file), b"old");
}

#[test]
fn a_background_writeback_failure_is_told_by_the_next_sync() {
    let (disk, process, file) = disk_with(b"old");
    aim(&disk, write_fault(Kind::WritebackFailure { errno: Errno::ENOSPC }));
    file.write_at(b"new", 0).unwrap();
    drop(file);
    // Nobody was told yet, so whoever opens the file next is.
    let file = process.open("/a.log", Open::Write).unwrap();
    assert_eq!(file.sync_data().unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.sync_data().unwrap();
    disk.power_loss();
    assert_eq!(disk.seen("/a.log").unwrap(), b"old");
}

#[test]
fn a_failed_writeback_is_told_whichever_way_the_file_was_opened() {
    let (disk, process, file) = disk_with(b"old");
    let other = process.open_dir("/a.log").unwrap();
    aim(&disk, write_fault(Kind::WritebackFailure { errno: Errno::EIO }));
    file.write_at(b"new", 0).unwrap();
    assert_eq!(errno(other.sync()), Errno::EIO);
    other.sync().unwrap();
    assert_eq!(errno(file.sync_data()), Errno::EIO);
}

#[test]
fn a_file_system_that_turns_read_only_keeps_nothing_of_what_was_pending() {
    let (disk, process, file) = disk_with(b"old");
    let clean = process.open("/a.log", Open::Read).unwrap();
    clean.sync_data().unwrap();
    file.write_at(b"new", 0).unwrap();
    process.open("/b", Open::Create).unwrap();
    aim(&disk, Fault::new(Op::Sync, "*.log", Kind::ReadOnly));
    assert_eq!(errno(file.sync_data()), Errno::EROFS, "from that very operation on");
    assert_eq!(errno(process.sync_dir("/")), Errno::EROFS);
    assert_eq!(disk.durable("/a.log").unwrap(), b"old");
    assert!(disk.durable("/b").is_none());
    assert_eq!(read(&file), b"new", "what is in the cache is read");
    disk.set_read_only(false);
    file.sync_data().unwrap();
    process.sync_dir("/").unwrap();
    assert_eq!(disk.durable("/a.log").unwrap(), b"new");
    disk.set_read_only(true);
    file.sync_data().expect("nothing is pending");
    process.sync_dir("/").expect("nor here");
}

#[test]
fn a_sync_that_lies_does_nothing() {
    let (disk, process, file) = disk_with(b"old");
    file.write_at(b"new", 0).unwrap();
    process.open("/b", Open::Create).unwrap();
    aim(&disk, Fault::new(Op::Sync, "*", Kind::Lie));
    aim(&disk, Fault::new(Op::SyncDir, "*", Kind::Lie));
    file.sync_data().unwrap();
    process.sync_dir("/").unwrap();
    assert_eq!(disk.durable("/a.log").unwrap(), b"old");
    assert!(disk.durable("/b").is_none());
    file.sync_data().unwrap();
    assert_eq!(disk.durable("/a.log").unwrap(), b"new");
}
