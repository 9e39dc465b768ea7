//! Opening a data directory: take it, see what the last run left, recover every partition, note that a run has begun.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::clock::Clock;
use crate::disk::{self, Disk, Entry};
use crate::files;
use crate::home::Home;
use crate::listing::{self, Twins};
use crate::markers::{self, Closed, Evidence, LastRun, Stops, Unnoted};
use crate::partition::{Config, Partition};
use crate::recovery::{self, Instructions, Recovered};
use crate::report::{PartitionReport, Report};
use crate::room::Room;
use crate::settings::{Settings, TopicSettings};
use crate::stats::Stats;
use crate::topic::{self, Topic};
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
    /// There are more partitions than files can be opened for.
    #[error(
        "{}: {partitions} partitions keep {} files open, and the limit of open files leaves room for {max} partitions; \
         raise it (ulimit -n, LimitNOFILE= of a service)",
        .path.display(),
        .partitions * Settings::OPEN_FILES
    )]
    TooManyPartitions {
        /// The data directory.
        path: PathBuf,
        /// How many there are.
        partitions: usize,
        /// How many there may be: [`Settings::max_partitions`].
        max: usize,
    },
    /// A setting is out of its range.
    #[error("{0}")]
    Settings(String),
}

/// Takes the data directory, making it first where it is missing.
pub(crate) fn lock<D: Disk>(disk: &D, data: &Path) -> Result<D::Lock, OpenError> {
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
        Ok(()) => disk::sync_dir(disk, &disk.open_dir(parent)?),
    }
}

/// Opening a data directory, once it is locked.
pub(crate) struct Opening<'a, D: Disk> {
    pub world: &'a World<D>,
    pub data: &'a Path,
    pub home: &'a Arc<Home<D>>,
    pub room: &'a Arc<Room>,
    pub settings: &'a Settings,
    pub stats: Arc<Stats>,
}

/// A data directory that was opened.
pub(crate) struct Opened<D: Disk> {
    /// Its topics, by name.
    pub topics: BTreeMap<String, Topic<D>>,
    /// What was found and done.
    pub report: Report,
}

/// A partition, and what its recovery found.
type Served<D> = (Partition<D>, PartitionReport);

/// A partition that has to be recovered.
struct Task<'a> {
    topic: &'a str,
    number: u32,
    made: &'a Made,
    /// Another one that its directory is, too: see [`listing::twins`].
    twin: Option<&'a str>,
}

/// What a topic was made with, as far as it is known.
pub(crate) struct Made {
    pub settings: TopicSettings,
    /// The file that says so is lost: nobody knows how long it is to be kept, so all of it is.
    pub lost: bool,
}

impl Made {
    /// The topic's own setting, or the broker's; none where nobody knows whether it had one of its own.
    fn or<T>(&self, own: Option<T>, brokers: Option<T>) -> Option<T> {
        if self.lost { None } else { own.or(brokers) }
    }
}

/// What becomes of topics that are half made or half deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leftovers {
    Remove,
    /// Nothing may be changed, or not yet.
    Keep,
}

/// Where a partition comes from that is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// It was made just now, durably.
    Made,
    /// A start has found it.
    Found {
        /// What is known of the run before.
        last: &'a LastRun,
        /// Why nothing may be changed, where that is so.
        read_only: Option<&'a str>,
        /// Another partition that its directory is, too, and that is served.
        twin: Option<&'a str>,
    },
}

/// What the directories say.
type Listed = BTreeMap<String, Made>;

/// What is in the data directory.
struct Listing {
    topics: Listed,
    /// Which of their partitions are twins.
    twins: Twins,
    /// What is not ours.
    others: Vec<String>,
}

/// The partitions that a clean stop has recorded of these topics, and that they do not have any more.
fn uncounted(last: &LastRun, listed: &Listed) -> BTreeMap<String, u64> {
    let is_missed = |partition: &str| {
        let Some((topic, number)) = partition.rsplit_once('/') else { return false };
        let (Some(made), Some(number)) = (listed.get(topic), files::partition_number(number)) else {
            return false;
        };
        number >= made.settings.partitions
    };
    let recorded = last.clean.iter().flatten().filter(|(partition, _)| is_missed(partition));
    recorded.map(|(partition, closed)| (partition.clone(), closed.records())).collect()
}

impl<D: Disk> Opening<'_, D> {
    /// Recovers everything. Where the file system cannot be written, every partition is fenced, and serves reads.
    pub fn run(&self, progress: Progress<'_>) -> io::Result<Opened<D>> {
        let disk = &self.world.disk;
        let last = LastRun::read(disk, self.data)?;
        let mut report = Report { clean: last.clean.is_some(), ..Report::default() };
        let revoked =
            if last.clean_file { markers::revoke_clean(disk, self.data, &last) } else { Ok(Stops::Kept) };
        let stops = *revoked.as_ref().unwrap_or(&Stops::Kept);
        let mut read_only =
            revoked.err().or_else(|| self.refuses_writes()).map(|e| format!("it cannot be written: {e}"));
        let leftovers = if read_only.is_some() { Leftovers::Keep } else { Leftovers::Remove };
        let Listing { topics: listed, twins, mut others } = self.list(&mut report, leftovers)?;
        report.missed.gone = last.topics();
        report
            .missed
            .gone
            .retain(|topic, _| !listed.contains_key(topic) && !report.unserved.contains_key(topic));
        report.missed.uncounted = uncounted(&last, &listed);
        others.retain(|name| !report.missed.uncounted.contains_key(name));
        report.notes.extend(listing::left_alone(&others));
        let tasks: Vec<Task<'_>> = listed
            .iter()
            .flat_map(|(topic, made)| (0..made.settings.partitions).map(move |n| (topic, n, made)))
            .map(|(topic, number, made)| {
                let twin = twins.get(&format!("{topic}/{number}")).map(String::as_str);
                Task { topic, number, made, twin }
            })
            .collect();
        let opened = self.recover_all(&tasks, &last, read_only.as_deref(), progress);
        let mut opened = opened.into_iter();
        let mut topics = BTreeMap::new();
        for (name, Made { settings, .. }) in &listed {
            let (partitions, reports): (Vec<_>, Vec<_>) =
                opened.by_ref().take(settings.partitions as usize).unzip();
            report.partitions.extend(reports);
            topics.insert(name.clone(), Topic::new(name.clone(), settings.clone(), partitions));
        }
        // Only now: until every partition is recovered, what is known of the last run must stay known.
        let speaks_for_all = report.is_complete() && report.is_noted() && stops == Stops::Kept;
        if read_only.is_none()
            && let Err(unnoted) =
                markers::write_running(disk, self.data, self.settings.durability, speaks_for_all)
        {
            match unnoted {
                Unnoted::Nothing(e) => {
                    report.unnoted = Some(format!("the start could not be noted: {e}"));
                    report.has_no_room = disk::is_full(&e);
                }
                Unnoted::Stale(e) => {
                    let reason = format!("the note of the last run cannot be replaced: {e}");
                    let partitions = topics.values().flat_map(Topic::partitions);
                    partitions.for_each(|partition| partition.fence_as_found(&reason));
                    read_only = Some(reason);
                }
            }
        }
        report.read_only = read_only;
        Ok(Opened { topics, report })
    }

    /// Refuses a directory with too many partitions before anything in it is changed. Half of them could not be served, and
    /// no descriptor would be left for a connection.
    pub fn check_count(&self) -> Result<(), OpenError> {
        let max = self.settings.max_partitions;
        if max == usize::MAX {
            return Ok(());
        }
        let io = |source| OpenError::Io { path: self.data.to_owned(), source };
        let listing = self.list(&mut Report::default(), Leftovers::Keep).map_err(io)?;
        match listing.topics.values().map(|made| made.settings.partitions as usize).sum() {
            partitions if partitions > max => {
                Err(OpenError::TooManyPartitions { path: self.data.to_owned(), partitions, max })
            }
            _ => Ok(()),
        }
    }

    /// Whether the file system says that it is read-only. Nothing is changed by asking: the name stays free.
    fn refuses_writes(&self) -> Option<io::Error> {
        let probe = self.data.join("~probe");
        let answer = self.world.disk.remove_file(&probe).err()?;
        (answer.kind() == io::ErrorKind::ReadOnlyFilesystem).then_some(answer)
    }

    fn list(&self, report: &mut Report, leftovers: Leftovers) -> io::Result<Listing> {
        let (mut listed, mut others) = (Listed::new(), Vec::new());
        for entry in self.world.disk.list(self.data)? {
            let path = self.data.join(&entry.name);
            let leftover = [files::NEW_SUFFIX, files::DELETED_SUFFIX].into_iter().any(|suffix| {
                entry.name.strip_suffix(suffix).is_some_and(|topic| topic::check_name(topic).is_ok())
            });
            let ours = markers::MARKERS.contains(&entry.name.as_str());
            if leftover && entry.is_dir && leftovers == Leftovers::Remove {
                // Whoever gave it this name may have been killed before the name was durable: its old one must not come back
                // without what is in it.
                let named = disk::sync_dir(&self.world.disk, &self.world.disk.open_dir(self.data)?);
                let done = named.and_then(|()| files::remove_tree(&self.world.disk, &path));
                let what = done.map_or_else(|e| format!("could not be removed: {e}"), |()| "removed".into());
                report.notes.push(format!("{}: half made or half deleted: {what}", entry.name));
            } else if entry.is_dir && topic::check_name(&entry.name).is_ok() {
                match self.topic_settings(&entry.name, &mut others) {
                    Err(e) if listing::is_of_others(&entry.name, &e) => {
                        report.notes.push(format!("{}: it cannot be read ({e}): left alone", entry.name));
                    }
                    Ok(Some(made)) => {
                        if made.lost {
                            report.notes.push(format!(
                                "{}: the file with what it was made with is missing or damaged: {} partitions were \
                                 counted, and since nobody knows how long it was to be kept, nothing of it is deleted",
                                entry.name, made.settings.partitions
                            ));
                        }
                        listed.insert(entry.name, made);
                    }
                    Err(e) => {
                        report.unserved.insert(entry.name, format!("its directory cannot be read: {e}"));
                    }
                    Ok(None) => others.push(entry.name),
                }
            } else if entry.is_dir || !(ours || entry.name.ends_with(files::TMP_SUFFIX)) {
                others.push(entry.name);
            }
        }
        let topics = listed.iter().map(|(topic, made)| (topic, made.settings.partitions));
        let twins = listing::twins(&self.world.disk, self.data, topics);
        for (name, other) in &twins {
            if listed.remove(name).is_some() {
                report.unserved.insert(name.clone(), listing::twin_of(other));
            }
        }
        Ok(Listing { topics: listed, twins, others })
    }

    /// What a topic was made with. Where its file is lost, the partitions are counted; `None`: there are none either. Adds what is in
    /// its directory besides to what is not ours.
    fn topic_settings(&self, name: &str, others: &mut Vec<String>) -> io::Result<Option<Made>> {
        let (disk, dir) = (&self.world.disk, self.data.join(name));
        let looked = listing::look(disk, &dir)?;
        let made = match looked.settings? {
            Some(settings) => Some(Made { settings, lost: false }),
            None => listing::count(disk, &dir, &looked.entries)?
                .map(|count| Made { settings: TopicSettings::with_partitions(count), lost: true }),
        };
        if let Some(made) = &made {
            let is_foreign = |entry: &&Entry| !listing::is_of_topic(&entry.name, made.settings.partitions);
            others.extend(
                looked.entries.iter().filter(is_foreign).map(|entry| format!("{name}/{}", entry.name)),
            );
        }
        Ok(made)
    }

    fn recover_all(
        &self,
        tasks: &[Task<'_>],
        last: &LastRun,
        read_only: Option<&str>,
        progress: Progress<'_>,
    ) -> Vec<Served<D>> {
        let slots: Vec<Mutex<Option<Served<D>>>> = tasks.iter().map(|_| Mutex::default()).collect();
        let done = AtomicUsize::new(0);
        let jobs = tasks.iter().zip(&slots).map(|(task, slot)| -> Job<'_> {
            let done = &done;
            Box::new(move || {
                let origin = Origin::Found { last, read_only, twin: task.twin };
                let opened = self.partition(task.topic, task.number, task.made, origin);
                let count = done.fetch_add(1, Ordering::Relaxed) + 1;
                progress(count, tasks.len(), &opened.1);
                *slot.lock().unwrap_or_else(|e| e.into_inner()) = Some(opened);
            })
        });
        self.world.work.run_all(jobs.collect(), self.settings.recovery_threads);
        let opened = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(|e| e.into_inner()));
        opened.map(|slot| slot.expect("the work seam runs every job")).collect()
    }

    /// Opens one partition; one that cannot be opened is fenced with the reason.
    pub fn partition(&self, topic: &str, number: u32, made: &Made, origin: Origin<'_>) -> Served<D> {
        let config = Config {
            name: format!("{topic}/{number}"),
            dir: self.data.join(topic).join(number.to_string()),
            disk: self.world.disk.clone(),
            home: self.home.clone(),
            room: self.room.clone(),
            clock: self.world.clock.clone(),
            work: self.world.work.clone(),
            stats: self.stats.clone(),
            durability: self.settings.durability,
            segment_bytes: self.settings.segment_bytes,
            max_unsynced_bytes: self.settings.max_unsynced_bytes,
            index_interval: self.settings.index_interval,
            retention_bytes: made.or(made.settings.retention_bytes, self.settings.retention_bytes),
            retention_age: made.or(made.settings.retention_age, self.settings.retention_age),
        };
        let (evidence, stopped_at, read_only, twin) = match origin {
            Origin::Made => (Evidence::Clean(Closed::default()), None, None, None),
            Origin::Found { last, read_only, twin } => {
                let evidence = last.evidence(&self.world.disk, &config.name);
                (evidence, last.stopped_at(&config.name), read_only, twin)
            }
        };
        let told = Instructions {
            dir: &config.dir,
            index_interval: config.index_interval,
            durability: config.durability,
            evidence: &evidence,
            stopped_at,
            read_only,
        };
        let opened = match twin {
            Some(other) => Err(io::Error::other(listing::twin_of(other))),
            None => recovery::recover(&self.world.disk, told),
        };
        let mut recovered = opened.unwrap_or_else(|e| Recovered::unopened(&e));
        recovered.report.topic = topic.to_owned();
        recovered.report.partition = number;
        let report = recovered.report.clone();
        (Partition::new(config, recovered), report)
    }
}
