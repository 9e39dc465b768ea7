//! How fast a sweep is, and how fast turmoil is with nothing in it.

use std::fmt::Write;
use std::time::Duration;

use sim::executor::plan::clients;
use sim::outcome;
use sim::sweep::Plan;
use sim::sweep::bare::{self, Shape};
use sim::sweep::clock::Stopwatch;
use sim::sweep::record::requests;
use sim::sweep::sums::Sums;

/// So many runs are measured beside bare ones.
const RUNS: u64 = 200;

/// Seeds and simulated time a second.
pub fn speed(sums: &Sums, took: Duration, jobs: usize) -> String {
    let seconds = took.as_secs_f64().max(1e-6);
    let mut out = String::new();
    let _ = writeln!(out, "{:<24} {:>14}", "jobs", jobs);
    let _ = writeln!(out, "{:<24} {:>12.1} s", "real time", seconds);
    let _ = writeln!(out, "{:<24} {:>12.1} /s", "seeds", sums.runs() as f64 / seconds);
    let _ =
        writeln!(out, "{:<24} {:>12.1} s/s", "simulated time", sums.simulated_ms() as f64 / 1e3 / seconds);
    if let Some(peak) = peak_memory() {
        let _ = writeln!(out, "{:<24} {:>14}", "peak memory", peak);
    }
    out
}

/// The same seeds, once with everything and once as bare simulations, on this thread, in turns.
pub fn beside_bare(plan: &Plan) -> Result<String, String> {
    let (mut whole, mut waiting, mut asking) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut runs = 0;
    for seed in plan.seeds.clone().take(usize::try_from(RUNS).unwrap_or(usize::MAX)) {
        for generator in &plan.generators {
            let watch = Stopwatch::start();
            let outcome = outcome::run(&generator.scenario, seed);
            whole += watch.elapsed();
            let shape = Shape {
                clients: 1 + clients(&outcome.scenario.steps).len(),
                simulated: Duration::from_millis(outcome.trace.duration()),
                requests: 0,
            };
            waiting += timed(shape, seed)?;
            let asks = Shape { requests: requests(&outcome.trace), ..shape };
            asking += timed(asks, seed)?;
            runs += 1;
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e3 / f64::from(runs.max(1));
    let mut out = String::new();
    let mut line = |name: &str, time: Duration| {
        let times = whole.as_secs_f64() / time.as_secs_f64().max(1e-9);
        let _ =
            writeln!(out, "{name:<44} {:>8.3} ms {:>9.1} /s {times:>7.1} x", each(time), 1e3 / each(time));
    };
    line("one core: the whole run", whole);
    line("bare turmoil, as many requests", asking);
    line("bare turmoil, hosts that only wait", waiting);
    Ok(out)
}

fn timed(shape: Shape, seed: u64) -> Result<Duration, String> {
    let watch = Stopwatch::start();
    bare::run(shape, seed)?;
    Ok(watch.elapsed())
}

/// The most memory that the process has had, where the system says so.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().to_owned())
}
