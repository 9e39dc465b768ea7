//! The clients of a run: their names, and who waits for whom. A client is at one block at a time, and whoever hands it another
//! waits until that is done.

use super::Walk;
use crate::scenario::Branch;

/// Hosts that every run has.
const TAKEN: [&str; 2] = ["broker", "client"];

impl Walk<'_> {
    pub(super) fn parallel(&mut self, branches: &[Branch], times: u64, line: u32) {
        let (waits, mistakes) = (self.waits.len(), self.mistakes.len());
        for (at, branch) in branches.iter().enumerate() {
            let line = self.lines.next().copied().unwrap_or(1);
            let name = &branch.client;
            if branches.iter().take(at).any(|before| before.client == *name) {
                let message = format!("the client `{name}` has two blocks here, and can be in one at a time");
                self.say(
                    line,
                    message,
                    "choose another name, or put all of its steps in one block".to_owned(),
                );
            }
            self.client(branch, times, line);
        }
        if let (true, Some((a, b))) = (mistakes == self.mistakes.len(), round(&self.waits[waits..])) {
            let message = format!("the clients `{a}` and `{b}` may each wait for the other to end its block");
            let help = "let one of them have its block outside of the other's, or use a third client";
            self.say(line, message, help.to_owned());
        }
    }

    pub(super) fn client(&mut self, branch: &Branch, times: u64, line: u32) {
        let name = branch.client.as_str();
        if self.inside.contains(&branch.client) {
            let message =
                format!("the client `{name}` would wait for itself: this is inside of a block of its own");
            self.say(line, message, "choose another name, or put the steps there without a block".to_owned());
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if TAKEN.contains(&name) {
            let whose = if name == "client" { "of the steps outside of blocks" } else { "of the broker" };
            let message = format!("a client cannot be called `{name}`: that is the host {whose}");
            self.say(line, message, "choose another name, as in `client a`".to_owned());
        } else if !(name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain)) {
            let message = format!("a client cannot be called `{name}`");
            self.say(line, message, "begin with a letter; letters, digits, _ and - may follow".to_owned());
        }
        self.waits.extend(self.inside.last().map(|outer| (outer.clone(), branch.client.clone())));
        self.inside.push(branch.client.clone());
        self.steps(&branch.steps, times);
        self.inside.pop();
    }
}

/// Two clients that wait for each other, perhaps with others in between.
fn round(waits: &[(String, String)]) -> Option<(&str, &str)> {
    let reaches = |from: &str, to: &str| {
        let mut found = vec![from];
        let mut at = 0;
        while let Some(one) = found.get(at).copied() {
            for (_, next) in waits.iter().filter(|(outer, _)| outer == one) {
                if next == to {
                    return true;
                }
                if !found.contains(&next.as_str()) {
                    found.push(next);
                }
            }
            at += 1;
        }
        false
    };
    waits.iter().find(|(a, b)| reaches(b, a)).map(|(a, b)| (a.as_str(), b.as_str()))
}
