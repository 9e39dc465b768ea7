//! A run that never yields cannot be stopped from within its thread. Whoever waits for runs therefore gives each a time, real time
//! that no run sees, and says what to do when it is over.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long a run may take, where nobody says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Something that is being waited for; dropped when it has come to its end.
#[derive(Debug)]
pub struct Watch {
    _running: Sender<()>,
}

/// Does `late` after this time, on a thread of its own, unless what is given back is dropped before. Where the system has no
/// thread for it, nobody watches.
pub fn watch(patience: Duration, late: impl FnOnce() + Send + 'static) -> Watch {
    let (running, ended) = channel();
    let wait = move || {
        if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            late();
        }
    };
    let _ = std::thread::Builder::new().name("patience".to_owned()).spawn(wait);
    Watch { _running: running }
}

/// Asks this from time to time, on a thread of its own, and does `late` with the first answer, unless what is given back is dropped
/// before.
pub fn watch_for<T>(
    every: Duration,
    ask: impl Fn() -> Option<T> + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> Watch {
    let (running, ended) = channel();
    let wait = move || {
        while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            if let Some(what) = ask() {
                return late(what);
            }
        }
    };
    let _ = std::thread::Builder::new().name("patience".to_owned()).spawn(wait);
    Watch { _running: running }
}

/// Runs it on a thread of its own; `None` where it has not come to its end after this time. The thread then goes on, and ends
/// with the process.
pub fn within<T: Send + 'static>(
    patience: Duration,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Option<T>> {
    let (tell, told) = channel();
    let thread = std::thread::Builder::new().spawn(move || _ = tell.send(run()))?;
    match told.recv_timeout(patience) {
        Ok(value) => Ok(Some(value)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => Ok(None),
        },
    }
}

/// Runs it on a thread of its own, and asks this from time to time meanwhile: an answer ends the waiting, and is what comes
/// of it. The thread then goes on, and ends with the process.
pub fn run_unless<T: Send + 'static, A>(
    every: Duration,
    ask: impl Fn() -> Option<A>,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Result<T, A>> {
    let (tell, told) = channel();
    let thread = std::thread::Builder::new().spawn(move || _ = tell.send(run()))?;
    loop {
        match told.recv_timeout(every) {
            Ok(value) => return Ok(Ok(value)),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(answer) = ask() {
                    return Ok(Err(answer));
                }
            }
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Err(std::io::Error::other("the thread has told nothing")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_late_is_told() {
        let (tell, told) = channel();
        let second = tell.clone();
        let in_time = watch(Duration::from_secs(60), move || _ = tell.send("in time"));
        let late = watch(Duration::from_millis(1), move || _ = second.send("late"));
        assert_eq!(told.recv(), Ok("late"));
        drop((in_time, late));
        assert!(told.recv().is_err(), "whoever was in time tells nothing");
    }

    #[test]
    fn who_is_asked_again_and_again_tells_once() {
        let (tell, told) = channel();
        let mut answers = vec![Some("late"), None, None];
        let answers = std::sync::Mutex::new(std::mem::take(&mut answers));
        let ask = move || answers.lock().ok()?.pop()?;
        let watch = watch_for(Duration::from_millis(1), ask, move |what| _ = tell.send(what));
        assert_eq!(told.recv(), Ok("late"));
        assert!(told.recv().is_err());
        drop(watch);
    }

    #[test]
    fn what_hangs_is_left_behind_once_somebody_says_so() {
        let every = Duration::from_millis(1);
        assert_eq!(run_unless(every, || None::<()>, || 7).ok(), Some(Ok(7)));
        let (_keep, never) = channel::<()>();
        assert_eq!(run_unless(every, || Some("late"), move || never.recv()).ok(), Some(Err("late")));
    }

    #[test]
    fn what_takes_too_long_is_left_behind() {
        assert_eq!(within(Duration::from_secs(60), || 7).ok(), Some(Some(7)));
        let (_keep, never) = channel::<()>();
        assert_eq!(within(Duration::from_millis(1), move || never.recv()).ok(), Some(None));
    }
}
