//! Options of communication, and state that callers and the talker share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Error;
use crate::carrier::{KnownBy, WindowNumber};

/// Words of a piece by default: 64 MiB.
pub const PIECE_WORDS: usize = 1 << 23;
/// The most parcels that wait for one receiver.
pub const WAITING_MAX: usize = 4096;
/// The most pieces for one receiver that MPI has at a time.
pub const PIECES_MAX: usize = 8;
/// How long a process waits for others after a failure, and for MPI to finalise.
pub const GRACE: Duration = Duration::from_secs(3);
/// A rank that is gone without having ended left because of another one, which must report its
/// reason within this time, or else the rank is lost.
pub const EXPLAINED: Duration = Duration::from_secs(1);
/// How long the talker stays awake after an event.
pub const SPIN: Duration = Duration::from_micros(200);
/// How long the talker stays awake after an event while MPI has something in flight.
pub const SPIN_UNDER_WAY: Duration = Duration::from_millis(100);
/// The talker's first sleep; later ones double.
pub const NAP_MIN: Duration = Duration::from_micros(20);
/// The talker's longest sleep.
pub const NAP_MAX: Duration = Duration::from_micros(200);

/// How puts go into windows of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Puts {
    /// As messages, which the receiver's talker copies.
    Messages,
    /// By MPI into memory of the receiver, without its help; as messages if MPI cannot do that.
    OneSided,
}

/// Options of communication, the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Seconds after which a silent rank is lost, unless
    /// [`Fabric::be_patient`](crate::Fabric::be_patient) sets another number.
    pub patience_seconds: f64,
    /// Words sent at once.
    pub piece_words: usize,
    /// How puts are sent.
    pub puts: Puts,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience_seconds: 60.0, piece_words: PIECE_WORDS, puts: Puts::OneSided }
    }
}

/// State that callers and the talker share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Whether the state has something for the talker, which checks this far more often. It is set
    /// with the state locked.
    pub(super) is_fresh: AtomicBool,
    /// Wakes the talker when something is to be sent.
    pub(super) wake: Condvar,
    /// Signals a change of phase.
    pub(super) turn: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) receivers: Vec<Receiver>,
    /// Windows opened on this rank that the talker does not know yet, and their bytes.
    pub(super) opened: Vec<(WindowNumber, usize)>,
    pub(super) is_asleep: bool,
    /// Whether this rank sent others its failure.
    pub(super) has_failed: bool,
    pub(super) is_closing: bool,
    /// A new patience, and who knows it.
    pub(super) patience: Option<(f64, KnownBy)>,
    pub(super) phase: Phase,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Receiver {
    pub(super) queue: VecDeque<Vec<u64>>,
    /// Whether it received this rank's end or failure.
    pub(super) is_told: bool,
    pub(super) is_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Talking,
    Finalising,
    Over,
}

impl Shared {
    pub(super) fn new(size: usize) -> Self {
        let state = State {
            receivers: vec![Receiver::default(); size],
            opened: Vec::new(),
            is_asleep: false,
            has_failed: false,
            is_closing: false,
            patience: None,
            phase: Phase::Talking,
        };
        let (wake, turn) = (Condvar::new(), Condvar::new());
        Self { state: Mutex::new(state), is_fresh: AtomicBool::new(false), wake, turn }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the talker for the content of `state`.
    pub(super) fn wake(&self, state: MutexGuard<'_, State>) {
        self.is_fresh.store(true, Ordering::Release);
        let is_asleep = state.is_asleep;
        drop(state);
        if is_asleep {
            self.wake.notify_one();
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.lock().phase = phase;
        self.turn.notify_all();
    }
}

pub(super) fn broken(why: String) -> Error {
    Error::Carrier { why }
}
