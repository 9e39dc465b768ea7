//! The program `broker`: the server, and the commands that use one or look at its files.

// The command line runs on the real machine only.
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
