//! What came of a step that is a request, and whether it is what had to come.

use super::actor::{Actor, fits};
use super::pipe::Answered;
use super::say;
use super::stage::Stage;
use crate::scenario::request::Code;
use crate::scenario::{Expect, LookUp, LookUpExpect, Produce, Step};
use crate::trace::{Answer, Placed};

/// Says what came of a step, and whether it is what had to come.
pub(super) fn came(actor: &Actor, id: u32, step: &Step, answers: &[Answered]) {
    let expect = match step {
        Step::Topic(topic) => topic.expect,
        Step::DeleteTopic { expect, .. } => *expect,
        Step::ListTopics { expect, .. } => *expect,
        Step::ListPartitions(list) => list.expect,
        Step::Produce(produce) => produce.expect,
        Step::Offsets(look_up) => return looked_up(actor, id, look_up, answers),
        _ => Expect::Ok,
    };
    let said = match (step, answers.first()) {
        (Step::Produce(_), _) => say::produced(answers),
        (_, Some((answer, crash))) => match say::trouble(answer, crash.as_deref()) {
            Some(trouble) => format!("→ {trouble}"),
            None => done(answer),
        },
        (_, None) => String::new(),
    };
    if let Some((answer, _)) = answers.iter().find(|(answer, _)| !fits(expect, answer)) {
        actor.unmet(id, expect.to_string(), why(&actor.stage, answer, &said));
    }
    let fact = said.clone();
    let races = &actor.stage.races;
    let said = match step {
        Step::Topic(topic) => {
            if answers.iter().any(|(answer, _)| *answer == Answer::Done) {
                races.renewed(&topic.name, false);
            }
            races.answered(expect, said)
        }
        Step::DeleteTopic { name, .. } => {
            races.renewed(name, true);
            races.answered(expect, said)
        }
        Step::Produce(p) => {
            races.wrote(&p.topic, p.expect);
            races.produced(&p.topic, p.expect, p.expect_offset.is_some(), answers, said)
        }
        Step::ListTopics { expect_count, .. } if expect == Expect::Ok => {
            races.counted(None, *expect_count, "topic", said)
        }
        Step::ListPartitions(list) if expect == Expect::Ok => {
            races.counted(Some(&list.topic), list.expect_count, "partition", said)
        }
        _ => races.answered(expect, said),
    };
    match step {
        Step::Produce(produce) => placed_right(actor, id, produce, answers),
        Step::ListTopics { expect_count, .. } => counted(actor, id, expect, *expect_count, answers),
        Step::ListPartitions(list) => counted(actor, id, expect, list.expect_count, answers),
        _ => {}
    }
    actor.say_if(id, said, fact);
}

fn done(answer: &Answer) -> String {
    match answer {
        Answer::Topics(topics) => {
            let each: Vec<String> = topics.iter().map(|t| format!("{} ({})", t.name, t.partitions)).collect();
            format!("→ {}", if each.is_empty() { "none".to_owned() } else { each.join(" · ") })
        }
        Answer::Partitions(partitions) => {
            let each: Vec<String> =
                partitions.iter().map(|p| format!("{}: {}..{}", p.number, p.start, p.end)).collect();
            format!("→ {}", each.join(" · "))
        }
        _ => "done".to_owned(),
    }
}

/// Of an answer that is not the one that had to come, nothing more is expected.
fn counted(actor: &Actor, id: u32, expect: Expect, count: Option<u32>, answers: &[Answered]) {
    let Some(count) = count.filter(|_| answers.iter().all(|(answer, _)| fits(expect, answer))) else {
        return;
    };
    let found = answers.iter().find_map(|(answer, _)| match answer {
        Answer::Topics(topics) => Some(topics.len()),
        Answer::Partitions(partitions) => Some(partitions.len()),
        _ => None,
    });
    if found != usize::try_from(count).ok() {
        actor.unmet(id, count.to_string(), found.map_or_else(|| "no list".to_owned(), |n| n.to_string()));
    }
}

/// Where each record was placed; `None` of one that was not.
fn places(answers: &[Answered]) -> Vec<Option<(u32, u64)>> {
    let place = |placed: &Placed| match placed {
        Placed::At(partition, offset) => Some((*partition, *offset)),
        _ => None,
    };
    let of = |answer: &Answer| match answer {
        Answer::Produced(placed) => placed.iter().map(place).collect(),
        _ => vec![None],
    };
    answers.iter().flat_map(|(answer, _)| of(answer)).collect()
}

fn placed_right(actor: &Actor, id: u32, produce: &Produce, answers: &[Answered]) {
    // Of an answer that is not the one that had to come, nothing more is expected.
    if !answers.iter().all(|(answer, _)| fits(produce.expect, answer)) {
        return;
    }
    let places = places(answers);
    if let Some(expected) = produce.expect_partition {
        let mut placed = places.iter().flatten().peekable();
        if placed.peek().is_none() {
            actor.unmet(id, format!("partition {expected}"), "no record was acknowledged");
        }
        for (partition, _) in placed.filter(|(partition, _)| *partition != expected) {
            actor.unmet(id, format!("partition {expected}"), format!("partition {partition}"));
        }
    }
    let first = places.first().copied().flatten().map(|(_, offset)| offset);
    if let Some(expected) = produce.expect_offset.filter(|expected| first != Some(*expected)) {
        let found = first.map_or_else(
            || "the first record was not acknowledged".to_owned(),
            |offset| format!("offset {offset}"),
        );
        actor.unmet(id, format!("offset {expected}"), found);
    }
}

/// What came in the place of what had to: where nobody was there to answer, why.
pub(super) fn why(stage: &Stage, answer: &Answer, said: &str) -> String {
    let down = || stage.why_down().map(|why| format!("{said}: {why}"));
    match answer {
        Answer::Refused { code: Code::Unavailable, message, .. } => {
            down().unwrap_or_else(|| format!("{said}: {message}"))
        }
        Answer::Lost { why, sent: false, .. } => down().unwrap_or_else(|| format!("{said}: {why}")),
        Answer::Refused { message, .. } => format!("{said}: {message}"),
        Answer::Lost { why, .. } => format!("{said}: {why}"),
        _ => said.to_owned(),
    }
}

fn looked_up(actor: &Actor, id: u32, look_up: &LookUp, answers: &[Answered]) {
    let Some((answer, crash)) = answers.first() else { return };
    let said = match answer {
        Answer::Offset(Some((offset, _))) => format!("→ {offset}"),
        Answer::Offset(None) => "→ none".to_owned(),
        other => format!("→ {}", say::trouble(other, crash.as_deref()).unwrap_or_default()),
    };
    let fits = match (look_up.expect, answer) {
        (LookUpExpect::Any, _) => true,
        (LookUpExpect::Offset(expected), Answer::Offset(Some((offset, _)))) => expected == *offset,
        (LookUpExpect::None, Answer::Offset(None)) => true,
        (LookUpExpect::Code(expected), Answer::Refused { code, .. }) => expected == *code,
        _ => false,
    };
    if !fits {
        actor.unmet(id, look_up.expect.to_string(), why(&actor.stage, answer, &said));
    }
    let expected = look_up.expect != LookUpExpect::Any;
    let certain = actor.stage.races.looked_up(&look_up.topic, expected, said.clone());
    actor.say_if(id, certain, said);
}
