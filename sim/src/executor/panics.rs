//! A panic in the broker, or in the harness, is a finding: what it said, and where, is kept for the report instead of being
//! printed.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread is in the middle of a run.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    /// What the first panic of the run said: the later ones follow from it.
    static WORDS: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs it, in the middle of what is run in this way already or not; a panic gives its words and its place.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if WATCHED.get() {
                WORDS.with_borrow_mut(|words| _ = words.get_or_insert_with(|| info.to_string()));
            } else {
                before(info);
            }
        }));
    });
    WORDS.set(None);
    let outside = WATCHED.replace(true);
    let ran = catch_unwind(AssertUnwindSafe(run));
    WATCHED.set(outside);
    ran.map_err(|_| WORDS.take().unwrap_or_else(|| "a panic without words".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_after_one_that_was_caught_inside_is_caught_with_its_own_words() {
        let outside = caught(|| {
            let inside: Result<(), String> = caught(|| panic!("the first"));
            assert!(inside.is_err_and(|words| words.contains("the first")));
            panic!("the second");
        });
        let words: Result<(), String> = outside;
        assert!(words.is_err_and(|words| words.contains("the second")));
    }
}
