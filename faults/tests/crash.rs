//! Two crashes, inside an operation and between two: what is left, and who is told.

use std::collections::BTreeSet;
use std::io;

use faults::{Config, Cut, Disk, Fault, Kind, Op, Open, Process, Profile, Progress};

fn disk() -> Disk {
    Disk::new(Config::new(Profile::Strict))
}

/// A file with these bytes, durable with its name.
fn durable_file(process: &Process, path: &str, bytes: &[u8]) -> io::Result<faults::File> {
    let file = process.open(path, Open::CreateNew)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    process.sync_dir("/")?;
    Ok(file)
}

#[test]
fn a_process_crash_keeps_the_cache_and_frees_the_lock() -> io::Result<()> {
    let disk = disk();
    let process = disk.process();
    let lock = process.lock_dir("/")?;
    assert_eq!(process.lock_dir("/").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let file = process.open("/a", Open::Create)?;
    file.write_at(b"unsynced", 0)?;
    disk.kill_all();
    assert!(process.is_dead());
    assert!(file.write_at(b"never", 0).is_err());
    assert!(file.sync_data().is_err());
    assert!(process.sync_dir("/").is_err());
    assert!(process.open("/b", Open::Create).is_err());
    let next = disk.process();
    let _lock = next.lock_dir("/")?;
    drop(lock);
    assert_eq!(next.lock_dir("/").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(disk.seen("/a").unwrap(), b"unsynced");
    assert_eq!(disk.list_all(), [("/a".to_owned(), 8)]);
    assert_eq!(next.boot_id(), process.boot_id());
    Ok(())
}

#[test]
fn a_power_loss_keeps_what_was_synced_and_changes_the_boot_id() -> io::Result<()> {
    let disk = disk();
    let process = disk.process();
    let boot = process.boot_id();
    durable_file(&process, "/a", b"synced")?;
    disk.power_loss();
    assert!(process.is_dead());
    assert!(process.death().unwrap().power_loss);
    assert_eq!(disk.seen("/a").unwrap(), b"synced");
    assert_ne!(disk.process().boot_id(), boot);
    Ok(())
}

#[test]
fn a_power_loss_at_a_byte_leaves_the_bytes_before_it_whatever_else_is_drawn() -> io::Result<()> {
    for (profile, seed) in
        Profile::ALL.into_iter().flat_map(|profile| (0..16).map(move |seed| (profile, seed)))
    {
        let disk = Disk::new(Config { lies: Some(0), seed, ..Config::new(profile) });
        let process = disk.process();
        let file = durable_file(&process, "/a.log", b"first.")?;
        let power_loss = Kind::PowerLoss { at: Cut::Bytes(3) };
        disk.aim(Fault::new(Op::Write, "*.log", power_loss)).unwrap();
        assert!(file.write_at(b"second", 6).is_err());
        assert!(process.is_dead());
        let death = process.death().unwrap();
        assert_eq!(death.inside.as_ref().unwrap().progress, Progress::Bytes(3, 6));
        assert_eq!(death.to_string(), "power loss at byte 3 of 6, write /a.log");
        assert_eq!(disk.seen("/a.log").unwrap(), b"first.sec");
        assert!(disk.unfired().is_empty());
    }
    Ok(())
}

#[test]
fn a_power_loss_at_a_byte_keeps_what_came_before_it_where_order_is_kept() -> io::Result<()> {
    const SECTOR: usize = 512;
    let left = |profile, seed| -> io::Result<Vec<u8>> {
        let disk = Disk::new(Config { lies: Some(0), seed, ..Config::new(profile) });
        let file = durable_file(&disk.process(), "/a.log", b"1")?;
        file.write_at(&[b'2'; SECTOR], 1)?;
        disk.aim(Fault::new(Op::Write, "*.log", Kind::PowerLoss { at: Cut::Bytes(1) })).unwrap();
        assert!(file.write_at(b"34", 1 + SECTOR as u64).is_err());
        Ok(disk.seen("/a.log").unwrap())
    };
    let whole = [&b"1"[..], &[b'2'; SECTOR], b"3"].concat();
    // A sector comes as the cache has it: what was written before into the same one is there too.
    let hole = [&b"1"[..], &[0; SECTOR - 1], b"23"].concat();
    let mut holes = 0;
    for seed in 0..32 {
        assert_eq!(left(Profile::Ordered, seed)?, whole);
        let strict = left(Profile::Strict, seed)?;
        assert!(strict == whole || strict == hole, "{strict:?}");
        holes += usize::from(strict == hole);
    }
    assert!(holes > 0, "strict loses what came before, now and then");
    Ok(())
}

/// What a power loss has let through is on the medium like anything else: overwritten in place, it waits for nothing.
#[test]
fn the_part_of_a_write_that_is_left_may_be_left_again_where_order_is_kept() -> io::Result<()> {
    let run = |torn: bool| -> io::Result<BTreeSet<u128>> {
        let disk = Disk::new(Config::new(Profile::Ordered));
        disk.put("/a", &[1; 512])?;
        let (before, rest) = ([2; 512], [3; 100]);
        let write = [&before[..], &rest[..]].concat();
        if torn {
            disk.aim(Fault::new(Op::Write, "a", Kind::PowerLoss { at: Cut::Bytes(550) })).unwrap();
            assert!(disk.process().open("/a", Open::Write)?.write_at(&write, 512).is_err());
        } else {
            disk.overwrite("/a", 512, &write[..550])?;
        }
        let file = disk.process().open("/a", Open::Write)?;
        file.write_at(b"over", 512)?;
        file.write_at(b"behind", file.len()?)?;
        Ok(disk.images().all().map(|image| image.hash()).collect())
    };
    assert_eq!(run(true)?, run(false)?);
    Ok(())
}

#[test]
fn files_that_only_the_medium_or_a_pending_name_leads_to_are_not_forgotten() -> io::Result<()> {
    const FILES: usize = 1000;
    let disk = disk();
    for n in 0..FILES {
        disk.put(format!("/old-{n}"), b"old")?;
    }
    let process = disk.process();
    for n in 0..FILES {
        process.remove_file(format!("/old-{n}"))?;
        process.open(format!("/new-{n}"), Open::CreateNew)?;
        process.remove_file(format!("/new-{n}"))?;
    }
    assert!(disk.list_all().is_empty());
    assert_eq!(disk.durable("/old-7").unwrap(), b"old");
    let (mut old, mut new) = (0, 0);
    for (path, bytes) in (0..20).flat_map(|seed| disk.images().draw(seed).files()) {
        old = old.max(usize::from(path.starts_with("/old") && bytes == b"old"));
        new = new.max(usize::from(path.starts_with("/new")));
    }
    assert_eq!((old, new), (1, 1), "both may come back");
    process.sync_dir("/")?;
    disk.power_loss();
    assert!(disk.list_all().is_empty());
    Ok(())
}

#[test]
fn a_crash_at_a_byte_leaves_the_bytes_before_it_in_the_cache() -> io::Result<()> {
    let disk = disk();
    let process = disk.process();
    let file = durable_file(&process, "/a.log", b"first.")?;
    disk.aim(Fault::new(Op::Write, "*.log", Kind::Crash { at: Cut::Bytes(3) }).nth(2)).unwrap();
    file.write_at(b"second", 6)?;
    assert!(file.write_at(b"third.", 12).is_err());
    assert_eq!(disk.seen("/a.log").unwrap(), b"first.secondthi");
    Ok(())
}
