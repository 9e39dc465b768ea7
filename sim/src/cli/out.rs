//! Standard output, for commands that print much: who reads only the first lines has closed the other end, and that is no
//! failure of theirs or ours.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Prints; ends the program quietly where nobody reads any more.
pub fn put(text: Arguments<'_>) {
    match std::io::stdout().lock().write_fmt(text) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => {
            eprintln!("standard output: {e}");
            std::process::exit(4);
        }
        Ok(()) => {}
    }
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

pub(crate) use {say, say_on};
