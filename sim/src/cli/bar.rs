//! The progress of a sweep or an exploration, on a terminal only.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::out::say;
use sim::sweep::sums::Sums;

/// A bar, or nothing where nobody looks.
pub struct Bar(ProgressBar);

impl Bar {
    /// For so much work.
    pub fn new(len: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg} {eta}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(len).with_style(style))
    }

    /// What the work is.
    pub fn name(&self, text: String) {
        self.0.set_message(text);
    }

    /// One more piece of it is done.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// How far a sweep has come.
    pub fn show(&self, sums: &Sums, took: Duration) {
        if self.0.is_hidden() {
            return;
        }
        self.0.set_position(sums.runs());
        let seconds = took.as_secs_f64().max(1e-3);
        self.0.set_message(format!(
            "{:.0} seeds/s, {:.0} s simulated a second, {} failed",
            sums.runs() as f64 / seconds,
            sums.simulated_ms() as f64 / 1e3 / seconds,
            sums.failures()
        ));
    }

    /// Something that stays.
    pub fn print(&self, text: &str) {
        self.0.suspend(|| say!("{text}"));
    }

    /// It is over.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}
