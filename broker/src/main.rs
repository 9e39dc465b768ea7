//! The program `broker`: the server, and the commands that use one or look at its files.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
