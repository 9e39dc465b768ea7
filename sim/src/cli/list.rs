//! `sim list [PATH…]`: the scenarios, and what each shows.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::find::find;
use super::out::{complain, say_on};

/// Lists scenarios: name, title, and how many seeds each runs with
#[derive(Debug, Args)]
pub struct List {
    /// Scenario files, or directories of them
    #[arg(default_value = "scenarios")]
    paths: Vec<PathBuf>,
    /// Only those whose name, title or first comment contains each of these words
    #[arg(long, short)]
    filter: Option<String>,
    /// Also show the first comment of each
    #[arg(long, short)]
    verbose: bool,
}

impl List {
    /// Exit code 0; 2 where a file cannot be read.
    pub fn run(&self) -> ExitCode {
        let files = match find(&self.paths) {
            Ok(files) => files,
            Err(code) => return code,
        };
        let mut code = ExitCode::SUCCESS;
        let filter = self.filter.as_deref().unwrap_or_default().to_lowercase();
        let mut listed = 0;
        for file in files {
            match super::load(&file.path) {
                Ok(scenario) => {
                    let about = scenario.about.join(" ");
                    let text = format!("{} {} {about}", file.name, scenario.title).to_lowercase();
                    if !filter.split_whitespace().all(|wanted| text.contains(wanted)) {
                        continue;
                    }
                    listed += 1;
                    let seeds = match scenario.seeds.count() {
                        1 => String::new(),
                        n => format!(" ({n} seeds)"),
                    };
                    let mut text = format!("{:<60} {}{seeds}\n", file.name, scenario.title);
                    if self.verbose {
                        scenario.about.iter().for_each(|line| text += &format!("    {line}\n"));
                    }
                    say_on!("{text}");
                }
                Err(failed) => code = failed,
            }
        }
        if listed == 0 {
            complain!("no scenario matches");
        }
        code
    }
}
