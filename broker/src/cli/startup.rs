//! What `serve` says of its start: how far it is, and what it found and did. What is ordinary has no alarming word in it.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Mutex;

use super::quantity::count;
use broker::report::{PartitionReport, Report};
use indicatif::{ProgressBar, ProgressStyle};

/// Shows how far it is, where somebody looks.
pub fn show(bar: &Mutex<Option<ProgressBar>>, done: usize, of: usize, partition: &PartitionReport) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut bar = bar.lock().unwrap_or_else(|e| e.into_inner());
    let bar = bar.get_or_insert_with(|| {
        let style = ProgressStyle::with_template("recovering {bar:30} {pos}/{len} partitions {msg}");
        let bar = ProgressBar::new(of as u64);
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar
    });
    bar.set_message(format!("{}/{}", partition.topic, partition.partition));
    bar.set_position(done as u64);
}

/// Says what the start found and did.
pub fn tell(report: &Report, data: &Path) {
    for line in lines(report, data) {
        match line {
            Line::Info(line) => tracing::info!("{line}"),
            Line::Warn(line) => tracing::warn!("{line}"),
            Line::Error(line) => tracing::error!("{line}"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Info(String),
    Warn(String),
    Error(String),
}

fn lines(report: &Report, data: &Path) -> Vec<Line> {
    let mut lines: Vec<Line> = report.notes.iter().cloned().map(Line::Info).collect();
    if let Some(why) = &report.read_only {
        lines.push(Line::Warn(format!("nothing is stored, and no topic made or deleted: {why}")));
    }
    lines.extend(
        report.unnoted.iter().map(|why| Line::Warn(format!("{why}; storing records may fail as well"))),
    );
    for (topic, why) in &report.unserved {
        lines.push(Line::Error(format!("{topic} serves nothing, neither reads nor writes: {why}; {NEXT}")));
    }
    for (topic, held) in &report.missed.gone {
        let (partitions, records) = (count(held.partitions, "partition"), count(held.records, "record"));
        lines.push(Line::Error(format!(
            "{topic} is gone: at the last clean stop it had {partitions} with {records}, and its directory has been taken away since"
        )));
    }
    for (partition, records) in &report.missed.uncounted {
        let records = count(*records, "record");
        lines.push(Line::Error(format!(
            "{partition} is not served: at the last clean stop it had {records}, and the topic has fewer partitions now"
        )));
    }
    for partition in &report.partitions {
        partition_lines(partition, data, &mut lines);
    }
    let of = |is: fn(&&PartitionReport) -> bool| report.partitions.iter().filter(is).count();
    let rebuilt: usize = report.partitions.iter().map(|p| p.rebuilt.len()).sum();
    let scanned: u64 = report.partitions.iter().map(|p| p.scanned).sum();
    lines.push(Line::Info(format!(
        "{}: {}, {}; {} checked, {rebuilt} {} rebuilt, in {:.1?}",
        if report.clean { "opened after a clean stop" } else { "opened" },
        count(report.partitions.len() as u64, "partition"),
        count(report.records(), "record"),
        count(scanned, "record"),
        if rebuilt == 1 { "index" } else { "indexes" },
        report.took
    )));
    let troubles = [
        ("damaged", of(|p| !p.damage.is_empty())),
        ("without writes", of(|p| p.fenced.is_some() && !p.unopened)),
        ("not served", of(|p| p.unopened)),
    ];
    let troubles: Vec<String> =
        troubles.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} {what}")).collect();
    if !troubles.is_empty() {
        lines.push(Line::Warn(format!("of these partitions: {}; see above", troubles.join(", "))));
    }
    lines
}

/// What to do about something that cannot be opened.
const NEXT: &str = "nothing in it was changed; fix the cause and start again";

fn partition_lines(p: &PartitionReport, data: &Path, lines: &mut Vec<Line>) {
    let name = format!("{}/{}", p.topic, p.partition);
    lines.extend(p.notes.iter().map(|note| Line::Info(format!("{name}: {note}"))));
    if p.cut > 0 {
        let (cut, end) = (p.cut, p.end);
        lines.push(Line::Info(format!(
            "{name}: cut off {} of an unfinished write; the next offset is {end}",
            count(cut, "byte")
        )));
    }
    if p.set_aside > 0 {
        let (aside, end) = (p.set_aside, p.end);
        lines.push(Line::Warn(format!(
            "{name}: set aside {}; the next offset is {end}",
            count(aside, "byte")
        )));
    }
    if let Some(damage) = damage_line(p, data) {
        lines.push(Line::Error(format!("{name}: {damage}")));
    }
    match &p.fenced {
        Some(why) if p.unopened => {
            lines
                .push(Line::Error(format!("{name} serves nothing, neither reads nor writes: {why}; {NEXT}")));
        }
        Some(why) => {
            lines.push(Line::Error(format!("{name} takes no writes, its records can be read: {why}")))
        }
        None => {}
    }
}

/// One line, however much is damaged: the first place, and how to see the others.
fn damage_line(p: &PartitionReport, data: &Path) -> Option<String> {
    let first = p.damage.first()?;
    let mut line = format!(
        "damage in {} at byte {}, {}",
        first.segment.display(),
        first.position,
        count(first.bytes, "byte")
    );
    let lost: u64 = p.damage.iter().map(|d| d.next.since(d.first)).sum();
    if p.damage.len() == 1 {
        if lost > 0 {
            let last = first.next.get() - 1;
            line += &format!(": offsets {} to {last} cannot be read, all others can", first.first);
        }
    } else {
        line += &format!(
            ", and in {}: {} cannot be read, all others can; to see every place, stop the server and run broker verify {}",
            count(p.damage.len() as u64 - 1, "more place"),
            count(lost, "record"),
            data.display()
        );
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::report::Damage;
    use broker::units::{Offset, Position};

    fn damage(first: u64, next: u64) -> Damage {
        let (position, segment) = (Position::new(first * 40), "d/t/0/0.log".into());
        Damage { segment, position, bytes: 40, first: Offset::new(first), next: Offset::new(next) }
    }

    fn said(partition: PartitionReport) -> Vec<Line> {
        let report = Report { partitions: vec![partition], ..Report::default() };
        let mut lines = lines(&report, Path::new("d"));
        lines.retain(|line| !matches!(line, Line::Info(_)));
        lines
    }

    #[test]
    fn what_serves_nothing_is_told_apart_from_what_takes_no_writes() {
        let fenced = PartitionReport { topic: "t".into(), fenced: Some("why".into()), ..Default::default() };
        let unopened = PartitionReport { unopened: true, ..fenced.clone() };
        let begins = |lines: &[Line], with: &str| matches!(&lines[0], Line::Error(l) if l.starts_with(with));
        assert!(begins(&said(fenced), "t/0 takes no writes, its records can be read: why"));
        let lines = said(unopened);
        assert!(begins(&lines, "t/0 serves nothing, neither reads nor writes: why; "), "{lines:?}");
        assert_eq!(lines[1], Line::Warn("of these partitions: 1 not served; see above".into()));
        assert_eq!(said(PartitionReport::default()), []);
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_told_also_where_there_is_nothing_in_it() {
        let read_only = Report { read_only: Some("why".into()), ..Report::default() };
        let unnoted = Report { unnoted: Some("why".into()), ..Report::default() };
        for report in [read_only, unnoted] {
            let lines = lines(&report, Path::new("d"));
            assert!(matches!(&lines[0], Line::Warn(line) if line.contains("why")), "{lines:?}");
        }
    }

    #[test]
    fn damage_is_one_line_a_partition() {
        let one = PartitionReport { topic: "t".into(), damage: vec![damage(3, 5)], ..Default::default() };
        let many = PartitionReport { damage: vec![damage(3, 5), damage(7, 8), damage(9, 10)], ..one.clone() };
        let line = |p| match said(p).as_slice() {
            [Line::Error(line), Line::Warn(_)] => line.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            line(one),
            "t/0: damage in d/t/0/0.log at byte 120, 40 bytes: offsets 3 to 4 cannot be read, all others can"
        );
        assert!(line(many).contains("in 2 more places: 4 records cannot be read"));
    }
}
