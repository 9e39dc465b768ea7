//! What the open files are for that the system lets this process have.

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

/// Files that are open besides those of partitions and connections: the server's own, what is opened for a moment, and as
/// many connections again that are told that there are too many.
const OTHER_FILES: usize = 128;

/// What the open files that a process may have are for. Connections and partitions cannot take what is kept for the other:
/// a server whose clients had used up all files could neither roll nor delete a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub connections: usize,
    pub partitions: usize,
}

impl Room {
    /// `open_files`: how many this process may have, where that is bounded.
    pub fn new(open_files: Option<u64>, max_connections: usize) -> Self {
        let Some(open_files) = open_files else {
            return Self { connections: max_connections, partitions: usize::MAX };
        };
        let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
        let connections = max_connections.min((open_files / 4).max(1));
        let partitions =
            open_files.saturating_sub(OTHER_FILES.saturating_add(connections)) / Settings::OPEN_FILES;
        Self { connections, partitions }
    }

    /// Says so where there are fewer connections than were asked for.
    pub fn tell(self, max_connections: usize) {
        let Self { connections, partitions } = self;
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
            let Room { connections, partitions } = Room::new(open_files, connections);
            (connections, partitions)
        };
        assert_eq!(room(None, 1024), (1024, usize::MAX));
        assert_eq!(room(Some(u64::MAX), 1024).0, 1024);
        assert_eq!(room(Some(1024), 1024), (256, 213));
        assert_eq!(room(Some(1024), 100), (100, 265));
        assert_eq!(room(Some(20), 1024), (5, 0));
        for open_files in 0..5000 {
            let (connections, partitions) = room(Some(open_files), 1024);
            let used = (connections + partitions * Settings::OPEN_FILES + OTHER_FILES) as u64;
            assert!(connections > 0 && (partitions == 0 || used <= open_files));
        }
    }
}
