//! `sim sweep`: many seeds of generators. The first failure is shown with all that is needed to act on it; at the end come
//! the states that the runs were in, and an error where one was promised and never reached.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use super::duration;
use super::find::find;
use super::interrupt::{self, Interrupt};
use super::keep::keep;
use super::out::{complain, say, say_on};
use sim::report::{self, SIM};
use sim::sweep::record::{Head, Line, Record};
use sim::sweep::sums::Sums;
use sim::sweep::{End, Generator, Plan, Ran, sweep};

use super::bar::Bar;
use super::figures;

/// Runs generators with many seeds, on all cores.
#[derive(Debug, Args)]
pub struct Sweep {
    /// Generators, or directories of them.
    #[arg(default_value = "scenarios/generators")]
    scenarios: Vec<PathBuf>,
    /// The seeds: 0..1000 is 0 to 999.
    #[arg(long, default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// Runs at the same time [default: one per core].
    #[arg(long, short, visible_alias = "threads", value_parser = super::threads)]
    jobs: Option<usize>,
    /// Start no run after this time: 90s, 10m, 2h.
    #[arg(long, value_parser = duration)]
    budget: Option<Duration>,
    /// Run only shard I of N, from 0: 0/4 to 3/4.
    #[arg(long, value_name = "I/N", default_value = "0/1", value_parser = shard)]
    shard: (u64, u64),
    /// Run every seed in a second process as well, and compare.
    #[arg(long)]
    double_check: bool,
    /// The program for the second process: another build of sim, which must give the same.
    #[arg(long, value_name = "PROGRAM", requires = "double_check")]
    against: Option<PathBuf>,
    /// Continue after a failure.
    #[arg(long)]
    keep_going: bool,
    /// Write one line of JSON for each run, for `sim merge`.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where to write the first scenario of each kind of failure.
    #[arg(long, value_name = "DIR", default_value = "target/sweep")]
    failures: PathBuf,
    /// How long a single run may take.
    #[arg(long, default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// Accept that a promised state is never reached: for sweeps too short to reach all.
    #[arg(long)]
    allow_unreached: bool,
    /// Also measure a bare turmoil simulation of the same hosts, ticks and simulated time.
    #[arg(long)]
    beside_bare: bool,
}

impl Sweep {
    /// Exit code 0: all held. 1: a promise was broken. 2: a scenario is wrong. 3: not deterministic. 4: the harness failed,
    /// a run timed out, or a promised state was never reached. 130: it was interrupted, and all had held until then.
    pub fn run(&self) -> ExitCode {
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(code) => return code,
        };
        // Where it cannot be had, a signal ends the program as it does any other.
        let interrupt = Interrupt::watch().ok();
        match self.records() {
            Ok(records) => ExitCode::from(self.go(&plan, records, interrupt.as_ref())),
            Err(why) => {
                complain!("{why}");
                ExitCode::from(4)
            }
        }
    }

    /// The file for a line of each run, where one is wanted.
    fn records(&self) -> Result<Option<Records>, String> {
        self.out.as_deref().map(Records::create).transpose()
    }

    fn plan(&self) -> Result<Plan, ExitCode> {
        let mut generators = Vec::new();
        for file in find(&self.scenarios)? {
            let scenario = super::load(&file.path)?;
            generators.push(Generator { path: file.path, name: file.name, scenario });
        }
        apart(&generators)?;
        let itself = std::env::current_exe().ok();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Plan {
            generators,
            seeds: self.seeds.clone(),
            shard: self.shard,
            jobs: self.jobs.unwrap_or(cores).max(1),
            budget: self.budget,
            patience: self.patience,
            double_check: if self.double_check { self.against.clone().or(itself) } else { None },
            keep_going: self.keep_going,
        })
    }

    /// Gives what `sim` ends with. That something could not be written changes that, and nothing of what is said before.
    #[allow(clippy::disallowed_methods)] // how long it took is told to a person, and nothing depends on it
    fn go(&self, plan: &Plan, mut records: Option<Records>, interrupt: Option<&Interrupt>) -> u8 {
        let head = Head::of(plan);
        let mut sums = Sums::of_one_sweep();
        let mut trouble = Trouble::default();
        trouble.of(write(&mut records, &Line::Sweep(head.clone())));
        sums.asked(head);
        let began = Instant::now();
        let bar = Bar::new(plan.runs());
        let mut shown = BTreeSet::new();
        let end = sweep(plan, |ran| {
            if let Some(ran) = ran {
                let record = Record::of(plan, &ran);
                sums.add(&record);
                trouble.of(write(&mut records, &Line::Run(record.clone())));
                if record.failure.is_some_and(|failure| shown.insert(failure.kind)) {
                    trouble.of(self.show(plan, &ran, &bar));
                }
            }
            bar.show(&sums, began.elapsed());
            interrupt.map_or(ControlFlow::Continue(()), Interrupt::go_on)
        });
        bar.clear();
        trouble.of(records.map_or(Ok(()), Records::end));
        say!("{}", figures::speed(&sums, began.elapsed(), plan.jobs));
        if self.beside_bare {
            match figures::beside_bare(plan) {
                Ok(figures) => say!("{figures}"),
                Err(why) => trouble.of(Err(why)),
            }
        }
        let partial = plan.shard.1 > 1 || matches!(end, End::Failed | End::Interrupted);
        let mut code = verdict(&sums, self.allow_unreached || partial);
        match end {
            End::Harness(why) => trouble.of(Err(why)),
            End::Budget => say!("\nthe budget ran out after {} of {} runs", sums.runs(), plan.runs()),
            End::Interrupted => {
                say!("\ninterrupted after {} of {} runs", sums.runs(), plan.runs());
                code = if code == 0 { interrupt::CODE } else { code };
            }
            End::Done | End::Failed => {}
        }
        trouble.tell();
        if trouble.0.is_empty() { code } else { 4 }
    }

    /// The first failure of its kind: in full, with the scenario in a file, and what to do next. An error where there is no such
    /// file.
    fn show(&self, plan: &Plan, ran: &Ran, bar: &Bar) -> Result<(), String> {
        let Some(generator) = plan.generators.get(ran.generator) else { return Ok(()) };
        let (path, seed) = (&generator.path, ran.seed);
        let mut text = format!("FAILED  {} with seed {seed}\n", generator.name);
        if let Some(difference) = &ran.differs {
            text += &format!("\n{}\n", report::indented(&difference.to_string()));
            text += &format!(
                "\n  see it again: {SIM} sweep {} --seeds {seed}..{} --double-check\n",
                path.display(),
                seed + 1
            );
        }
        let mut kept = Ok(());
        if let Some(outcome) = &ran.failed {
            text += &report::explained(outcome, false);
            let again = report::replay(path, seed, &[]);
            match keep(&self.failures, &generator.name, seed, &outcome.scenario) {
                Ok(file) => {
                    let file = file.display();
                    text += &format!("\n  the scenario, with all that the seed chose: {file}\n");
                    text += &format!("  see it again:    {again}\n");
                    text += &format!("  make it smaller: {SIM} shrink {file} -o target/small.kdl\n");
                }
                Err(why) => {
                    text += &format!("\n  the scenario, with all that the seed chose, is not kept: {why}\n");
                    text += &format!("  see it again:    {again}\n");
                    kept = Err(why);
                }
            }
        }
        bar.print(&text);
        kept
    }
}

/// What could not be done beside the runs, each told once, and at the end.
#[derive(Default)]
struct Trouble(Vec<String>);

impl Trouble {
    fn of(&mut self, done: Result<(), String>) {
        if let Err(why) = done
            && !self.0.contains(&why)
        {
            self.0.push(why);
        }
    }

    fn tell(&self) {
        for why in &self.0 {
            complain!("\n{why}");
        }
    }
}

/// The file with a line for each run.
struct Records {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Records {
    fn create(path: &Path) -> Result<Self, String> {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn add(&mut self, line: &Line) -> Result<(), String> {
        let written = serde_json::to_writer(&mut self.file, line).map_err(io::Error::other);
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|e| format!("{}: {e}", self.path.display()))
    }

    fn end(mut self) -> Result<(), String> {
        self.file.flush().map_err(|e| format!("{}: {e}", self.path.display()))
    }
}

/// What runs add up to is told apart by the names of the generators, and so are the files of those that fail.
fn apart(generators: &[Generator]) -> Result<(), ExitCode> {
    let mut known: BTreeMap<String, &Generator> = BTreeMap::new();
    for generator in generators {
        if let Some(other) = known.insert(generator.name.replace("::", "-"), generator) {
            let (a, b) = (other.path.display(), generator.path.display());
            let name = &generator.name;
            complain!("{a} and {b} are both called {name}: rename one, or sweep them one after the other");
            return Err(ExitCode::from(2));
        }
    }
    Ok(())
}

/// What cannot be written once is not written any further: a file with a gap in it would tell of fewer runs than there were.
fn write(records: &mut Option<Records>, line: &Line) -> Result<(), String> {
    let written = records.as_mut().map_or(Ok(()), |records| records.add(line));
    if written.is_err() {
        *records = None;
    }
    written
}

/// Prints what the runs add up to, and gives what `sim` ends with.
pub fn verdict(sums: &Sums, allow_unreached: bool) -> u8 {
    say!("{}", sums.table_of_states());
    if sums.failures() > 0 {
        say!("{}", sums.table_of_failures());
    }
    say_on!("{}", sums.summary());
    let mut code = sums.exit_code();
    let unreached = sums.unreached();
    if !unreached.is_empty() && !allow_unreached {
        say!();
        for (generator, state) in unreached {
            say!("{generator} promises \"{state}\", and none of its seeds reached it");
        }
        code = code.max(4);
    }
    code
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    if text.parse() == Ok(u64::MAX) {
        return Err("a sweep ends before the last of all numbers; `sim run --seed` runs it".to_owned());
    }
    let one = || text.parse().ok().map(|seed: u64| seed..seed.saturating_add(1));
    let range =
        range.or_else(one).ok_or_else(|| "expected a seed, or a range: 0..1000 is 0 to 999".to_owned())?;
    if range.is_empty() { Err("this range is empty".to_owned()) } else { Ok(range) }
}

fn shard(text: &str) -> Result<(u64, u64), String> {
    let pair: Option<(u64, u64)> =
        text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    pair.filter(|(i, n)| i < n).ok_or_else(|| "expected a shard, counted from 0: 0/4 to 3/4".to_owned())
}
