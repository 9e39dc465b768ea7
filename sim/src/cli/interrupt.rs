//! Ctrl-C, and SIGTERM: what takes long ends early, and tells what it has found by then. A second one ends the program at once.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What `sim` ends with where it was interrupted, and had found nothing: as a shell has it of a program that SIGINT ended.
pub const CODE: u8 = 130;

/// Whether somebody wants an end.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Waits for the signals from now on.
    pub fn watch() -> io::Result<Self> {
        let wanted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first one finds that none was before.
            flag::register_conditional_default(signal, wanted.clone())?;
            flag::register(signal, wanted.clone())?;
        }
        Ok(Self(wanted))
    }

    /// Whether to go on.
    pub fn go_on(&self) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
