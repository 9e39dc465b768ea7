//! `sim list [PATH…]`: the scenarios there are, and what each shows.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use sim::suite::{self, ScenarioFile};

/// Lists scenarios: name, title, and how many seeds each runs with
#[derive(Debug, Args)]
pub struct List {
    /// Scenario files or directories of them
    #[arg(default_value = "scenarios")]
    paths: Vec<PathBuf>,
    /// Only those whose name or first comment holds this text
    #[arg(long, short)]
    filter: Option<String>,
    /// Show the first comment of each, too
    #[arg(long, short)]
    verbose: bool,
}

impl List {
    /// Exit code 0; 2 where a file cannot be read.
    pub fn run(&self) -> ExitCode {
        let files: Vec<ScenarioFile> = self.paths.iter().flat_map(|path| suite::find(path)).collect();
        let mut code = ExitCode::SUCCESS;
        for file in files {
            match super::load(&file.path) {
                Ok(scenario) => {
                    let about = scenario.about.join(" ");
                    let wanted = self
                        .filter
                        .as_ref()
                        .is_none_or(|text| file.name.contains(text) || about.contains(text));
                    if !wanted {
                        continue;
                    }
                    let seeds = match scenario.seeds.end - scenario.seeds.start {
                        1 => String::new(),
                        n => format!(" ({n} seeds)"),
                    };
                    println!("{:<60} {}{seeds}", file.name, scenario.title);
                    if self.verbose {
                        scenario.about.iter().for_each(|line| println!("    {line}"));
                    }
                }
                Err(failed) => code = failed,
            }
        }
        code
    }
}
