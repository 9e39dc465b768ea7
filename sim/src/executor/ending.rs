//! How a run ends: faults stop, everything is healed, the oracle looks, and every partition has to work again.

use super::look;
use super::pipe::Pipe;
use super::stage::Stage;
use crate::trace::{Answer, Event, Placed, Request, Sent, TopicPartition};
use crate::world::host::{Host, State};

/// How often a partition is asked to work; between two attempts the broker is started anew.
const ATTEMPTS: usize = 2;

/// How long a request may take once all is well.
const PROMPT: std::time::Duration = crate::oracle::WITHIN;

/// How long a request that was held back may take to arrive and be executed.
const SETTLE: std::time::Duration = std::time::Duration::from_millis(20);

/// After the last step.
pub(super) async fn end(stage: &Stage) {
    stage.disarm();
    heal(stage).await;
    stage.recorder.add(Event::Healed);
    if stage.host.state() != State::Up {
        start(stage).await;
    }
    look::look(stage).await;
    // What needed a restart to show what it has shows it now.
    if stage.host.state() == State::Up && live(stage).await {
        look::look(stage).await;
    }
    stage.recorder.add(Event::Ended);
    count_connections(stage).await;
}

/// Starts the broker; where it comes to no end with that, that is written down.
async fn start(stage: &Stage) {
    if let Err(why) = stage.start().await {
        stage.recorder.add(Event::NotStarted { error: why.into() });
    }
}

/// The disk is a good one with room, descriptors do not run out, and all links work.
async fn heal(stage: &Stage) {
    let host = &stage.host;
    host.limits_at_end.set(host.disk.limits());
    host.disk.limit(faults::Limits::default());
    host.disk.set_max_open(None);
    stage.mend_sectors();
    host.accept_errors.store(0, std::sync::atomic::Ordering::Relaxed);
    stage.heal();
    stage.command(|sim| sim.set_fail_rate(0.0)).await;
    host.stalls.set_latency(std::time::Duration::ZERO, std::time::Duration::ZERO);
    host.stalls.set_sync_latency(std::time::Duration::ZERO, std::time::Duration::ZERO);
    stage.net.borrow_mut().timeout = Some(PROMPT);
    stage.tell_pace();
    // What a link held back arrives, and is executed, before anybody looks.
    tokio::time::sleep(SETTLE).await;
    quiet(host).await;
    // A start or a stop that was under way comes to its end.
    let _ = stage.until(|state| *state != State::Starting).await;
}

/// What the disk was at when it was slow comes to its end: until then the broker cannot answer.
async fn quiet(host: &Host) {
    while host.state() == State::Up && !host.stalls.left().is_zero() {
        tokio::time::sleep(host.stalls.left()).await;
    }
}

/// Every partition takes a record and gives it back. Gives whether the broker was started anew for it.
async fn live(stage: &Stage) -> bool {
    let topics = stage.topics.borrow().clone();
    let mut left: Vec<TopicPartition> =
        topics.iter().flat_map(|(topic, count)| (0..*count).map(move |p| (topic.clone(), p))).collect();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            if let Err(why) = stage.stop().await {
                stage.recorder.add(Event::NotStopped { error: why.into() });
                return true;
            }
            start(stage).await;
        }
        left = try_all(stage, left).await;
        if left.is_empty() {
            return attempt > 0;
        }
    }
    true
}

/// Gives those that did not work.
async fn try_all(stage: &Stage, places: Vec<TopicPartition>) -> Vec<TopicPartition> {
    let pipe = &mut Pipe::oracle(stage);
    let produce = |(topic, partition): &TopicPartition| Request::Produce {
        topic: topic.clone(),
        partition: Some(*partition),
        records: [Sent { key: None, value: bytes::Bytes::new() }].into(),
    };
    let requests: Vec<Request> = places.iter().map(produce).collect();
    let produced = look::ask(stage, pipe, &requests).await;
    let mut reads = Vec::new();
    let mut failed = Vec::new();
    for (place, answer) in places.into_iter().zip(produced) {
        match answer {
            Answer::Produced(placed) if matches!(placed[..], [Placed::At(..)]) => {
                if let Some(Placed::At(_, from)) = placed.first() {
                    reads.push((place, *from));
                }
            }
            _ => failed.push(place),
        }
    }
    let consume = |((topic, partition), from): &(TopicPartition, u64)| Request::Consume {
        topic: topic.clone(),
        partition: *partition,
        from: *from,
        max_bytes: 1 << 10,
        wait_ms: 0,
    };
    let requests: Vec<Request> = reads.iter().map(consume).collect();
    let read = look::ask(stage, pipe, &requests).await;
    for ((place, _), answer) in reads.into_iter().zip(read) {
        if !matches!(answer, Answer::Fetched { ref records, .. } if !records.is_empty()) {
            failed.push(place);
        }
    }
    failed
}

/// All clients have gone: a few ticks later the broker must hold no connection.
async fn count_connections(stage: &Stage) {
    // The end of a connection is a message like any other.
    let latency = stage.net.borrow().latency.map_or(std::time::Duration::ZERO, |span| span.max);
    tokio::time::sleep(std::time::Duration::from_millis(10) + latency).await;
    let connections = &stage.host.connections;
    let certain = stage.host.state() == State::Up && !stage.was_severed();
    stage.recorder.add(Event::Network {
        connections_max: connections.most(),
        connections_left: if certain { connections.open() } else { 0 },
    });
}
