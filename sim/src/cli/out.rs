//! Standard output and standard error, for commands that print much. Who reads only the first lines closes the other end: then
//! no more is printed, and the work goes on, since what it finds still decides the exit code.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the other end of standard output is closed.
static UNREAD: AtomicBool = AtomicBool::new(false);

/// Prints, as long as somebody reads it.
pub fn put(text: Arguments<'_>) {
    if UNREAD.load(Ordering::Relaxed) {
        return;
    }
    match std::io::stdout().lock().write_fmt(text) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => UNREAD.store(true, Ordering::Relaxed),
        Err(e) => {
            put_aside(format_args!("standard output: {e}\n"));
            std::process::exit(4);
        }
        Ok(()) => {}
    }
}

/// Prints to standard error, as far as anybody reads it: what cannot be said is no reason to end otherwise.
pub fn put_aside(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// As `println!`.
macro_rules! say {
    () => { $crate::cli::out::put(format_args!("\n")) };
    ($($text:tt)+) => { $crate::cli::out::put(format_args!("{}\n", format_args!($($text)+))) };
}

/// As `print!`.
macro_rules! say_on {
    ($($text:tt)+) => { $crate::cli::out::put(format_args!($($text)+)) };
}

/// As `eprintln!`.
macro_rules! complain {
    ($($text:tt)+) => { $crate::cli::out::put_aside(format_args!("{}\n", format_args!($($text)+))) };
}

pub(crate) use {complain, say, say_on};
