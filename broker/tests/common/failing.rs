//! A disk that fails when it is told to, and a server on it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker::Broker;
use broker::broker::World;
use broker::client::{Client, Options};
use broker::clock::SystemClock;
use broker::disk::{Disk, DiskFile, Entry, Identity, Open, OsDisk};
use broker::net::TcpConnector;
use broker::server::{Limits, serve};
use broker::settings::{Durability, Settings, TopicSettings};
use broker::work::Threads;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::ok;

/// The real disk, which can be told to be full or read-only, to fail syncs, and to be stuck in them.
#[derive(Clone, Debug, Default)]
pub struct Failing(pub Arc<Switches>);

#[derive(Debug, Default)]
pub struct Switches {
    pub full: AtomicBool,
    /// Those of logs, and of their copies.
    pub sync_fails: AtomicBool,
    pub sync_hangs: AtomicBool,
    /// How many syncs of files have waited so far.
    pub hanging: AtomicU64,
    /// Syncs of directories wait.
    pub dir_sync_hangs: AtomicBool,
    /// Files that are to be removed wait.
    pub removal_hangs: AtomicBool,
    /// Syncs of directories fail.
    pub dir_sync_fails: AtomicBool,
    /// Where a log is synced, or a file removed, there is a bug.
    pub panics: AtomicBool,
    pub read_only: AtomicBool,
    /// A directory is renamed, and an error is told.
    pub rename_fails: AtomicBool,
    /// An index that has something in it cannot be read.
    pub no_index_is_read: AtomicBool,
    /// Nothing may be made or removed.
    pub not_allowed: AtomicBool,
    /// Hidden directories may not be looked into.
    pub hidden_is_private: AtomicBool,
    /// Files may only be so long, where it is not 0.
    pub file_bytes_max: AtomicU64,
    /// All files together may only take so many bytes, where it is not 0; a new one takes none, but needs that there is room.
    pub bytes_max: AtomicU64,
    /// So many they take, with what they have ahead of their ends.
    pub bytes: Mutex<BTreeMap<u64, u64>>,
    /// What happens, once, when a log is about to be opened for reading.
    pub meanwhile: Mutex<Option<Meanwhile>>,
}

impl Switches {
    /// Has a file take so many bytes; gives how many it may.
    fn take(&self, file: &File, wanted: u64) -> u64 {
        let mut bytes = self.bytes.lock().unwrap();
        let inode = file.metadata().unwrap().ino();
        let others = bytes.iter().filter(|(other, _)| **other != inode).map(|(_, bytes)| bytes).sum();
        let may = match self.bytes_max.load(Ordering::SeqCst) {
            0 => wanted,
            max => wanted.min(max.saturating_sub(others)),
        };
        bytes.insert(inode, may);
        may
    }

    fn taken(&self, file: &File) -> u64 {
        self.bytes.lock().unwrap().get(&file.metadata().unwrap().ino()).copied().unwrap_or(0)
    }

    fn is_full(&self) -> bool {
        let (max, bytes) = (self.bytes_max.load(Ordering::SeqCst), self.bytes.lock().unwrap());
        max > 0 && bytes.values().sum::<u64>() >= max
    }

    fn may_panic(&self) {
        assert!(!self.panics.load(Ordering::SeqCst), "as the test wants it");
    }
}

pub struct Meanwhile(pub Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

#[derive(Debug)]
pub struct FailingFile(File, Arc<Switches>, bool);

const EACCES: i32 = 13;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EROFS: i32 = 30;
const EFBIG: i32 = 27;

impl Failing {
    fn changes(&self) -> io::Result<()> {
        let errors = [(&self.0.read_only, EROFS), (&self.0.not_allowed, EACCES)];
        match errors.into_iter().find(|(is_so, _)| is_so.load(Ordering::SeqCst)) {
            Some((_, error)) => Err(io::Error::from_raw_os_error(error)),
            None => Ok(()),
        }
    }
}

impl Disk for Failing {
    type File = FailingFile;
    type Dir = File;
    type Lock = File;

    fn open(&self, path: &Path, how: Open) -> io::Result<FailingFile> {
        let is_log = path.to_string_lossy().contains(".log");
        let unread =
            self.0.no_index_is_read.load(Ordering::SeqCst) && path.to_string_lossy().ends_with("index");
        if unread && how == Open::Read && path.metadata().is_ok_and(|file| file.len() > 0) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if how != Open::Read {
            self.changes()?;
            if self.0.is_full() && !path.exists() {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
        } else if is_log {
            let meanwhile = self.0.meanwhile.lock().unwrap().take();
            meanwhile.into_iter().for_each(|Meanwhile(it)| it());
        }
        Ok(FailingFile(OsDisk.open(path, how)?, self.0.clone(), is_log))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.changes()?;
        OsDisk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let is_hidden = || dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        match self.0.hidden_is_private.load(Ordering::SeqCst) && is_hidden() {
            true => Err(io::Error::from_raw_os_error(EACCES)),
            false => OsDisk.list(dir),
        }
    }

    fn is_link(&self, path: &Path) -> io::Result<bool> {
        OsDisk.is_link(path)
    }

    fn identity(&self, dir: &Path) -> io::Result<Option<Identity>> {
        OsDisk.identity(dir)
    }
    fn links(&self, path: &Path) -> io::Result<u64> {
        OsDisk.links(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.changes()?;
        let renamed = OsDisk.rename(from, to);
        match to.is_dir() && self.0.rename_fails.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => renamed,
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.changes()?;
        self.0.may_panic();
        wait_while(&self.0.removal_hangs);
        OsDisk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.changes()?;
        OsDisk.remove_dir(path)
    }

    fn open_dir(&self, dir: &Path) -> io::Result<File> {
        OsDisk.open_dir(dir)
    }

    fn sync_dir(&self, dir: &File) -> io::Result<()> {
        wait_while(&self.0.dir_sync_hangs);
        match self.0.dir_sync_fails.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => OsDisk.sync_dir(dir),
        }
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<File> {
        OsDisk.lock_dir(dir)
    }

    fn is_locked(&self, lock: &File, dir: &Path) -> io::Result<bool> {
        OsDisk.is_locked(lock, dir)
    }

    fn boot_id(&self) -> Option<String> {
        OsDisk.boot_id()
    }
}

fn wait_while(it: &AtomicBool) {
    while it.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl DiskFile for FailingFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buf, position)
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        let longest = self.1.file_bytes_max.load(Ordering::SeqCst);
        if longest > 0 && position + buf.len() as u64 > longest {
            // What fits is taken, and then nothing.
            return match longest.saturating_sub(position) {
                0 => Err(io::Error::from_raw_os_error(EFBIG)),
                fits => self.0.write_at(&buf[..usize::try_from(fits).unwrap()], position),
            };
        }
        if !self.1.full.load(Ordering::SeqCst) {
            let (end, has) = (position + buf.len() as u64, self.1.taken(&self.0));
            let may = if end > has { self.1.take(&self.0, end) } else { end };
            return match may.saturating_sub(position) {
                0 if !buf.is_empty() => Err(io::Error::from_raw_os_error(ENOSPC)),
                fits => self.0.write_at(&buf[..usize::try_from(fits).unwrap()], position),
            };
        }
        // A disk that fills up takes a part first.
        match buf.len() / 2 {
            0 => Err(io::Error::from_raw_os_error(ENOSPC)),
            half if half > 20 => self.0.write_at(&buf[..half], position),
            _ => Err(io::Error::from_raw_os_error(ENOSPC)),
        }
    }

    fn len(&self) -> io::Result<u64> {
        DiskFile::len(&self.0)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.1.take(&self.0, len);
        self.0.set_len(len)
    }

    fn reserve(&self, bytes: Range<u64>) -> io::Result<()> {
        match self.1.take(&self.0, bytes.end) < bytes.end {
            true => Err(io::Error::from_raw_os_error(ENOSPC)),
            false => Ok(()),
        }
    }

    fn give_back(&self) -> io::Result<()> {
        self.1.take(&self.0, DiskFile::len(self)?);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.1.sync_hangs.load(Ordering::SeqCst) {
            self.1.hanging.fetch_add(1, Ordering::SeqCst);
        }
        wait_while(&self.1.sync_hangs);
        if self.2 {
            self.1.may_panic();
        }
        match self.2 && self.1.sync_fails.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => self.0.sync_data(),
        }
    }
}

/// A server in this process on such a disk, with a topic `t` of three partitions.
pub struct Server {
    pub disk: Failing,
    pub broker: Broker<Failing>,
    pub client: Client<TcpConnector>,
    pub addr: String,
    pub stop: CancellationToken,
    pub served: tokio::task::JoinHandle<Result<(), broker::error::Error>>,
    dir: tempfile::TempDir,
    _go_on: GoOn,
}

/// Nothing hangs when a test has ended, however it did: its thread would be waited for.
pub struct GoOn(pub Failing);

impl Drop for GoOn {
    fn drop(&mut self) {
        self.0.0.sync_hangs.store(false, Ordering::SeqCst);
        self.0.0.dir_sync_hangs.store(false, Ordering::SeqCst);
        self.0.0.removal_hangs.store(false, Ordering::SeqCst);
    }
}

pub async fn server(durability: Durability) -> Server {
    server_with(durability, Limits::default()).await
}

pub async fn server_with(durability: Durability, limits: Limits) -> Server {
    let server = serving(Failing::default(), tempfile::tempdir().unwrap(), durability, limits).await;
    ok(server.client.create_topic("t", &TopicSettings::with_partitions(3)).await);
    server
}

impl Server {
    /// Stops it, and starts another on the same disk.
    pub async fn restarted(self, durability: Durability) -> Server {
        self.stop.cancel();
        // Not cleanly, where the disk has failed.
        let _ = tokio::time::timeout(super::LONG, self.served).await.expect("it ends").unwrap();
        // Whoever has a clone of it has its lock.
        drop(self.broker);
        serving(self.disk, self.dir, durability, Limits::default()).await
    }
}

async fn serving(disk: Failing, dir: tempfile::TempDir, durability: Durability, limits: Limits) -> Server {
    let world = World { disk: disk.clone(), clock: Arc::new(SystemClock), work: Arc::new(Threads) };
    let settings = Settings { durability, ..Settings::default() };
    let (broker, _) = Broker::open(world, &dir.path().join("data"), settings, &|_, _, _| {}).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let stop = CancellationToken::new();
    let served = tokio::spawn(serve(listener, broker.clone(), limits, stop.clone(), Arc::default()));
    let client = Client::new(TcpConnector, &addr, Options::default());
    let _go_on = GoOn(disk.clone());
    Server { _go_on, disk, broker, client, addr, stop, served, dir }
}
