//! The broker: all topics of one data directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use futures_util::stream::{self, StreamExt};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::disk::Disk;
use crate::error::{self, Error};
use crate::home::Home;
use crate::markers::{self, CleanStop, Closed};
use crate::opening::{self, Made, Opened, Opening, Origin};
pub use crate::opening::{OpenError, Progress, World};
use crate::partition::Partition;
use crate::report::{Missed, Report};
use crate::retention::Looks;
use crate::room::Room;
use crate::settings::{Settings, TopicSettings};
use crate::stats::Stats;
pub use crate::topic::Topic;
use crate::topic::{self, Unsettled};
use crate::work::off_thread;

/// So many partitions are closed at the same time: their syncs share what a device does for each.
const CLOSED_AT_ONCE: usize = 64;

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
    /// Deletes one at a time, and removes its files: that of a large one takes long, and neither who makes a topic waits for it nor a
    /// stop. Locked before `admin`. The files of two topics of one name would otherwise be under one name.
    deletion: tokio::sync::Mutex<()>,
    /// Topics that the start could not look into, or of which nobody knows whether they are there, with the reason.
    unserved: RwLock<BTreeMap<String, String>>,
    /// Topics that were deleted, and that a start may find all the same, with the reason.
    undead: RwLock<BTreeMap<String, String>>,
    /// What a clean stop has recorded, and the start has not found.
    missed: Missed,
    /// Why nothing can be written at all, where that is so.
    read_only: Option<String>,
    /// Why it is not written down that it was started, where it is not.
    unnoted: Option<String>,
    /// Whether that is for want of room only.
    had_no_room: bool,
    closing: Notify,
    life: Mutex<Life>,
    /// Locked until the last clone is gone.
    home: Arc<Home<D>>,
    room: Arc<Room>,
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
        let lock = opening::lock(&world.disk, data)?;
        let home = Arc::new(Home::new(world.disk.clone(), data.to_owned(), lock));
        let (room, stats) = (Arc::default(), Arc::default());
        let opened = Opening { world: &world, data, home: &home, room: &room, settings: &settings, stats };
        opened.check_count()?;
        let Opened { topics, mut report } = opened.run(progress).map_err(io)?;
        report.took = started.elapsed();
        let stats = opened.stats.clone();
        let shared = Shared {
            data: data.to_owned(),
            settings,
            stats,
            topics: RwLock::new(topics),
            admin: tokio::sync::Mutex::new(()),
            deletion: tokio::sync::Mutex::new(()),
            unserved: RwLock::new(report.unserved.clone()),
            undead: RwLock::default(),
            missed: report.missed.clone(),
            read_only: report.read_only.clone(),
            unnoted: report.unnoted.clone(),
            had_no_room: report.has_no_room,
            closing: Notify::new(),
            life: Mutex::new(Life::Open),
            home,
            room,
            world,
        };
        Ok((Self(Arc::new(shared)), report))
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Topics that the start could not look into, or of which nobody knows whether they are there, with the reason.
    pub fn unserved(&self) -> BTreeMap<String, String> {
        self.0.unserved.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Topics that were deleted, and that a start may find all the same, with the reason; not where another was made in their place.
    pub fn undead(&self) -> BTreeMap<String, String> {
        self.0.undead.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    fn change_undead<T>(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        change(&mut self.0.undead.write().unwrap_or_else(|e| e.into_inner()))
    }

    /// What a clean stop has recorded, and the start has not found.
    pub fn missed(&self) -> &Missed {
        &self.0.missed
    }

    /// A topic was made, and may not last: only a start shows. Until then it is neither unknown nor to be made.
    fn made_in_doubt(&self, name: &str, reason: String) -> Error {
        let unserved = format!("it is unknown whether it was made: {reason}");
        self.0.unserved.write().unwrap_or_else(|e| e.into_inner()).insert(name.to_owned(), unserved);
        in_doubt(format!("making {name}"), reason)
    }

    /// What the log has done since it was opened.
    pub fn stats(&self) -> &Stats {
        &self.0.stats
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.0.life.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn is_closing(&self) -> bool {
        *self.life() == Life::Closing
    }

    fn writable(&self) -> Result<(), Error> {
        if self.is_closing() {
            return Err(Error::ShuttingDown);
        }
        match self.read_only().map(str::to_owned).or_else(|| self.lost_home()) {
            Some(reason) => {
                Err(Error::Fenced { what: "the data directory".into(), reason, is_found_so: true })
            }
            None => Ok(()),
        }
    }

    /// Why nothing can be written at all, where the start has found that it is so.
    pub fn read_only(&self) -> Option<&str> {
        self.0.read_only.as_deref()
    }

    /// Since when its name leads somewhere else or nowhere, the data directory gets no new files; what is open can be written to.
    pub fn lost_home(&self) -> Option<String> {
        self.0.home.check().err().map(|e| e.to_string())
    }

    /// Why it is not written down that it was started, where it is not.
    pub fn unnoted(&self) -> Option<&str> {
        self.0.unnoted.as_deref()
    }

    /// Whether that is for want of room only, which there may be by now.
    pub fn had_no_room(&self) -> bool {
        self.0.had_no_room
    }

    /// Makes a topic; durable when it returns.
    pub async fn create_topic(&self, name: &str, settings: TopicSettings) -> Result<(), Error> {
        topic::check_name(name)?;
        topic::check_settings(&settings)?;
        let (this, name) = (self.clone(), name.to_owned());
        to_its_end(async move { this.create(&name, settings).await }).await
    }

    async fn create(&self, name: &str, settings: TopicSettings) -> Result<(), Error> {
        let _one_at_a_time = self.0.admin.lock().await;
        self.writable()?;
        match self.topic(name) {
            Err(Error::UnknownTopic { .. }) => {}
            Err(unserved) => return Err(unserved),
            Ok(_) => return Err(Error::TopicExists { name: name.into() }),
        }
        self.room_for(settings.partitions as usize)?;
        let (this, topic_name) = (self.clone(), name.to_owned());
        let made = off_thread(&*self.0.world.work, move || this.make(topic_name, settings)).await;
        let (topic, unopened) = made.map_err(|unsettled| match unsettled {
            Unsettled::Undone(e) => Error::NotDone { what: format!("{name} was not made"), source: e.into() },
            Unsettled::Stopping => Error::ShuttingDown,
            Unsettled::InDoubt(reason) => self.made_in_doubt(name, reason),
        })?;
        self.change_topics(|topics| topics.insert(name.into(), topic));
        self.change_undead(|undead| undead.remove(name));
        // It is there, and is not what was asked for.
        unopened.map_or(Ok(()), |why| Err(in_doubt(format!("making {name}"), why)))
    }

    /// Makes a topic on the disk and opens it; with the reason why one of its partitions could not be opened.
    fn make(&self, name: String, settings: TopicSettings) -> Result<(Topic<D>, Option<String>), Unsettled> {
        let (disk, data) = (&self.0.world.disk, &self.0.data);
        let is_stopping = || self.is_closing();
        let create = || topic::create(disk, &*self.0.world.work, data, &name, &settings, is_stopping);
        match create() {
            Err(Unsettled::Undone(e)) if self.0.room.may_be_made_for(&e) => {
                self.0.room.make();
                create()?;
            }
            created => created?,
        }
        let made = Made { settings, lost: false };
        let Shared { world, home, room, settings, .. } = &*self.0;
        let opening = Opening { world, data, home, room, settings, stats: self.0.stats.clone() };
        let opened = (0..made.settings.partitions).map(|n| opening.partition(&name, n, &made, Origin::Made));
        let (partitions, reports): (Vec<_>, Vec<_>) = opened.unzip();
        let fenced = reports.into_iter().find_map(|report| Some((report.partition, report.fenced?)));
        let unopened = fenced.map(|(partition, why)| format!("partition {partition}: {why}"));
        Ok((Topic::new(name, made.settings, partitions), unopened))
    }

    /// Whether there may be so many more partitions.
    fn room_for(&self, more: usize) -> Result<(), Error> {
        let max = self.0.settings.max_partitions;
        let there =
            self.with_topics(|topics| topics.values().map(|t| t.partition_count() as usize).sum::<usize>());
        if there.saturating_add(more) <= max {
            return Ok(());
        }
        let what = format!(
            "there are {there} partitions, and with {more} more there would be over {max}, for which the server can keep files \
             open: raise its limit of open files (ulimit -n), or make fewer"
        );
        Err(Error::InvalidRequest { what })
    }

    /// Deletes a topic and all it holds; durable when it returns.
    pub async fn delete_topic(&self, name: &str) -> Result<(), Error> {
        let (this, name) = (self.clone(), name.to_owned());
        to_its_end(async move { this.delete(&name).await }).await
    }

    async fn delete(&self, name: &str) -> Result<(), Error> {
        let _one_at_a_time = self.0.deletion.lock().await;
        self.take_away(name).await?;
        // Deleted already. What cannot be removed now, or not before a stop, is removed at the next start.
        let (this, name) = (self.clone(), name.to_owned());
        let remove = move || {
            let removed =
                topic::remove_deleted(&this.0.world.disk, &this.0.data, &name, &|| this.is_closing());
            drop(removed);
        };
        off_thread(&*self.0.world.work, remove).await;
        Ok(())
    }

    /// From then on there is no topic of this name, durably.
    async fn take_away(&self, name: &str) -> Result<(), Error> {
        let _one_at_a_time = self.0.admin.lock().await;
        self.writable()?;
        let topic = self.topic(name)?;
        topic.partitions().iter().for_each(Partition::begin_deletion);
        let (this, topic_name) = (self.clone(), name.to_owned());
        let renamed = off_thread(&*self.0.world.work, move || {
            topic::rename_deleted(&this.0.world.disk, &this.0.data, &topic_name, || this.is_closing())
        })
        .await;
        let why_in_doubt = match renamed {
            Ok(()) => None,
            Err(Unsettled::InDoubt(reason)) => Some(reason),
            Err(undone) => {
                topic.partitions().iter().for_each(Partition::end_deletion);
                return Err(match undone {
                    Unsettled::Undone(e) => {
                        Error::NotDone { what: format!("{name} was not deleted"), source: e.into() }
                    }
                    _ => Error::ShuttingDown,
                });
            }
        };
        self.change_topics(|topics| topics.remove(name));
        for partition in topic.partitions() {
            partition.retire(why_in_doubt.as_ref().map(|why| format!("its topic was deleted, and {why}")));
            partition.idle().await;
        }
        match why_in_doubt {
            None => Ok(()),
            Some(reason) => {
                self.change_undead(|undead| undead.insert(name.into(), reason.clone()));
                Err(in_doubt(format!("deleting {name}"), reason))
            }
        }
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

    /// The topic of this name. One that a start could not look into is not unknown.
    pub fn topic(&self, name: &str) -> Result<Topic<D>, Error> {
        let found = self.with_topics(|topics| topics.get(name).cloned());
        let unserved = || self.0.unserved.read().unwrap_or_else(|e| e.into_inner()).get(name).cloned();
        found.ok_or_else(|| match unserved() {
            Some(reason) => Error::Unopened { what: name.into(), reason },
            None => Error::UnknownTopic { name: error::shown(name) },
        })
    }

    /// Looks after retention until the broker is closed. To be spawned once.
    pub async fn housekeeping(self) {
        let mut looks = Looks::default();
        loop {
            let closing = self.0.closing.notified();
            if self.is_closing() {
                return;
            }
            let look = async {
                tokio::time::sleep(self.0.settings.retention_check).await;
                for partition in self.topics().iter().flat_map(Topic::partitions) {
                    looks.begin(partition).await;
                }
            };
            tokio::select! {
                biased;
                () = closing => return,
                () = look => {}
            }
        }
    }

    /// Stops taking writes, syncs and closes everything, and marks the shutdown as clean if that worked. A partition
    /// that is not in order is left out of the mark and recovered at the next start. What was synced for the stop without being in
    /// its mark, the note of this run would deny: so that goes.
    pub async fn close(&self) -> Result<(), Error> {
        *self.life() = Life::Closing;
        self.0.closing.notify_waiters();
        let _no_more_topics = self.0.admin.lock().await;
        let (mut stop, mut says_all) = (CleanStop::new(), true);
        let partitions: Vec<_> = self.topics().iter().flat_map(Topic::partitions).cloned().collect();
        let mut closed = stream::iter(partitions.into_iter().map(close_one)).buffer_unordered(CLOSED_AT_ONCE);
        while let Some((name, closed)) = closed.next().await {
            says_all &= closed.is_some();
            stop.extend(closed.map(|closed| (name, closed)));
        }
        if self.0.read_only.is_some() {
            return Ok(());
        }
        let this = self.clone();
        let marked = off_thread(&*self.0.world.work, move || {
            let Shared { home, world, data, .. } = &*this.0;
            home.check()?;
            if !says_all {
                home.forget_run()?;
            }
            markers::write_clean(&world.disk, data, &stop).inspect_err(|_| drop(home.forget_run()))
        });
        let what = || format!("a clean stop cannot be noted in {}", self.0.data.display());
        marked.await.map_err(|e| Error::NotDone { what: what(), source: e.into() })
    }
}

/// What only a start shows. Whoever looks after the broker is told, too, and not only whoever asked for it.
fn in_doubt(what: String, reason: String) -> Error {
    let error = Error::OutcomeUnknown { what, reason };
    tracing::warn!("{error}");
    error
}

async fn close_one<D: Disk>(partition: Partition<D>) -> (String, Option<Closed>) {
    (partition.name().to_owned(), partition.close().await)
}

/// Does something whole, also where whoever waits for it goes away: half of it would leave the memory and the disk at odds.
async fn to_its_end<T: Send + 'static>(job: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(job).await {
        Ok(done) => done,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        // The runtime is going down, and everybody with it.
        Err(_) => std::future::pending().await,
    }
}
