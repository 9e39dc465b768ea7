//! What the open files are for that the system lets this process have.

use std::ops::RangeInclusive;

use broker::settings::Settings;

/// Connections and segments are open files, and the usual limit of 1024 is meant for programs that know no better.
/// Gives how many there may be then.
pub fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(e) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!("the limit of open files stays as it is: {e}");
    }
    getrlimit(Resource::Nofile).current
}

/// Files that are open besides those of partitions, connections and jobs: the server's own, what a read opens for a moment, and
/// as many connections again that are told that there are too many.
const OTHER_FILES: usize = 96;

/// A job that waits for the disk opens at most so many for as long as it takes: a roll has the next segment's and the directory.
const JOB_FILES: usize = 4;

/// So many of these jobs run at the same time. All partitions may roll, or note an interval's syncs, in the same moment.
const JOBS: RangeInclusive<usize> = 8..=512;

/// What the open files that a process may have are for. Connections, partitions and jobs cannot take what is kept for the others:
/// a server whose clients had used up all files could neither roll nor delete a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub connections: usize,
    pub partitions: usize,
    pub jobs: usize,
}

impl Room {
    /// `open_files`: how many this process may have, where that is bounded.
    pub fn new(open_files: Option<u64>, max_connections: usize) -> Self {
        let Some(open_files) = open_files else {
            return Self { connections: max_connections, partitions: usize::MAX, jobs: *JOBS.end() };
        };
        let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
        let connections = max_connections.min((open_files / 4).max(1));
        let jobs = (open_files / 16 / JOB_FILES).clamp(*JOBS.start(), *JOBS.end());
        let others = (OTHER_FILES + jobs * JOB_FILES).saturating_add(connections);
        let partitions = open_files.saturating_sub(others) / Settings::OPEN_FILES;
        Self { connections, partitions, jobs }
    }

    /// Says so where there are fewer connections than were asked for.
    pub fn tell(self, max_connections: usize) {
        let Self { connections, partitions, .. } = self;
        if connections < max_connections {
            tracing::info!(
                "the limit of open files leaves room for {connections} connections, of --max-connections \
                 {max_connections}, and {partitions} partitions; raise it for more (ulimit -n, LimitNOFILE= of a service)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_partitions_share_the_open_files() {
        let room = |open_files, connections| {
            let Room { connections, partitions, jobs } = Room::new(open_files, connections);
            (connections, partitions, jobs)
        };
        assert_eq!(room(None, 1024), (1024, usize::MAX, 512));
        let (connections, _, jobs) = room(Some(u64::MAX), 1024);
        assert_eq!((connections, jobs), (1024, 512));
        assert_eq!(room(Some(1024), 1024), (256, 202, 16));
        assert_eq!(room(Some(1024), 100), (100, 254, 16));
        assert_eq!(room(Some(20), 1024), (5, 0, 8));
        for open_files in 0..5000 {
            let (connections, partitions, jobs) = room(Some(open_files), 1024);
            let files = connections + partitions * Settings::OPEN_FILES + jobs * JOB_FILES + OTHER_FILES;
            let used = files as u64;
            assert!(connections > 0 && (partitions == 0 || used <= open_files));
        }
    }
}
