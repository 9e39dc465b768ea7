//! Every sync in the broker carries load: where one is switched off, a scenario of the explore folder fails, or one of its
//! crash points does. `sim barriers` prints the table, and the soak makes it with all scenarios and more images.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;

use sim::barriers::source::places;
use sim::barriers::{Effort, Subject, barriers};
use sim::explore::Bounds;
use sim::patience::PATIENCE;
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
    let table = barriers(&subjects, Effort { bounds, all: false, threads, patience: PATIENCE }, &|_| ());
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
