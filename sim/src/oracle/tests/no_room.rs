//! Starts beside the run on a disk that is full, or that nothing can be changed on.

use super::*;
use crate::oracle::look::{Look, PartitionLook};
use crate::oracle::walk::{StartBeside, Walk};

const ASIDE: &str = "orders/0/00000000000000000000.log.aside-0.tmp";
const COPY: &str = "orders/0/00000000000000000000.log.tmp";

/// What is wrong with a start that was refused this after a crash, has fenced the partition, and shows this of it.
fn fenced(
    story: &Story,
    kind: CrashKind,
    (op_refused, errno): (&str, Errno),
    look: PartitionLook,
) -> Option<&'static str> {
    let mut walk = Walk::default();
    story.trace.entries.iter().for_each(|entry| _ = walk.entry(entry));
    walk.goes_down(kind, 100);
    let said = [Recovered { end: look.end, fenced: Some("no room".into()), ..recovered() }];
    let refused = [(op(Op::Write, op_refused, Err(errno)), 0)];
    let mut all = Look::default();
    all.partitions.insert(("orders".into(), 0), look);
    let (clean, noted, failing) = (false, true, false);
    walk.started_beside(
        &StartBeside { clean, noted, failing, refused: &refused, said: &said, look: &all },
        100,
    );
    walk.findings.first().map(|broken| broken.kind)
}

/// All of it is served.
fn whole(letters: &str) -> PartitionLook {
    let mut look = PartitionLook { end: letters.len() as u64, ranged: true, ..PartitionLook::default() };
    for (offset, letter) in (0..).zip(letters.chars()) {
        look.records.insert(offset, Seen { offset, timestamp: 0, key: None, value: value(letter) });
    }
    look
}

#[test]
fn that_there_is_no_room_to_set_something_aside_is_no_reason_to_fence() {
    let mut story = Story::new(Mode::Always);
    story.stored("ab", 0);
    let found = |errno| fenced(&story, CrashKind::Power, (ASIDE, errno), whole("ab"));
    assert_eq!(found(Errno::ENOSPC), Some("fenced"));
    assert_eq!(found(Errno::EROFS), None, "on a disk that takes no writes, no partition does");
}

#[test]
fn a_partition_waits_for_room_where_a_failed_sync_wants_its_log_copied() {
    let mut synced = Story::new(Mode::Always);
    synced.stored("ab", 0);
    assert_eq!(
        fenced(&synced, CrashKind::Process, (COPY, Errno::ENOSPC), whole("ab")),
        Some("fenced"),
        "there is nothing to copy"
    );
    let mut failed = Story::new(Mode::Always);
    failed.stored("ab", 0);
    failed.fails(Op::Sync);
    let found = |kind, look| fenced(&failed, kind, (COPY, Errno::ENOSPC), look);
    assert_eq!(found(CrashKind::Process, whole("ab")), None);
    // A power loss may have taken the note of how far it was synced, and nothing else has.
    let hidden = || PartitionLook { ranged: true, hides: true, ..PartitionLook::default() };
    assert_eq!(found(CrashKind::Power, hidden()), None);
    assert_eq!(found(CrashKind::Process, hidden()), Some("lost"));
    let closed = PartitionLook::default;
    assert_eq!(found(CrashKind::Power, closed()), None);
    assert_eq!(found(CrashKind::Process, closed()), Some("unopened"));
}
