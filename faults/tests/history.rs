//! A recorded history: every state it went through, what each could have left, and what other syncs would have done.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use faults::{
    Config, Cut, Disk, Errno, Fault, History, Image, Images, Kind, Limits, Op, Open, Process, Profile,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn recorded(run: impl FnOnce(&Process) -> io::Result<()>) -> History {
    let disk = Disk::new(Config::new(Profile::Strict));
    disk.record();
    run(&disk.process()).unwrap();
    disk.take_history().unwrap()
}

fn hashes(images: &Images) -> BTreeSet<u128> {
    images.all().map(|image| image.hash()).collect()
}

/// A log of two records, each synced; the second sync stands on a line of its own.
fn two_synced_records(process: &Process) -> io::Result<()> {
    let file = process.open("/a", Open::Create)?;
    process.sync_dir("/")?;
    file.write_at(b"1", 0)?;
    file.sync_data()?;
    file.write_at(b"2", 1)?;
    file.sync_data()
}

fn contents(images: &Images) -> BTreeSet<Option<Vec<u8>>> {
    let content = |files: Vec<(String, Vec<u8>)>| files.into_iter().next().map(|(_, bytes)| bytes);
    images.all().map(|image| content(image.files())).collect()
}

fn some<const N: usize>(contents: [&[u8]; N]) -> BTreeSet<Option<Vec<u8>>> {
    contents.into_iter().map(|bytes| Some(bytes.to_vec())).collect()
}

#[test]
fn each_prefix_has_the_images_of_its_moment() {
    let history = recorded(two_synced_records);
    let ops: Vec<Op> = history.steps().iter().map(|step| step.op).collect();
    assert_eq!(ops, [Op::Open, Op::SyncDir, Op::Write, Op::Sync, Op::Write, Op::Sync]);
    assert_eq!(contents(&history.at(0)), BTreeSet::from([None]));
    assert_eq!(contents(&history.at(1)), BTreeSet::from([None, Some(Vec::new())]));
    assert_eq!(contents(&history.at(2)), some([b""]));
    assert_eq!(contents(&history.at(3)), some([b"", b"\0", b"1"]));
    assert_eq!(contents(&history.at(4)), some([b"1"]));
    assert_eq!(contents(&history.at(6)), some([b"12"]));
    assert_eq!(contents(&history.at(3).process_crash().to_disk(Config::default()).images()).len(), 3);
}

#[test]
fn a_cut_inside_a_write_leaves_its_first_bytes() {
    let history = recorded(|process| {
        let file = process.open("/a", Open::Create)?;
        process.sync_dir("/")?;
        file.write_at(b"abc", 0).map(drop)
    });
    let mut cursor = history.cursor();
    while cursor.next_write_len().is_none() {
        assert!(cursor.advance());
    }
    assert_eq!(cursor.next_write_len(), Some(3));
    assert_eq!(contents(&cursor.images_inside(2).unwrap()), some([b"", b"\0\0", b"ab"]));
    assert!(cursor.images_inside(4).is_none());
    assert!(cursor.advance());
    assert!(cursor.images_inside(0).is_none(), "the end of the history");
    assert!(!cursor.advance());
}

#[test]
fn a_history_without_a_sync_is_what_a_disk_without_it_would_have_left() {
    let history = recorded(two_synced_records);
    let last = history.steps().last().unwrap().site.unwrap();
    let without = history.without_syncs(|step| step.site == Some(last));
    assert_eq!(without.len(), history.len() - 1);
    assert_eq!(contents(&without.at(without.len())), some([b"1", b"1\0", b"12"]));

    let disk = Disk::new(Config::new(Profile::Strict));
    disk.disable_barrier("history.rs", last.line);
    two_synced_records(&disk.process()).unwrap();
    assert_eq!(hashes(&disk.images()), hashes(&without.at(without.len())));
    let sites: Vec<(u32, u64)> =
        disk.barriers().into_iter().map(|(site, count)| (site.line, count)).collect();
    assert_eq!(sites.len(), 3, "a sync that is switched off is still counted");
    assert!(sites.contains(&(last.line, 1)));

    let of_the_name = history.steps()[1].site.unwrap();
    let disk = Disk::new(Config::new(Profile::Strict));
    disk.disable_barrier("history.rs", of_the_name.line);
    two_synced_records(&disk.process()).unwrap();
    assert_eq!(contents(&disk.images()), BTreeSet::from([None, Some(b"12".to_vec())]));

    let mended = without.with_sync(without.len(), "/a").unwrap();
    assert_eq!(contents(&mended.at(mended.len())), some([b"12"]));
    assert!(without.with_sync(0, "/a").is_none(), "there is no such file yet");
}

#[test]
fn a_history_goes_on_over_a_power_loss() {
    let disk = Disk::new(Config::new(Profile::Strict));
    disk.record();
    two_synced_records(&disk.process()).unwrap();
    let before = disk.recorded();
    disk.process().open("/a", Open::Write).unwrap().write_at(b"3", 2).unwrap();
    disk.power_loss();
    let left = disk.snapshot();
    disk.process().open("/b", Open::Create).unwrap();
    let history = disk.take_history().unwrap();
    assert_eq!(contents(&history.at(before)), some([b"12"]));
    assert!(history.steps()[before + 1].is_power_loss());
    assert_eq!(format!("{:?}", &history.steps()[before..before + 2]), "[write /a at 2 len 1, power loss]");
    assert_eq!(hashes(&history.at(before + 2)), BTreeSet::from([left.hash()]));
    assert_eq!(history.at(history.len()).process_crash().hash(), disk.snapshot().hash());
}

#[test]
fn an_image_makes_a_disk_of_its_own() {
    let history = recorded(two_synced_records);
    let image = history.at(history.len()).nth(0).unwrap();
    let (one, two) = (image.to_disk(Config::default()), image.to_disk(Config::default()));
    one.process().open("/a", Open::Write).unwrap().write_at(b"changed", 0).unwrap();
    assert_eq!(two.seen("/a").unwrap(), b"12");
    assert_eq!(two.snapshot().hash(), image.hash());
    assert_ne!(one.snapshot().hash(), image.hash());
    assert_eq!(hashes(&two.images()), BTreeSet::from([image.hash()]), "nothing is pending on it");
}

/// On a disk of its own, nobody has a file open that has lost its name: its blocks are free, however the image came to be.
#[test]
fn what_had_no_name_any_more_takes_no_room_on_another_disk() -> io::Result<()> {
    let disk = Disk::new(Config::default());
    disk.record();
    let process = disk.process();
    let file = process.open("/a", Open::Create)?;
    file.write_at(&[1; 3 * 4096], 0)?;
    process.remove_file("/a")?;
    let snapshot = disk.snapshot();
    let history = disk.take_history().unwrap();
    for image in [snapshot, history.at(history.len()).process_crash()] {
        let config = Config { capacity: Some(2 * 4096), ..Config::default() };
        let other = image.to_disk(config);
        assert_eq!(other.used(), 4096, "the root");
        assert_eq!(other.process().open("/b", Open::Create)?.write_at(&[2; 4096], 0)?, 4096);
        disk.power_loss_leaving(&image);
        assert_eq!(disk.used(), 4096);
    }
    Ok(())
}

#[test]
fn an_observer_hears_of_every_operation() {
    let disk = Disk::new(Config::default());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = heard.clone();
    disk.observe(move |event| {
        let line = format!("{} {} {}+{} {:?}", event.op, event.path, event.position, event.len, event.result);
        ear.lock().unwrap().push(line);
    });
    let process = disk.process();
    two_synced_records(&process).unwrap();
    process.open("/none", Open::Read).unwrap_err();
    disk.stop_observing();
    process.list("/").unwrap();
    assert_eq!(
        *heard.lock().unwrap(),
        [
            "open /a 0+0 Ok(0)",
            "open / 0+0 Ok(0)",
            "sync-dir / 0+0 Ok(0)",
            "write /a 0+1 Ok(1)",
            "sync /a 0+0 Ok(0)",
            "write /a 1+1 Ok(1)",
            "sync /a 0+0 Ok(0)",
            "open /none 0+0 Err(Errno(2))",
        ]
    );
    assert_eq!(disk.operations(), 9);
}

#[test]
fn the_three_views_of_a_file() {
    use faults::Pending;
    let disk = Disk::new(Config::default());
    let process = disk.process();
    let file = process.open("/a", Open::Create).unwrap();
    file.write_at(b"abc", 0).unwrap();
    file.set_len(2).unwrap();
    let view = disk.view("/a");
    assert_eq!(view.seen.as_deref(), Some(&b"ab"[..]));
    assert_eq!(view.durable, None);
    assert_eq!(view.pending, [Pending::Write { position: 0, len: 3 }, Pending::Length { len: 2 }]);
    assert!(view.name_pending);
    process.sync_dir("/").unwrap();
    assert_eq!(disk.view("/a").durable.as_deref(), Some(&b""[..]));
    file.sync_data().unwrap();
    let view = disk.view("/a");
    assert_eq!((view.durable, view.pending, view.name_pending), (Some(b"ab".to_vec()), vec![], false));
}

#[test]
fn hands_on_files_at_rest() {
    let disk = Disk::new(Config::default());
    disk.put("/d/e/a", b"abcdef").unwrap();
    disk.corrupt("/d/e/a", 1, 0x20).unwrap();
    disk.truncate("/d/e/a", 4).unwrap();
    disk.zero("/d/e/a", 3, 3).unwrap();
    disk.overwrite("/d/e/a", 6, b"z").unwrap();
    let bytes = b"aBc\0\0\0z";
    assert_eq!(disk.durable("/d/e/a").unwrap(), bytes);
    disk.power_loss();
    assert_eq!(disk.seen("/d/e/a").unwrap(), bytes);
    assert_eq!(disk.corrupt("/d/e/a", 7, 1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(disk.corrupt("/none", 0, 1).unwrap_err().kind(), io::ErrorKind::NotFound);
    // Whatever lies in a hole, there is nothing to go through in it.
    disk.put("/d/long", b"abc").unwrap();
    disk.zero("/d/long", 1, (16 << 40) - 1).unwrap();
    assert_eq!(disk.list_all().last(), Some(&("/d/long".to_owned(), 16 << 40)));
    disk.truncate("/d/long", 3).unwrap();
    assert_eq!(disk.seen("/d/long").unwrap(), b"a\0\0");
    disk.delete("/d").unwrap();
    disk.power_loss();
    assert!(disk.list_all().is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u64, u8, usize),
    SetLen(usize, u64),
    Sync(usize),
    SyncDir,
    Rename(usize, usize),
    Remove(usize),
}

const NAMES: [&str; 3] = ["/a", "/b", "/c"];

fn step() -> impl Strategy<Value = Step> {
    let position = || prop::sample::select(vec![0_u64, 1, 3, 510, 512, 1024]);
    prop_oneof![
        5 => (0..2_usize, position(), 1..4_u8, prop::sample::select(vec![1_usize, 3, 600]))
            .prop_map(|(file, at, byte, len)| Step::Write(file, at, byte, len)),
        1 => (0..2_usize, position()).prop_map(|(file, len)| Step::SetLen(file, len)),
        1 => (0..2_usize).prop_map(Step::Sync),
        1 => Just(Step::SyncDir),
        1 => (0..3_usize, 0..3_usize).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (0..3_usize).prop_map(Step::Remove),
    ]
}

/// Failures are part of the sequence: what does not exist is not renamed.
fn run(process: &Process, step: &Step) -> io::Result<()> {
    let open = |file: &usize| process.open(NAMES[*file], Open::Create);
    match step {
        Step::Write(file, at, byte, len) => open(file)?.write_at(&vec![*byte; *len], *at).map(drop),
        Step::SetLen(file, len) => open(file)?.set_len(*len),
        Step::Sync(file) => open(file)?.sync_data(),
        Step::SyncDir => process.sync_dir("/"),
        Step::Rename(from, to) => process.rename(NAMES[*from], NAMES[*to]),
        Step::Remove(file) => process.remove_file(NAMES[*file]),
    }
}

#[test]
fn an_error_that_nobody_was_told_of_makes_another_image() {
    let disk = Disk::new(Config::new(Profile::Strict));
    disk.put("/a", b"old").unwrap();
    disk.record();
    let file = disk.process().open("/a", Open::Write).unwrap();
    file.write_at(b"new", 0).unwrap();
    let failing = Kind::SyncFailure { errno: Errno::EIO };
    disk.aim(Fault::new(Op::Sync, "*", failing)).unwrap();
    file.sync_data().unwrap_err();
    let history = disk.take_history().unwrap();

    let [before, after] = [1, 2].map(|steps| history.at(steps).process_crash());
    assert_eq!(before.files(), after.files());
    assert_ne!(before.hash(), after.hash());
    assert_eq!([before.is_failing(), after.is_failing()], [false, true]);
    let sync = |image: &Image| {
        image.to_disk(Config::new(Profile::Strict)).process().open("/a", Open::Write)?.sync_data()
    };
    sync(&before).unwrap();
    sync(&after).unwrap_err();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// What a kinder profile may leave, a harsher one may leave too; everything kept is always legal; what is drawn is
    /// among what is numbered; and after every sync there is one image left.
    #[test]
    fn the_profiles_contain_each_other(steps in prop::collection::vec(step(), 1..9)) {
        let disk = Disk::new(Config::new(Profile::Strict));
        disk.record();
        let process = disk.process();
        for step in &steps {
            _ = run(&process, step);
        }
        let seen = disk.snapshot().hash();
        let history = disk.take_history().unwrap();
        let images = |profile| {
            let history = history.under(profile);
            history.at(history.len())
        };
        prop_assume!(images(Profile::Strict).count() < 5_000 && images(Profile::Lying).count() < 5_000);
        let of = |profile| hashes(&images(profile));
        let (strict, ordered, writeback, lying) =
            (of(Profile::Strict), of(Profile::Ordered), of(Profile::Writeback), of(Profile::Lying));
        prop_assert!(ordered.is_subset(&writeback));
        prop_assert!(writeback.is_subset(&strict));
        prop_assert!(ordered.is_subset(&lying));
        prop_assert!(ordered.contains(&seen));
        for (profile, all) in [(Profile::Strict, strict), (Profile::Ordered, ordered), (Profile::Writeback, writeback)] {
            for seed in 0..20 {
                prop_assert!(all.contains(&images(profile).draw(seed).hash()));
            }
            let mut synced = history.under(profile);
            for name in ["/", "/a", "/b", "/c"] {
                synced = synced.with_sync(synced.len(), name).unwrap_or(synced);
            }
            prop_assert_eq!(hashes(&synced.at(synced.len())), BTreeSet::from([seen]));
        }
    }

    /// A run is a function of its seed and its operations.
    #[test]
    fn a_power_loss_and_a_restart_are_the_same_for_the_same_seed(
        steps in prop::collection::vec(step(), 1..30),
        seed: u64,
    ) {
        let left = || {
            let disk = Disk::new(Config { seed, ..Config::default() });
            let process = disk.process();
            for step in &steps {
                _ = run(&process, step);
            }
            disk.power_loss();
            let first = disk.snapshot();
            _ = disk.process().open("/d", Open::Create);
            disk.power_loss();
            (first.files(), disk.snapshot().files())
        };
        prop_assert_eq!(left(), left());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// What a power loss that is aimed inside a write leaves is among what an exploration visits there.
    #[test]
    fn a_cut_that_is_aimed_is_one_of_those_that_are_visited(
        steps in prop::collection::vec(step(), 1..7),
        at in prop::sample::select(vec![0_u64, 1, 3, 510, 512, 1024]),
        (len, cut) in prop::sample::select(vec![(3_usize, 1_u64), (3, 2), (600, 1), (600, 300), (600, 512), (600, 599)]),
        profile in prop::sample::select(vec![Profile::Strict, Profile::Ordered, Profile::Writeback]),
        seed: u64,
    ) {
        let disk = Disk::new(Config { seed, ..Config::new(profile) });
        disk.record();
        let process = disk.process();
        for step in &steps {
            _ = run(&process, step);
        }
        let file = process.open("/a", Open::Create).unwrap();
        let before = disk.recorded();
        disk.aim(Fault::new(Op::Write, "*", Kind::PowerLoss { at: Cut::Bytes(cut) })).unwrap();
        file.write_at(&vec![9; len], at).unwrap_err();
        let left = disk.snapshot();
        let images = disk.take_history().unwrap().at(before + 1);
        prop_assume!(images.count() < 5_000);
        prop_assert!(hashes(&images).contains(&left.hash()), "{left:?}");
    }
}

/// What keeps a disk from taking changes is part of its history: with what was in the way at a step, the same comes of it again.
#[test]
fn a_step_knows_what_kept_the_disk_from_taking_changes() {
    let disk = Disk::new(Config { capacity: Some(1 << 20), ..Config::default() });
    disk.record();
    let file = disk.process().open("/a", Open::Create).unwrap();
    let write = |bytes: &[u8]| file.write_at(bytes, disk.seen("/a").unwrap().len() as u64);
    write(b"with room").unwrap();
    disk.set_capacity(Some(1 << 16));
    write(b"with less").unwrap();
    disk.aim(Fault::new(Op::Write, "a", Kind::Full { fits: 3 })).unwrap();
    assert_eq!(write(b"no more than three").unwrap(), 3);
    assert!(write(b"none").is_err());
    disk.set_capacity(None);
    disk.set_read_only(true);
    assert!(write(b"read-only").is_err());
    disk.set_read_only(false);
    write(b"with room again").unwrap();
    disk.set_read_only(true);
    disk.power_loss();
    let read_only = disk.limits();
    let history = disk.take_history().unwrap();
    let limits: Vec<Limits> = history.steps().iter().map(|step| step.limits).collect();
    let capacity = |capacity| Limits { capacity, ..Limits::default() };
    let full = Limits { brim: Some(9 + 9 + 3), ..capacity(Some(1 << 16)) };
    let [some, less, none] = [Some(1 << 20), Some(1 << 16), None].map(capacity);
    assert_eq!(limits, [some, some, less, full, none, none], "the file, four writes, and the power loss");
    assert_eq!(read_only, none, "it can be written after a power loss");
    // The same limits on another disk.
    let again = history.at(4).process_crash().to_disk(Config::default());
    again.limit(full);
    let file = again.process().open("/a", Open::Write).unwrap();
    assert_eq!(file.write_at(b"none", 21).map_err(|e| e.kind()), Err(io::ErrorKind::StorageFull));
    assert_eq!(file.write_at(b"in place", 0).unwrap(), 8);
}

/// The dangerous state: the pages are gone, who was told of it has died, and the next sync says yes.
#[test]
fn an_error_that_somebody_was_told_of_is_told_to_nobody_else_in_any_prefix() {
    let disk = Disk::new(Config::new(Profile::Strict));
    let process = disk.process();
    let file = process.open("/a", Open::Create).unwrap();
    process.sync_dir("/").unwrap();
    disk.record();
    file.write_at(b"dirty", 0).unwrap();
    disk.aim(Fault::error(Op::Sync, "a", Errno::EIO)).unwrap();
    assert!(file.sync_data().is_err());
    let history = disk.take_history().unwrap();
    let next_sync = |steps: usize| {
        let image = history.at(steps).process_crash();
        let failing = image.is_failing();
        assert_eq!(image.has_lost_pages(), steps > 1);
        let after = image.to_disk(Config::default());
        let file = after.process().open("/a", Open::Write).unwrap();
        let told = file.sync_data().is_err();
        drop(file);
        after.power_loss();
        let kept = after.seen("/a").unwrap();
        (failing, told, kept)
    };
    let ops: Vec<Op> = history.steps().iter().map(|step| step.op).collect();
    assert_eq!(ops, [Op::Write, Op::Sync, Op::Sync], "the failure, and that it was told");
    assert_eq!(next_sync(1), (false, false, b"dirty".to_vec()));
    assert_eq!(next_sync(2), (true, true, vec![0; 5]), "killed before it was told");
    assert_eq!(next_sync(3), (false, false, vec![0; 5]), "killed after it");
}
