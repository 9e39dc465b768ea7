//! What is wrong is said so that it can be mended.

use super::{mistake, read};

#[test]
fn the_nearest_word_is_offered() {
    for (body, line, underlined) in [
        ("prodce orders", "t.kdl:2:1: there is no word `prodce`; did you mean `produce`?", "prodce"),
        (
            "produce orders valeu=\"x\"",
            "t.kdl:2:16: `produce` has no property `valeu`; did you mean `value`?",
            "valeu",
        ),
        (
            "disk profile=strct",
            "t.kdl:2:6: `profile` cannot be `strct`; did you mean `strict`?",
            "profile=strct",
        ),
        (
            "produce orders expect=storage_full",
            "t.kdl:2:16: `expect` cannot be `storage_full`; did you mean `STORAGE_FULL`?",
            "expect=storage_full",
        ),
        (
            "fault wirte \"*.log\" full",
            "t.kdl:2:7: an operation cannot be `wirte`; did you mean `write`?",
            "wirte",
        ),
        ("fault write \"*.log\" ful", "t.kdl:2:21: `fault` does not take `ful`; did you mean `full`?", "ful"),
        ("check P13", "t.kdl:2:7: a promise cannot be `P13`; expected promises, P1 to P12", "P13"),
        (
            "partition a broker oneway",
            "t.kdl:2:20: `partition` does not take `oneway`; did you mean `one-way`?",
            "oneway",
        ),
    ] {
        let (found, text) = mistake(body);
        assert!(found.starts_with(line), "{found}\n{line}");
        assert_eq!(text, underlined, "{line}");
    }
}

#[test]
fn a_placeholder_that_is_none_is_a_mistake_wherever_one_can_stand() {
    for line in [
        "produce orders value=\"HERE\"",
        "produce orders key=\"HERE\" value=\"v\"",
        "consume orders expect-value=\"HERE\"",
        "fetch orders expect-value=\"HERE\"",
        "send text=\"HERE\"",
        "write \"x\" text=\"HERE\"",
        "write-record \"x\" offset=0 key=\"HERE\" value=\"v\"",
        "write-record \"x\" offset=0 value=\"HERE\"",
        "draw produce orders value=\"v | HERE\"",
    ] {
        for wrong in ["{round}", "{I}", "{N}", "{ i }", "{n+1}"] {
            let (found, _) = mistake(&line.replace("HERE", &format!("a{wrong}")));
            assert!(found.contains(&format!("in the place of `{wrong}`")), "{line}: {found}");
        }
        read(&line.replace("HERE", "{n} {}"));
    }
}

#[test]
fn what_is_not_even_kdl_is_explained_by_its_likely_cause() {
    for (body, line, underlined) in [
        ("produce orders key=", "t.kdl:2:16: `key=` has no value", "key="),
        ("produce orders key= value=\"x\"", "t.kdl:2:16: `key=` has no value", "key="),
        ("produce orders key=\"a", "t.kdl:2:20: this text has no closing quote", "\"a"),
        ("repeat 3\n  crash\n}", "t.kdl:2:1: `repeat` has no `{`; end the line with `{`", "repeat"),
        ("repeat 3 {\n  crash\n", "t.kdl:2:10: this `{` is never closed", "{"),
        ("crash\n}", "t.kdl:3:1: there is no `{` for this `}`; remove it", "}"),
        ("repeat 3 { crash } restart", "t.kdl:2:18: there is more after `}` on its line", "}"),
        ("advance 5s", "t.kdl:2:9: `5s` must be in quotes; write `\"5s\"`", "5s"),
        ("disk capacity=64KiB", "t.kdl:2:15: `64KiB` must be in quotes", "64KiB"),
        (
            "clock at=2024-01-01T00:00:00Z",
            "t.kdl:2:10: `2024-01-01T00:00:00Z` must be in quotes",
            "2024-01-01T00:00:00Z",
        ),
        ("dump orders/0/x.log", "t.kdl:2:6: `orders/0/x.log` must be in quotes", "orders/0/x.log"),
        (
            "disk read-only=true",
            "t.kdl:2:16: `true` must be in quotes, if it is text; for a yes or no, write `yes` or `no`",
            "true",
        ),
        ("disk read-only=#yes", "t.kdl:2:16: there is no `#yes`; write `yes` or `no`", "#yes"),
        ("produce orders key:\"a\"", "t.kdl:2:16: `key:\"a\"` is not a property; write `key=`", "key:\"a\""),
        ("produce orders key=\"a\"value=\"b\"", "t.kdl:2:20: a space is missing after this text", "\"a\""),
        ("produce orders key=\"\\q\"", "t.kdl:2:21: `\\q` means nothing in a text", "\\q"),
        (
            "produce orders key=\"k value=\"hello\"",
            "t.kdl:2:20: this text has no closing quote of its own; close it before ` value=`: `\"k\" value=\"…\"`",
            "\"k value=\"",
        ),
        (
            "produce orders count=9999999999999999999999999999999999999999",
            "t.kdl:2:22: `9999999999999999999999999999999999999999` is larger than any number here",
            "9999999999999999999999999999999999999999",
        ),
        ("# a comment", "t.kdl:2:1: a comment begins with `//`; write `//` in its place", "#"),
        ("#comment", "t.kdl:2:1: a comment begins with `//`", "#"),
        ("crash # and a \"reason", "t.kdl:2:7: a comment begins with `//`", "#"),
        ("repeat 2 { # twice\n  crash\n}", "t.kdl:2:12: a comment begins with `//`", "#"),
        ("produce (orders)", "t.kdl:2:9: parentheses mean nothing here", "(orders)"),
        ("net fail-rate=1.", "t.kdl:2:15: `1.` must be in quotes", "1."),
    ] {
        let (found, text) = mistake(body);
        assert!(found.starts_with(line), "{found}\n{line}");
        assert_eq!(text, underlined, "{line}");
    }
}

#[test]
fn what_is_missing_or_too_much_is_said() {
    for (body, line, underlined) in [
        ("produce", "t.kdl:2:1: `produce` needs a topic", "produce"),
        (
            "produce orders key=\"a\" key=\"b\"",
            "t.kdl:2:24: `key` is given twice; keep one of them",
            "key=\"b\"",
        ),
        (
            "produce orders value=\"a\" size=3",
            "t.kdl:2:26: `produce` says two things at once; keep one of value, value-hex, size",
            "size=3",
        ),
        ("corrupt \"a.log\"", "t.kdl:2:1: `corrupt` needs `at=`", "corrupt"),
        ("corrupt \"a.log\" at=0 xor=0x100", "t.kdl:2:22: `xor` cannot be `256`", "xor=0x100"),
        ("fault write \"*.log\"", "t.kdl:2:1: `fault` does not say enough", "fault"),
        ("fault write \"*.log\" full crash", "t.kdl:2:26: `fault` says two things at once", "crash"),
        ("fault write \"*.log\" full keep=all", "t.kdl:2:1: `keep=` belongs to `power-loss`", "fault"),
        (
            "produce orders count=0",
            "t.kdl:2:16: `count` cannot be `0`; expected a whole number, 1 or more",
            "count=0",
        ),
        ("repeat 3", "t.kdl:2:1: `repeat` needs a block", "repeat 3"),
        ("crash { }", "t.kdl:2:1: `crash` takes no block", "crash"),
        ("crash now", "t.kdl:2:7: `crash` does not take `now`", "now"),
        ("parallel { crash; }", "t.kdl:2:12: `crash` is in `parallel`, but not in a client", "crash"),
        ("pipeline { crash; }", "t.kdl:2:1: `crash` cannot stand in a pipeline", "pipeline"),
        ("crash\nbroker durability=os", "t.kdl:3:1: `broker` belongs to the head of the file", "broker"),
        ("broker durability=os\nbroker durability=os", "t.kdl:3:1: `broker` is given twice", "broker"),
        (
            "disk profile=strict\ndraw disk profile=\"ordered | lying\"",
            "t.kdl:3:11: `profile` of `disk` is given twice; keep one of them, drawn or not",
            "profile=\"ordered | lying\"",
        ),
        (
            "each disk free=\"0 | 9\"\ndisk latency=\"1ms\" capacity=9",
            "t.kdl:3:20: `capacity` of `disk` is given twice",
            "capacity=9",
        ),
        (
            "draw net timeout=\"1s | 2s\"\neach net timeout=\"1s | 2s\"",
            "t.kdl:3:10: `timeout` of `net` is given twice",
            "timeout=\"1s | 2s\"",
        ),
        ("scenario \"u\"", "t.kdl:2:1: `scenario` is given twice; a file holds one scenario", "scenario"),
        (
            "crash\nscenario \"u\"",
            "t.kdl:3:1: `scenario` belongs to the head of the file; a file holds one scenario",
            "scenario",
        ),
        (
            "explore\nexplore",
            "t.kdl:3:1: `explore` is given twice; once is enough: remove this line",
            "explore",
        ),
        (
            "draw disk profile=\"strict | weird\"",
            "t.kdl:2:11: `profile` cannot be `weird`",
            "profile=\"strict | weird\"",
        ),
        (
            "each produce orders value=\"a | b | a\"",
            "t.kdl:2:21: `value` lists `a` twice; keep one of them",
            "value=\"a | b | a\"",
        ),
        (
            "each fault write \"*\" full=\"3 | 0..9\"",
            "t.kdl:2:22: `full` lists `3` twice",
            "full=\"3 | 0..9\"",
        ),
        ("each advance \"2ms\"", "t.kdl:2:1: `each` has nothing to choose from here; list several", "each"),
        ("draw topic orders partitions=3", "t.kdl:2:1: `draw` has nothing to choose from here", "draw"),
        ("draw disk profile=strict", "t.kdl:2:1: `draw` has nothing to choose from here", "draw"),
        (
            "each advance \"2ms | 4ms\"",
            "t.kdl:2:14: `each` can choose only properties; write",
            "\"2ms | 4ms\"",
        ),
        (
            "produce orders expect=unknown expect-offset=7",
            "t.kdl:2:1: a record that is not acknowledged has no partition and no offset to expect",
            "produce",
        ),
        (
            "start expect=crashed expect-records=9",
            "t.kdl:2:1: a start that does not succeed reports no records",
            "start",
        ),
        (
            "start expect-records=\"3\"",
            "t.kdl:2:7: `expect-records` cannot be `\"3\"`; write `3`, without quotes",
            "expect-records=\"3\"",
        ),
        ("advance \"50 ms\"", "t.kdl:2:9: a duration cannot be `50 ms`; write `\"50ms\"`", "\"50 ms\""),
        (
            "produce orders size=\"64KB\"",
            "t.kdl:2:16: `size` cannot be `64KB`; write `\"64KiB\"`",
            "size=\"64KB\"",
        ),
        ("produce orders size=64k", "t.kdl:2:21: `64k` must be in quotes; write `\"64KiB\"`", "64k"),
        (
            "random steps=3 { weights prodce=1; }",
            "t.kdl:2:26: there is no weight `prodce`; did you mean `produce`?",
            "prodce=1",
        ),
    ] {
        let (found, text) = mistake(body);
        assert!(found.starts_with(line), "{found}\n{line}");
        assert_eq!(text, underlined, "{line}");
    }
}

#[test]
fn a_value_that_would_have_worked_is_offered() {
    for (body, better) in [
        ("advance 150", "write `\"150ms\"`"),
        ("advance \"150\"", "write `\"150ms\"`"),
        ("advance \"5 min\"", "write `\"5m\"`"),
        ("advance \"1.5s\"", "write `\"1500ms\"`"),
        ("advance \"1.5h\"", "write `\"90m\"`"),
        ("advance \"0.0000015s\"", "write `\"1500ns\"`"),
        ("advance \"2 Seconds\"", "write `\"2s\"`"),
        ("broker segment-bytes=\"64 kb\"", "write `\"64KiB\"`"),
        ("fault write \"*.log\" full nth=\"1..7\"", "to try several values, put `each` before the line"),
        ("disk profile=\"strict | lying\"", "to try several values, put `each` before the line"),
        ("consume orders from=-1", "expected a whole number, 0 or more"),
        (
            "power-loss keep=most",
            "expected one of some, nothing, all, names, data, or \"image 5\" or \"draw 5\" in quotes",
        ),
        ("advance \"soon\"", "expected a duration in quotes, like \"5s\" or \"200ms\""),
        ("advance \"1.23456789123ms\"", "expected a duration in quotes, like \"5s\" or \"200ms\""),
    ] {
        let (found, _) = mistake(body);
        assert!(found.ends_with(&format!("; {better}")), "{found}\n{better}");
    }
}

/// With such a setting no broker starts, or nothing is served: that says nothing of its promises.
#[test]
fn a_setting_that_no_broker_can_run_with_is_a_mistake_with_its_bound() {
    for (setting, bound) in [
        ("segment-bytes=0", "at least 1"),
        ("segment-bytes=4294967296", "at most 4294967295"),
        ("segment-bytes=\"5GiB\"", "at most 4294967295"),
        ("segment-bytes=99999999999999999999999", "at most 4294967295"),
        ("segment-bytes=\"99999999999GiB\"", "at most 18446744073709551615 bytes"),
        ("max-unsynced-bytes=0", "at least 1"),
        ("index-interval=0", "at least 1"),
        ("index-interval=4294967296", "at most 4294967295"),
        ("max-record-bytes=0", "at least 1"),
        ("max-record-bytes=\"65MiB\"", "at most \"64MiB\""),
        ("max-frame-bytes=\"5GiB\"", "at most 4294967295 bytes"),
        ("retention-check=\"0s\"", "a time longer than 0"),
        ("recovery-threads=0", "a whole number, 1 or more"),
        ("recovery-threads=2000", "at most 1024"),
        ("max-connections=0", "a whole number, 1 or more"),
        ("max-connections=99999999999", "a whole number, 1 to 4294967295"),
        ("idle-timeout=\"0s\"", "a time longer than 0"),
        ("frame-timeout=\"0ms\"", "a time longer than 0"),
        ("write-timeout=\"0ms\"", "a time longer than 0"),
    ] {
        let name = setting.split('=').next().unwrap_or_default();
        for word in ["broker", "start", "crash\nrestart"] {
            let (found, text) = mistake(&format!("{word} {setting}"));
            assert!(found.contains(&format!(" `{name}` cannot be ")), "{found}");
            assert!(found.ends_with(&format!("expected {bound}")), "{found}\n{bound}");
            assert_eq!(text, setting);
        }
    }
    for (body, bound) in [
        ("net timeout=\"0ms\"", "a time longer than 0"),
        ("crash\nnet timeout=\"0ms\"", "a time longer than 0"),
        ("disk max-open-files=0", "a whole number, 1 or more"),
        ("clock at=18446744073709551615", "at most 9223372036854775807"),
        ("crash\nclock at=9223372036854775808", "at most 9223372036854775807"),
        ("produce orders count=100000000000", "a whole number, 1 to 4294967295"),
    ] {
        let (found, _) = mistake(body);
        assert!(found.ends_with(&format!("expected {bound}")), "{found}\n{bound}");
    }
}

#[test]
fn what_a_world_is_made_with_cannot_change_in_it() {
    for (body, line, underlined) in [
        (
            "crash\ndisk profile=lying",
            "t.kdl:3:6: `profile` cannot change while a scenario runs",
            "profile=lying",
        ),
        (
            "crash\ndisk max-open-files=9",
            "t.kdl:3:6: `max-open-files` cannot change while a scenario runs",
            "max-open-files=9",
        ),
        (
            "crash\nnet chunk-bytes=9",
            "t.kdl:3:5: `chunk-bytes` cannot change while a scenario runs",
            "chunk-bytes=9",
        ),
        (
            "crash\nnet repair-rate=0.5",
            "t.kdl:3:5: `repair-rate` cannot change while a scenario runs",
            "repair-rate=0.5",
        ),
        (
            "crash\ndraw disk free=\"0 | 9\" profile=\"strict | lying\"",
            "t.kdl:3:24: `profile` cannot change while a scenario runs",
            "profile=\"strict | lying\"",
        ),
        ("hold a broker one-way", "t.kdl:2:15: `hold` does not take `one-way`", "one-way"),
    ] {
        let (found, text) = mistake(body);
        assert!(found.starts_with(line), "{found}\n{line}");
        assert_eq!(text, underlined, "{line}");
    }
    read("disk profile=lying max-open-files=9\ncrash");
    read("draw disk profile=\"strict | lying\"\ncrash");
}
