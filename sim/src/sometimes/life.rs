//! Crashes, starts, and what recovery did.

use super::clients::Clients;
use super::disk::Disk;
use super::{State, States};
use crate::trace::{CrashKind, Event, Mode, Recovered};

/// What the broker's process is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Doing {
    #[default]
    Down,
    Recovering,
    Serving,
}

/// The broker's life so far.
#[derive(Default)]
pub(super) struct Life {
    pub(super) doing: Doing,
    pub(super) always: bool,
    /// How it went down the last time, and whether it had written anything before.
    power: bool,
    wrote: bool,
    starts: u32,
    asked: bool,
    /// Whether the step that is under way stops it.
    stopping: bool,
}

impl Life {
    pub(super) fn saw(&mut self, event: &Event, disk: &Disk, clients: &Clients, states: &mut States) {
        match event {
            Event::Step { text, .. } => {
                let word = text.split_whitespace().next();
                self.stopping = self.doing == Doing::Serving && matches!(word, Some("stop" | "restart"));
            }
            Event::Starting(starting) => {
                (self.doing, self.stopping) = (Doing::Recovering, false);
                self.always = starting.durability == Mode::Always;
            }
            Event::Started { clean, partitions, notes } => {
                self.started(*clean, partitions, clients, states);
                states.add_if(State::Leftovers, !notes.is_empty());
            }
            Event::NotStarted { .. } => {
                self.doing = Doing::Down;
                states.add(State::StartRefused);
            }
            Event::Crash { kind, during } => self.crashed(*kind, during, disk, clients, states),
            Event::Call { probe: false, .. } => self.asked = true,
            _ => {}
        }
    }

    fn started(&mut self, clean: bool, found: &[Recovered], clients: &Clients, states: &mut States) {
        self.doing = Doing::Serving;
        states.add_if(State::CleanStart, clean && self.starts > 0);
        self.starts += 1;
        self.asked = false;
        let lost = clients.lost();
        states.add_if(State::LossWindow, self.power && lost);
        states.add_if(State::RecoveredNothingLost, self.power && self.wrote && !lost);
        (self.power, self.wrote) = (false, false);
        for partition in found {
            states.add_if(State::TornTail, partition.cut > 0);
            states.add_if(State::SetAside, partition.set_aside > 0);
            states.add_if(State::IndexRebuilt, !partition.rebuilt.is_empty());
            states.add_if(State::Leftovers, !partition.notes.is_empty());
            states.add_if(State::Damage, !partition.damage.is_empty());
            let ends_before = |next: u64| next < partition.end;
            states.add_if(State::DamageSealed, partition.damage.iter().any(|(.., next)| ends_before(*next)));
        }
    }

    fn crashed(
        &mut self,
        kind: CrashKind,
        during: &str,
        disk: &Disk,
        clients: &Clients,
        states: &mut States,
    ) {
        states.add(match kind {
            CrashKind::Process | CrashKind::FailedStop => State::ProcessCrash,
            CrashKind::Power => State::PowerLoss,
            CrashKind::Stop => State::CleanStop,
        });
        if kind != CrashKind::Stop {
            states.add_if(State::CrashInWrite, during.starts_with("at byte"));
            let at_sync = ["before sync", "after sync"].iter().any(|start| during.starts_with(start));
            states.add_if(State::CrashInSync, at_sync);
            states.add_if(State::CrashInStop, self.stopping);
            states.add_if(State::CrashInRecovery, self.doing == Doing::Recovering);
            states.add_if(State::CrashInRoll, disk.is_rolling());
            states.add_if(State::CrashTwice, self.doing == Doing::Serving && self.starts > 1 && !self.asked);
            states.add_if(State::CrashInFlight, clients.in_flight());
        }
        self.power = kind == CrashKind::Power;
        self.wrote = disk.wrote();
        self.doing = Doing::Down;
    }
}
