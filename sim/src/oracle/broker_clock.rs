//! What the broker's clock showed, and when: it can stand still, jump, and run backwards.

use crate::trace::{Clock, Millis};

/// The clock from the beginning on.
#[derive(Clone, Debug, Default)]
pub struct BrokerClock(Vec<(Millis, Clock)>);

impl BrokerClock {
    /// It shows this from here on.
    pub fn shows(&mut self, clock: Clock, now: Millis) {
        self.0.push((now, clock));
    }

    /// Whether it has ever shown less than before.
    pub fn has_run_back(&self) -> bool {
        let is_back = |pair: &[(Millis, Clock)]| {
            let [(since, before), (at, after)] = pair else { return false };
            after.shows < before.later(at - since)
        };
        self.0.windows(2).any(is_back)
    }

    /// The earliest and the latest that it showed between two times, both included; `None` where nobody has looked at it.
    pub fn between(&self, from: Millis, to: Millis) -> Option<(u64, u64)> {
        let first = self.0.partition_point(|(at, _)| *at <= from).checked_sub(1)?;
        let mut range: Option<(u64, u64)> = None;
        for (number, (since, clock)) in self.0.iter().enumerate().skip(first) {
            if *since > to {
                break;
            }
            let until = self.0.get(number + 1).map_or(to, |(next, _)| (*next).min(to));
            let shown = |at: Millis| clock.later(at - since);
            let (low, high) = range.unwrap_or((u64::MAX, 0));
            range = Some((low.min(shown(from.max(*since))), high.max(shown(until))));
        }
        range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_and_stands_still_shows_all_of_it() {
        let mut clock = BrokerClock::default();
        assert_eq!(clock.between(0, 5), None);
        clock.shows(Clock { shows: 1000, runs: true }, 0);
        clock.shows(Clock { shows: 400, runs: true }, 10);
        clock.shows(Clock { shows: 410, runs: false }, 20);
        assert_eq!(clock.between(3, 5), Some((1003, 1005)));
        assert_eq!(clock.between(3, 12), Some((400, 1010)));
        assert_eq!(clock.between(15, 90), Some((405, 410)));
    }

    #[test]
    fn a_clock_at_its_last_time_stays_there_and_has_not_run_back() {
        let mut clock = BrokerClock::default();
        clock.shows(Clock { shows: Clock::LAST - 5, runs: true }, 0);
        clock.shows(Clock { shows: Clock::LAST, runs: true }, 10);
        assert_eq!(clock.between(3, 20), Some((Clock::LAST - 2, Clock::LAST)));
        assert!(!clock.has_run_back());
    }

    /// It runs on from there at once.
    #[test]
    fn a_clock_at_its_first_time_does_not_stay_there() {
        let mut clock = BrokerClock::default();
        clock.shows(Clock { shows: 0, runs: true }, 10);
        assert_eq!(clock.between(15, 20), Some((5, 10)));
    }

    #[test]
    fn a_clock_that_is_set_back_is_told_from_one_that_is_set_ahead() {
        let mut clock = BrokerClock::default();
        clock.shows(Clock { shows: 1000, runs: true }, 0);
        clock.shows(Clock { shows: 1010, runs: false }, 10);
        clock.shows(Clock { shows: 1010, runs: true }, 30);
        assert!(!clock.has_run_back());
        clock.shows(Clock { shows: 1019, runs: true }, 40);
        assert!(clock.has_run_back());
    }
}
