//! P6: an index that was changed proves nothing, until it is built anew.

use faults::{Errno, Op};

use super::{CrashKind, Event, Image, ImageFile, Mode, Moment, Recovered, Story, decode, log, op, records};

const NONE: [&str; 0] = [];

const INDEX: &str = "00000000000000000000.index";

/// The files of a partition with two records, and an index with these entries.
fn files(index: &[(u64, u64)]) -> Vec<ImageFile> {
    let entries = |entries: &[(u64, u64)]| -> Vec<u8> {
        entries.iter().flat_map(|(offset, at)| decode::entry(*offset, *at)).collect()
    };
    let file = |path: String, bytes: Vec<u8>| ImageFile { path: path.into(), bytes: bytes.into() };
    vec![
        file(format!("orders/0/{INDEX}"), entries(index)),
        file(log(0), records(0, "ab")),
        file("orders/0/00000000000000000000.timeindex".into(), entries(&[(0, 0), (1, 1)])),
    ]
}

fn image(story: &mut Story, moment: Moment, index: &[(u64, u64)]) {
    story.add(Event::Image { moment, image: Image(files(index)).into() });
}

/// An index that was damaged, a start that built it anew or did not, and what was found in it then.
fn story(rebuilt: &[&str], meanwhile: &dyn Fn(&mut Story), found: &[(u64, u64)]) -> Vec<&'static str> {
    let mut story = Story::new(Mode::Os);
    story.stored("ab", 0);
    story.crash(CrashKind::Process);
    image(&mut story, Moment::Untouched, &RIGHT);
    image(&mut story, Moment::Touched, &[(0, 7)]);
    story.starts();
    meanwhile(&mut story);
    let rebuilt = rebuilt.iter().map(ToString::to_string).collect();
    let (topic, damage, notes) = ("orders".into(), Vec::new(), Vec::new());
    let (cut, set_aside, fenced) = (0, 0, None);
    let said =
        Recovered { topic, partition: 0, start: 0, end: 2, cut, set_aside, rebuilt, damage, fenced, notes };
    story.add(Event::Started { clean: false, partitions: vec![said], notes: Vec::new() });
    image(&mut story, Moment::Recovered, found);
    story.broken()
}

const RIGHT: [(u64, u64); 2] = [(0, 0), (1, 29)];

#[test]
fn an_index_that_was_damaged_and_built_anew_is_right() {
    assert_eq!(story(&[INDEX], &|_| {}, &RIGHT), NONE);
    assert_eq!(story(&[INDEX], &|_| {}, &[(0, 7)]), ["entries", "entry names another place"]);
    assert_eq!(story(&[], &|_| {}, &[(0, 7)]), NONE);
}

#[test]
fn an_index_may_be_wrong_where_the_disk_has_lied_while_it_was_built() {
    let lies = |story: &mut Story| story.lies(&format!("orders/0/{INDEX}.tmp"));
    assert_eq!(story(&[INDEX], &lies, &[(0, 7)]), NONE);
}

/// That one is missing is why a start builds it, and excuses nothing in what it has built.
#[test]
fn an_index_that_is_missing_is_built_whole() {
    let tried = |errno: Errno| {
        let path = format!("orders/0/{INDEX}");
        move |story: &mut Story| story.add(Event::Disk(op(Op::Open, &path, Err(errno))))
    };
    assert_eq!(story(&[INDEX], &tried(Errno::ENOENT), &RIGHT), NONE);
    assert_eq!(story(&[INDEX], &tried(Errno::ENOENT), &RIGHT[..1]), ["entries"]);
    assert_eq!(story(&[INDEX], &tried(Errno::EIO), &RIGHT[..1]), NONE);
}

/// The broker comes up with another index interval: the segment that is written to has that one, and one that is closed may have
/// its own.
#[test]
fn an_index_has_the_interval_of_a_broker_that_wrote_it() {
    let story = |entries: &[u64], closed: bool| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        story.crash(CrashKind::Process);
        story.interval = 2;
        story.starts();
        story.found(2, &[]);
        let index = |entry: fn(u64) -> Vec<u8>| entries.iter().flat_map(|offset| entry(*offset)).collect();
        let file = |path: String, bytes: Vec<u8>| ImageFile { path: path.into(), bytes: bytes.into() };
        let mut files = vec![
            file(format!("orders/0/{INDEX}"), index(|offset| decode::entry(offset, offset * 29).to_vec())),
            file(log(0), records(0, "ab")),
            file(
                "orders/0/00000000000000000000.timeindex".into(),
                index(|offset| decode::entry(offset, offset).to_vec()),
            ),
        ];
        if closed {
            files.push(file(log(2), Vec::new()));
        }
        story.add(Event::Image { moment: Moment::Recovered, image: Image(files).into() });
        story.broken()
    };
    assert_eq!(story(&[1], false), NONE);
    assert_eq!(story(&[0, 1], false), ["entries"]);
    assert_eq!(story(&[1], true), NONE);
    assert_eq!(story(&[0, 1], true), NONE);
    assert_eq!(story(&[], true), ["entries"]);
}

/// The broker comes up with another index interval, and cannot read which partitions the topic has: none of them is opened.
#[test]
fn an_index_that_was_not_opened_is_left_as_it_was() {
    let story = |errno: Option<Errno>| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        story.crash(CrashKind::Process);
        story.interval = 3;
        story.starts();
        errno.into_iter().for_each(|errno| story.struck(op(Op::List, "orders", Err(errno))));
        story.says_nothing();
        image(&mut story, Moment::Recovered, &RIGHT);
        story.broken()
    };
    assert_eq!(story(Some(Errno::EIO)), NONE);
    assert_eq!(story(None), ["entries"]);
}

/// A power loss took records and left their entries, and there was no room to build the index anew.
#[test]
fn an_index_that_there_was_no_room_to_build_anew_may_be_ahead_of_its_log() {
    let story = |no_room: bool| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        story.crash(CrashKind::Power);
        story.starts();
        if no_room {
            story.struck(op(Op::Write, &format!("orders/0/{INDEX}.tmp"), Err(Errno::ENOSPC)));
        }
        story.found(2, &[]);
        image(&mut story, Moment::Recovered, &[RIGHT[0], RIGHT[1], (2, 58)]);
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["entries", "entry names another place"]);
}
