//! Small histories, and all the images that a power loss may leave of each, written down by hand.
//!
//! An image is written as its files in order of their names: `a:xyz`; a zero byte is a dot. Where a history is about
//! sectors, a letter stands for a whole sector of it, by [`sectors`].

use std::collections::BTreeSet;
use std::io;

use faults::{Config, Disk, Image, Open, Process, Profile};

fn show(image: &Image, unit: usize) -> String {
    let file = |(path, bytes): &(String, Vec<u8>)| {
        let units: Vec<String> = bytes
            .chunks(unit)
            .map(|chunk| {
                assert!(chunk.iter().all(|b| *b == chunk[0]), "a torn sector");
                if chunk[0] == 0 { ".".to_owned() } else { char::from(chunk[0]).to_string() }
            })
            .collect();
        format!("{}:{}", path.trim_start_matches('/'), units.concat())
    };
    image.files().iter().map(file).collect::<Vec<_>>().join(" ")
}

/// Everything durable, then `then`: the images, which the enumeration, the count and the draws must agree on.
fn images(
    profile: Profile,
    unit: usize,
    before: fn(&Process) -> io::Result<()>,
    then: fn(&Process) -> io::Result<()>,
) -> BTreeSet<String> {
    let disk = Disk::new(Config { lies: Some(0), ..Config::new(profile) });
    before(&disk.process()).unwrap();
    let durable = disk.snapshot();
    for (path, bytes) in durable.files() {
        if !path.ends_with('/') {
            disk.put(&path, &bytes).unwrap();
        }
    }
    let process = disk.process();
    process.sync_dir("/").unwrap();
    disk.record();
    then(&process).unwrap();
    let images = disk.images();
    let all: Vec<Image> = images.all().collect();
    let shown: BTreeSet<String> = all.iter().map(|image| show(image, unit)).collect();
    let hashes: BTreeSet<u128> = all.iter().map(Image::hash).collect();
    assert_eq!(hashes.len(), shown.len(), "equal hashes for equal images only");
    assert_eq!(all.len() as u128, images.count());
    assert_eq!(all.len(), shown.len(), "no image is counted twice: {shown:?}");
    let drawn: BTreeSet<String> = (0..1500).map(|seed| show(&images.draw(seed), unit)).collect();
    assert_eq!(drawn, shown, "every image can be drawn, and no other");
    // A history applied again leads to the same images.
    let history = disk.take_history().unwrap();
    let again = history.at(history.len());
    assert_eq!(again.all().map(|image| image.hash()).collect::<BTreeSet<_>>(), hashes);
    shown
}

fn set<const N: usize>(expected: [&str; N]) -> BTreeSet<String> {
    expected.into_iter().map(str::to_owned).collect()
}

fn write(process: &Process, path: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
    process.open(path, Open::Create)?.write_at(bytes, at).map(drop)
}

/// Sectors of one letter each.
fn sectors(letters: &str) -> Vec<u8> {
    letters.bytes().flat_map(|letter| [if letter == b'.' { 0 } else { letter }; 512]).collect()
}

fn sync(process: &Process, path: &str) -> io::Result<()> {
    process.open(path, Open::Read)?.sync_data()
}

fn nothing(_: &Process) -> io::Result<()> {
    Ok(())
}

use Profile::{Lying, Ordered, Strict, Writeback};

#[test]
fn a_file_without_directory_sync_may_be_gone_though_it_was_synced() {
    let make = |p: &Process| {
        write(p, "/a", 0, b"xx")?;
        sync(p, "/a")
    };
    assert_eq!(images(Strict, 1, nothing, make), set(["", "a:xx"]));
    // ext4 commits the inode's name with it.
    assert_eq!(images(Ordered, 1, nothing, make), set(["a:xx"]));
    assert_eq!(images(Writeback, 1, nothing, make), set(["a:xx"]));
}

#[test]
fn a_file_whose_directory_was_synced_may_be_empty() {
    let make = |p: &Process| {
        write(p, "/a", 0, b"xx")?;
        p.sync_dir("/")
    };
    assert_eq!(images(Strict, 1, nothing, make), set(["a:", "a:..", "a:xx"]));
    assert_eq!(images(Ordered, 1, nothing, make), set(["a:", "a:xx"]));
    assert_eq!(images(Writeback, 1, nothing, make), set(["a:", "a:..", "a:xx"]));
}

#[test]
fn a_rename_over_a_synced_file_leaves_the_old_or_the_new_one() {
    let before = |p: &Process| {
        write(p, "/a", 0, b"old")?;
        write(p, "/t", 0, b"new")
    };
    let rename = |p: &Process| p.rename("/t", "/a");
    // Two entries: each may be as it was, or not.
    assert_eq!(images(Strict, 1, before, rename), set(["a:old t:new", "a:new", "a:new t:new", "a:old"]));
    for profile in [Ordered, Writeback, Lying] {
        assert_eq!(images(profile, 1, before, rename), set(["a:old t:new", "a:new"]));
    }
}

#[test]
fn a_rename_before_the_data_is_synced_may_leave_an_empty_file() {
    let before = |p: &Process| write(p, "/a", 0, b"old");
    let replace = |p: &Process| {
        write(p, "/t", 0, b"new")?;
        p.rename("/t", "/a")?;
        p.sync_dir("/")
    };
    assert_eq!(images(Strict, 1, before, replace), set(["a:", "a:...", "a:new"]));
    assert_eq!(images(Ordered, 1, before, replace), set(["a:", "a:new"]));
    assert_eq!(images(Writeback, 1, before, replace), set(["a:", "a:...", "a:new"]));
}

#[test]
fn names_come_in_any_order_or_in_the_order_they_were_asked_for() {
    let two = |p: &Process| {
        write(p, "/a", 0, b"")?;
        write(p, "/b", 0, b"")
    };
    assert_eq!(images(Strict, 1, nothing, two), set(["", "a:", "b:", "a: b:"]));
    for profile in [Ordered, Writeback, Lying] {
        assert_eq!(images(profile, 1, nothing, two), set(["", "a:", "a: b:"]));
    }
}

#[test]
fn writes_to_two_files_come_in_any_order() {
    let before = |p: &Process| {
        write(p, "/a", 0, b"1")?;
        write(p, "/b", 0, b"1")
    };
    let writes = |p: &Process| {
        write(p, "/a", 0, b"2")?;
        write(p, "/b", 0, b"2")
    };
    for profile in Profile::ALL {
        assert_eq!(images(profile, 1, before, writes), set(["a:1 b:1", "a:1 b:2", "a:2 b:1", "a:2 b:2"]));
    }
}

#[test]
fn an_append_may_leave_its_length_without_its_data() {
    let before = |p: &Process| write(p, "/a", 0, b"xy");
    let append = |p: &Process| write(p, "/a", 2, b"z");
    assert_eq!(images(Strict, 1, before, append), set(["a:xy", "a:xy.", "a:xyz"]));
    assert_eq!(images(Ordered, 1, before, append), set(["a:xy", "a:xyz"]));
    assert_eq!(images(Writeback, 1, before, append), set(["a:xy", "a:xy.", "a:xyz"]));
}

#[test]
fn two_appends_leave_a_prefix_where_data_comes_first() {
    let append = |p: &Process| {
        write(p, "/a", 512, &sectors("b"))?;
        write(p, "/a", 1024, &sectors("c"))
    };
    let before = |p: &Process| write(p, "/a", 0, &sectors("a"));
    assert_eq!(images(Ordered, 512, before, append), set(["a:a", "a:ab", "a:abc"]));
    let any = set(["a:a", "a:a.", "a:ab", "a:a..", "a:ab.", "a:a.c", "a:abc"]);
    assert_eq!(images(Strict, 512, before, append), any);
    assert_eq!(images(Writeback, 512, before, append), any);
}

#[test]
fn one_large_write_may_leave_any_of_its_sectors() {
    let before = |p: &Process| write(p, "/a", 0, &sectors("ab"));
    let overwrite = |p: &Process| write(p, "/a", 0, &sectors("cd"));
    for profile in Profile::ALL {
        assert_eq!(images(profile, 512, before, overwrite), set(["a:ab", "a:cb", "a:ad", "a:cd"]));
    }
}

#[test]
fn a_sector_may_have_any_content_it_had_since_it_was_durable() {
    let before = |p: &Process| write(p, "/a", 0, b"1");
    let writes = |p: &Process| {
        write(p, "/a", 0, b"2")?;
        write(p, "/a", 0, b"3")?;
        write(p, "/a", 0, b"2")
    };
    for profile in Profile::ALL {
        assert_eq!(images(profile, 1, before, writes), set(["a:1", "a:2", "a:3"]));
    }
}

#[test]
fn a_cut_that_was_not_synced_may_come_undone() {
    let before = |p: &Process| write(p, "/a", 0, b"xyz");
    let cut = |p: &Process| p.open("/a", Open::Write)?.set_len(1);
    for profile in Profile::ALL {
        // The block that the cut goes through is zeroed behind it, and may be written before the length is.
        assert_eq!(images(profile, 1, before, cut), set(["a:xyz", "a:x", "a:x.."]), "{profile}");
    }
}

#[test]
fn blocks_that_a_cut_gives_back_are_not_written_where_order_is_kept() {
    let before = |p: &Process| write(p, "/a", 0, &sectors("aaaaaaaabb"));
    let cut = |p: &Process| p.open("/a", Open::Write)?.set_len(4096);
    for profile in [Ordered, Lying] {
        assert_eq!(images(profile, 512, before, cut), set(["a:aaaaaaaabb", "a:aaaaaaaa"]));
    }
    for profile in [Strict, Writeback] {
        let any = set(["a:aaaaaaaabb", "a:aaaaaaaa", "a:aaaaaaaab.", "a:aaaaaaaa.b", "a:aaaaaaaa.."]);
        assert_eq!(images(profile, 512, before, cut), any);
    }
}

#[test]
fn data_may_be_newer_than_the_length_but_not_older() {
    let before = |p: &Process| write(p, "/a", 0, b"x");
    let writes = |p: &Process| {
        write(p, "/a", 1, b"y")?;
        write(p, "/a", 0, b"z")
    };
    let kept = ["a:x", "a:z", "a:xy", "a:zy"];
    assert_eq!(images(Ordered, 1, before, writes), set(kept));
    let mut loose = set(kept);
    loose.extend(set(["a:x."]));
    assert_eq!(images(Strict, 1, before, writes), loose);
}

#[test]
fn old_bytes_may_come_back_after_truncate_and_extend() {
    let before = |p: &Process| write(p, "/a", 0, b"xyz");
    let extend = |p: &Process| {
        let file = p.open("/a", Open::Write)?;
        file.set_len(1)?;
        file.set_len(4)
    };
    let loose = set(["a:x", "a:xyz", "a:x..", "a:xyz.", "a:x..."]);
    assert_eq!(images(Strict, 1, before, extend), loose);
    assert_eq!(images(Writeback, 1, before, extend), loose);
    // With order kept, what was cut off is zeroed before the file is longer again.
    assert_eq!(images(Ordered, 1, before, extend), set(["a:xyz", "a:x", "a:x..", "a:x..."]));
}

#[test]
fn a_removed_file_may_be_back_with_what_was_pending_on_it() {
    let before = |p: &Process| write(p, "/a", 0, b"1");
    let remove = |p: &Process| {
        write(p, "/a", 0, b"2")?;
        p.remove_file("/a")
    };
    for profile in Profile::ALL {
        assert_eq!(images(profile, 1, before, remove), set(["", "a:1", "a:2"]));
    }
}

#[test]
fn a_file_in_a_directory_that_is_gone_is_gone() {
    let make = |p: &Process| {
        p.create_dir("/d")?;
        write(p, "/d/a", 0, b"x")?;
        sync(p, "/d/a")?;
        p.sync_dir("/d")
    };
    assert_eq!(images(Strict, 1, nothing, make), set(["", "d/: d/a:x"]));
    assert_eq!(images(Ordered, 1, nothing, make), set(["d/: d/a:x"]));
}

#[test]
fn a_lying_device_may_undo_its_last_syncs_and_no_more() {
    let disk = Disk::new(Config { lies: Some(1), ..Config::new(Lying) });
    disk.put("/a", b"").unwrap();
    let process = disk.process();
    for (at, byte) in [(0, b"1"), (1, b"2"), (2, b"3")] {
        write(&process, "/a", at, byte).unwrap();
        sync(&process, "/a").unwrap();
    }
    let shown: BTreeSet<String> = disk.images().all().map(|image| show(&image, 1)).collect();
    assert_eq!(shown, set(["a:12", "a:123"]));
}
