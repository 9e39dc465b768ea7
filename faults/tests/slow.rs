//! Syncs that take their time: what they cover, and from when on.

use std::time::Duration;

use faults::{Config, Disk, Errno, Fault, File, Keep, Kind, Op, Open, Process, Profile, Unfinished};

fn disk() -> (Disk, Process, File) {
    let disk = Disk::new(Config::new(Profile::Strict));
    disk.put("/a.log", b"").unwrap();
    let process = disk.process();
    let file = process.open("/a.log", Open::Write).unwrap();
    (disk, process, file)
}

fn durable(disk: &Disk) -> Vec<u8> {
    disk.durable("/a.log").unwrap()
}

fn stall(disk: &Disk) {
    disk.aim(Fault::new(Op::Sync, "*", Kind::Stall { delay: Duration::from_millis(5) })).unwrap();
}

/// A sync that is under way, of the bytes `one`.
fn of_one(disk: &Disk, file: &File) -> Unfinished {
    stall(disk);
    file.write_at(b"one", 0).unwrap();
    let job = disk.begin_job(disk.moment());
    file.sync_data().unwrap();
    job.end().unwrap()
}

#[test]
fn what_comes_after_a_job_was_handed_over_waits_for_the_next_sync() {
    let (disk, _process, file) = disk();
    file.write_at(b"one", 0).unwrap();
    let handed_over = disk.moment();
    file.write_at(b"two", 3).unwrap();
    let job = disk.begin_job(handed_over);
    file.sync_data().unwrap();
    assert!(job.end().is_none());
    assert_eq!(durable(&disk), b"one");
    file.sync_data().unwrap();
    assert_eq!(durable(&disk), b"onetwo");
}

#[test]
fn what_a_job_writes_comes_before_its_sync() {
    let (disk, _process, file) = disk();
    let handed_over = disk.moment();
    file.write_at(b"one", 0).unwrap();
    let job = disk.begin_job(handed_over);
    file.write_at(b"two", 3).unwrap();
    file.sync_data().unwrap();
    assert!(job.end().is_none());
    assert_eq!(durable(&disk), b"onetwo");
}

/// Also where the sync stalls: whether the job is over with it, or goes on.
#[test]
fn what_a_job_writes_comes_before_its_stalled_sync() {
    for goes_on in [false, true] {
        let (disk, _process, file) = disk();
        stall(&disk);
        let handed_over = disk.moment();
        file.write_at(b"one", 0).unwrap();
        let job = disk.begin_job(handed_over);
        file.write_at(b"two", 3).unwrap();
        file.sync_data().unwrap();
        assert_eq!(durable(&disk), b"");
        if goes_on {
            file.write_at(b"three", 6).unwrap();
        }
        let sync = job.end();
        assert_eq!(sync.is_none(), goes_on);
        if let Some(sync) = sync {
            file.write_at(b"three", 6).unwrap();
            disk.finish(sync);
        }
        assert_eq!(durable(&disk), b"onetwo", "{goes_on}");
    }
}

#[test]
fn a_stalled_sync_keeps_nothing_before_it_has_ended_and_then_what_was_there_when_it_began() {
    let (disk, _process, file) = disk();
    let sync = of_one(&disk, &file);
    assert_eq!(durable(&disk), b"");
    file.write_at(b"two", 3).unwrap();
    disk.finish(sync);
    assert_eq!(durable(&disk), b"one");
}

#[test]
fn a_job_that_goes_on_has_waited() {
    let (disk, _process, file) = disk();
    stall(&disk);
    file.write_at(b"one", 0).unwrap();
    let job = disk.begin_job(disk.moment());
    file.sync_data().unwrap();
    file.write_at(b"two", 3).unwrap();
    assert!(job.end().is_none());
    assert_eq!(durable(&disk), b"one");
}

/// What comes after a job that unwinds belongs to none.
#[test]
fn a_job_that_unwinds_has_ended() {
    let (disk, _process, file) = disk();
    file.write_at(b"one", 0).unwrap();
    let handed_over = disk.moment();
    file.write_at(b"two", 3).unwrap();
    drop(disk.begin_job(handed_over));
    file.sync_data().unwrap();
    assert_eq!(durable(&disk), b"onetwo");
}

#[test]
fn a_sync_that_is_under_way_when_power_is_lost_ends_nowhere() {
    let (disk, _process, file) = disk();
    let sync = of_one(&disk, &file);
    disk.power_loss_keeping(Keep::Nothing);
    let process = disk.process();
    let file = process.open("/a.log", Open::Write).unwrap();
    file.write_at(b"new", 0).unwrap();
    disk.finish(sync);
    assert_eq!(durable(&disk), b"");
}

/// The history has each sync where it ended, and it covers the same also where other syncs are left out or added.
#[test]
fn a_history_knows_what_a_slow_sync_covers() {
    let (disk, _process, file) = disk();
    disk.record();
    file.write_at(b"1", 0).unwrap();
    file.sync_data().unwrap();
    file.write_at(b"2", 1).unwrap();
    let handed_over = disk.moment();
    file.write_at(b"3", 2).unwrap();
    let job = disk.begin_job(handed_over);
    file.sync_data().unwrap();
    assert!(job.end().is_none());
    let history = disk.take_history().unwrap();
    let least = |history: &faults::History| {
        let left = history.at(history.len()).keeping(Keep::Nothing).files();
        left.into_iter().find(|(path, _)| path == "/a.log").unwrap().1
    };
    assert_eq!(least(&history), b"12");
    let first = history.steps().iter().find(|step| step.is_sync()).unwrap().site;
    let first_off = history.without_syncs(|step| step.site == first);
    assert_eq!(least(&first_off), b"12");
    assert_eq!(least(&history.with_sync(2, "/a.log").unwrap()), b"12");
}

/// What a sync that fails drops is what it covers: what came after the job was handed over is dirty still, and where it lies
/// in a page with what was dropped, the page is written whole.
#[test]
fn a_slow_sync_that_fails_drops_what_it_covers_and_no_more() {
    let page = usize::try_from(faults::PAGE).unwrap();
    for stalls in [false, true] {
        let (disk, _process, file) = disk();
        if stalls {
            stall(&disk);
        }
        disk.aim(Fault::error(Op::Sync, "*", Errno::EIO)).unwrap();
        file.write_at(&vec![1; 2 * page - 6], 0).unwrap();
        let handed_over = disk.moment();
        file.write_at(&vec![2; page], (2 * page - 6) as u64).unwrap();
        let job = disk.begin_job(handed_over);
        file.sync_data().unwrap_err();
        assert!(job.end().is_none());
        file.sync_data().unwrap();
        let kept = durable(&disk);
        assert!(kept[..page].iter().all(|byte| *byte == 0), "the first page is dropped");
        assert!(kept[page..2 * page - 6].iter().all(|byte| *byte == 1), "the second was written to again");
        assert!(kept[2 * page - 6..].iter().all(|byte| *byte == 2), "what came later is kept");
        let mut seen = vec![0; 3 * page];
        assert_eq!(file.read_at(&mut seen, 0).unwrap(), 3 * page - 6);
        assert_eq!((seen[0], seen[2 * page]), (1, 2), "and all of it can be read");
    }
}

/// Likewise a cut that came after the sync began, through a page that it dropped.
#[test]
fn a_cut_after_a_slow_sync_that_fails_brings_back_the_page_that_it_goes_through() {
    let (disk, _process, file) = disk();
    disk.aim(Fault::error(Op::Sync, "*", Errno::EIO)).unwrap();
    file.write_at(b"one", 0).unwrap();
    let handed_over = disk.moment();
    file.set_len(2).unwrap();
    let job = disk.begin_job(handed_over);
    file.sync_data().unwrap_err();
    assert!(job.end().is_none());
    file.sync_data().unwrap();
    assert_eq!(durable(&disk), b"on");
}

/// Nor does one that makes the file longer: no byte of the page is changed by that.
#[test]
fn a_lost_write_after_a_slow_sync_that_fails_does_not_bring_back_the_page_that_it_begins_in() {
    let (disk, _process, file) = disk();
    disk.aim(Fault::error(Op::Sync, "*", Errno::EIO)).unwrap();
    file.write_at(b"one", 0).unwrap();
    let handed_over = disk.moment();
    disk.aim(Fault::new(Op::Write, "*", Kind::Lost)).unwrap();
    file.write_at(b"two", 3).unwrap();
    let job = disk.begin_job(handed_over);
    file.sync_data().unwrap_err();
    assert!(job.end().is_none());
    file.sync_data().unwrap();
    assert_eq!(durable(&disk), [0; 6]);
}

/// A sync that has nothing to keep can end well where nothing can be written any more, also while more has come since.
#[test]
fn a_sync_on_a_read_only_file_system_fails_for_what_it_covers_and_not_for_what_has_come_since() {
    for covers in [false, true] {
        let (disk, _process, file) = disk();
        if covers {
            file.write_at(b"one", 0).unwrap();
        }
        let handed_over = disk.moment();
        file.write_at(b"two", 3).unwrap();
        disk.set_read_only(true);
        let job = disk.begin_job(handed_over);
        assert_eq!(file.sync_data().is_err(), covers);
        assert!(job.end().is_none());
        assert_eq!(durable(&disk), b"");
    }
}

/// Its device has taken what it covers before: it waits for the answer.
#[test]
fn a_sync_under_way_when_the_file_system_turns_read_only_ends_well() {
    let (disk, _process, file) = disk();
    let sync = of_one(&disk, &file);
    disk.set_read_only(true);
    disk.finish(sync);
    assert_eq!(durable(&disk), b"one");
}
