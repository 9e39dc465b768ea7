//! What a scenario does to files behind the broker's back.

use std::sync::Arc;

use super::stage::Stage;
use crate::oracle::decode;
use crate::scenario::{Entry, FilePosition, Surgery};
use crate::trace::{Event, Image, Moment};
use crate::world::DATA;

/// Changes files; an image before and one after tell the oracle what was destroyed and what was written.
/// Where the change may miss, that there is nothing to change is no error.
pub(super) fn operate(
    stage: &Stage,
    text: &str,
    surgery: &Surgery,
    may_miss: bool,
    round: u64,
) -> Result<String, String> {
    let image = stage.host.image();
    stage.recorder.add(Event::Image { moment: Moment::Untouched, image: image.clone() });
    let done = carry_out(&Files { stage, image: &image }, surgery, round);
    stage.mark_history();
    let Done { file, said } = match done {
        Err(_) if may_miss => return Ok("nothing there".to_owned()),
        other => other?,
    };
    if shows(surgery) && stage.host.image() == image {
        if may_miss {
            return Ok("nothing to change there".to_owned());
        }
        return Err(format!("{file} is as it was: there is nothing to change"));
    }
    stage.recorder.add(Event::Surgery { path: file.into(), text: text.into() });
    stage.host.record_image(Moment::Touched);
    forget_what_is_gone(stage, &image);
    Ok(said)
}

/// Nobody asks a topic, or a partition, of which nothing is left.
fn forget_what_is_gone(stage: &Stage, before: &Image) {
    let after = stage.host.image();
    stage.topics.borrow_mut().retain(|topic, partitions| {
        let left = before.partitions_left(&after, topic).and_then(|left| u32::try_from(left).ok());
        *partitions = left.map_or(*partitions, |left| left.min(*partitions));
        *partitions > 0
    });
}

/// Whether files are other ones afterwards: directories and sectors are in no image.
fn shows(surgery: &Surgery) -> bool {
    !matches!(surgery, Surgery::MakeDir { .. } | Surgery::Delete { .. } | Surgery::Unreadable { .. })
}

fn carry_out(files: &Files<'_>, surgery: &Surgery, round: u64) -> Result<Done, String> {
    match surgery {
        Surgery::Corrupt { file, at, xor, bytes } => files.corrupt(file, *at, *xor, *bytes),
        Surgery::Truncate { file, to } => files.truncate(file, *to),
        Surgery::Zeros { file, at, bytes } => files.zeros(file, *at, *bytes),
        Surgery::Write { file, at, bytes } => files.write(file, *at, &bytes.bytes(0, round)),
        Surgery::WriteRecord { file, at, offset, timestamp, key, value } => {
            let key = key.as_ref().map(|k| k.bytes(0, round));
            let record = decode::record(*offset, *timestamp, key.as_deref(), &value.bytes(0, round));
            files.write(file, *at, &record)
        }
        Surgery::WriteEntry { file, at, entry } => {
            let (first, second) = match entry {
                Entry::Position { offset, position } => (*offset, *position),
                Entry::Time { timestamp, offset } => (*timestamp, *offset),
            };
            files.write(file, *at, &decode::entry(first, second))
        }
        Surgery::Delete { file } => files.delete(file),
        Surgery::Copy { file, to } => files.copy(file, to),
        Surgery::Rename { file, to } => files.rename(file, to),
        Surgery::MakeDir { dir } => files.make_dir(dir),
        Surgery::Unreadable { file, at } => files.make_unreadable(file, *at),
    }
}

/// What was done.
struct Done {
    /// To which file.
    file: String,
    /// What a snapshot shows of it.
    said: String,
}

impl Done {
    fn to(file: String) -> Self {
        Self { file, said: String::new() }
    }
}

/// The files as they are, and the disk that they lie on.
struct Files<'a> {
    stage: &'a Stage,
    image: &'a Image,
}

impl Files<'_> {
    fn disk(&self) -> &faults::Disk {
        &self.stage.host.disk
    }

    fn existing(&self, file: &str) -> Result<(String, Arc<[u8]>), String> {
        let file = resolve(self.image, file)?;
        let found = self.image.get(&file).cloned();
        found.map(|bytes| (file.clone(), bytes)).ok_or_else(|| format!("there is no file {file}"))
    }

    fn put(&self, file: &str, bytes: &[u8]) -> Result<(), String> {
        self.disk().put(path(file), bytes).map_err(failed(file))
    }

    fn take_away(&self, file: &str) -> Result<(), String> {
        self.disk().delete(path(file)).map_err(failed(file))
    }

    fn corrupt(&self, file: &str, at: FilePosition, xor: u8, bytes: u64) -> Result<Done, String> {
        let (file, found) = self.existing(file)?;
        let at = place(at, found.len())?;
        let (end, len) = (at.saturating_add(bytes), found.len() as u64);
        if end > len {
            return Err(format!(
                "{file} has {len} bytes: there is no byte {}",
                end.saturating_sub(1).max(len)
            ));
        }
        for byte in at..end {
            self.disk().corrupt(path(&file), byte, xor).map_err(failed(&file))?;
        }
        let said = damaged(self.image, &file, at, bytes);
        Ok(Done { file, said })
    }

    fn truncate(&self, file: &str, to: FilePosition) -> Result<Done, String> {
        let (file, found) = self.existing(file)?;
        let to = place(to, found.len())?;
        self.disk().truncate(path(&file), to).map_err(failed(&file))?;
        Ok(Done { file, said: format!("{} → {to} bytes", found.len()) })
    }

    fn zeros(&self, file: &str, at: Option<FilePosition>, bytes: u64) -> Result<Done, String> {
        let (file, found) = self.existing(file)?;
        let at = place_or_end(at, found.len())?;
        self.disk().zero(path(&file), at, bytes).map_err(failed(&file))?;
        Ok(Done::to(file))
    }

    fn write(&self, file: &str, at: Option<FilePosition>, bytes: &[u8]) -> Result<Done, String> {
        let file = resolve(self.image, file)?;
        match self.image.get(&file) {
            None => self.put(&file, bytes)?,
            Some(found) => {
                let at = place_or_end(at, found.len())?;
                self.disk().overwrite(path(&file), at, bytes).map_err(failed(&file))?;
            }
        }
        Ok(Done::to(file))
    }

    fn delete(&self, file: &str) -> Result<Done, String> {
        let file = resolve(self.image, file)?;
        self.take_away(&file)?;
        Ok(Done::to(file))
    }

    fn copy(&self, file: &str, to: &str) -> Result<Done, String> {
        let (file, found) = self.existing(file)?;
        self.put(&resolve(self.image, to)?, &found)?;
        Ok(Done::to(file))
    }

    fn rename(&self, file: &str, to: &str) -> Result<Done, String> {
        let (file, found) = self.existing(file)?;
        let to = resolve(self.image, to)?;
        if to == file {
            return Err(format!("{file} has that name already"));
        }
        self.put(&to, &found)?;
        self.take_away(&file)?;
        Ok(Done::to(file))
    }

    fn make_dir(&self, dir: &str) -> Result<Done, String> {
        let dir = resolve(self.image, dir)?;
        match self.disk().make_dir(path(&dir)) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(format!("{dir} is as it was: there is something of this name"))
            }
            made => made.map_err(failed(&dir)).map(|()| Done::to(dir)),
        }
    }

    fn make_unreadable(&self, file: &str, at: FilePosition) -> Result<Done, String> {
        let (file, found) = self.existing(file)?;
        let at = place(at, found.len())?;
        self.disk().make_unreadable(path(&file), at).map_err(failed(&file))?;
        self.stage.mark_history();
        self.stage.unreadable.set(true);
        self.stage.recorder.add(Event::Fault {
            text: format!("the sector of byte {at} cannot be read").into(),
            path: Some(file.as_str().into()),
            damages: true,
        });
        Ok(Done::to(file))
    }
}

/// What an error of the disk says of a file.
fn failed(file: &str) -> impl Fn(std::io::Error) -> String {
    move |e| format!("{file}: {e}")
}

/// Whose record a flipped byte is in.
fn damaged(image: &Image, file: &str, at: u64, bytes: u64) -> String {
    let (Some(log), true) = (image.get(file), file.ends_with(".log")) else { return String::new() };
    let base = file.rsplit('/').next().and_then(|name| decode::base_offset(name.trim_end_matches(".log")));
    let pieces = decode::log(log, base.unwrap_or(0));
    let hit = pieces.iter().filter_map(|piece| match piece {
        decode::Piece::Record(r) if r.position < at + bytes && at < r.position + r.len => Some(r.offset),
        _ => None,
    });
    let hit: Vec<String> = hit.map(|offset| format!("offset {offset}")).collect();
    hit.join(", ")
}

fn path(file: &str) -> String {
    format!("{DATA}/{file}")
}

/// A name with `@first`, `@last` or `@N` in the place of the segment's twenty digits.
pub(super) fn resolve(image: &Image, file: &str) -> Result<String, String> {
    let Some((dir, rest)) = file.split_once('@') else { return Ok(file.to_owned()) };
    let (which, ending) = rest.split_once('.').unwrap_or((rest, ""));
    let logs: Vec<&str> = image
        .0
        .iter()
        .filter_map(|f| f.path.strip_prefix(dir)?.strip_suffix(".log"))
        .filter(|name| decode::base_offset(name).is_some())
        .collect();
    let found = match which {
        "first" => logs.first(),
        "last" => logs.last(),
        number => number.parse::<usize>().ok().and_then(|n| logs.get(n)),
    };
    let stem = found.ok_or_else(|| no_segment(file, dir, logs.len()))?;
    Ok(if ending.is_empty() { format!("{dir}{stem}") } else { format!("{dir}{stem}.{ending}") })
}

/// Why `@` stands for nothing here.
fn no_segment(file: &str, dir: &str, segments: usize) -> String {
    match (dir.trim_end_matches('/'), segments) {
        (dir, 0) => {
            let dir = if dir.is_empty() { "the data directory itself" } else { dir };
            format!(
                "{file}: {dir} has no segments; those of a partition are in its directory: `orders/0/@last.log`"
            )
        }
        (dir, 1) => format!("{file}: {dir} has 1 segment, `@0`"),
        (dir, some) => format!("{file}: {dir} has {some} segments, `@0` to `@{}`", some - 1),
    }
}

/// A byte position.
fn place(place: FilePosition, len: usize) -> Result<u64, String> {
    let len = len as u64;
    match place {
        FilePosition::Byte(at) if at >= 0 => Ok(at.unsigned_abs()),
        FilePosition::Byte(at) => {
            let back = at.unsigned_abs();
            len.checked_sub(back).ok_or_else(|| format!("the file has only {len} bytes"))
        }
        FilePosition::Percent(_) if len == 0 => Err("the file is empty".to_owned()),
        FilePosition::Percent(percent) => Ok(len * u64::from(percent) / 100),
    }
}

fn place_or_end(at: Option<FilePosition>, len: usize) -> Result<u64, String> {
    at.map_or(Ok(len as u64), |at| place(at, len))
}
