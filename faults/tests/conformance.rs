//! The simulated disk without faults against the real file system: the same operations give the same results, the same
//! bytes and the same error numbers.
//!
//! Daily: 600 sequences of 150 operations on average, the same each time, against a file system in memory where there
//! is one. With `FAULTS_CASES` set, that many, new ones each time, in the temporary directory: `ci/soak` sets it to as
//! many as there is time for, and `TMPDIR` to the file system to compare with.

use std::fs::{self, File as RealFile, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use faults::{Config, Disk, Errno, File, Lock, Open, Process};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

const DAILY_CASES: u32 = 600;
const SLOTS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Open(usize, String, Open),
    Close(usize),
    Read(usize, u64, usize),
    Write(usize, u64, u8, usize),
    Len(usize),
    SetLen(usize, u64),
    Sync(usize),
    SyncDir(String),
    List(String),
    MakeDir(String),
    Rename(String, String),
    Remove(String),
    RemoveDir(String),
    Lock(usize, String),
    Unlock(usize),
}

/// What an operation gave: its value as text, or the error's number.
type Outcome = Result<String, i32>;

fn outcome<T: std::fmt::Debug>(result: io::Result<T>) -> Outcome {
    let number = |e: io::Error| match e.kind() {
        // `std` refuses a length beyond `i64::MAX` before the kernel can.
        io::ErrorKind::InvalidInput => Errno::EINVAL.0,
        _ => e.raw_os_error().unwrap_or(-1),
    };
    result.map(|value| format!("{value:?}")).map_err(number)
}

struct Real {
    root: PathBuf,
    files: [Option<RealFile>; SLOTS],
    locks: [Option<RealFile>; SLOTS],
}

impl Real {
    fn path(&self, path: &str) -> PathBuf {
        match path.trim_start_matches('/') {
            // A slash at the end would make other errors of it.
            "" => self.root.clone(),
            below => self.root.join(below),
        }
    }

    fn open(&self, path: &str, how: Open) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(how != Open::Read);
        options.create(how == Open::Create).create_new(how == Open::CreateNew);
        options.open(self.path(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(path))? {
            let entry = entry?;
            names.push((entry.file_name().into_string().unwrap(), entry.file_type()?.is_dir()));
        }
        names.sort();
        Ok(names)
    }

    fn lock(&self, path: &str) -> io::Result<RealFile> {
        let file = RealFile::open(self.path(path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(Errno::EAGAIN.into()),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn run(&mut self, step: &Step) -> Outcome {
        let file = |slot: &usize| self.files[*slot].as_ref().ok_or(io::Error::from(Errno::EBADF));
        match step {
            Step::Open(slot, path, how) => {
                let opened = self.open(path, *how);
                outcome(opened.map(|file| _ = self.files[*slot].insert(file)))
            }
            Step::Close(slot) => outcome(Ok(self.files[*slot].take().is_some())),
            Step::Read(slot, at, len) => outcome(file(slot).and_then(|file| {
                let mut buf = vec![7; *len];
                let n = file.read_at(&mut buf, *at)?;
                Ok(buf[..n].to_vec())
            })),
            Step::Write(slot, at, byte, len) => {
                outcome(file(slot).and_then(|file| FileExt::write_at(file, &vec![*byte; *len], *at)))
            }
            Step::Len(slot) => outcome(file(slot).and_then(|file| {
                let metadata = file.metadata()?;
                Ok(if metadata.is_dir() { 4096 } else { metadata.len() })
            })),
            Step::SetLen(slot, len) => outcome(file(slot).and_then(|file| file.set_len(*len))),
            Step::Sync(slot) => outcome(file(slot).and_then(|file| file.sync_data())),
            Step::SyncDir(path) => outcome(RealFile::open(self.path(path)).and_then(|dir| dir.sync_all())),
            Step::List(path) => outcome(self.list(path)),
            Step::MakeDir(path) => outcome(fs::create_dir(self.path(path))),
            Step::Rename(from, to) => outcome(fs::rename(self.path(from), self.path(to))),
            Step::Remove(path) => outcome(fs::remove_file(self.path(path))),
            Step::RemoveDir(path) => outcome(fs::remove_dir(self.path(path))),
            Step::Lock(slot, path) => {
                let locked = self.lock(path);
                outcome(locked.map(|lock| _ = self.locks[*slot].insert(lock)))
            }
            Step::Unlock(slot) => outcome(Ok(self.locks[*slot].take().is_some())),
        }
    }
}

struct Simulated {
    process: Process,
    files: [Option<File>; SLOTS],
    locks: [Option<Lock>; SLOTS],
}

impl Simulated {
    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        Ok(self.process.list(path)?.into_iter().map(|entry| (entry.name, entry.is_dir)).collect())
    }

    fn run(&mut self, step: &Step) -> Outcome {
        let file = |slot: &usize| self.files[*slot].as_ref().ok_or(io::Error::from(Errno::EBADF));
        match step {
            Step::Open(slot, path, how) => {
                let opened = self.process.open(path, *how);
                outcome(opened.map(|file| _ = self.files[*slot].insert(file)))
            }
            Step::Close(slot) => outcome(Ok(self.files[*slot].take().is_some())),
            Step::Read(slot, at, len) => outcome(file(slot).and_then(|file| {
                let mut buf = vec![7; *len];
                let n = file.read_at(&mut buf, *at)?;
                Ok(buf[..n].to_vec())
            })),
            Step::Write(slot, at, byte, len) => {
                outcome(file(slot).and_then(|file| file.write_at(&vec![*byte; *len], *at)))
            }
            Step::Len(slot) => outcome(file(slot).and_then(File::len)),
            Step::SetLen(slot, len) => outcome(file(slot).and_then(|file| file.set_len(*len))),
            Step::Sync(slot) => outcome(file(slot).and_then(File::sync_data)),
            Step::SyncDir(path) => outcome(self.process.sync_dir(path)),
            Step::List(path) => outcome(self.list(path)),
            Step::MakeDir(path) => outcome(self.process.create_dir(path)),
            Step::Rename(from, to) => outcome(self.process.rename(from, to)),
            Step::Remove(path) => outcome(self.process.remove_file(path)),
            Step::RemoveDir(path) => outcome(self.process.remove_dir(path)),
            Step::Lock(slot, path) => {
                let locked = self.process.lock_dir(path);
                outcome(locked.map(|lock| _ = self.locks[*slot].insert(lock)))
            }
            Step::Unlock(slot) => outcome(Ok(self.locks[*slot].take().is_some())),
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        60 => prop::sample::select(vec!["/a", "/b", "/d", "/e", "/d/a", "/d/b", "/e/a", "/d/e", "/d/e/a"]).prop_map(str::to_owned),
        6 => prop::sample::select(vec!["/", "/a/x", "/./d/a", "/none/a"]).prop_map(str::to_owned),
        1 => Just(format!("/{}", "n".repeat(256))),
    ]
}

fn position() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..2000_u64,
        3 => prop::sample::select(vec![511, 512, 513, 4095, 4096, 4097, 8192, 20_000]),
        1 => Just(u64::MAX),
    ]
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..100_usize, 2 => 500..600_usize, 2 => 4000..9000_usize]
}

fn step() -> impl Strategy<Value = Step> {
    let how =
        prop::sample::select(vec![Open::Read, Open::Write, Open::Create, Open::Create, Open::CreateNew]);
    let slot = || 0..SLOTS;
    prop_oneof![
        12 => (slot(), path(), how).prop_map(|(slot, path, how)| Step::Open(slot, path, how)),
        2 => slot().prop_map(Step::Close),
        14 => (slot(), position(), len()).prop_map(|(slot, at, len)| Step::Read(slot, at, len)),
        16 => (slot(), position(), 0..4_u8, len()).prop_map(|(slot, at, byte, len)| Step::Write(slot, at, byte, len)),
        4 => slot().prop_map(Step::Len),
        5 => (slot(), position()).prop_map(|(slot, len)| Step::SetLen(slot, len)),
        1 => slot().prop_map(Step::Sync),
        1 => path().prop_map(Step::SyncDir),
        4 => path().prop_map(Step::List),
        6 => path().prop_map(Step::MakeDir),
        8 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        4 => path().prop_map(Step::Remove),
        2 => path().prop_map(Step::RemoveDir),
        2 => (slot(), path()).prop_map(|(slot, path)| Step::Lock(slot, path)),
        1 => slot().prop_map(Step::Unlock),
    ]
}

/// Everything below a directory: files with their bytes.
fn tree(root: &Path, below: &str, files: &mut Vec<(String, Vec<u8>)>) {
    let mut names: Vec<_> = fs::read_dir(root).unwrap().map(Result::unwrap).collect();
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        let path = format!("{below}{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files.push((format!("{path}/"), Vec::new()));
            tree(&entry.path(), &format!("{path}/"), files);
        } else {
            files.push((path, fs::read(entry.path()).unwrap()));
        }
    }
}

fn compare(steps: &[Step], parent: &Path) -> Result<usize, TestCaseError> {
    let root = tempfile::tempdir_in(parent).unwrap();
    let mut real =
        Real { root: root.path().to_owned(), files: Default::default(), locks: Default::default() };
    let disk = Disk::new(Config::default());
    let mut simulated =
        Simulated { process: disk.process(), files: Default::default(), locks: Default::default() };
    for (index, step) in steps.iter().enumerate() {
        // Removing or renaming the root itself would take the test's own directory.
        if matches!(step, Step::RemoveDir(path) | Step::Remove(path) if path == "/") {
            continue;
        }
        if matches!(step, Step::Rename(from, to) if from == "/" || to == "/") {
            continue;
        }
        prop_assert_eq!(simulated.run(step), real.run(step), "step {}: {:?}", index, step);
    }
    let mut expected = Vec::new();
    tree(root.path(), "/", &mut expected);
    prop_assert_eq!(disk.snapshot().files(), expected);
    Ok(steps.len())
}

#[test]
fn it_does_what_a_real_file_system_does() {
    let cases = std::env::var("FAULTS_CASES").ok().map_or(DAILY_CASES, |cases| cases.parse().unwrap());
    let seed = if cases == DAILY_CASES { RngSeed::Fixed(4) } else { RngSeed::Random };
    let config =
        ProptestConfig { cases, rng_seed: seed, failure_persistence: None, ..ProptestConfig::default() };
    // The daily run is for errors and bytes, not for how long a device takes to sync.
    let in_memory = Path::new("/dev/shm");
    let parent = match cases {
        DAILY_CASES if in_memory.is_dir() => tempfile::tempdir_in(in_memory).unwrap(),
        _ => tempfile::tempdir().unwrap(),
    };
    let operations = std::cell::Cell::new(0);
    TestRunner::new(config)
        .run(&prop::collection::vec(step(), 1..300), |steps| {
            operations.set(operations.get() + compare(&steps, parent.path())?);
            Ok(())
        })
        .unwrap();
    println!("{} operations", operations.get());
    assert!(cases < DAILY_CASES || operations.get() >= 50_000);
}
