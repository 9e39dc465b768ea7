//! What the names of the broker's files say. A log and its indexes lie in `topic/partition/`, and the marks of the session beside
//! the topics.

/// Lies there while the broker is known to have stopped cleanly.
const CLEAN: &str = "clean";

/// Says which session runs.
const RUNNING: &str = "running";

/// Marks at the top: which session runs, and how the last one ended.
const MARKS: [&str; 3] = [RUNNING, CLEAN, "was-clean"];

/// In a partition's directory: how far its log is known to be synced.
const SYNCED: &str = "synced";

/// In a topic's directory: its settings.
const TOPIC: &str = "topic";

/// Where a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPartition<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub partition: u32,
    /// The name of the file; empty for the directory itself.
    pub file: &'a str,
}

impl<'a> InPartition<'a> {
    /// Of a path in a partition, or of its directory.
    pub fn of(path: &'a str) -> Option<Self> {
        let (topic, rest) = path.split_once('/')?;
        let (partition, file) = rest.split_once('/').unwrap_or((rest, ""));
        Some(Self { topic, partition: partition.parse().ok()?, file })
    }

    /// Whether it is one of the indexes, or one in the making.
    pub fn is_index(self) -> bool {
        self.file.contains("index")
    }

    /// Whether it is the log of a segment.
    pub fn is_log(self) -> bool {
        is_log(self.file)
    }

    /// Whether it holds what was behind a hole, and was set aside.
    pub fn is_set_aside(self) -> bool {
        self.file.contains(".aside-")
    }
}

/// The topic that a path belongs to, also while it is made or deleted: its directory has another name then, which begins with its own.
pub fn topic_at(path: &str) -> Option<&str> {
    let top = path.split('/').next()?;
    let topic = top.split('~').next()?;
    can_be_topic(topic).then_some(topic)
}

/// The file that says with what a topic was made.
pub fn settings_of(topic: &str) -> String {
    format!("{topic}/{TOPIC}")
}

/// Whether it is the log of a segment.
pub fn is_log(path: &str) -> bool {
    path.ends_with(".log")
}

/// Whether it says that a log could not be synced: the next start has to copy it.
pub fn is_mark_of_a_failed_sync(path: &str) -> bool {
    path.ends_with(".log.unsynced")
}

/// Whether it says that the broker has stopped cleanly.
pub fn is_mark_of_a_clean_stop(path: &str) -> bool {
    path == CLEAN
}

/// Whether it says which session runs.
pub fn is_note_of_the_run(path: &str) -> bool {
    path == RUNNING
}

/// Whether it will say which session runs, once it has its name.
pub fn is_note_of_the_run_in_the_making(path: &str) -> bool {
    path.strip_suffix(".tmp").is_some_and(is_note_of_the_run)
}

/// Whether it says which session runs, how the last one ended, or how far that is known to have synced: what differs from one
/// start to the next on the same files.
pub fn is_of_the_session(path: &str) -> bool {
    MARKS.contains(&path) || name(path) == SYNCED
}

/// The broker's own bookkeeping: what it holds is nobody's business, and may change.
pub fn is_bookkeeping(path: &str) -> bool {
    is_of_the_session(path) || name(path) == TOPIC
}

/// Whether a topic can have this name: the marks of the session, done or in the making, lie beside the topics.
pub fn can_be_topic(name: &str) -> bool {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let is_mark = MARKS.contains(&name.strip_suffix(".tmp").unwrap_or(name));
    (1..=249).contains(&name.len()) && name.bytes().all(is_legal) && !is_mark && name != "." && name != ".."
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_lie_at_the_top_and_records_of_syncs_in_partitions() {
        assert!(["running", "clean", "was-clean", "orders/0/synced"].into_iter().all(is_of_the_session));
        assert!(!["topic", "orders/0/clean", "clean/topic"].into_iter().any(is_of_the_session));
        assert!(is_bookkeeping("orders/topic") && !is_bookkeeping("orders/0/00000000000000000000.log"));
    }

    #[test]
    fn a_topic_is_known_while_it_is_made_or_deleted() {
        for path in ["orders", "orders~new", "orders~gone", "orders/0", "orders~new/0/x.log"] {
            assert_eq!(topic_at(path), Some("orders"), "{path}");
        }
        for path in [".", "running", "running.tmp", "clean", "~probe"] {
            assert_eq!(topic_at(path), None, "{path}");
        }
    }

    #[test]
    fn the_marks_of_the_session_are_no_names_of_topics() {
        let long = "x".repeat(249);
        assert!(["orders", "a.b_c-1", "running.old", long.as_str()].into_iter().all(can_be_topic));
        let longer = "x".repeat(250);
        let none = ["", ".", "..", "a/b", "a~new", "clean", "running.tmp", longer.as_str()];
        assert!(!none.into_iter().any(can_be_topic));
    }

    #[test]
    fn a_path_tells_the_partition_that_it_lies_in() {
        let (topic, partition) = ("orders", 3);
        let of = InPartition::of;
        assert_eq!(of("orders/3/a.log"), Some(InPartition { topic, partition, file: "a.log" }));
        assert_eq!(of("orders/3"), Some(InPartition { topic, partition, file: "" }));
        assert_eq!((of("orders/topic"), of("clean")), (None, None));
    }
}
