//! Standard output and standard error, for commands that print much: who reads only the first lines has closed the other end,
//! and that is no failure of theirs or ours.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Prints; ends the program quietly where nobody reads any more.
pub fn put(text: Arguments<'_>) {
    match std::io::stdout().lock().write_fmt(text) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
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
