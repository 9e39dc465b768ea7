//! Topics and partitions that a hand has taken away with all their files: nobody asks for them any more.

use super::paths::InPartition;
use crate::trace::Image;

/// Where a hand has taken files of a topic away, and of its settings, which say how many partitions it has, none are left: how
/// many there still are.
pub fn left_of(topic: &str, before: &Image, after: &Image) -> Option<usize> {
    let inside = format!("{topic}/");
    let of_topic = |image: &Image| -> Vec<std::sync::Arc<str>> {
        let paths = image.0.iter().map(|file| file.path.clone());
        paths.filter(|path| path.starts_with(&inside)).collect()
    };
    let left = of_topic(after);
    if left.len() >= of_topic(before).len() || after.get(&format!("{topic}/topic")).is_some() {
        return None;
    }
    let numbers =
        left.iter().filter_map(|path| InPartition::of(path)).map(|place| place.partition as usize + 1);
    Some(numbers.max().unwrap_or(0))
}
