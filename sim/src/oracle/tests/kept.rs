//! P2: what was promised is there, whatever happened before it was promised.

use faults::Errno;

use super::{
    Answer, At, Code, CrashKind, DiskOp, Event, Mode, Moment, Op, Pace, Request, Seen, Story, World, log, op,
    records, value,
};

const NONE: [&str; 0] = [];

#[test]
fn a_partition_that_answers_every_read_with_an_error_has_lost_its_records() {
    let mut story = Story::new(Mode::Os);
    story.stored("a", 0);
    story.again(CrashKind::Process);
    story.add(Event::LookBegins);
    let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at: At::Earliest });
    story.answer(id, super::Answer::Offset(Some((0, 0))));
    let id = story.consume(0, 0);
    story.unreadable(id, Code::Corrupt, 0);
    story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
    assert_eq!(story.broken(), ["unopened"]);
}

#[test]
fn what_is_destroyed_is_answered_by_an_error_that_says_so() {
    let story = |code: Code| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        story.add(Event::Fault {
            text: "a bit rots".into(),
            path: Some(super::log(0).into()),
            damages: true,
        });
        story.add(Event::LookBegins);
        let id = story.consume(0, 0);
        story.unreadable(id, code, 0);
        let id = story.consume(0, 1);
        story.fetched(id, 1, 'b', 2);
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.broken()
    };
    assert_eq!(story(Code::Corrupt), NONE);
    assert_eq!(story(Code::StorageFailed), NONE);
    assert_eq!(story(Code::ShuttingDown), ["unreadable"]);
}

/// Two clients at the same time: the sync that the first one's append asked for fails before the first one's answer is under way.
#[test]
fn what_was_written_before_a_sync_failed_may_be_gone_though_its_answer_came_later() {
    let story = |fails_first: bool| {
        let mut story = Story::new(Mode::Interval(20));
        story.stored("a", 0);
        story.later(1000);
        let id = story.asks("b");
        if fails_first {
            story.fails(Op::Sync);
        }
        story.told(id, 1, 1);
        story.later(1000);
        story.again(CrashKind::Power);
        story.look("a");
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["lost"]);
}

#[test]
fn a_hole_comes_with_a_power_loss_and_not_by_itself() {
    let story = |power_loss: bool| {
        let mut story = Story::new(Mode::Always);
        story.stored("a", 0);
        story.again(CrashKind::Power);
        story.look("a");
        story.again(if power_loss { CrashKind::Power } else { CrashKind::Process });
        story.look("a.");
        story.again(CrashKind::Process);
        story.look("a.");
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["hole"]);
}

#[test]
fn a_sync_that_failed_once_is_no_excuse_after_a_clean_stop() {
    let story = |stopped: bool| {
        let mut story = Story::new(Mode::Os);
        story.stored("a", 0);
        story.fails(Op::Sync);
        story.again(CrashKind::Process);
        if stopped {
            story.again(CrashKind::Stop);
        }
        story.again(CrashKind::Power);
        story.look("");
        story.broken()
    };
    assert_eq!(story(false), NONE);
    assert_eq!(story(true), ["lost"]);
}

#[test]
fn an_answer_that_was_under_way_in_a_power_loss_promises_nothing_that_the_disk_lied_about() {
    let story = |lies: bool| {
        let mut story = Story::new(Mode::Always);
        let id = story.asks("a");
        if lies {
            story.lies(&super::log(0));
        }
        story.crash(CrashKind::Power);
        story.told(id, 1, 0);
        story.start();
        story.look("");
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["lost"]);
}

/// What waits for a sync waits for all of its operations, and for the sync before it.
#[test]
fn what_stalls_a_sync_adds_up_and_makes_the_interval_longer() {
    let story = |stalls: &[u64]| {
        let mut story = Story::new(Mode::Interval(50));
        stalls.iter().for_each(|ms| story.stalls(Op::Sync, *ms));
        story.stored("a", 0);
        story.later(1000);
        story.again(CrashKind::Power);
        story.look("");
        story.broken()
    };
    assert_eq!(story(&[3000]), NONE);
    assert_eq!(story(&[400]), ["lost"]);
    assert_eq!(story(&[300; 4]), NONE);
    assert_eq!(story(&[300; 3]), ["lost"]);
}

/// Only what it waits for, that is: its own log, what lies above it, and what stalls all of the broker.
#[test]
fn a_stall_that_was_over_or_was_elsewhere_makes_no_interval_longer() {
    let story = |what: Op, path: &str, later: u64| {
        let mut story = Story::new(Mode::Interval(50));
        story.struck(DiskOp { stalled_ms: 3000, ..op(what, path, Ok(0)) });
        story.later(later);
        story.stored("a", 0);
        story.later(1000);
        story.again(CrashKind::Power);
        story.look("");
        story.broken()
    };
    assert_eq!(story(Op::Sync, &log(0), 0), NONE);
    assert_eq!(story(Op::Sync, &log(0), 3000), ["lost"]);
    assert_eq!(story(Op::SyncDir, "orders", 0), NONE);
    assert_eq!(story(Op::Sync, "orders/1/00000000000000000000.log", 0), ["lost"]);
    assert_eq!(story(Op::Write, "orders/1/00000000000000000000.log", 0), NONE);
}

/// One byte that has rotted is no excuse for another record.
#[test]
fn rot_excuses_the_records_that_it_has_taken() {
    let story = |found: &str| {
        let mut story = Story::new(Mode::Os);
        story.stored("abc", 0);
        let mut left = records(0, "abc");
        left[29 + 28] ^= 1;
        story.rots(&log(0));
        story.crash(CrashKind::Process);
        story.image(Moment::Down, &[(0, &left)]);
        story.starts();
        story.found(3, &[(1, 2)]);
        story.look(found);
        story.broken()
    };
    assert_eq!(story("a.c"), NONE);
    assert_eq!(story("a.."), ["unreadable"]);
    let mut running = Story::new(Mode::Os);
    running.stored("abc", 0);
    running.rots(&log(0));
    running.look("a..");
    assert_eq!(running.broken(), NONE, "nobody knows yet");
}

/// What waited for a stalled sync when the broker went down is no more durable for a start that does not come to its end.
#[test]
fn a_start_that_goes_down_makes_nothing_durable_that_waited() {
    let story = |stalled: u64| {
        let mut story = Story::new(Mode::Interval(50));
        story.stalls(Op::Sync, stalled);
        story.stored("a", 0);
        story.later(1000);
        story.crash(CrashKind::Process);
        story.starts();
        story.again(CrashKind::Power);
        story.look("");
        story.broken()
    };
    assert_eq!(story(3000), NONE);
    assert_eq!(story(400), ["lost"]);
}

#[test]
fn a_hole_stays_where_the_note_of_the_run_is_gone() {
    let story = |note: &str| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        story.crash(CrashKind::Power);
        story.takes_away(&[note, &super::log(0)], &[note]);
        story.start();
        story.look(".b");
        story.broken()
    };
    assert_eq!(story("running"), NONE);
    assert_eq!(story("orders/0/synced"), NONE);
    assert_eq!(story("notes.txt"), ["unreadable"]);
}

const INDEX: &str = "orders/0/00000000000000000000.index";

#[test]
fn a_lie_about_an_index_excuses_no_loss() {
    let story = |path: &str| {
        let mut story = Story::new(Mode::Always);
        story.stored("a", 0);
        story.lies(path);
        story.again(CrashKind::Power);
        story.look("");
        story.broken()
    };
    assert_eq!(story(&super::log(0)), NONE);
    assert_eq!(story("orders/0/synced"), NONE);
    for index in [INDEX, "orders/0/00000000000000000000.timeindex.tmp"] {
        assert_eq!(story(index), ["lost"], "{index}");
    }
}

#[test]
fn a_sector_that_cannot_be_read_excuses_no_loss() {
    for (path, kind) in [(super::log(0), "cut behind damage"), (INDEX.into(), "lost")] {
        let mut story = Story::new(Mode::Always);
        story.stored("a", 0);
        story.unreadable_sector(&path);
        story.again(CrashKind::Power);
        story.look("");
        assert_eq!(story.broken(), [kind], "{path}");
    }
}

#[test]
fn what_could_not_be_read_is_there_again_after_the_next_start() {
    let story = |found: &str| {
        let mut story = Story::new(Mode::Always);
        story.stored("ab", 0);
        story.unreadable_sector(&super::log(0));
        story.again(CrashKind::Process);
        story.look("a.");
        story.add(Event::World(World::Readable));
        story.look("a.");
        story.again(CrashKind::Process);
        story.look(found);
        story.broken()
    };
    assert_eq!(story("ab"), NONE);
    assert_eq!(story("a."), ["unreadable"]);
    assert_eq!(story("a"), ["lost"]);
}

#[test]
fn a_disk_that_has_become_slow_makes_the_loss_window_longer() {
    let story = |sync: u64| {
        let mut story = Story::new(Mode::Interval(20));
        story.add(Event::World(World::Pace(Pace { timeout: 2000, sync, ..Pace::default() })));
        story.stored("a", 0);
        story.later(100);
        story.again(CrashKind::Power);
        story.look("");
        story.broken()
    };
    assert_eq!(story(200), NONE);
    assert_eq!(story(0), ["lost"]);
}

#[test]
fn a_sync_that_was_interrupted_has_failed_only_where_it_is_not_made_again() {
    let story = |again: bool| {
        let mut story = Story::new(Mode::Interval(20));
        story.stored("a", 0);
        story.fails_with(Op::Sync, Errno::EINTR);
        if again {
            story.does(Op::Sync, 0, 0);
        }
        story.later(1000);
        story.again(CrashKind::Power);
        story.look("");
        story.broken()
    };
    assert_eq!(story(false), NONE);
    assert_eq!(story(true), ["lost"]);
}

/// Three records that were promised, and bits of one of them flip where it is read; then the lights go out, and leave so many of
/// them in the log.
#[test]
fn bits_that_flip_excuse_no_other_record() {
    let story = |rotten: usize, left: usize, found: &str| {
        let mut story = Story::new(Mode::Always);
        story.stored("abc", 0);
        story.rots(&super::log(0));
        story.crash(CrashKind::Power);
        let mut bytes = super::records(0, "abc");
        let record = bytes.len() / 3;
        bytes[rotten * record + record - 1] ^= 1;
        story.image(Moment::Down, &[(0, &bytes[..left * record])]);
        story.start();
        story.look(found);
        story.broken()
    };
    assert_eq!(story(1, 3, "a.c"), NONE);
    assert_eq!(story(1, 3, "a"), ["cut behind damage"]);
    assert_eq!(story(2, 3, "ab"), NONE, "it may have been torn");
    assert_eq!(story(2, 3, "a"), ["cut behind damage"]);
    assert_eq!(story(1, 2, "a"), ["cut behind damage"], "the last is gone, and nothing bad lies there");
    assert_eq!(story(0, 1, ""), ["cut behind damage"]);
}

/// The same where bits flip as a start reads the log: nobody sees the file before that has cut it.
#[test]
fn bits_that_flip_in_a_start_excuse_what_it_was_reading() {
    let story = |position: u64, found: &str| {
        let mut story = Story::new(Mode::Always);
        story.stored("abc", 0);
        story.crash(CrashKind::Process);
        let bytes = super::records(0, "abc");
        story.image(Moment::Down, &[(0, &bytes)]);
        story.starts();
        let len = bytes.len() as u64 - position;
        story.struck(DiskOp { position, rots: true, ..op(Op::Read, &super::log(0), Ok(len)) });
        story.started(&[]);
        story.look(found);
        story.broken()
    };
    assert_eq!(story(58, "ab"), NONE);
    assert_eq!(story(57, "a"), NONE);
    assert_eq!(story(58, "a"), ["cut behind damage"]);
}

/// The system fails to write a log back: what was promised to be written may be gone, and what was promised to be synced may not.
#[test]
fn what_was_not_written_back_excuses_nothing_that_was_synced() {
    let story = |mode: Mode, drops: bool, crash: CrashKind, found: &str| {
        let mut story = Story::new(mode);
        story.stored("a", 0);
        if drops {
            story.struck(DiskOp { drops: true, ..op(Op::Write, &super::log(0), Ok(29)) });
        }
        story.later(1000);
        story.add(Event::World(World::CachesDropped));
        story.again(crash);
        story.look(found);
        story.broken()
    };
    let (process, power) = (CrashKind::Process, CrashKind::Power);
    for crash in [process, power] {
        assert_eq!(story(Mode::Interval(20), true, crash, ""), NONE);
        assert_eq!(story(Mode::Interval(20), true, crash, "."), NONE);
        assert_eq!(story(Mode::Interval(20), false, crash, ""), ["lost"]);
        assert_eq!(story(Mode::Always, true, crash, "a"), NONE);
        assert_eq!(story(Mode::Always, true, crash, "."), ["unreadable"]);
    }
    assert_eq!(story(Mode::Always, true, process, ""), ["cut behind damage"]);
}

/// Who has the log open is told later, and whoever opens it: no fault strikes then, and what came between is in doubt too.
#[test]
fn a_sync_that_is_told_later_of_what_was_not_written_back_has_failed() {
    let story = |drops: bool| {
        let mut story = Story::new(Mode::Interval(20));
        let fault = drops.then(|| "a fault".into());
        story.add(Event::Disk(DiskOp { drops, fault, ..op(Op::Write, &super::log(0), Ok(29)) }));
        story.again(CrashKind::Process);
        story.stored("a", 0);
        story.add(Event::Disk(op(Op::Sync, &super::log(0), Err(Errno::EIO))));
        story.later(1000);
        story.again(CrashKind::Power);
        story.look("");
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["lost"]);
}

#[test]
fn what_a_failed_sync_dropped_may_be_gone_once_the_cache_is() {
    let story = |fails: bool, dropped: bool| {
        let mut story = Story::new(Mode::Interval(20));
        story.stored("a", 0);
        if fails {
            story.fails(Op::Sync);
        }
        if dropped {
            story.add(Event::World(World::CachesDropped));
        }
        story.again(CrashKind::Process);
        story.look("");
        story.broken()
    };
    assert_eq!(story(true, true), NONE);
    assert_eq!(story(true, false), ["lost"]);
    assert_eq!(story(false, true), ["lost"]);
}

/// An answer crosses a power loss, and names an offset that was another record's. Where it was sent when that one was known, and might be
/// gone, it has taken its place; where it was not, which of the two is there is not known.
#[test]
fn who_is_answered_late_has_taken_the_place_of_what_was_gone_when_it_was_sent() {
    let story = |mode: Mode, before: bool, found: &str| {
        let mut story = Story::new(mode);
        let early = (!before).then(|| story.asks("b"));
        if !before {
            story.again(CrashKind::Power);
        }
        story.stored("a", 0);
        if before {
            story.again(CrashKind::Power);
        }
        let id = early.unwrap_or_else(|| story.asks("b"));
        story.crash(CrashKind::Power);
        story.told(id, 1, 0);
        story.start();
        story.look(found);
        story.broken()
    };
    for found in ["", "b"] {
        assert_eq!(story(Mode::Os, true, found), NONE, "{found:?}");
    }
    assert_eq!(story(Mode::Os, true, "a"), ["came back"], "it had lost its place");
    for found in ["", "a", "b"] {
        assert_eq!(story(Mode::Os, false, found), NONE, "{found:?}");
    }
    assert_eq!(story(Mode::Always, true, "b"), ["given twice"]);
}

/// The same, where the record before it cannot be gone.
#[test]
fn who_is_answered_late_cannot_have_the_offset_of_what_is_there() {
    let story = |stopped: bool| {
        let mut story = Story::new(Mode::Os);
        story.stored("a", 0);
        if stopped {
            story.again(CrashKind::Stop);
        } else {
            story.again(CrashKind::Power);
        }
        let id = story.asks("b");
        story.crash(CrashKind::Power);
        story.told(id, 1, 0);
        story.broken()
    };
    assert_eq!(story(true), ["given twice"]);
    assert_eq!(story(false), NONE);
}

/// A record was read, and may be gone after a power loss; one with the same content is sent, and nobody hears of it.
#[test]
fn a_record_may_have_taken_the_place_of_one_with_the_same_content() {
    let story = |kind: CrashKind, sent: bool, timestamp: u64| {
        let mut story = Story::new(Mode::Os);
        story.stored("a", 0);
        story.reads(0, 0, 'a');
        story.again(kind);
        if sent {
            let id = story.asks("a");
            story.lost(id);
        }
        let id = story.consume(0, 0);
        let seen = Seen { offset: 0, timestamp, key: None, value: value('a') };
        story.answer(id, Answer::Fetched { records: vec![seen], start: 0, end: 1 });
        story.broken().contains(&"timestamp")
    };
    let [power, process] = [CrashKind::Power, CrashKind::Process];
    for kind in [power, process] {
        assert!(!story(kind, true, 0));
    }
    assert!(!story(power, true, 7));
    assert!(story(power, false, 7));
    assert!(story(process, true, 7));
}

/// A process crash, a start that cannot read which partitions the topic has, and a power loss much later.
#[test]
fn what_a_start_could_not_open_it_does_not_sync() {
    let story = |opened: bool, waited: bool| {
        let mut story = Story::new(Mode::Interval(10));
        story.stored("a", 0);
        if waited {
            story.later(100);
        }
        story.crash(CrashKind::Process);
        story.starts();
        if opened {
            story.found(1, &[]);
        } else {
            story.struck(op(Op::List, "orders", Err(Errno::EIO)));
            story.says_nothing();
        }
        story.later(100);
        story.again(CrashKind::Power);
        story.look("");
        story.broken()
    };
    assert_eq!(story(false, false), NONE);
    assert_eq!(story(true, false), ["lost"]);
    assert_eq!(story(false, true), ["lost"]);
}
