//! Guards calls of MPI that wait for others.
//!
//! - **Why.** During such a call, the talker neither receives nor sends signs of life. If another
//!   rank is gone, the call may never return.
//! - **How.** A separate thread checks the talker [`LOOKS`] times within the ranks' patience, or
//!   every [`LOOK_SECONDS`]. A call that is seen by all checks of that time has failed: the inbox
//!   reports the rank that it waits for as lost, and closing the fabric no longer waits for the
//!   talker. Checks are counted, not seconds, so that a process that was itself suspended does not
//!   blame others. The thread starts with the first window.
//! - **Failure.** A third rank receives signs of life from neither rank in that time, and may name
//!   either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::shared::{Phase, Shared, broken};
use crate::Result;
use crate::inbox::Inbox;

/// Minimum number of checks within the patience.
const LOOKS: u32 = 4;
/// The longest time between two checks.
const LOOK_SECONDS: f64 = 1.0;
/// No rank in particular.
const ALL: usize = usize::MAX;

/// Guards the calls made through it.
pub(super) struct Guard {
    calls: Arc<Calls>,
    /// The guard's thread ends once this is dropped.
    _lives: Sender<()>,
}

struct Calls {
    /// Odd during a call.
    count: AtomicU64,
    /// The rank that the call waits for.
    rank: AtomicUsize,
    /// Seconds, as bits.
    patience: AtomicU64,
}

impl Guard {
    /// Returns the guard in `place`, creating it if there is none.
    pub(super) fn within<'a>(
        place: &'a mut Option<Self>,
        patience: f64,
        inbox: &Arc<Inbox>,
        shared: &Arc<Shared>,
    ) -> Result<&'a Self> {
        match place {
            Some(guard) => Ok(guard),
            place => Ok(place.insert(Self::new(patience, Arc::clone(inbox), Arc::clone(shared))?)),
        }
    }

    /// A guard that reports to `inbox` and `shared`.
    fn new(patience: f64, inbox: Arc<Inbox>, shared: Arc<Shared>) -> Result<Self> {
        let calls = Arc::new(Calls {
            count: AtomicU64::new(0),
            rank: AtomicUsize::new(ALL),
            patience: AtomicU64::new(patience.to_bits()),
        });
        let (lives, ends) = channel();
        let of_thread = Arc::clone(&calls);
        let look = move || {
            // The patience may have changed before the next check.
            let pause = || (of_thread.patience() / f64::from(LOOKS)).min(LOOK_SECONDS);
            let wait = || ends.recv_timeout(Duration::from_secs_f64(pause()));
            let (mut last, mut times) = (0, 0);
            while wait() == Err(RecvTimeoutError::Timeout) {
                let count = of_thread.count.load(Ordering::Acquire);
                times = if count == last && count % 2 == 1 { times + 1 } else { 0 };
                last = count;
                if f64::from(times) * pause() >= of_thread.patience() {
                    of_thread.fail(&inbox);
                    shared.enter(Phase::Over);
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("mpi guard".to_owned()).spawn(look);
        thread.map_err(|error| broken(format!("cannot start a thread to watch MPI: {error}")))?;
        Ok(Self { calls, _lives: lives })
    }

    /// Sets the time that calls may wait.
    pub(super) fn be_patient(&self, seconds: f64) {
        self.calls.patience.store(seconds.to_bits(), Ordering::Relaxed);
    }

    /// Makes `call`, which waits for rank `rank`, or for all ranks.
    pub(super) fn during<R>(&self, rank: Option<usize>, call: impl FnOnce() -> R) -> R {
        self.calls.rank.store(rank.unwrap_or(ALL), Ordering::Relaxed);
        self.calls.count.fetch_add(1, Ordering::Release);
        let result = call();
        self.calls.count.fetch_add(1, Ordering::Release);
        result
    }
}

impl Calls {
    fn patience(&self) -> f64 {
        f64::from_bits(self.patience.load(Ordering::Relaxed))
    }

    fn fail(&self, inbox: &Inbox) {
        let seconds = self.patience();
        match self.rank.load(Ordering::Relaxed) {
            ALL => inbox.breaks(broken(format!(
                "MPI did not open a window within {seconds} s (ranks.timeout): a rank \
                 did not take part, or MPI cannot; with OMPI_MCA_osc=pt2pt Open MPI needs no \
                 shared memory for it"
            ))),
            rank => inbox.lost(
                rank,
                &format!("data put there did not arrive within {seconds} s (ranks.timeout)"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn who_holds_up_a_call_is_lost_and_who_comes_back_is_not() {
        let (inbox, shared) = (Inbox::new(3), Arc::new(Shared::new(3)));
        let guard = Guard::new(60.0, Arc::clone(&inbox), Arc::clone(&shared)).unwrap();
        drop(guard);
        let guard = Guard::new(0.2, Arc::clone(&inbox), Arc::clone(&shared)).unwrap();
        for _ in 0..20 {
            guard.during(Some(1), || std::thread::sleep(Duration::from_millis(20)));
        }
        assert_eq!(inbox.check(), Ok(()));
        guard.during(Some(2), || {
            while inbox.check().is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let error = inbox.check().unwrap_err();
        assert!(matches!(error, Error::Lost { rank: 2, .. }), "{error}");
        assert_eq!(shared.lock().phase, Phase::Over);
    }
}
