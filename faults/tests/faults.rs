//! Each fault: exactly what it does, and what the program is told.

mod common;

use std::io;
use std::time::Duration;

use faults::{Config, Cut, Disk, Errno, Fault, FaultError, Kind, Op, Open};

use common::{aim, disk, disk_with, errno, read, write_fault};

#[test]
fn an_error_has_its_errno_and_its_kind_and_no_effect() {
    let (disk, process, file) = disk_with(b"old");
    aim(&disk, Fault::error(Op::Write, "*.log", Errno::EIO));
    aim(&disk, Fault::error(Op::Read, "*.log", Errno::EINTR));
    aim(&disk, Fault::error(Op::Open, "*.log", Errno::EMFILE));
    aim(&disk, Fault::error(Op::Sync, "*.log", Errno::EINTR));
    aim(&disk, Fault::error(Op::Rename, "*", Errno::ENOSPC));
    assert_eq!(errno(file.write_at(b"new", 0)), Errno::EIO);
    assert_eq!(file.read_at(&mut [0], 0).unwrap_err().kind(), io::ErrorKind::Interrupted);
    assert_eq!(errno(process.open("/a.log", Open::Read)), Errno::EMFILE);
    assert_eq!(errno(file.sync_data()), Errno::EINTR);
    assert_eq!(process.rename("/a.log", "/b").unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(read(&file), b"old");
    assert_eq!(disk.list_all(), [("/a.log".to_owned(), 3)]);
    assert!(disk.unfired().is_empty());
}

#[test]
fn an_error_after_the_effect_has_it() {
    let (disk, process, file) = disk_with(b"old");
    aim(&disk, write_fault(Kind::Error { errno: Errno::EIO, effect: true }));
    aim(&disk, Fault::new(Op::Rename, "*", Kind::Error { errno: Errno::EIO, effect: true }));
    aim(&disk, Fault::new(Op::Sync, "*", Kind::Error { errno: Errno::EIO, effect: true }));
    assert_eq!(errno(file.write_at(b"new", 0)), Errno::EIO);
    assert_eq!(errno(file.sync_data()), Errno::EIO);
    assert_eq!(errno(process.rename("/a.log", "/b")), Errno::EIO);
    assert_eq!(disk.seen("/b").unwrap(), b"new");
    assert_eq!(disk.durable("/a.log").unwrap(), b"new");
}

/// Nobody holds what was opened or locked and is told that it was not: Linux closes it again.
#[test]
fn what_is_opened_or_locked_by_an_operation_that_fails_is_not_held() {
    let disk = Disk::new(Config { max_open: Some(2), ..Config::default() });
    let process = disk.process();
    let after = |op| Fault::new(op, "*", Kind::Error { errno: Errno::EIO, effect: true });
    aim(&disk, after(Op::Open).times(2));
    aim(&disk, after(Op::Lock));
    assert_eq!(errno(process.open("/a", Open::Create)), Errno::EIO);
    assert_eq!(disk.seen("/a").unwrap(), b"", "it was made all the same");
    assert_eq!(process.open_dir("/").map(drop).unwrap_err().raw_os_error(), Some(Errno::EIO.0));
    assert_eq!(process.lock_dir("/").map(drop).unwrap_err().raw_os_error(), Some(Errno::EIO.0));
    let _lock = process.lock_dir("/").expect("nobody holds it");
    process.open("/a", Open::Write).expect("one more descriptor is free");
}

#[test]
fn a_short_write_and_a_short_read_do_what_they_say() {
    let (disk, _process, file) = disk_with(b"");
    aim(&disk, write_fault(Kind::Short { bytes: 2 }));
    aim(&disk, Fault::new(Op::Read, "*", Kind::Short { bytes: 1 }));
    assert_eq!(file.write_at(b"abc", 0).unwrap(), 2);
    assert_eq!(file.read_at(&mut [0; 3], 0).unwrap(), 1);
    assert_eq!(read(&file), b"ab");
}

#[test]
fn a_short_write_that_would_not_be_short_waits_for_one_that_is() {
    let (disk, _process, file) = disk_with(b"");
    aim(&disk, write_fault(Kind::Short { bytes: 2 }));
    assert_eq!(file.write_at(b"ab", 0).unwrap(), 2);
    assert_eq!(disk.unfired().len(), 1);
    assert_eq!(file.write_at(b"abc", 0).unwrap(), 2);
    assert!(disk.unfired().is_empty());
}

/// Both halves of a torn write are of the same write, whatever other writes come before, after and between.
#[test]
fn a_torn_write_does_some_of_its_bytes_and_fails() {
    let (disk, process, file) = disk_with(b"");
    let other = process.open("/b.log", Open::Create).unwrap();
    aim(&disk, write_fault(Kind::Tear { bytes: 2, errno: Errno::EIO }));
    assert_eq!(other.write_at(b"ab", 0).unwrap(), 2, "one that is no longer waits");
    assert_eq!(errno(file.write_at(b"abc", 0)), Errno::EIO);
    assert_eq!(other.write_at(b"abc", 0).unwrap(), 3);
    assert_eq!((read(&file), read(&other)), (b"ab".to_vec(), b"abc".to_vec()));
    aim(&disk, write_fault(Kind::Tear { bytes: 0, errno: Errno::EIO }));
    assert_eq!(errno(file.write_at(b"x", 0)), Errno::EIO);
    assert_eq!(read(&file), b"ab");
}

#[test]
fn each_torn_write_of_a_rate_fails() {
    let (disk, _process, file) = disk_with(b"");
    aim(&disk, write_fault(Kind::Tear { bytes: 1, errno: Errno::EIO }).rate(500_000));
    let torn = (0..100u64).filter(|n| match file.write_at(b"ab", 2 * n) {
        Ok(done) => {
            assert_eq!(done, 2, "none is short and says so");
            false
        }
        Err(_) => true,
    });
    assert!((20..80).contains(&torn.count()));
}

#[test]
fn a_fault_of_making_leaves_files_alone_that_are_there() {
    let (disk, process, _file) = disk_with(b"old");
    aim(&disk, Fault::error(Op::Open, "*.log", Errno::ENOSPC).making());
    for how in [Open::Read, Open::Write, Open::Create] {
        process.open("/a.log", how).unwrap();
    }
    assert_eq!(errno(process.open("/a.log", Open::CreateNew)), Errno::EEXIST);
    assert_eq!(errno(process.open("/b.log", Open::Write)), Errno::ENOENT);
    assert_eq!(errno(process.open("/d/b.log", Open::Create)), Errno::ENOENT);
    assert_eq!(disk.unfired().len(), 1);
    assert_eq!(errno(process.open("/b.log", Open::Create)), Errno::ENOSPC);
    assert_eq!(disk.list_all(), [("/a.log".to_owned(), 3)]);
}

#[test]
fn a_rename_is_aimed_at_by_either_name() {
    let (disk, process, _file) = disk_with(b"");
    for (pattern, from, to) in
        [("a.log", "/a.log", "/b"), ("b", "/a.log", "/b"), ("*.tmp", "/a.log", "/b.tmp")]
    {
        aim(&disk, Fault::error(Op::Rename, pattern, Errno::EIO));
        assert_eq!(errno(process.rename(from, to)), Errno::EIO, "{pattern}");
    }
    aim(&disk, Fault::error(Op::Rename, "c", Errno::EIO));
    process.rename("/a.log", "/b").unwrap();
}

#[test]
fn a_removal_may_be_that_of_a_directory() {
    let (disk, process) = disk();
    process.create_dir("/d").unwrap();
    aim(&disk, Fault::error(Op::Remove, "d", Errno::EIO));
    assert_eq!(errno(process.remove_dir("/d")), Errno::EIO);
    process.remove_dir("/d").unwrap();
}

#[test]
fn a_full_disk_keeps_what_fitted_and_has_room_after_a_delete() {
    let disk = Disk::new(Config { capacity: Some(4 * 4096), ..Config::default() });
    let process = disk.process();
    // The root takes one block.
    let (a, b) = (process.open("/a", Open::Create).unwrap(), process.open("/b", Open::Create).unwrap());
    assert_eq!(a.write_at(&[1; 4096], 0).unwrap(), 4096);
    assert_eq!(b.write_at(&[2; 100], 0).unwrap(), 100);
    assert_eq!(disk.used(), 3 * 4096);
    assert_eq!(b.write_at(&[2; 9000], 100).unwrap(), 8192 - 100, "the rest of its block, and one more");
    assert_eq!(errno(b.write_at(&[2; 1], 8192)), Errno::ENOSPC);
    assert_eq!(errno(process.create_dir("/d")), Errno::ENOSPC);
    assert_eq!(b.write_at(&[3; 8192], 0).unwrap(), 8192, "an overwrite takes no room");
    process.open("/c", Open::Create).unwrap();
    process.remove_file("/a").unwrap();
    assert_eq!(errno(b.write_at(&[2; 1], 8192)), Errno::ENOSPC, "the file is open still");
    drop(a);
    assert_eq!(b.write_at(&[2; 1], 8192).unwrap(), 1);
    b.set_len(4096).unwrap();
    assert_eq!(disk.used(), 2 * 4096);
    process.create_dir("/d").unwrap();
    process.remove_dir("/d").unwrap();
    assert_eq!(disk.used(), 2 * 4096);
    b.set_len(1 << 30).unwrap();
    assert_eq!(disk.used(), 2 * 4096, "a hole takes no room");
}

#[test]
fn a_fault_fills_the_disk_until_something_is_cut_off() {
    let (disk, _process, file) = disk_with(b"old");
    aim(&disk, write_fault(Kind::Full { fits: 2 }));
    assert_eq!(file.write_at(b"new", 3).unwrap(), 2);
    assert_eq!(errno(file.write_at(b"w", 5)), Errno::ENOSPC);
    assert_eq!(file.write_at(b"OLD", 0).unwrap(), 3, "an overwrite takes no room");
    file.set_len(3).unwrap();
    assert_eq!(file.write_at(b"new", 3).unwrap(), 2);
    disk.set_capacity(None);
    assert_eq!(file.write_at(b"new", 3).unwrap(), 3);
}

#[test]
fn a_fault_that_leaves_more_room_than_there_can_be_fills_nothing() {
    let (disk, _process, file) = disk_with(b"old");
    aim(&disk, write_fault(Kind::Full { fits: u64::MAX }));
    assert_eq!(file.write_at(b"new", 3).unwrap(), 3);
    assert_eq!(file.write_at(b"newer", 6).unwrap(), 5);
}

#[test]
fn a_fault_that_leaves_no_room_fails_the_write() {
    let (disk, _process, file) = disk_with(b"old");
    aim(&disk, write_fault(Kind::Full { fits: 0 }));
    assert_eq!(errno(file.write_at(b"new", 3)), Errno::ENOSPC);
    assert_eq!(read(&file), b"old");
}

#[test]
fn a_torn_write_reaches_the_medium_up_to_a_byte() {
    let (disk, _process, file) = disk_with(b"");
    aim(&disk, write_fault(Kind::Torn { kept: 2 }));
    assert_eq!(file.write_at(b"abcd", 0).unwrap(), 4);
    file.sync_data().unwrap();
    assert_eq!(read(&file), b"abcd");
    disk.power_loss();
    assert_eq!(disk.seen("/a.log").unwrap(), b"ab\0\0");
}

#[test]
fn a_lost_write_is_seen_until_the_cache_is_gone() {
    let (disk, _process, file) = disk_with(b"old");
    aim(&disk, write_fault(Kind::Lost));
    file.write_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    disk.kill_all();
    assert_eq!(disk.seen("/a.log").unwrap(), b"new");
    disk.drop_caches();
    assert_eq!(disk.seen("/a.log").unwrap(), b"old");
}

#[test]
fn a_misdirected_write_hits_another_place_and_moves_no_length() {
    let (disk, process, file) = disk_with(b"aaaa");
    disk.put("/b", b"bbbb").unwrap();
    aim(&disk, write_fault(Kind::Misdirected { path: Some("/b".to_owned()), position: 2 }));
    file.write_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.seen("/a.log").unwrap(), b"newa");
    assert_eq!(read(&process.open("/b", Open::Read).unwrap()), b"bbbb");
    disk.power_loss();
    assert_eq!(disk.seen("/a.log").unwrap(), b"aaaa");
    assert_eq!(disk.seen("/b").unwrap(), b"bbne");
}

/// What is not on the medium cannot be hit, and what lands in its own place has not gone astray.
#[test]
fn a_write_that_would_hit_nothing_is_not_misdirected() {
    let (disk, process, file) = disk_with(b"aaaa");
    let other = process.open("/b", Open::Create).unwrap();
    other.write_at(b"bbbb", 0).unwrap();
    for (path, position) in [(Some("/b"), 0), (Some("/c"), 0), (Some("/a.log"), 0), (None, 0), (None, 4)] {
        let path = path.map(str::to_owned);
        let fault = disk.aim(write_fault(Kind::Misdirected { path, position })).unwrap();
        file.write_at(b"new", 0).unwrap();
        assert_eq!(disk.fault(fault).unwrap().1, 0, "{position}");
        disk.disarm_all();
    }
    other.sync_data().unwrap();
    process.sync_dir("/").unwrap();
    let stray = Kind::Misdirected { path: Some("/b".to_owned()), position: 3 };
    let fault = disk.aim(write_fault(stray)).unwrap();
    file.write_at(b"new", 0).unwrap();
    assert_eq!(disk.fault(fault).unwrap().1, 1, "what is synced is hit");
    assert_eq!(disk.durable("/b").unwrap(), b"bbbn");
}

#[test]
fn bits_rot_at_rest() {
    let (disk, _process, file) = disk_with(b"abc");
    aim(&disk, Fault::new(Op::Read, "*.log", Kind::BitRot { byte: 1, xor: 1 }));
    let mut bytes = [0; 2];
    file.read_at(&mut bytes, 1).unwrap();
    assert_eq!(&bytes, b"bb", "the second byte of the read");
    disk.power_loss();
    assert_eq!(disk.seen("/a.log").unwrap(), b"abb");
}

#[test]
fn a_bad_sector_stays_bad_until_it_is_written_whole() {
    let (disk, process, file) = disk_with(&[7; 2048]);
    aim(&disk, Fault::new(Op::Read, "*.log", Kind::BadSector { byte: 600 }));
    let mut bytes = [0; 2048];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 512, "what comes before it");
    assert_eq!(errno(file.read_at(&mut bytes, 512)), Errno::EIO);
    assert_eq!(file.read_at(&mut bytes, 1024).unwrap(), 1024);
    assert_eq!(errno(file.write_at(&[8; 100], 512)), Errno::EIO);
    disk.power_loss();
    assert!(process.is_dead());
    let file = disk.process().open("/a.log", Open::Write).unwrap();
    assert_eq!(errno(file.read_at(&mut bytes, 512)), Errno::EIO, "it outlives a power loss");
    file.write_at(&[8; 512], 512).unwrap();
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 2048);
}

#[test]
fn a_bad_sector_that_is_mended_has_what_was_in_it() {
    let (disk, _process, file) = disk_with(&[7; 2048]);
    disk.make_unreadable("/a.log", 600).unwrap();
    let mut bytes = [0; 512];
    assert_eq!(errno(file.read_at(&mut bytes, 512)), Errno::EIO);
    disk.mend_sectors();
    assert_eq!(file.read_at(&mut bytes, 512).unwrap(), 512);
    assert_eq!(bytes, [7; 512]);
}

#[test]
fn a_bad_sector_can_be_read_once_a_hand_has_written_all_of_it() {
    let readable = |hand: &dyn Fn(&Disk)| {
        let (disk, _process, file) = disk_with(&[7; 700]);
        disk.make_unreadable("/a.log", 600).unwrap();
        hand(&disk);
        file.read_at(&mut [0; 10], 512).is_ok()
    };
    assert!(!readable(&|disk| disk.zero("/a.log", 512, 187).unwrap()));
    assert!(!readable(&|disk| disk.zero("/a.log", 513, 187).unwrap()));
    assert!(!readable(&|disk| disk.overwrite("/a.log", 0, &[8; 512]).unwrap()));
    assert!(!readable(&|disk| disk.truncate("/a.log", 600).unwrap()));
    assert!(!readable(&|disk| disk.truncate("/a.log", 9000).unwrap()));
    assert!(readable(&|disk| disk.zero("/a.log", 512, 188).unwrap()), "the file ends there");
    assert!(readable(&|disk| disk.overwrite("/a.log", 500, &[8; 600]).unwrap()));
    assert!(readable(&|disk| disk.put("/a.log", &[8; 600]).unwrap()));
    assert!(readable(&|disk| {
        disk.truncate("/a.log", 512).unwrap();
        disk.truncate("/a.log", 700).unwrap();
    }));
}

#[test]
fn a_read_only_file_system_refuses_changes_and_serves_reads() {
    let (disk, process, file) = disk_with(b"old");
    aim(&disk, write_fault(Kind::ReadOnly));
    for error in [
        errno(file.write_at(b"new", 0)),
        errno(file.set_len(0)),
        errno(process.open("/b", Open::Create)),
        errno(process.open("/a.log", Open::Write)),
        errno(process.create_dir("/d")),
        errno(process.rename("/a.log", "/b")),
        errno(process.remove_file("/a.log")),
    ] {
        assert_eq!(error, Errno::EROFS);
    }
    assert_eq!(read(&process.open("/a.log", Open::Read).unwrap()), b"old");
    let _lock = process.lock_dir("/").unwrap();
    disk.set_read_only(false);
    file.write_at(b"new", 0).unwrap();
}

#[test]
fn a_stall_is_time_for_the_caller_to_let_pass() {
    let (disk, _, file) = disk_with(b"");
    let delay = Duration::from_millis(30);
    aim(&disk, write_fault(Kind::Stall { delay }).times(2));
    aim(&disk, write_fault(Kind::Short { bytes: 1 }));
    assert_eq!(file.write_at(b"ab", 0).unwrap(), 1, "a stall and another fault go together");
    file.write_at(b"ab", 0).unwrap();
    file.write_at(b"ab", 0).unwrap();
    assert_eq!(disk.take_delay(), 2 * delay);
    assert_eq!(disk.take_delay(), Duration::ZERO);
}

#[test]
fn descriptors_run_out_and_come_back() {
    let disk = Disk::new(Config { max_open: Some(2), ..Config::default() });
    let process = disk.process();
    let a = process.open("/a", Open::Create).unwrap();
    let _lock = process.lock_dir("/").unwrap();
    assert_eq!(errno(process.open("/b", Open::Create)), Errno::EMFILE);
    assert_eq!(errno(process.list("/")), Errno::EMFILE);
    assert!(disk.seen("/b").is_none(), "nothing was made");
    disk.process().open("/b", Open::Create).unwrap();
    drop(a);
    process.list("/").unwrap();
}

#[test]
fn a_fault_strikes_where_it_is_aimed() {
    let (disk, process, file) = disk_with(b"");
    let other = process.open("/a.index", Open::Create).unwrap();
    let error = || Kind::Error { errno: Errno::EIO, effect: false };
    aim(&disk, write_fault(error()).nth(2).times(2));
    other.write_at(b"x", 0).unwrap();
    file.write_at(b"1", 0).unwrap();
    file.write_at(b"2", 0).unwrap_err();
    file.write_at(b"3", 0).unwrap_err();
    file.write_at(b"4", 0).unwrap();

    aim(&disk, write_fault(error()).during("recovery"));
    file.write_at(b"x", 0).unwrap();
    disk.set_phase("recovery");
    file.write_at(b"x", 0).unwrap_err();

    aim(&disk, write_fault(error()).from(Duration::from_secs(5)));
    file.write_at(b"x", 0).unwrap();
    disk.set_time(Duration::from_secs(5));
    file.write_at(b"x", 0).unwrap_err();

    aim(&disk, write_fault(error()).covering(100));
    file.write_at(&[0; 100], 0).unwrap();
    file.write_at(&[0; 2], 99).unwrap_err();
    assert!(disk.unfired().is_empty());
}

#[test]
fn an_aimed_fault_follows_a_file_to_its_new_name() {
    let (disk, process) = disk();
    process.create_dir("/t~new").unwrap();
    let file = process.open("/t~new/a.tmp", Open::Create).unwrap();
    process.rename("/t~new/a.tmp", "/t~new/a.log").unwrap();
    process.rename("/t~new", "/t").unwrap();
    aim(&disk, Fault::error(Op::Write, "/t/a.log", Errno::EIO));
    assert_eq!(errno(file.write_at(b"x", 0)), Errno::EIO);
}

#[test]
fn a_fault_that_never_struck_is_reported() {
    let (disk, _process, file) = disk_with(b"");
    let never = disk.aim(write_fault(Kind::Lost).nth(2)).unwrap();
    let taken_back = disk.aim(write_fault(Kind::Lost).nth(9)).unwrap();
    aim(&disk, write_fault(Kind::Lost).rate(0));
    file.write_at(b"x", 0).unwrap();
    disk.disarm(taken_back);
    let unfired = disk.unfired();
    assert_eq!(unfired.len(), 1, "a random fault owes nothing");
    assert_eq!(unfired[0].0, never);
    assert_eq!(disk.fault(never).unwrap().1, 0);
    file.write_at(b"x", 0).unwrap();
    assert_eq!(disk.fault(never).unwrap().1, 1);
    assert!(disk.unfired().is_empty());
}

#[test]
fn a_fault_that_makes_no_sense_is_refused() {
    let (disk, _) = disk();
    let unsuitable = disk.aim(Fault::new(Op::Read, "*", Kind::Lost)).unwrap_err();
    assert_eq!(unsuitable, FaultError::Unsuitable { kind: "lost", op: Some(Op::Read) });
    assert_eq!(unsuitable.to_string(), "lost cannot happen to read");
    assert_eq!(disk.aim(write_fault(Kind::Lost).nth(0)), Err(FaultError::Never { nth: 0, times: Some(1) }));
}

#[test]
fn random_faults_come_from_their_own_stream() {
    let run = |seed, other_first: bool| {
        let disk = Disk::new(Config { seed, ..Config::default() });
        let process = disk.process();
        let file = process.open("/a", Open::Create).unwrap();
        if other_first {
            // Drawing from another stream moves nothing here.
            disk.power_loss();
        }
        let file = if process.is_dead() { disk.process().open("/a", Open::Create).unwrap() } else { file };
        aim(&disk, Fault::error(Op::Write, "*", Errno::EIO).rate(300_000));
        (0..200).map(|_| file.write_at(b"x", 0).is_err()).collect::<Vec<bool>>()
    };
    assert_eq!(run(1, false), run(1, true));
    assert_ne!(run(1, false), run(2, false));
    let struck = run(1, false).into_iter().filter(|struck| *struck).count();
    assert!((30..90).contains(&struck), "{struck} of 200 at 30 %");
}

#[test]
fn a_crash_before_and_after_an_operation() {
    for (at, renamed) in [(Cut::Before, false), (Cut::After, true)] {
        let (disk, process, _file) = disk_with(b"x");
        aim(&disk, Fault::new(Op::Rename, "*", Kind::Crash { at }));
        assert!(process.rename("/a.log", "/b").is_err());
        assert!(process.is_dead());
        assert_eq!(disk.seen("/b").is_some(), renamed);
    }
    for (at, durable) in [(Cut::Before, &b"x"[..]), (Cut::After, b"y")] {
        let (disk, process, file) = disk_with(b"x");
        file.write_at(b"y", 0).unwrap();
        aim(&disk, Fault::new(Op::Sync, "*", Kind::Crash { at }));
        assert!(file.sync_data().is_err());
        assert!(process.is_dead());
        assert_eq!(disk.durable("/a.log").unwrap(), durable);
    }
}

#[test]
fn the_part_of_a_write_that_a_power_loss_let_through_takes_room() {
    let (disk, _process, file) = disk_with(b"");
    let before = disk.used();
    aim(&disk, write_fault(Kind::PowerLoss { at: Cut::Bytes(5000) }));
    file.write_at(&[7; 9000], 0).unwrap_err();
    assert_eq!(disk.used(), before + 2 * 4096, "5000 bytes lie in two blocks");
    let file = disk.process().open("/a.log", Open::Write).unwrap();
    file.set_len(0).unwrap();
    assert_eq!(disk.used(), before);
}
