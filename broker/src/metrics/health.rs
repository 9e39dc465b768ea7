//! How a broker is, for whoever looks after it, and for what asks in their place.
//!
//! Whether it *serves* all that it has is for a load balancer and for a probe of readiness: whoever would be refused can be sent
//! elsewhere, and whoever mends the cause and starts the broker again makes it right. What is *lost* is no reason for either: no start
//! brings back what is damaged or was taken away, and everything else is served. So it is told, and does not change the answer.
//!
//! Nor does it that a disk has *refused* the last records, as a full one does: only the next ones show whether there is room again, and
//! who is called unhealthy may be sent none.

use std::collections::BTreeMap;

use crate::broker::Broker;
use crate::disk::Disk;
use crate::files;
use crate::partition::Partition;

/// What is wrong, a line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What serves nothing, or takes no writes.
    pub refuses: Vec<String>,
    /// What the disk has refused, where writes are taken as far as the broker is concerned.
    pub refused: Vec<String>,
    /// What is damaged or gone, and does not keep the rest from being served.
    pub lost: Vec<String>,
}

impl Health {
    /// As it is now.
    pub fn of<D: Disk>(broker: &Broker<D>) -> Self {
        let mut health = Self::default();
        if let Some(why) = broker.read_only() {
            health.refuses.push(format!("nothing is stored, and no topic made or deleted: {why}"));
        } else if let Some(why) = broker.lost_home() {
            let where_to = "records are stored where no start finds them, until a log is full";
            health.refuses.push(format!("{where_to}, and no topic is made or deleted: {why}"));
        }
        if let Some(why) = broker.unnoted() {
            match broker.had_no_room() {
                // The next start only assumes less of this run.
                true => health.refused.push(why.to_owned()),
                false => health.refuses.push(format!("{why}; fix that and restart the broker")),
            }
        }
        for (topic, why) in &broker.unserved() {
            health.refuses.push(format!("{topic} serves nothing: {why}"));
        }
        for (topic, why) in &broker.undead() {
            health
                .refused
                .push(format!("{topic} was deleted, and may be there again after a restart: {why}"));
        }
        let topics: BTreeMap<String, u32> =
            broker.topics().iter().map(|topic| (topic.name().to_owned(), topic.partition_count())).collect();
        for topic in broker.topics() {
            topic.partitions().iter().for_each(|partition| health.partition(partition));
        }
        // What was made in its place since is what it is now.
        for topic in broker.missed().gone.keys().filter(|topic| !topics.contains_key(*topic)) {
            health
                .lost
                .push(format!("{topic} is gone: its directory was taken away after the last clean stop"));
        }
        let is_missed = |partition: &&String| {
            let (topic, number) = partition.rsplit_once('/').unwrap_or_default();
            let count = topics.get(topic);
            files::partition_number(number).zip(count).is_some_and(|(number, count)| number >= *count)
        };
        for partition in broker.missed().uncounted.keys().filter(is_missed) {
            health.lost.push(format!(
                "{partition} is gone: it was there at the last clean stop, and its topic has fewer partitions now"
            ));
        }
        health
    }

    fn partition<D: Disk>(&mut self, partition: &Partition<D>) {
        let name = partition.name();
        if let Some(reason) = partition.fenced() {
            let what = if partition.range().is_ok() { "takes no writes" } else { "serves nothing" };
            self.refuses.push(format!("{name} {what}: {reason}"));
        } else if let Some(why) = partition.refusing() {
            self.refused.push(format!("{name} has refused the last records: {why}"));
        }
        match partition.damaged_places() {
            0 => {}
            1 => self.lost.push(format!("{name} is damaged in one place: all that is whole is served")),
            n => self.lost.push(format!("{name} is damaged in {n} places: all that is whole is served")),
        }
    }
}
