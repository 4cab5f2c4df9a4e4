//! Progress of a read or write that the system may split.
//!
//! - **How.** Each attempt starts at `from`, and the system returns how many bytes it moved. A
//!   short attempt is followed by one for the rest, starting at a multiple of `step`, as direct
//!   files require. An attempt that gets no further than the previous one has found the end of the
//!   file (or a device that takes no more).
//! - **Invariants.** `from` is a multiple of `step` and only grows; `from <= reached < bytes` until
//!   done.
//! - **Bounds.** Temporary failures are retried [`RETRIES_MAX`] times in a row.

use std::io;

/// The most bytes of one attempt: below the system's own bound, and whole blocks.
const ATTEMPT_BYTES_MAX: usize = 1 << 30;

/// The most retries in a row after an attempt was interrupted or cancelled.
const RETRIES_MAX: u32 = 64;

/// The state of one read or write.
#[derive(Debug)]
pub(crate) struct Progress {
    bytes: usize,
    step: usize,
    from: usize,
    reached: usize,
    retries: u32,
    short: io::ErrorKind,
}

/// Next step after an attempt.
#[derive(Debug)]
pub(crate) enum Next {
    /// Finish: all bytes were moved.
    Done,
    /// Make another attempt.
    Again,
    /// Fail with this error.
    Failed(io::Error),
}

impl Progress {
    /// Starts a read of `bytes` bytes in whole `step`s.
    pub(crate) fn of_read(bytes: usize, step: usize) -> Self {
        Self { bytes, step, from: 0, reached: 0, retries: 0, short: io::ErrorKind::UnexpectedEof }
    }

    /// Starts a write of `bytes` bytes in whole `step`s.
    pub(crate) fn of_write(bytes: usize, step: usize) -> Self {
        Self { short: io::ErrorKind::WriteZero, ..Self::of_read(bytes, step) }
    }

    /// Number of bytes of the whole operation.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Start of the next attempt.
    pub(crate) fn from(&self) -> usize {
        self.from
    }

    /// End of the next attempt.
    pub(crate) fn to(&self) -> usize {
        self.bytes.min(self.from + ATTEMPT_BYTES_MAX)
    }

    /// Records an attempt's outcome; returns what to do next.
    pub(crate) fn after(&mut self, outcome: io::Result<usize>) -> Next {
        let moved = match outcome {
            Ok(moved) => moved,
            Err(error) if goes_away(&error) && self.retries < RETRIES_MAX => {
                self.retries += 1;
                return Next::Again;
            }
            Err(error) => return Next::Failed(error),
        };
        let reached = self.from + moved;
        assert!(reached <= self.bytes, "the system moved more bytes than it was asked to");
        if reached == self.bytes {
            return Next::Done;
        }
        if reached <= self.reached {
            return Next::Failed(self.short.into());
        }
        self.reached = reached;
        self.from = reached - reached % self.step;
        self.retries = 0;
        Next::Again
    }
}

/// Whether a retry may succeed. An operation is cancelled if the thread that started it ends first.
fn goes_away(error: &io::Error) -> bool {
    let cancelled = rustix::io::Errno::CANCELED.raw_os_error();
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
        || error.raw_os_error() == Some(cancelled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds outcomes and checks where each next attempt starts.
    fn check(mut progress: Progress, steps: &[(usize, usize)]) -> Progress {
        for (moved, from) in steps {
            assert!(matches!(progress.after(Ok(*moved)), Next::Again), "{progress:?}");
            assert_eq!(progress.from(), *from);
        }
        progress
    }

    #[test]
    fn the_rest_of_a_short_attempt_is_asked_for() {
        let mut plain = check(Progress::of_read(100, 1), &[(40, 40), (10, 50)]);
        assert!(matches!(plain.after(Ok(50)), Next::Done));
        let direct = Progress::of_write(16_384, 4096);
        let mut direct = check(direct, &[(5_000, 4096), (4_096 + 512, 8192)]);
        assert!(matches!(direct.after(Ok(8_192)), Next::Done));
    }

    #[test]
    fn no_further_is_the_end() {
        for (step, attempts) in [(1, &[][..]), (4096, &[(1_000, 0)][..])] {
            let mut progress = check(Progress::of_read(8_192, step), attempts);
            let again = attempts.last().map_or(0, |(moved, _)| *moved);
            let Next::Failed(error) = progress.after(Ok(again)) else { panic!("{progress:?}") };
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
        let Next::Failed(error) = Progress::of_write(10, 1).after(Ok(0)) else { panic!() };
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn interruptions_are_met_often_but_not_for_ever() {
        let mut progress = Progress::of_read(10, 1);
        for _ in 0..RETRIES_MAX {
            let interrupted = Err(io::ErrorKind::Interrupted.into());
            assert!(matches!(progress.after(interrupted), Next::Again));
        }
        let blocked = Err(io::ErrorKind::WouldBlock.into());
        assert!(matches!(progress.after(blocked), Next::Failed(_)));
        let mut progress = Progress::of_read(10, 1);
        let cancelled = rustix::io::Errno::CANCELED.raw_os_error();
        let cancelled = Err(io::Error::from_raw_os_error(cancelled));
        assert!(matches!(progress.after(cancelled), Next::Again));
    }

    #[test]
    fn huge_operations_go_in_parts() {
        let mut progress = Progress::of_read(3 << 30, 4096);
        assert_eq!(progress.to(), 1 << 30);
        assert!(matches!(progress.after(Ok(1 << 30)), Next::Again));
        assert_eq!((progress.from(), progress.to()), (1 << 30, 2 << 30));
    }
}
