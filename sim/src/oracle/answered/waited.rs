//! Who waits for a record that is not there yet: until it is, or the topic goes, or as long as was asked for.

use super::{Answer, Asked, Findings, Grounds, Millis, Promise, Request, Said, Topic, in_words, name};

/// How much longer than a request may take somebody may wait who is to be woken.
const WAKING_MS: Millis = 50;

/// A broker lets nobody wait any longer.
const WAIT_MAX_MS: Millis = 30_000;

/// A clock that is looked at twice may show a millisecond less than has gone by.
const TICK_MS: Millis = 1;

impl Grounds<'_> {
    /// Somebody was answered who may have waited.
    pub(super) fn waited(&self, f: &mut Findings, topic: &Topic, said: Said<'_>) {
        let (Request::Consume { partition, from, wait_ms: wait @ 1.., .. }, Answer::Fetched { records, .. }) =
            (said.request, said.answer)
        else {
            return;
        };
        self.woken(f, said.asked, topic, (*partition, *from), said.now);
        if records.is_empty() && self.is_in_order(topic, *partition) {
            self.waited_in_vain(
                f,
                said,
                Millis::from(*wait),
                &format!("{} offset {from}", name(&topic.name, *partition)),
            );
        }
    }

    /// Who waited for a record that came meanwhile.
    fn woken(&self, f: &mut Findings, asked: &Asked, topic: &Topic, (p, from): (u32, u64), now: Millis) {
        let slot = self.model.partition(&topic.name, p).and_then(|known| known.slots.get(&from));
        let Some(slot) = slot.filter(|slot| slot.is_promised() && slot.at >= asked.at) else { return };
        let allowed = slot.at + self.obstacles.bound() + WAKING_MS;
        if now > allowed && !asked.behind && self.obstacles.is_quiet(asked.before) {
            let expected = format!("an answer by {allowed} ms: others had the record at {} ms", slot.at);
            let what = format!("{} offset {from}", name(&topic.name, p));
            f.broke(Promise::Live, "woken late", what, (expected, format!("one at {now} ms")), &[]);
        }
    }

    /// Who has waited and got nothing has waited as long as was asked for.
    fn waited_in_vain(&self, f: &mut Findings, said: Said<'_>, wait: Millis, what: &str) {
        let until = said.asked.at + wait.min(WAIT_MAX_MS);
        if said.now + TICK_MS < until && self.obstacles.is_quiet(said.asked.before) {
            let expected = format!("a record, or an answer at {until} ms, as was asked for");
            let found = format!("an answer without records at {} ms", said.now);
            f.broke(Promise::Live, "answered early", what, (expected, found), &[]);
        }
    }

    /// Who waits for a record of a topic that goes is told so at once. One of its name that was made since may have what is waited
    /// for.
    pub(super) fn left_waiting(&self, f: &mut Findings, said: Said<'_>) {
        let Said { asked, request, answer, now } = said;
        let (Request::Consume { topic, partition, wait_ms: 1.., .. }, Some(gone)) =
            (request, asked.gone_since)
        else {
            return;
        };
        let allowed = gone + self.obstacles.bound() + WAKING_MS;
        let is_new = asked.creations != self.topic_changes.creations();
        if now > allowed && !is_new && !asked.behind && self.obstacles.is_quiet(asked.before) {
            let expected = format!("an answer by {allowed} ms: the topic was deleted at {gone} ms");
            let found = format!("one at {now} ms: {}", in_words(answer));
            f.broke(Promise::Live, "left waiting", name(topic, *partition), (expected, found), &[]);
        }
    }
}
