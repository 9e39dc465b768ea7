//! `dump` and `verify`: what a broker left on the disk, looked at without one.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use common::process::{Process, broker, complaint, stopped, text, verdict, verify};

#[test]
fn a_dump_shows_each_record_and_each_entry() {
    let dir = tempfile::tempdir().unwrap();
    let partition = stopped(dir.path()).join("t/0");
    let dump = |path: &std::path::Path| text(&broker().arg("dump").arg(path).output().unwrap());
    let all = dump(&partition);
    for expected in [
        "  offset 0  byte 0  39 B  time ",
        "  key \"user-1\"  value \"hello\"",
        "  offset 2  byte 78  35 B  time ",
        "00000000000000000000.index  20 B",
        "  offset 2 → byte 78",
        "  offset 3  byte 0  30 B  time ",
    ] {
        assert!(all.contains(expected), "{expected:?} is missing in\n{all}");
    }
    let log = partition.join("00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[50] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let output = broker().arg("dump").arg(&log).output().unwrap();
    let why = complaint(&output);
    assert!(why.contains("0.log: 39 bytes are no records or index entries"), "{why}");
    let broken = String::from_utf8(output.stdout).unwrap();
    assert!(
        broken.contains("  byte 39: 39 bytes are not a record, a valid record after them: the CRC"),
        "{broken}"
    );
    assert!(broken.contains("  offset 2  byte 78"), "{broken}");
}

#[test]
fn a_clean_directory_is_well_and_verifying_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = stopped(dir.path());
    let snapshot = |dir: &std::path::Path| {
        let mut files: Vec<_> =
            walk(dir).into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect();
        files.sort();
        files
    };
    let before = snapshot(&data);
    let said = text(&verify(&data));
    assert!(said.contains("1 topic, 1 partition, 2 segments, 5 records, 173 B: all is well"), "{said}");
    assert!(snapshot(&data) == before);

    let server = Process::start(&data, &[]);
    assert!(complaint(&verify(&data)).contains("a server is using this directory"));
    server.kill();
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Each byte of each file of a partition, flipped: the fault is named with its file, and the exit code is 1.
#[test]
fn verify_names_each_flipped_byte() {
    let dir = tempfile::tempdir().unwrap();
    let partition = stopped(dir.path()).join("t/0");
    let files: Vec<_> = walk(&partition).into_iter().filter(|path| !path.ends_with("synced")).collect();
    assert!(files.len() >= 6, "{files:?}");
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            std::fs::write(&path, &broken).unwrap();
            let verdict = verdict(&dir.path().join("data"));
            let fault = verdict
                .faults
                .first()
                .unwrap_or_else(|| panic!("{} byte {at} goes unnoticed", path.display()));
            assert!(path.ends_with(&fault.file), "{fault}");
            let byte = fault.byte.expect("it says where").get();
            assert!(byte <= at as u64 && at as u64 - byte < 39, "byte {at} was flipped: {fault}");
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    let log = partition.join("00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[50] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let output = verify(&dir.path().join("data"));
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    let expected =
        "fault: t/0/00000000000000000000.log, byte 39, offset 1: 39 bytes are damaged; offset 1 is lost";
    assert!(said.contains(expected), "{said}");
    assert!(said.ends_with(": 1 fault\n"), "{said}");
}

/// Whoever reads the faults may stop reading; the exit code is for whoever asks whether there are any.
#[test]
fn faults_are_the_exit_code_though_nobody_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let data = stopped(dir.path());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let code = |writer: &std::io::PipeWriter| {
        let status = broker().arg("verify").arg(&data).stdout(writer.try_clone().unwrap()).status();
        status.unwrap().code()
    };
    assert_eq!(code(&writer), Some(0));
    std::fs::remove_file(data.join("t/0/00000000000000000000.index")).unwrap();
    assert_eq!(code(&writer), Some(1));
}

#[test]
fn verify_names_what_is_missing_short_or_too_long() {
    let cases: &[(&str, Breaks)] = &[
        ("t/topic: the topic's settings are missing", |data| std::fs::remove_file(data.join("t/topic"))),
        ("t/0/00000000000000000000.index: the index is missing", |data| {
            std::fs::remove_file(data.join("t/0/00000000000000000000.index"))
        }),
        ("t/0/00000000000000000003.log, offset 0: it begins at offset 3", |data| {
            std::fs::remove_file(data.join("t/0/00000000000000000000.log"))?;
            std::fs::write(data.join("t/0/00000000000000000000.log"), b"")
        }),
        ("t/0/00000000000000000003.log, byte 30, offset 4: the last 29 bytes are no record", |data| {
            let log = data.join("t/0/00000000000000000003.log");
            let bytes = std::fs::read(&log)?;
            std::fs::write(log, &bytes[..bytes.len() - 1])
        }),
        (
            "t/0/00000000000000000000.log, byte 78, offset 2: the last 34 bytes are no record, and a later",
            |data| {
                let log = data.join("t/0/00000000000000000000.log");
                let bytes = std::fs::read(&log)?;
                std::fs::write(log, &bytes[..bytes.len() - 1])
            },
        ),
        ("t/0/00000000000000000000.timeindex, byte 20: this is no whole, valid entry", |data| {
            let index = data.join("t/0/00000000000000000000.timeindex");
            let mut bytes = std::fs::read(&index)?;
            bytes.extend([0; 20]);
            std::fs::write(index, bytes)
        }),
        ("t/0/00000000000000000000.index, byte 20: this is no whole, valid entry", |data| {
            resize(&data.join("t/0/00000000000000000000.index"), 1 << 40)
        }),
        (
            "t/0/00000000000000000000.timeindex, byte 20, offset 77: 1 entries lead behind the end of the log",
            |data| {
                let index = data.join("t/0/00000000000000000000.timeindex");
                let entry = broker::index::Entry { key: 1 << 47, value: 77 }.encode();
                let mut bytes = std::fs::read(&index)?;
                bytes.extend(entry);
                std::fs::write(index, bytes)
            },
        ),
        ("t/0/00000000000000000003.log.unsynced, offset 3: a sync of this log has failed", |data| {
            std::fs::write(data.join("t/0/00000000000000000003.log.unsynced"), b"")
        }),
        ("clean: cannot be read: it has 134217729 bytes", |data| {
            resize(&data.join("clean"), (128 << 20) + 1)
        }),
        ("t/0: its log files are gone and only indexes are left", |data| {
            std::fs::remove_file(data.join("clean"))?;
            std::fs::remove_file(data.join("t/0/00000000000000000000.log"))?;
            std::fs::remove_file(data.join("t/0/00000000000000000003.log"))
        }),
    ];
    names_each(cases);
}

fn resize(path: &std::path::Path, len: u64) -> std::io::Result<()> {
    std::fs::OpenOptions::new().write(true).open(path)?.set_len(len)
}

/// What a clean stop left is known, and nothing may be less when nobody has been at work since.
#[test]
fn verify_names_what_is_less_than_at_the_clean_stop() {
    names_each(&[
        (
            "t/0/00000000000000000003.log, byte 30, offset 4: nothing follows; at the last clean stop the log ended at \
             offset 5: offset 4 is lost",
            |data| resize(&data.join("t/0/00000000000000000003.log"), 30),
        ),
        (
            "t/0/00000000000000000000.log, byte 113, offset 3: nothing follows; at the last clean stop the log ended at \
             offset 5: offsets 3 to 4 are lost",
            |data| std::fs::remove_file(data.join("t/0/00000000000000000003.log")),
        ),
        (
            "t/0/00000000000000000000.log, offset 0: the log was there at the last clean stop, and is gone: offsets 0 to 2",
            |data| std::fs::remove_file(data.join("t/0/00000000000000000000.log")),
        ),
        (
            "t/0/00000000000000000003.log, offset 3: all logs are gone; at the last clean stop they ended at offset 5",
            |data| {
                std::fs::remove_file(data.join("t/0/00000000000000000003.log"))?;
                std::fs::remove_file(data.join("t/0/00000000000000000000.log"))
            },
        ),
        (
            "t/0: the partition was there at the last clean stop, and is gone: offsets 0 to 4 are lost",
            |data| std::fs::remove_dir_all(data.join("t")),
        ),
        (
            "t/0/00000000000000000000.index, byte 0: the index has 0 entries, of 1 that there were at the last clean stop",
            |data| resize(&data.join("t/0/00000000000000000000.index"), 0),
        ),
        ("clean: its checksum does not fit", |data| resize(&data.join("clean"), 20)),
    ]);
    // A run that has begun since has not taken that back.
    let dir = tempfile::tempdir().unwrap();
    let data = stopped(dir.path());
    Process::start(&data, &["--segment-bytes", "100", "--index-interval", "3"]).kill();
    assert!(verdict(&data).faults.is_empty(), "{:?}", verdict(&data));
    resize(&data.join("t/0/00000000000000000003.log"), 30).unwrap();
    let faults = verdict(&data).faults;
    assert!(faults.len() == 1 && faults[0].what.contains("offset 4 is lost"), "{faults:?}");
    // Of a log that is gone, its index says nothing new.
    let first = data.join("t/0/00000000000000000000.index");
    std::fs::copy(first, data.join("t/0/00000000000000000003.index")).unwrap();
    std::fs::remove_file(data.join("t/0/00000000000000000003.log")).unwrap();
    let faults = verdict(&data).faults;
    assert!(faults.len() == 1 && faults[0].what.contains("offsets 3 to 4 are lost"), "{faults:?}");
}

/// Without a clean stop, an index that lacks entries is known by the other one, and by the records behind its last entry.
#[test]
fn verify_names_indexes_that_lack_entries_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Process::start(&data, &["--segment-bytes", "1000", "--index-interval", "2"]);
    server.output(&["topic", "create", "t"]);
    let produce = |lines: &str| text(&server.run_with(&["produce", "t", "--batch", "10"], lines.as_bytes()));
    produce(&"a line of some bytes\n".repeat(30));
    produce("and the next segment\n");
    server.kill();
    assert!(verdict(&data).faults.is_empty(), "{:?}", verdict(&data));
    let index = data.join("t/0/00000000000000000000.index");
    let times = index.with_extension("timeindex");
    let entries = std::fs::metadata(&index).unwrap().len() / 20;
    assert!(entries > 5, "{entries}");
    let whole = (std::fs::read(&index).unwrap(), std::fs::read(&times).unwrap());
    resize(&index, 20 * (entries - 2)).unwrap();
    let faults = verdict(&data).faults;
    let expected = format!("the index has {} entries, of {entries} that the other index has", entries - 2);
    assert!(faults.len() == 1 && faults[0].what.starts_with(&expected), "{faults:?}");
    // Also where it is one entry only: of a segment that is full, none is still to come.
    for missing in [1, 2] {
        for (path, whole) in [(&index, &whole.0), (&times, &whole.1)] {
            std::fs::write(path, &whole[..whole.len() - 20 * missing]).unwrap();
        }
        let faults = verdict(&data).faults;
        assert_eq!(faults.len(), 2, "{faults:?}");
        let expected = format!("{} records at the end have no entry", 2 * missing);
        assert!(faults.iter().all(|fault| fault.what.starts_with(&expected)), "{faults:?}");
    }
}

/// After a power loss a start keeps what lies before a hole in what was never synced, and serves what follows one in what was.
#[test]
fn verify_tells_what_a_start_sets_aside_from_what_it_serves() {
    for (was_synced, told, done) in [
        (
            false,
            "the next start sets aside what lies from here on",
            "set aside 60 bytes; the next offset is 3",
        ),
        (true, "offset 3 is lost, good records follow", "offsets 3 to 3 cannot be read, all others can"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let data = stopped(dir.path());
        let log = data.join("t/0/00000000000000000003.log");
        let mut bytes = std::fs::read(&log).unwrap();
        bytes[10] ^= 1;
        std::fs::write(&log, &bytes).unwrap();
        let another_start = broker::files::checked_text("boot another\ndurability os\n");
        std::fs::write(data.join("running"), another_start).unwrap();
        match was_synced {
            true => std::fs::rename(data.join("clean"), data.join("was-clean")).unwrap(),
            false => std::fs::remove_file(data.join("clean")).unwrap(),
        }
        let faults = verdict(&data).faults;
        let is_there = faults
            .iter()
            .any(|fault| fault.file.ends_with("00000000000000000003.log") && fault.what.ends_with(told));
        assert!(is_there, "{faults:?}");
        let (_, start) = Process::start(&data, &[]).stop();
        assert!(start.contains(done), "{start}");
    }
}

/// A crash leaves what a start tidies up: there is nothing wrong with it, nor with what is beside it.
#[test]
fn what_a_crash_may_leave_is_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let data = stopped(dir.path());
    std::fs::remove_file(data.join("clean")).unwrap();
    let partition = data.join("t/0");
    // Retention takes the log first; a roll makes it first.
    std::fs::remove_file(partition.join("00000000000000000000.log")).unwrap();
    std::fs::write(partition.join("00000000000000000005.log"), b"").unwrap();
    let found = verdict(&data);
    assert_eq!(found.faults, []);
    assert_eq!((found.records, found.segments), (2, 2));
    let note = "t/0/00000000000000000000.index belongs to no log, and goes at the next start";
    assert!(found.notes.iter().any(|n| n == note), "{found:?}");
    // And nothing hides what is wrong.
    let index = "00000000000000000009.index";
    std::fs::copy(partition.join("00000000000000000000.index"), partition.join(index)).unwrap();
    std::fs::rename(partition.join("00000000000000000005.log"), partition.join("00000000000000000007.log"))
        .unwrap();
    let faults: Vec<_> = verdict(&data).faults.iter().map(ToString::to_string).collect();
    let expected = [
        "t/0/00000000000000000007.log, offset 5: it begins at offset 7, and the segment before it ends at 5",
        "t/0/00000000000000000009.index, offset 9: the index has entries, and its log is gone",
    ];
    assert_eq!(faults, expected);
}

/// What is left of a segment shows up to where the log before it had come: where that ends too early, a start keeps it and does not cut
/// the log, and what is said is what a start does.
#[test]
fn what_is_left_of_a_segment_goes_or_stays_as_it_is_said() {
    let (goes, stays) = ("goes at the next start", "stays: the log before it had come up to there");
    for (left, is_damaged) in
        [("index", true), ("index", false), ("log.damaged", true), ("log.damaged", false)]
    {
        let dir = tempfile::tempdir().unwrap();
        let data = stopped(dir.path());
        std::fs::remove_file(data.join("clean")).unwrap();
        let name = format!("00000000000000000005.{left}");
        let [log, left] = ["00000000000000000003.log", &name].map(|name| data.join("t/0").join(name));
        let mut bytes = std::fs::read(&log).unwrap();
        *bytes.last_mut().unwrap() ^= u8::from(is_damaged);
        std::fs::write(&log, &bytes).unwrap();
        std::fs::write(&left, b"").unwrap();
        let found = verdict(&data);
        let faults: Vec<_> = found.faults.iter().map(|fault| fault.what.as_str()).collect();
        assert_eq!(faults.is_empty(), !is_damaged, "{name}: {faults:?}");
        assert!(faults.iter().all(|fault| fault.ends_with("offset 4 is lost")), "{name}: {faults:?}");
        let note = format!("t/0/{name} belongs to no log, and {}", if is_damaged { stays } else { goes });
        assert!(found.notes.contains(&note), "{name}: {found:?}");
        let (_, said) = Process::start(&data, &[]).stop();
        assert_eq!(left.exists(), is_damaged, "{name}: {said}");
        assert_eq!(std::fs::read(&log).unwrap(), bytes, "{name}: {said}");
    }
}

/// A server would count the partitions and serve them.
#[test]
fn logs_are_verified_though_the_settings_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    let data = stopped(dir.path());
    std::fs::remove_file(data.join("t/topic")).unwrap();
    let log = data.join("t/0/00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[50] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let found = verdict(&data);
    assert_eq!((found.topics, found.partitions, found.records), (1, 1, 4));
    let files: Vec<_> = found.faults.iter().map(|fault| fault.file.display().to_string()).collect();
    assert_eq!(files, ["t/topic", "t/0/00000000000000000000.log"]);
}

/// What others hide in the root of a volume, and let nobody look into, a start leaves alone.
#[test]
fn hidden_directories_that_may_not_be_looked_into_are_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let disk = common::failing::Failing::default();
    disk.0.hidden_is_private.store(true, std::sync::atomic::Ordering::SeqCst);
    let data = dir.path().join("data");
    for name in ["private", ".private"] {
        std::fs::create_dir_all(data.join(name)).unwrap();
    }
    let verdict = broker::verify::verify(&disk, &data).unwrap();
    assert_eq!(verdict.faults, []);
    assert_eq!(
        verdict.notes,
        [".private cannot be read, and a start leaves it alone", "private is no topic"]
    );
}

/// To open one is to wait until somebody opens its other end, which nobody does.
#[test]
fn named_pipes_are_told_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let data = stopped(dir.path());
    let pipe = |name: &str| {
        let path = data.join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    };
    let is_pipe = "it is a named pipe, and no regular file";
    let log = pipe("t/0/00000000000000000000.log");
    let why = complaint(&broker().arg("dump").arg(log).output().unwrap());
    assert!(why.contains(is_pipe), "{why}");
    pipe("notes/topic");
    pipe("clean");
    let said = String::from_utf8(verify(&data).stdout).unwrap();
    for file in ["clean", "notes/topic", "t/0/00000000000000000000.log"] {
        assert!(
            said.lines().any(|l| l.starts_with(&format!("fault: {file}")) && l.contains(is_pipe)),
            "{file}: {said}"
        );
    }
    let (_, said) = Process::start(&data, &[]).stop();
    assert!(said.lines().any(|l| l.contains("notes serves nothing") && l.contains(is_pipe)), "{said}");
}

#[test]
fn what_has_the_name_of_a_partition_and_is_no_directory_is_not_called_missing() {
    names_each(&[
        ("fault: t/0: the partition's directory is missing", |data| {
            std::fs::remove_dir_all(data.join("t/0"))
        }),
        ("fault: t/0: cannot be read: Not a directory", |data| {
            std::fs::remove_dir_all(data.join("t/0"))?;
            std::fs::write(data.join("t/0"), b"")
        }),
        ("fault: t/0: cannot be read: No such file", |data| {
            std::fs::remove_dir_all(data.join("t/0"))?;
            std::os::unix::fs::symlink("nowhere", data.join("t/0"))
        }),
        ("fault: t/0: cannot be read: Too many levels of symbolic links", |data| {
            std::fs::remove_dir_all(data.join("t/0"))?;
            std::os::unix::fs::symlink("0", data.join("t/0"))
        }),
    ]);
}

type Breaks = fn(&std::path::Path) -> std::io::Result<()>;

/// What is broken so is said so, and the exit code is 1.
fn names_each(cases: &[(&str, Breaks)]) {
    for (expected, breaks) in cases {
        let dir = tempfile::tempdir().unwrap();
        let data = stopped(dir.path());
        breaks(&data).unwrap();
        let output = verify(&data);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{expected:?} is missing in\n{said}");
    }
}

#[test]
fn what_is_no_file_of_a_broker_is_not_decoded_or_verified() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    std::fs::create_dir_all(other.join("cron.d/0")).unwrap();
    std::fs::write(other.join("hostname"), "a\n").unwrap();
    let why = complaint(&verify(&other));
    assert!(why.contains("is not a data directory"), "{why}");
    let why = complaint(&broker().arg("dump").arg(other.join("hostname")).output().unwrap());
    assert!(why.contains("is not a .log, .index or .timeindex file"), "{why}");
    for name in ["nothing", "0.log"] {
        let why = complaint(&broker().arg("dump").arg(other.join(name)).output().unwrap());
        assert!(why.contains(&format!("{name}: No such file")), "{why}");
    }
    for name in ["garbage.log", "garbage.index", "garbage.timeindex"] {
        std::fs::write(other.join(name), "no record, and no entry").unwrap();
        let why = complaint(&broker().arg("dump").arg(other.join(name)).output().unwrap());
        assert!(why.contains("23 bytes are no records or index entries"), "{why}");
    }
    // An empty one is what a mount that is missing looks like.
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let why = complaint(&verify(&dir.path().join("empty")));
    assert!(why.contains("is not a data directory"), "{why}");
    // One in which a server had nothing to store is one.
    assert!(Process::start(&dir.path().join("unused"), &[]).stop().0.success());
    text(&verify(&dir.path().join("unused")));
    Process::start(&dir.path().join("killed"), &[]).kill();
    text(&verify(&dir.path().join("killed")));
    // What is left of a broker's is verified, however little it is.
    let left = stopped(dir.path());
    for name in ["clean", "running", "was-clean", "t/topic"] {
        assert!(std::fs::remove_file(left.join(name)).is_ok() || name == "was-clean", "{name}");
    }
    let said = String::from_utf8(verify(&left).stdout).unwrap();
    assert!(said.contains("t/topic: the topic's settings are missing"), "{said}");
}
