//! Every sync in the broker carries load: where one is switched off, a scenario of the explore folder fails, or one of its
//! crash points does. `sim barriers` prints the table, and the soak makes it with all scenarios and more images.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::barriers::source::places;
use sim::barriers::{Effort, Subject, barriers};
use sim::explore::Bounds;
use sim::patience::PATIENCE;
use sim::scenario::syntax;
use sim::source_line::SourceLine;
use sim::suite;

#[test]
fn every_sync_is_noticed_when_it_is_missing() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace");
    let subjects: Vec<Subject> = suite::find(&top.join("scenarios/explore"))
        .expect("it can be read")
        .iter()
        .map(|file| {
            let scenario = suite::load(&file.path).expect("it is a scenario");
            Subject::new(&file.name, &scenario).expect("it runs")
        })
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // Some show only in what a crash within a recovery leaves: more of that than a test of a scenario file looks at.
    let bounds = Bounds { inner: 8, threads: NonZeroUsize::new(threads), ..Bounds::quick() };
    let effort = Effort { bounds, all: false, threads, patience: PATIENCE };
    let table = barriers(&subjects, effort, &|_| (), &|| ControlFlow::Continue(()));
    let unnoticed: Vec<String> =
        table.barriers.iter().filter(|b| b.noticed.is_empty()).map(|b| b.place.to_string()).collect();
    assert!(table.broken.is_empty(), "{:?}", table.broken);
    assert!(table.hung.is_empty(), "{:?}", table.hung);
    assert!(unnoticed.is_empty(), "nothing notices that these do not sync: {unnoticed:?}");
    assert!(table.unreached.is_empty(), "no scenario reaches these: {:?}", table.unreached);
    // Were one told of that the source does not show, another could be missed that no scenario reaches.
    let told: Vec<&SourceLine> = table.barriers.iter().map(|barrier| &barrier.place).collect();
    let read = places();
    assert_eq!(told, read.iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
    assert!(table.holds());
}

/// Of places that were not tried, nothing is said: neither that nobody notices, nor that no scenario reaches them.
#[test]
fn who_has_enough_is_told_of_what_was_tried() {
    let steps =
        "durability=always\ntopic orders\nproduce orders value=\"v\"\npower-loss keep=nothing\nrestart";
    let text = format!("scenario \"t\"\nbroker {steps}\nconsume orders expect-count=1");
    let scenario = syntax::parse("t.kdl", &text).expect("it is a scenario");
    let subjects = [Subject::new("t", &scenario).expect("it runs")];
    let effort = Effort { bounds: Bounds::quick(), all: false, threads: 1, patience: PATIENCE };
    // It is asked before the scenario, before each place, and at the end of both.
    let tried = |times: usize| {
        let asked = AtomicUsize::new(0);
        let enough = || match asked.fetch_add(1, Ordering::Relaxed) < times {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let table = barriers(&subjects, effort, &|_| (), &enough);
        (table.is_interrupted, table.barriers.len(), table.unreached.len())
    };
    assert_eq!(tried(0), (true, 0, 0));
    assert_eq!(tried(4), (true, 2, 0));
    let (is_interrupted, all, unreached) = tried(usize::MAX);
    assert!(!is_interrupted && all > 2 && unreached > 0);
}
