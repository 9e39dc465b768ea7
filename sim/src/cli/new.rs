//! `sim new NAME`: a scenario to start from.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::out::{complain, say};
use sim::report::SIM;

/// Writes a commented scenario to start from: `sim new recovery/my_first`
#[derive(Debug, Args)]
pub struct New {
    /// A folder, and what the scenario shows: recovery/torn_tail_is_cut
    name: String,
    /// The directory of all scenarios
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
                match Theme::of(&self.name) {
                    Theme::Generator => say!("try it:  {SIM} sweep {path} --seeds 0..100"),
                    Theme::Explored => say!("try it:  {SIM} explore {path}"),
                    Theme::Plain => say!("try it:     {SIM} run {path} -v"),
                }
                // What a seed wrote is in no snapshot.
                if Theme::of(&self.name) != Theme::Generator {
                    say!(
                        "accept it:  INSTA_UPDATE=always cargo test -p sim --test scenarios -- {}",
                        self.test()
                    );
                }
                ExitCode::SUCCESS
            }
            Err(why) => {
                complain!("{why}");
                ExitCode::from(2)
            }
        }
    }

    fn write(&self) -> Result<PathBuf, String> {
        let name = self.name.trim_end_matches(".kdl");
        let plain = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        let Some((folder, _)) = name.rsplit_once('/').filter(|_| name.split('/').all(plain)) else {
            return Err(format!(
                "{name:?} is not a name: a folder, /, and what the scenario shows, in a-z, 0-9 and _: \
                 recovery/torn_tail_is_cut"
            ));
        };
        let path = self.dir.join(name).with_extension("kdl");
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        if !self.dir.is_dir() {
            return Err(format!("there is no directory {}", self.dir.display()));
        }
        if !self.dir.join(folder).is_dir() {
            let there = match &folders(&self.dir)[..] {
                [] => "has none".to_owned(),
                some => format!("has {}", some.join(", ")),
            };
            return Err(format!(
                "there is no folder {folder:?} in {dir}, which {there}; if a new theme needs it, make it first, and \
                 add it to the table in scenarios/README.md",
                dir = self.dir.display()
            ));
        }
        let mut file = fs::File::create_new(&path).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => format!("{} already exists", path.display()),
            _ => failed(e),
        })?;
        file.write_all(start(name).as_bytes()).map_err(failed)?;
        Ok(path)
    }

    fn test(&self) -> String {
        self.name.trim_end_matches(".kdl").replace('/', "::")
    }
}

/// The themes that there are.
fn folders(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        folders.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What becomes of the scenarios in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    /// They are run.
    Plain,
    /// They are run at every crash point, too.
    Explored,
    /// A seed makes a scenario of each.
    Generator,
}

impl Theme {
    fn of(name: &str) -> Self {
        match name.split('/').next() {
            Some("generators") => Theme::Generator,
            Some("explore") => Theme::Explored,
            _ => Theme::Plain,
        }
    }
}

/// A scenario that runs, and says beside each line what it is for.
fn start(name: &str) -> String {
    let title = name.rsplit('/').next().unwrap_or(name).replace('_', " ");
    match Theme::of(name) {
        Theme::Plain => plain(&title),
        Theme::Explored => explored(&title),
        Theme::Generator => generator(&title),
    }
}

fn explored(title: &str) -> String {
    format!(
        r#"// Say here what is crashed, and why it matters: the first comment is what `sim list -v` prints.
scenario "{title}"
explore                                                        // the power goes out at every point of it
broker durability=always segment-bytes=120 index-interval=2    // any setting of the broker, by its own name
disk profile=strict                                            // what a power loss may do: strict, ordered, writeback, lying

// Few steps, one a line: each operation of the disk is a crash point, with all that could be left there.
topic orders partitions=1
produce orders key="user-1" value="hello"
produce orders key="user-1" value="v{{n}}" count=4               // {{n}} counts the records of this line
stop
start
"#
    )
}

fn generator(title: &str) -> String {
    format!(
        r#"// Say here which runs this makes, and what they are to come to: the first comment is what `sim list -v` prints.
scenario "{title}" seeds="0..6"                                 // these run daily; a sweep runs any others
sometimes "process crash" "segment rolled"                     // what a sweep of it must reach, to be worth its time

// A seed draws one of the values of each property; `-` leaves it out.
draw broker durability="os | always | interval=50ms" segment-bytes="200 | 2000" index-interval="- | 3"
draw disk profile="strict | ordered | writeback"
topic orders partitions=2

// So many steps, of these kinds, as often as their weights say.
random steps="10 | 30" keys="1 | 3" size="20 | 200" {{
    weights produce=10 consume=3 fetch=2 crash="0 | 1" power-loss="0 | 1"
}}
"#
    )
}

fn plain(title: &str) -> String {
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
        for folder in ["recovery", "explore", "generators"] {
            let text = start(&format!("{folder}/my_first"));
            let scenario = sim::scenario::parse("my_first.kdl", &text).expect("it can be read");
            assert_eq!(scenario.title, "my first");
            assert_eq!(scenario.explore, folder == "explore");
            assert_eq!(scenario.seeds.end - scenario.seeds.start > 1, folder == "generators");
            let ran = sim::suite::run_seeds(&scenario);
            assert!(ran.failed.is_none(), "{:?}", ran.failed.map(|outcome| outcome.failures));
        }
    }

    #[test]
    fn it_writes_only_below_its_directory_and_over_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let new = |name: &str| New { name: name.to_owned(), dir: dir.path().to_owned() }.write();
        assert!(
            new("a/b").is_err_and(|why| why.contains("no folder \"a\"") && why.contains("which has none;"))
        );
        fs::create_dir(dir.path().join("a")).expect("a folder");
        assert!(new("a/b").is_ok_and(|path| path.is_file()));
        assert!(new("a/b").is_err());
        for name in ["../b", "/b", "", "a//b", "a b", "b", "a/B", "a/b-c"] {
            assert!(new(name).is_err(), "{name}");
        }
    }
}
