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
    let broken = dump(&log);
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
    type Breaks = fn(&std::path::Path) -> std::io::Result<()>;
    let cases: [(&str, Breaks); 6] = [
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
    ];
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
    // Before the first start there is nothing to find fault with.
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    text(&verify(&dir.path().join("empty")));
    // What is left of a broker's is verified, however little it is.
    let left = stopped(dir.path());
    for name in ["clean", "running", "was-clean", "t/topic"] {
        assert!(std::fs::remove_file(left.join(name)).is_ok() || name == "was-clean", "{name}");
    }
    let said = String::from_utf8(verify(&left).stdout).unwrap();
    assert!(said.contains("t/topic: the topic's settings are missing"), "{said}");
}
