//! What a person reads of a step that did not go as expected.

use crate::outcome::{self, Failure};
use crate::scenario::parse;
use crate::snapshot;
use crate::trace::{Event, Request};

/// What had to come and what came, of each step that did not go as expected.
fn unmet(steps: &str) -> Vec<(String, String)> {
    let text = format!("scenario \"t\"\ntopic orders\n{steps}\n");
    let outcome = outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0);
    let each = outcome.failures.iter().map(|failure| match failure {
        Failure::Unmet { expected, found, .. } => (expected.to_string(), found.to_string()),
        other => panic!("{other}"),
    });
    each.collect()
}

#[test]
fn a_start_that_was_forgotten_is_named_once() {
    let found = unmet("produce orders value=\"v\"\npower-loss\nconsume orders expect-count=1");
    let [(expected, found)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(expected, "ok");
    assert!(found.starts_with("refused UNAVAILABLE: the broker is down since the power loss at "), "{found}");
    assert!(found.contains("`start`"), "{found}");
}

#[test]
fn a_broker_that_did_not_start_says_why_to_whoever_asks_it() {
    let start = "fault list \"*\" during=recovery error=EIO\nstart expect=refused";
    let found = unmet(&format!("stop\n{start}\noffsets orders at=latest expect=0"));
    let [(expected, found)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(expected, "0");
    assert!(found.contains("the broker did not start: ") && found.contains("Input/output"), "{found}");
}

#[test]
fn paths_in_errors_are_those_of_the_files() {
    let found = unmet("fault write \"*.log\" error=EIO\nproduce orders value=\"v\"");
    let [(_, found)] = &found[..] else { panic!("{found:?}") };
    assert!(found.contains(" orders/0/00000000000000000000.log"), "{found}");
}

#[test]
fn problems_are_counted_and_an_entry_is_not_wrong_because_its_record_is_damaged() {
    let damage = "produce orders value=\"a value\" count=8\nstop\ncorrupt \"orders/0/@first.log\" at=40";
    let found = unmet(&format!("restart index-interval=1\n{damage}\nverify expect-problems=2"));
    let [(expected, found)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(expected, "2 problems");
    assert!(
        found.starts_with("1 problem: orders/0/00000000000000000000.log, byte 35, offset 1: "),
        "{found}"
    );
}

#[test]
fn what_is_expected_is_said_as_it_is_written() {
    let found =
        unmet("send hex=\"00000004ffffffff\"\nreceive expect=FRAME_TOO_LARGE\nrestart expect=crashed");
    let expected: Vec<&str> = found.iter().map(|(expected, _)| expected.as_str()).collect();
    assert_eq!(expected, ["FRAME_TOO_LARGE", "crashed"]);
    let found: Vec<(String, String)> =
        unmet("offsets orders at=latest expect=UNKNOWN_TOPIC\nsecond-broker expect=ok");
    assert_eq!(found[0], ("UNKNOWN_TOPIC".to_owned(), "0".to_owned()));
    assert_eq!(found[1].0, "ok");
    assert!(found[1].1.starts_with("does not start: "), "{found:?}");
}

/// What was not looked at has not been found right.
#[test]
fn an_expectation_that_nothing_came_to_meet_is_unmet() {
    for (steps, expected, found) in [
        ("consume orders expect-value=\"v\"", "value \"v\"", "no record was read"),
        ("fetch orders expect-value=\"v\"", "value \"v\"", "no record was read"),
        ("fetch orders expect-size=3", "value of 3 bytes", "no record was read"),
        ("produce orders size=3\nfetch orders expect-size=2", "value of 2 bytes", "3 bytes: \"0.0\""),
        ("list-topics expect=UNAVAILABLE", "UNAVAILABLE", "orders (1)"),
        ("fetch nope expect=any expect-start=0", "start 0", "no answer that says it"),
        ("fetch nope expect=any expect-end=0", "end 0", "no answer that says it"),
        ("list-partitions nope expect=any expect-count=0", "0", "no list"),
        ("produce nope expect=any expect-offset=0", "offset 0", "the first record was not acknowledged"),
        ("produce nope expect=any expect-partition=0", "partition 0", "no record was acknowledged"),
    ] {
        let unmet = unmet(steps);
        assert_eq!(unmet, [(expected.to_owned(), found.to_owned())], "{steps}");
    }
    for met in [
        "produce orders value=\"v\"\nconsume orders expect-value=\"v\"",
        "produce orders size=20 count=2\nfetch orders from=1 expect-size=20",
        "fetch orders expect-end=0",
        "stop\nlist-topics expect=UNAVAILABLE",
    ] {
        assert_eq!(unmet(met), [], "{met}");
    }
}

#[test]
fn what_a_start_had_to_find_is_unmet_where_it_found_nothing() {
    let start = "stop\nfault list \"*\" during=recovery error=EIO\nstart expect=any";
    assert_eq!(unmet(start), []);
    let found = unmet(&format!("{start} expect-records=0 expect-cut=0"));
    let expected: Vec<&str> = found.iter().map(|(expected, _)| expected.as_str()).collect();
    assert_eq!(expected, ["bytes cut: 0", "records: 0"]);
    assert!(found.iter().all(|(_, found)| found.starts_with("does not start: ")), "{found:?}");
    let found = unmet("start expect=any expect-damage=0");
    assert_eq!(found, [("damage: 0".to_owned(), "the broker is already running".to_owned())]);
}

#[test]
fn a_start_of_a_broker_that_runs_is_impossible() {
    for expect in ["", " expect=refused", " expect=crashed"] {
        let text = format!("scenario \"t\"\nstart{expect}\n");
        let outcome = outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0);
        let [Failure::Impossible { why, .. }] = &outcome.failures[..] else {
            panic!("{:?}", outcome.failures)
        };
        assert_eq!(&**why, "the broker is already running; `restart` stops it first");
    }
    assert_eq!(unmet("start expect=any"), []);
}

#[test]
fn a_second_broker_that_is_the_only_one_is_explained() {
    let found = unmet("stop\nsecond-broker");
    let [(expected, found)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(expected, "refused");
    assert!(found.starts_with("started, as the only one: the broker is down since the stop at "), "{found}");
    assert_eq!(unmet("second-broker expect=ok").len(), 1);
    assert_eq!(unmet("stop\nsecond-broker expect=ok"), []);
}

/// What is down cannot go down: neither is anything said to have happened, nor is another moment the one since when it is down.
#[test]
fn a_broker_that_is_down_is_down_since_it_went_down() {
    let at = |steps: &str| {
        let found = unmet(&format!("{steps}\nproduce orders value=\"v\""));
        let [(_, found)] = &found[..] else { panic!("{found:?}") };
        found.split(';').next().unwrap_or_default().to_owned()
    };
    let since = at("crash\nadvance \"50ms\"");
    assert!(since.contains("down since the crash at "), "{since}");
    assert_eq!(at("crash\nadvance \"50ms\"\ncrash"), since);
    assert_eq!(at("crash\nadvance \"50ms\"\npower-loss"), since);
    assert_ne!(at("crash\nadvance \"50ms\"\nrestart\ncrash"), since);

    let text = "scenario \"t\"\ncrash\ncrash\nstart\ncrash\nstart\n";
    let outcome = outcome::run(&parse("t.kdl", text).expect("it can be read"), 0);
    let crashes = outcome.trace.entries.iter().filter(|entry| matches!(entry.event, Event::Crash { .. }));
    assert_eq!(crashes.count(), 2);
    assert_eq!(snapshot::render(&outcome).matches("is not running").count(), 1);
}

#[test]
fn to_close_what_is_not_open_is_told() {
    let said = |steps: &str| {
        let scenario = parse("t.kdl", &format!("scenario \"t\"\n{steps}\n")).expect("it can be read");
        snapshot::render(&outcome::run(&scenario, 0)).matches("no connection").count()
    };
    assert_eq!(said("open\nclose"), 0);
    assert_eq!(said("open\nhalf-close\nclose"), 0);
    assert_eq!(said("close"), 1);
    assert_eq!(said("half-close"), 1);
    assert_eq!(said("open\nclose\nclose"), 1);
}

#[test]
fn an_image_that_no_power_loss_leaves_is_impossible_and_their_number_is_said() {
    let run = |number: &str| {
        let steps = "topic orders\nproduce orders value=\"v\"";
        let text = format!("scenario \"t\"\n{steps}\npower-loss keep=\"image {number}\"\nrestart\n");
        outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0)
    };
    let outcome = run("99999");
    let [Failure::Impossible { why, .. }] = &outcome.failures[..] else { panic!("{:?}", outcome.failures) };
    let (_, rest) = why.split_once("leaves one of ").expect("it says how many");
    let count: u64 = rest.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(rest.ends_with(&format!("images, 0 to {}", count - 1)), "{why}");
    assert!(run(&(count - 1).to_string()).holds());
    assert!(!run(&count.to_string()).holds());
}

#[test]
fn a_segment_that_is_not_there_is_told_with_those_that_are() {
    for (file, words) in [
        ("@last.log", "the data directory itself has no segments; those of a partition are in its directory"),
        (
            "orders/@last.log",
            "orders has no segments; those of a partition are in its directory: `orders/0/@last.log`",
        ),
        ("orders/0/@1.log", "orders/0 has 1 segment, `@0`"),
    ] {
        let text = format!("scenario \"t\"\ntopic orders\nstop\ndelete \"{file}\"\n");
        let outcome = outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0);
        let [Failure::Impossible { why, .. }] = &outcome.failures[..] else {
            panic!("{:?}", outcome.failures)
        };
        assert!(why.starts_with(&format!("{file}: {words}")), "{why}");
    }
}

/// A disk that hangs when the scenario ends is not a broker that does not answer.
#[test]
fn what_is_slow_at_the_end_is_waited_for_before_the_broker_is_judged() {
    for steps in [
        "fault write \"*.log\" stall=\"30s\"\nproduce orders value=\"x\" expect=unknown",
        "fault sync \"*.log\" stall=\"30s\"\nproduce orders value=\"x\" expect=unknown",
        "disk latency=\"10s\"\nproduce orders value=\"x\" expect=unknown",
        "disk sync-latency=\"10s\"\nproduce orders value=\"x\" expect=unknown",
    ] {
        assert_eq!(unmet(&format!("restart durability=always\n{steps}")), [], "{steps}");
    }
}

#[test]
fn partitions_are_merged_by_time_and_each_stays_in_its_order() {
    let produce = |partition, value| format!("produce both partition={partition} value=\"{value}\"");
    let text = [
        "scenario \"t\"\nclock at=1000 frozen=yes\ntopic both partitions=2",
        &produce(0, "a"),
        &produce(1, "b"),
        "clock jump=\"-1s\"",
        &produce(0, "c"),
        "clock jump=\"2s\"",
        &produce(1, "d"),
        "consume both",
    ]
    .join("\n");
    let outcome = outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0);
    let shown = snapshot::render(&outcome);
    assert!(shown.contains("→ 0 \"a\" · 1 \"c\" · 0 \"b\" · 1 \"d\" · end 4"), "{shown}");
}

/// A snapshot leaves out what timing decides; whoever runs a scenario sees it.
#[test]
fn what_timing_decides_is_shown_to_a_person() {
    let text = r#"
        scenario "t"
        topic orders
        disk free=0
        parallel {
            client a { produce orders value="a" count=9 expect=any; }
            client b { produce orders value="b" count=9 expect=any; }
        }
    "#;
    let outcome = outcome::run(&parse("t.kdl", text).expect("it can be read"), 0);
    assert!(outcome.holds(), "{:?}", outcome.failures);
    let (snapshot, shown) = (snapshot::render(&outcome), snapshot::render_facts(&outcome));
    assert!(snapshot.contains("timing decides") && !snapshot.contains("STORAGE_FULL"), "{snapshot}");
    assert!(shown.contains("refused STORAGE_FULL") && !shown.contains("timing decides"), "{shown}");
}

/// Everything that went wrong, in words.
fn failures(steps: &str) -> Vec<String> {
    let text = format!("scenario \"t\"\ntopic orders\n{steps}\n");
    let outcome = outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0);
    outcome.failures.iter().map(ToString::to_string).collect()
}

#[test]
fn a_cut_that_heals_by_itself_heals_no_later_cut() {
    let cut = "partition client broker for=\"100ms\"\nheal\npartition client broker";
    assert_eq!(
        failures(&format!("{cut}\nadvance \"200ms\"\nproduce orders value=\"v\" expect=unknown")),
        [""; 0]
    );
    let by_itself = "partition client broker for=\"100ms\"\nadvance \"200ms\"\nproduce orders value=\"v\"";
    assert_eq!(failures(by_itself), [""; 0]);
}

#[test]
fn a_fetch_leaves_out_what_comes_from_until_on() {
    let fetch = "produce orders value=\"{n}\" count=5\nfetch orders from=1 until=3 expect-count=2";
    assert_eq!(failures(fetch), [""; 0]);
}

/// What the broker says, and what a client that has no answer says, are two things.
#[test]
fn only_the_broker_says_outcome_unknown() {
    let stuck = "fault write \"*.log\" tear=20\nfault truncate \"*.log\" error=EIO";
    let said = "produce orders value=\"a value\" expect=OUTCOME_UNKNOWN";
    assert_eq!(failures(&format!("{stuck}\n{said}\nrestart")), [""; 0]);
    let after = "fetch orders from=0 expect-count=0";
    assert_eq!(failures(&format!("{stuck}\npipeline {{\n{said}\n{after}\n}}\nrestart")), [""; 0]);
    let crash =
        "fault write \"*.log\" crash=5\nproduce orders value=\"a value\" expect=OUTCOME_UNKNOWN\nrestart";
    let found = failures(crash);
    let [found] = &found[..] else { panic!("{found:?}") };
    assert!(found.contains("expected  OUTCOME_UNKNOWN\n  found     unknown (crash at byte 5"), "{found}");
}

#[test]
fn a_fault_that_strikes_less_often_than_it_says_is_told() {
    let one = "produce orders value=\"v\" expect=any";
    let found = failures(&format!("fault write \"*.log\" error=EIO times=3\n{one}\ncalm"));
    let [found] = &found[..] else { panic!("{found:?}") };
    assert!(found.contains("a fault struck 1 of 3 times: fault write"), "{found}");
    for held in ["times=3 may-miss", "times=all", "times=2 nth=1"] {
        assert_eq!(failures(&format!("fault write \"*.log\" error=EIO {held}\n{one}\n{one}\ncalm")), [""; 0]);
    }
}

#[test]
fn a_change_that_changes_nothing_fails_the_run() {
    let one = "produce orders value=\"a value\"\nstop";
    let log = "orders/0/@first.log";
    for (change, words) in [
        ("truncate \"LOG\" to=35", "is as it was: there is nothing to change"),
        ("write \"LOG\" text=\"\"", "is as it was"),
        ("copy \"LOG\" to=\"LOG\"", "is as it was"),
        ("rename \"LOG\" to=\"orders/0/@last.log\"", "has that name already"),
    ] {
        let found = failures(&format!("{one}\n{}\nstart expect=any", change.replace("LOG", log)));
        assert!(found.len() == 1 && found[0].contains(words), "{change}: {found:?}");
    }
    assert_eq!(failures(&format!("{one}\nwrite \"{log}\" text=\"\" may-miss\nstart")), [""; 0]);
}

#[test]
fn room_without_end_is_room() {
    assert_eq!(failures("disk free=18446744073709551615\nproduce orders value=\"v\""), [""; 0]);
}

/// Nothing that nobody was asked about holds.
#[test]
fn a_check_of_a_broker_that_is_down_is_impossible() {
    for down in ["stop", "crash", "stop\nfault list \"*\" during=recovery error=EIO\nstart expect=refused"] {
        let found = failures(&format!("{down}\ncheck"));
        let [found] = &found[..] else { panic!("{down}: {found:?}") };
        assert!(found.contains("impossible here: check\n  there is nobody to ask: the broker "), "{found}");
    }
    assert_eq!(failures("stop\nstart\ncheck"), [""; 0]);
}

#[test]
fn only_a_change_that_says_so_may_find_nothing_to_change() {
    for (change, words) in [
        ("corrupt \"ordres/0/@last.log\" at=\"50%\"", "ordres/0 has no segments"),
        ("truncate \"orders/0/@last.lgo\" to=\"50%\"", "there is no file orders/0/"),
        ("zeros \"orders/0/@last.log\" at=\"50%\" bytes=9", "the file is empty"),
        ("write \"orders/0/@last.log\" at=\"50%\" text=\"x\"", "the file is empty"),
        ("delete \"orders/0/nothing\"", "nothing"),
    ] {
        let found = failures(&format!("stop\n{change}\nstart expect=any"));
        assert!(found.len() == 1 && found[0].contains(words), "{change}: {found:?}");
        assert_eq!(failures(&format!("stop\n{change} may-miss\nstart")), [""; 0], "{change}");
    }
}

#[test]
fn a_power_loss_that_is_aimed_leaves_no_image_but_its_own() {
    let run = |number: &str| {
        let fault = format!("fault write \"*.log\" power-loss=3 keep=\"image {number}\"");
        let text = format!(
            "scenario \"t\"\ntopic orders\n{fault}\nproduce orders value=\"v\" expect=unknown\nrestart\n"
        );
        outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0)
    };
    let outcome = run("999999");
    let [Failure::Impossible { why, text, .. }] = &outcome.failures[..] else {
        panic!("{:?}", outcome.failures)
    };
    assert!(text.starts_with("fault write"), "the step that aimed it: {text}");
    let (_, rest) = why.split_once("leaves one of ").expect("it says how many");
    let count: u64 = rest.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    let last = run(&(count - 1).to_string());
    assert!(last.holds(), "{:?}", last.failures);
    let said = snapshot::render(&last);
    assert!(said.contains("unknown (power loss at byte 3 of "), "{said}");
    assert!(!run(&count.to_string()).holds());
}

/// The machine loses power, whoever wrote on its disk.
#[test]
fn a_power_loss_that_strikes_a_second_broker_takes_the_first_with_it() {
    let text = "scenario \"t\"\ntopic orders\nproduce orders value=\"v\"\n\
        fault any \"**\" power-loss keep=\"image 0\"\nsecond-broker expect=any\nadvance \"5ms\"\nstart\n";
    let outcome = outcome::run(&parse("t.kdl", text).expect("it can be read"), 0);
    assert!(outcome.holds(), "{:?}", outcome.failures);
}

/// The records of a batch without keys go to several partitions, each with an answer of its own.
#[test]
fn a_code_that_every_record_of_a_batch_is_refused_with_is_the_one_that_came() {
    let batch = "topic both partitions=2\nDISK\nproduce both value=\"v\" count=4 batch=4 expect=STORAGE_FULL";
    assert_eq!(failures(&batch.replace("DISK", "disk free=0")), [""; 0]);
    let found = failures(&batch.replace("DISK", "fault write \"both/1/*.log\" full"));
    assert!(found.len() == 1 && found[0].contains("expected  STORAGE_FULL"), "{found:?}");
}

#[test]
fn a_timeout_is_that_of_the_clients_that_are_there_already() {
    let one = "client b { produce orders value=\"v\"; }";
    let before = format!("{one}\nnet timeout=\"50ms\"\n{one}\nhold b broker");
    let text = format!(
        "scenario \"t\"\ntopic orders\n{before}\nclient b {{ produce orders value=\"w\" expect=unknown; }}\n"
    );
    let outcome = outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0);
    assert!(outcome.holds(), "{:?}", outcome.failures);
    let took = outcome.trace.duration();
    assert!(took < 1000, "client b has waited {took} ms");
}

#[test]
fn nothing_is_received_where_nothing_is_connected() {
    for expect in ["closed", "nothing", "ok"] {
        let found = unmet(&format!("receive expect={expect}"));
        assert_eq!(found, [(expect.to_owned(), "no connection".to_owned())]);
    }
    assert_eq!(unmet("open\nclose\nreceive expect=closed").len(), 1);
    assert_eq!(unmet("receive"), []);
}

#[test]
fn the_last_look_comes_when_nothing_is_in_the_way_any_more() {
    for steps in ["", "crash\n"] {
        let text = format!("scenario \"t\"\ntopic orders\nsend hex=\"00\"\n{steps}");
        let trace = outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0).trace;
        let at = |like: &dyn Fn(&Event) -> bool| trace.entries.iter().rposition(|entry| like(&entry.event));
        let look = at(&|event| matches!(event, Event::LookBegins)).expect("a look");
        assert!(at(&|event| matches!(event, Event::Healed)).is_some_and(|healed| healed < look), "{steps}");
    }
}

#[test]
fn a_partition_that_shows_nothing_is_named_and_hides_no_other() {
    let text = "scenario \"t\"\nbroker durability=always\ntopic a\ntopic b\nproduce a value=\"v\"\nproduce b value=\"v\"\n\
                crash\nunreadable \"a/0/@last.log\" at=0\nstart\ncheck P2";
    let outcome = outcome::run(&parse("t.kdl", text).expect("it can be read"), 0);
    assert!(outcome.holds(), "{:?}", outcome.failures);
    let shown = snapshot::render(&outcome);
    assert!(shown.contains("could not look at a/0"), "{shown}");
    let events: Vec<&Event> = outcome.trace.entries.iter().map(|entry| &entry.event).collect();
    let all =
        |event: &&Event| matches!(event, Event::LookEnds { complete: true, unseen } if unseen.is_empty());
    let ends: Vec<&Event> =
        events.iter().copied().filter(|event| matches!(event, Event::LookEnds { .. })).collect();
    assert!(ends.iter().all(all), "{ends:?}");
    let of_a = |event: &&&Event| matches!(event, Event::Call { request: Request::Consume { topic, .. }, .. } if **topic == *"a");
    assert!(events.iter().filter(of_a).count() < 10, "it was asked for what does not exist");
    let healed = events.iter().position(|event| matches!(event, Event::Healed)).expect("the end");
    let looks = events[healed..].iter().filter(|event| matches!(event, Event::LookBegins));
    assert_eq!(looks.count(), 2, "what only a restart shows is looked at after it");
}

#[test]
fn a_write_that_fails_is_no_lie_whatever_struck_it() {
    let lies = |free: &str| {
        let text = format!(
            "scenario \"t\"\ntopic a\ndisk free={free}\nfault write \"a/0/*.log\" lost\nproduce a size=5000 expect=any"
        );
        let trace = outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0).trace;
        trace.entries.iter().any(|entry| matches!(&entry.event, Event::Disk(op) if op.lies))
    };
    assert!(lies("\"1MiB\""));
    assert!(!lies("0"));
}
