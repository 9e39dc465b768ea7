//! The broker: all topics of one data directory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::disk::{self, Disk};
use crate::error::Error;
use crate::files;
use crate::partition::{Config, Partition, off_thread};
use crate::recovery::{self, Instructions, Recovered};
use crate::report::{PartitionReport, Report};
use crate::retention::{self, Suspects};
use crate::session::{self, CleanStop, LastRun};
use crate::settings::{Settings, TopicSettings};
use crate::stats::Stats;
pub use crate::topic::Topic;
use crate::topic::{self};
use crate::work::{Job, Work};

/// The world that a broker lives in: its seams.
#[derive(Clone, Debug)]
pub struct World<D> {
    /// Files.
    pub disk: D,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub work: Arc<dyn Work>,
}

/// Told about each partition as its recovery is done, from whatever thread did it: `(done, of, what was found)`.
pub type Progress<'a> = &'a (dyn Fn(usize, usize, &PartitionReport) + Sync);

/// Why a data directory cannot be opened at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{}: another process has this data directory; stop it, or choose another with --data", .0.display())]
    InUse(PathBuf),
    /// The directory cannot be made or listed.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A setting is out of its range.
    #[error("{0}")]
    Settings(String),
}

/// All topics of one data directory. Clones are the same broker.
#[derive(Clone, Debug)]
pub struct Broker<D: Disk>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D: Disk> {
    world: World<D>,
    data: PathBuf,
    settings: Settings,
    stats: Arc<Stats>,
    topics: RwLock<BTreeMap<String, Topic<D>>>,
    /// Makes and deletes one topic at a time.
    admin: tokio::sync::Mutex<()>,
    /// Why nothing can be written at all, where that is so.
    read_only: Option<String>,
    closing: Notify,
    life: Mutex<Life>,
    /// Held until the last clone is gone.
    _lock: D::Lock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    Closing,
}

impl<D: Disk> Broker<D> {
    /// Locks the data directory (making it where it is missing), recovers every partition, and opens it. Blocks;
    /// needs no runtime.
    pub fn open(
        world: World<D>,
        data: &Path,
        settings: Settings,
        progress: Progress<'_>,
    ) -> Result<(Self, Report), OpenError> {
        let started = Instant::now();
        settings.check().map_err(OpenError::Settings)?;
        let io = |source| OpenError::Io { path: data.to_owned(), source };
        let lock = lock(&world.disk, data)?;
        let opened = Opening { world: &world, data, settings: &settings, stats: Arc::default() };
        let (topics, mut report, read_only) = opened.run(progress).map_err(io)?;
        report.took = started.elapsed();
        let stats = opened.stats.clone();
        let shared = Shared {
            data: data.to_owned(),
            settings,
            stats,
            topics: RwLock::new(topics),
            admin: tokio::sync::Mutex::new(()),
            read_only,
            closing: Notify::new(),
            life: Mutex::new(Life::Open),
            _lock: lock,
            world,
        };
        Ok((Self(Arc::new(shared)), report))
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// What the log has done since it was opened.
    pub fn stats(&self) -> &Stats {
        &self.0.stats
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.0.life.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn writable(&self) -> Result<(), Error> {
        if *self.life() == Life::Closing {
            return Err(Error::ShuttingDown);
        }
        match &self.0.read_only {
            Some(reason) => {
                Err(Error::Fenced { partition: "the data directory".into(), reason: reason.clone() })
            }
            None => Ok(()),
        }
    }

    /// Makes a topic; durable when it returns.
    pub async fn create_topic(&self, name: &str, settings: TopicSettings) -> Result<(), Error> {
        topic::check_name(name)?;
        topic::check_settings(&settings)?;
        let _one_at_a_time = self.0.admin.lock().await;
        self.writable()?;
        if self.with_topics(|topics| topics.contains_key(name)) {
            return Err(Error::TopicExists { name: name.into() });
        }
        let (this, topic_name) = (self.clone(), name.to_owned());
        let topic = off_thread(&*self.0.world.work, move || {
            let (disk, data) = (&this.0.world.disk, &this.0.data);
            topic::create(disk, data, &topic_name, &settings)?;
            let opening = Opening {
                world: &this.0.world,
                data,
                settings: &this.0.settings,
                stats: this.0.stats.clone(),
            };
            let partitions =
                (0..settings.partitions).map(|n| opening.partition(&topic_name, n, &settings, None).0);
            let partitions = partitions.collect();
            Ok(Topic::new(topic_name, settings, partitions))
        })
        .await;
        let path = self.0.data.join(name);
        let topic = topic.map_err(|e: io::Error| Error::Storage { path, source: e.into() })?;
        self.change_topics(|topics| topics.insert(name.into(), topic));
        Ok(())
    }

    /// Deletes a topic and all it holds; durable when it returns.
    pub async fn delete_topic(&self, name: &str) -> Result<(), Error> {
        let _one_at_a_time = self.0.admin.lock().await;
        self.writable()?;
        let topic = self.topic(name)?;
        let (this, topic_name) = (self.clone(), name.to_owned());
        let renamed = off_thread(&*self.0.world.work, move || {
            topic::rename_deleted(&this.0.world.disk, &this.0.data, &topic_name)
        })
        .await;
        let gone = self.0.world.disk.list(&self.0.data.join(name)).is_err();
        if gone {
            self.change_topics(|topics| topics.remove(name));
            for partition in topic.partitions() {
                partition.retire("its topic was deleted");
                partition.idle().await;
            }
        }
        let path = self.0.data.join(name);
        match renamed {
            Err(e) if gone => {
                let reason = format!("the directory could not be synced: {e}");
                return Err(Error::OutcomeUnknown { partition: format!("deleting {name}"), reason });
            }
            Err(e) => return Err(Error::Storage { path, source: e.into() }),
            Ok(()) => {}
        }
        // Deleted already. What cannot be removed now is removed at the next start.
        let (this, deleted) = (self.clone(), self.0.data.join(format!("{name}{}", files::DELETED_SUFFIX)));
        off_thread(&*self.0.world.work, move || drop(topic::purge(&this.0.world.disk, &deleted))).await;
        Ok(())
    }

    fn with_topics<T>(&self, look: impl FnOnce(&BTreeMap<String, Topic<D>>) -> T) -> T {
        look(&self.0.topics.read().unwrap_or_else(|e| e.into_inner()))
    }

    fn change_topics<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Topic<D>>) -> T) -> T {
        change(&mut self.0.topics.write().unwrap_or_else(|e| e.into_inner()))
    }

    /// All topics, by name.
    pub fn topics(&self) -> Vec<Topic<D>> {
        self.with_topics(|topics| topics.values().cloned().collect())
    }

    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Result<Topic<D>, Error> {
        self.with_topics(|topics| topics.get(name).cloned())
            .ok_or_else(|| Error::UnknownTopic { name: name.into() })
    }

    /// Looks after retention until the broker is closed. To be spawned once.
    pub async fn housekeeping(self) {
        let mut suspects = Suspects::new();
        loop {
            let closing = self.0.closing.notified();
            if *self.life() == Life::Closing {
                return;
            }
            tokio::select! {
                biased;
                () = closing => return,
                () = tokio::time::sleep(self.0.settings.retention_check) => {}
            }
            for topic in self.topics() {
                for partition in topic.partitions() {
                    // A fenced or failing partition keeps what it has; its error was told where it arose.
                    let _ = retention::look(partition, &mut suspects).await;
                }
            }
        }
    }

    /// Stops taking writes, syncs and closes everything, and marks the shutdown as clean if that worked. A partition
    /// that is not in order is left out of the mark and recovered at the next start.
    pub async fn close(&self) -> Result<(), Error> {
        *self.life() = Life::Closing;
        self.0.closing.notify_waiters();
        let _no_more_topics = self.0.admin.lock().await;
        let mut stop = CleanStop::new();
        for topic in self.topics() {
            for partition in topic.partitions() {
                if let Some(closed) = partition.close().await {
                    stop.insert(partition.name().to_owned(), closed);
                }
            }
        }
        if self.0.read_only.is_some() {
            return Ok(());
        }
        let this = self.clone();
        let marked = off_thread(&*self.0.world.work, move || {
            session::write_clean(&this.0.world.disk, &this.0.data, &stop)
        });
        marked.await.map_err(|e| Error::Storage { path: self.0.data.clone(), source: e.into() })
    }
}

/// Takes the data directory, making it first where it is missing.
fn lock<D: Disk>(disk: &D, data: &Path) -> Result<D::Lock, OpenError> {
    let io = |source| OpenError::Io { path: data.to_owned(), source };
    let locked = match disk.lock_dir(data) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            create_all(disk, data).map_err(io)?;
            disk.lock_dir(data)
        }
        locked => locked,
    };
    locked.map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse(data.to_owned()),
        _ => io(e),
    })
}

/// Makes a directory and those above it, durably.
fn create_all<D: Disk>(disk: &D, dir: &Path) -> io::Result<()> {
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = match disk.create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            create_all(disk, parent)?;
            disk.create_dir(dir)
        }
        made => made,
    };
    match made {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
        Ok(()) => disk::sync_dir(disk, parent),
    }
}

/// Opening a data directory, once it is locked.
struct Opening<'a, D> {
    world: &'a World<D>,
    data: &'a Path,
    settings: &'a Settings,
    stats: Arc<Stats>,
}

/// A partition that has to be recovered.
struct Task<'a> {
    topic: &'a str,
    number: u32,
    settings: &'a TopicSettings,
}

/// What the directories say: topics with what they were made with.
type Listed = BTreeMap<String, TopicSettings>;

impl<D: Disk> Opening<'_, D> {
    #[allow(clippy::type_complexity)]
    fn run(
        &self,
        progress: Progress<'_>,
    ) -> io::Result<(BTreeMap<String, Topic<D>>, Report, Option<String>)> {
        let disk = &self.world.disk;
        let last = LastRun::read(disk, self.data)?;
        let mut report = Report { clean: last.clean.is_some(), ..Report::default() };
        let revoked = if last.clean_file { session::revoke_clean(disk, self.data) } else { Ok(()) };
        let read_only =
            revoked.err().or_else(|| self.refuses_writes()).map(|e| format!("it cannot be written: {e}"));
        let listed = self.list(&mut report, read_only.is_some())?;
        let tasks: Vec<Task<'_>> = listed
            .iter()
            .flat_map(|(topic, settings)| (0..settings.partitions).map(move |n| (topic, n, settings)))
            .map(|(topic, number, settings)| Task { topic, number, settings })
            .collect();
        let opened = self.recover_all(&tasks, &last, read_only.is_some(), progress);
        let mut opened = opened.into_iter();
        let mut topics = BTreeMap::new();
        for (name, settings) in &listed {
            let (partitions, reports): (Vec<_>, Vec<_>) =
                opened.by_ref().take(settings.partitions as usize).unzip();
            report.partitions.extend(reports);
            topics.insert(name.clone(), Topic::new(name.clone(), settings.clone(), partitions));
        }
        // Only now: until every partition is recovered, what is known of the last run must stay known.
        if read_only.is_none()
            && let Err(e) = session::write_running(disk, self.data, self.settings.durability)
        {
            report.notes.push(format!("the start could not be noted: {e}"));
        }
        Ok((topics, report, read_only))
    }

    /// Whether the file system says that it is read-only. Nothing is changed by asking: the name stays free.
    fn refuses_writes(&self) -> Option<io::Error> {
        let probe = self.data.join("~probe");
        let answer = self.world.disk.remove_file(&probe).err()?;
        (answer.kind() == io::ErrorKind::ReadOnlyFilesystem).then_some(answer)
    }

    /// The topics in the data directory. Half-made and half-deleted ones are removed.
    fn list(&self, report: &mut Report, read_only: bool) -> io::Result<Listed> {
        let mut listed = Listed::new();
        for entry in self.world.disk.list(self.data)? {
            let path = self.data.join(&entry.name);
            let leftover = [files::NEW_SUFFIX, files::DELETED_SUFFIX].iter().any(|s| entry.name.ends_with(s));
            let ours = ["clean", "was-clean", "running"].contains(&entry.name.as_str());
            if leftover && entry.is_dir && !read_only {
                let done = topic::purge(&self.world.disk, &path);
                let what = done.map_or_else(|e| format!("could not be removed: {e}"), |()| "removed".into());
                report.notes.push(format!("{}: half made or half deleted: {what}", entry.name));
            } else if entry.is_dir && topic::check_name(&entry.name).is_ok() {
                match self.topic_settings(&path)? {
                    Some(settings) => drop(listed.insert(entry.name, settings)),
                    None => report.notes.push(format!("{}: no topic of ours: left alone", entry.name)),
                }
            } else if !ours && !(entry.name.ends_with(files::TMP_SUFFIX) && !entry.is_dir) {
                report.notes.push(format!("{}: not ours: left alone", entry.name));
            }
        }
        Ok(listed)
    }

    /// What a topic was made with. Where its file is lost, the partitions are counted; `None`: there are none either.
    fn topic_settings(&self, dir: &Path) -> io::Result<Option<TopicSettings>> {
        let disk = &self.world.disk;
        let entries = match disk.list(dir) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
            entries => entries?,
        };
        if let Some(settings) = topic::read_settings(disk, dir)? {
            return Ok(Some(settings));
        }
        let numbers = entries.iter().filter(|e| e.is_dir).filter_map(|e| e.name.parse::<u32>().ok());
        let count = numbers.filter(|n| *n < Settings::PARTITIONS_MAX).max().map(|n| n + 1);
        Ok(count.map(TopicSettings::with_partitions))
    }

    fn recover_all(
        &self,
        tasks: &[Task<'_>],
        last: &LastRun,
        read_only: bool,
        progress: Progress<'_>,
    ) -> Vec<(Partition<D>, PartitionReport)> {
        let slots: Vec<Mutex<Option<(Partition<D>, PartitionReport)>>> =
            tasks.iter().map(|_| Mutex::default()).collect();
        let done = std::sync::atomic::AtomicUsize::new(0);
        let jobs = tasks.iter().zip(&slots).map(|(task, slot)| -> Job<'_> {
            let done = &done;
            Box::new(move || {
                let opened = self.partition(task.topic, task.number, task.settings, Some((last, read_only)));
                let count = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                progress(count, tasks.len(), &opened.1);
                *slot.lock().unwrap_or_else(|e| e.into_inner()) = Some(opened);
            })
        });
        self.world.work.run_all(jobs.collect(), self.settings.recovery_threads);
        let opened = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(|e| e.into_inner()));
        opened.map(|slot| slot.expect("the work seam runs every job")).collect()
    }

    /// Opens one partition; one that cannot be opened is fenced with the reason. `last`: none for a partition that was
    /// made just now.
    fn partition(
        &self,
        topic: &str,
        number: u32,
        settings: &TopicSettings,
        last: Option<(&LastRun, bool)>,
    ) -> (Partition<D>, PartitionReport) {
        let config = Config {
            name: format!("{topic}/{number}"),
            dir: self.data.join(topic).join(number.to_string()),
            disk: self.world.disk.clone(),
            clock: self.world.clock.clone(),
            work: self.world.work.clone(),
            stats: self.stats.clone(),
            durability: self.settings.durability,
            segment_bytes: self.settings.segment_bytes,
            index_interval: self.settings.index_interval,
            retention_bytes: settings.retention_bytes.or(self.settings.retention_bytes),
            retention_age: settings.retention_age.or(self.settings.retention_age),
        };
        let evidence = match last {
            Some((last, _)) => last.evidence(&self.world.disk, &config.name),
            // Made just now, durably.
            None => session::Evidence::Clean(session::Closed::default()),
        };
        let told = Instructions {
            dir: &config.dir,
            index_interval: config.index_interval,
            durability: config.durability,
            evidence: &evidence,
            read_only: last.is_some_and(|(_, read_only)| read_only),
        };
        let mut recovered = recovery::recover(&self.world.disk, told).unwrap_or_else(|e| Recovered {
            sealed: Vec::new(),
            active: None,
            end: crate::units::Offset::ZERO,
            durable: crate::units::Offset::ZERO,
            report: PartitionReport {
                fenced: Some(format!("it cannot be opened: {e}")),
                ..Default::default()
            },
        });
        recovered.report.topic = topic.to_owned();
        recovered.report.partition = number;
        let report = recovered.report.clone();
        (Partition::new(config, recovered), report)
    }
}
