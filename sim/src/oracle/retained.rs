//! P2: retention takes no more than it must. The oldest segment of a partition goes while all of them together are over the bytes
//! that are to be kept, and none where nothing is to go. How old a segment is, is left to scenarios: two looks at a clock that
//! jumps decide that.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::look::name;
use super::model::Model;
use super::paths::is_log;
use super::{Findings, Promise};
use crate::trace::Image;

/// How long each log is, as far as the disk has told.
#[derive(Clone, Debug, Default)]
pub(super) struct Logs(BTreeMap<Arc<str>, u64>);

impl Logs {
    /// The logs among these files.
    pub(super) fn of(image: &Image) -> Self {
        let logs = image.0.iter().filter(|file| is_log(&file.path));
        Self(logs.map(|file| (file.path.clone(), file.bytes.len() as u64)).collect())
    }

    /// Bytes were written up to this position.
    pub(super) fn written(&mut self, path: &Arc<str>, end: u64) {
        let bytes = self.0.entry(path.clone()).or_default();
        *bytes = (*bytes).max(end);
    }

    /// A log was cut, or made longer.
    pub(super) fn resized(&mut self, path: &Arc<str>, bytes: u64) {
        self.0.insert(path.clone(), bytes);
    }

    /// A log goes.
    pub(super) fn removed(&mut self, path: &str) {
        self.0.remove(path);
    }

    /// A directory has another name now, and what is in it is no log of anybody's any more.
    pub(super) fn renamed(&mut self, directory: &str) {
        let inside = format!("{directory}/");
        self.0.retain(|path, _| !path.starts_with(&inside));
    }

    /// Whether there is anything in this one.
    pub(super) fn holds_any(&self, path: &str) -> bool {
        self.0.get(path).is_some_and(|bytes| *bytes > 0)
    }

    /// The bytes of all logs of a partition.
    fn bytes(&self, topic: &str, partition: u32) -> u64 {
        let dir = format!("{topic}/{partition}/");
        let from = self.0.range(Arc::<str>::from(dir.as_str())..);
        from.take_while(|(path, _)| path.starts_with(&dir)).map(|(_, bytes)| bytes).sum()
    }
}

/// A broker that serves removes a log. `logs`: all that there are until then.
pub(super) fn removes(f: &mut Findings, model: &Model, logs: &Logs, (topic, partition): (&str, u32)) {
    let Some(known) = model.topics.get(topic).filter(|known| !known.uncertain && !model.lying) else {
        return;
    };
    let Some(log) = known.partitions.get(partition as usize) else { return };
    let keep = known.own.or(model.retention);
    if log.harm.explains_missing_records() || keep.age_ms.is_some() {
        return;
    }
    let bytes = logs.bytes(topic, partition);
    let (expected, found) = match keep.bytes {
        Some(kept) if bytes > kept => return,
        Some(kept) => {
            (format!("all of it: up to {kept} bytes are kept"), format!("a segment goes of {bytes} bytes"))
        }
        None => ("all of it: nothing is to go".to_owned(), "a segment goes".to_owned()),
    };
    f.broke(Promise::Kept, "removed too soon", name(topic, partition), (expected, found), &[]);
}
