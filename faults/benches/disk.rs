//! How fast the simulated disk is: `cargo bench -p faults`.
//!
//! Each figure stands beside a ratio to something measured in the same run, since a figure alone says more about the
//! machine than about the code.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use faults::{Config, Disk, History, Images, Open, Process, Profile};

const RECORD: [u8; 128] = [7; 128];
const FILES: usize = 4;

/// The best of a few runs: what is measured is the code, not its neighbours.
fn best(mut run: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..5).map(once).min().unwrap_or_default()
}

fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn appends(count: usize, sync_every: usize) -> io::Result<Disk> {
    let disk = Disk::new(Config::new(Profile::Strict));
    let process = disk.process();
    let files: Vec<_> =
        (0..FILES).map(|n| process.open(format!("/{n}.log"), Open::Create)).collect::<io::Result<_>>()?;
    for n in 0..count {
        let (file, at) = (&files[n % FILES], (n / FILES * RECORD.len()) as u64);
        file.write_at(&RECORD, at)?;
        if sync_every > 0 && n % sync_every == 0 {
            file.sync_data()?;
        }
    }
    Ok(disk)
}

/// What the same appends cost into plain vectors.
fn plain(count: usize) -> Vec<Vec<u8>> {
    let mut files = vec![Vec::new(); FILES];
    for n in 0..count {
        files[n % FILES].extend_from_slice(black_box(&RECORD));
    }
    files
}

fn measure_appends() {
    let baseline = best(|| drop(black_box(plain(100_000))));
    println!("plain vectors        100,000 appends    {:>9.2} ms", baseline.as_secs_f64() * 1e3);
    let mut first = None;
    for (count, sync_every, what) in [
        (100_000, 0, "never synced"),
        (200_000, 0, "never synced"),
        (400_000, 0, "never synced"),
        (100_000, 10, "synced every 10"),
        (100_000, 1, "each synced"),
    ] {
        let time = best(|| drop(black_box(appends(count, sync_every))));
        let first = *first.get_or_insert(time);
        println!(
            "{what:<20} {count:>7} appends    {:>9.2} ms  {:>5.1} M ops/s  {:>5.2} x plain  {:>5.2} x the first",
            time.as_secs_f64() * 1e3,
            per_second(count, time) / 1e6,
            time.as_secs_f64() / baseline.as_secs_f64() / (count as f64 / 1e5),
            time.as_secs_f64() / first.as_secs_f64(),
        );
    }
    let disk = appends(100_000, 0).expect("no fault is aimed");
    let seeds = std::cell::Cell::new(0);
    let time = best(|| {
        seeds.set(seeds.get() + 1);
        black_box(disk.images().draw(seeds.get()));
    });
    println!("a power loss with 100,000 appends pending: {:.2} ms", time.as_secs_f64() * 1e3);
}

/// What a log does: append, index now and then, roll, remove the oldest; a sync for every few appends.
fn log_like(process: &Process, operations: usize) -> io::Result<()> {
    process.create_dir("/t")?;
    let mut base = 0;
    let mut open = None;
    for n in 0..operations / 2 {
        if n % 40 == 0 {
            base = n;
            let log = process.open(format!("/t/{base}.log"), Open::CreateNew)?;
            let index = process.open(format!("/t/{base}.index"), Open::CreateNew)?;
            process.sync_dir("/t")?;
            if base >= 80 {
                process.remove_file(format!("/t/{}.log", base - 80))?;
                process.remove_file(format!("/t/{}.index", base - 80))?;
            }
            open = Some((log, index));
        }
        let Some((log, index)) = &open else { continue };
        let nth = (n - base) as u64;
        log.write_at(&RECORD, nth * RECORD.len() as u64)?;
        if n % 3 == 0 {
            index.write_at(&RECORD[..20], nth / 3 * 20)?;
        }
        if n % 4 == 0 {
            log.sync_data()?;
        }
    }
    Ok(())
}

fn history(profile: Profile, operations: usize) -> io::Result<History> {
    let disk = Disk::new(Config::new(profile));
    disk.record();
    log_like(&disk.process(), operations)?;
    disk.take_history().ok_or(io::ErrorKind::NotFound.into())
}

/// A reader of everything, as a recovery is: lists, opens and reads every file.
fn read_all(process: &Process, dir: &str, buf: &mut [u8]) -> io::Result<usize> {
    let mut total = 0;
    for entry in process.list(dir)? {
        let path = format!("{}/{}", dir.trim_end_matches('/'), entry.name);
        if entry.is_dir {
            total += read_all(process, &path, buf)?;
        } else {
            let file = process.open(path, Open::Read)?;
            total += file.read_at(buf, 0)?;
        }
    }
    Ok(total)
}

/// Goes through every prefix of a history; gives the number of images.
fn visit(history: &History, each: &mut impl FnMut(&Images) -> usize) -> usize {
    let mut cursor = history.cursor();
    let mut images = 0;
    loop {
        images += each(&cursor.images());
        if !cursor.advance() {
            return images;
        }
    }
}

/// As many images of a prefix as this; a sample where there are more.
const LIMIT: u64 = 64;

fn some(images: &Images, mut each: impl FnMut(faults::Image)) -> usize {
    if images.count() <= LIMIT.into() {
        images.all().map(&mut each).count()
    } else {
        (0..LIMIT).map(|seed| each(images.draw(seed))).count()
    }
}

fn measure_images(operations: usize) -> io::Result<()> {
    for profile in Profile::ALL {
        let history = history(profile, operations)?;
        let mut buf = vec![0; 1 << 16];
        let mut count = 0;
        let built =
            best(|| count = visit(&history, &mut |images| some(images, |image| drop(black_box(image)))));
        let hashed =
            best(|| _ = visit(&history, &mut |images| some(images, |image| _ = black_box(image.hash()))));
        let read = best(|| {
            _ = visit(&history, &mut |images| {
                some(images, |image| {
                    let disk = image.to_disk(Config::new(profile));
                    _ = black_box(read_all(&disk.process(), "/", &mut buf));
                })
            });
        });
        println!(
            "{profile:<10} {:>5} steps {count:>7} images: built {:>9.0}/s, and hashed {:>9.0}/s, \
             and read whole {:>8.0}/s ({:.2} x built)",
            history.len(),
            per_second(count, built),
            per_second(count, hashed),
            per_second(count, read),
            read.as_secs_f64() / built.as_secs_f64(),
        );
    }
    Ok(())
}

fn main() -> io::Result<()> {
    measure_appends();
    measure_images(60)?;
    measure_images(1000)
}
