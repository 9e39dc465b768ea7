//! `sim new NAME`: a scenario to start from.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::out::say;
use sim::report::SIM;

/// Writes a commented scenario to start from: `sim new recovery/my_first`
#[derive(Debug, Args)]
pub struct New {
    /// Its name: a folder and what it shows, as in recovery/torn_tail_is_cut
    name: String,
    /// Where scenarios lie
    #[arg(long, default_value = "scenarios")]
    dir: PathBuf,
}

impl New {
    /// Exit code 0; 2 where the name cannot be, or is taken.
    pub fn run(&self) -> ExitCode {
        match self.write() {
            Ok(path) => {
                let path = path.display();
                say!("wrote {path}\n");
                say!("try it:     {SIM} run {path} -v");
                say!("accept it:  INSTA_UPDATE=always cargo test -p sim --test scenarios -- {}", self.test());
                ExitCode::SUCCESS
            }
            Err(why) => {
                eprintln!("{why}");
                ExitCode::from(2)
            }
        }
    }

    fn write(&self) -> Result<PathBuf, String> {
        let name = self.name.trim_end_matches(".kdl");
        let plain = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        if !name.split('/').all(plain) {
            return Err(format!("{name:?} cannot be a name: letters, digits, _ and -, folders with /"));
        }
        let path = self.dir.join(name).with_extension("kdl");
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let mut file = fs::File::create_new(&path).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => format!("{} is there already", path.display()),
            _ => failed(e),
        })?;
        file.write_all(start(name).as_bytes()).map_err(failed)?;
        Ok(path)
    }

    fn test(&self) -> String {
        self.name.trim_end_matches(".kdl").replace('/', "::")
    }
}

/// A scenario that runs, and says beside each line what it is for.
fn start(name: &str) -> String {
    let title = name.rsplit('/').next().unwrap_or(name).replace('_', " ");
    format!(
        r#"// Say here what this scenario shows, and why it matters: the first comment is what `sim list -v` prints.
scenario "{title}"
broker durability=always segment-bytes=4096 index-interval=3   // any setting of the broker, by its own name
disk profile=strict                                            // what a power loss may do: strict, ordered, writeback, lying

// Steps, one a line. What is not as expected fails the run.
topic orders partitions=1
produce orders key="user-1" value="hello"
produce orders key="user-1" value="v{{n}}" count=4               // {{n}} counts the records of this line

// Something goes wrong: of the next write to a log, 15 bytes get down, and then the lights go out.
fault write "*.log" power-loss=15
produce orders key="user-2" value="world" expect=unknown

// The broker is started again. After every start, and at the end, the oracle checks all promises.
restart expect-cut=15
consume orders partition=0 expect-count=5
files
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_writes_is_a_scenario_that_holds() {
        let text = start("recovery/my_first");
        let scenario = sim::scenario::parse("my_first.kdl", &text).expect("it can be read");
        assert_eq!(scenario.title, "my first");
        let ran = sim::suite::run_seeds(&scenario);
        assert!(ran.failed.is_none(), "{:?}", ran.failed.map(|outcome| outcome.failures));
    }

    #[test]
    fn it_writes_only_below_its_directory_and_over_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let new = |name: &str| New { name: name.to_owned(), dir: dir.path().to_owned() }.write();
        assert!(new("a/b").is_ok_and(|path| path.is_file()));
        assert!(new("a/b").is_err());
        for name in ["../b", "/b", "", "a//b", "a b"] {
            assert!(new(name).is_err(), "{name}");
        }
    }
}
