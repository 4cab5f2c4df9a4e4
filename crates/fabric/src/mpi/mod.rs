//! Ranks as processes that an MPI launcher started.
//!
//! ```text
//!  carry ──► queue of the receiver ──► talker ══ MPI ══► talker of the receiver ──► its Inbox
//! ```
//!
//! - **Why.** MPI is there on clusters, uses whatever joins their machines, and starts the
//!   processes.
//! - **How.** One thread of a process, the talker, makes all calls of MPI, from the first to the
//!   last: to MPI it is the main thread, so that `MPI_THREAD_FUNNELED` is enough. A parcel is the
//!   words of its message and two more (`wire`). They are sent where they lie, and the memory goes
//!   to the inbox for others. The receiver learns the length from a matched probe and has them
//!   written where they stay.
//! - **Puts.** Windows lie in memory of MPI's own windows, once all ranks have opened theirs; the
//!   sender's talker writes into it (`MPI_Put`) and waits until that is done (`MPI_Win_flush`), and
//!   the receiver does nothing for it ([why
//!   so](../../../../docs/decisions/0022-one-sided-puts.md)). Opening, order, waking and closing:
//!   `puts`; memory: `rma`. With the first window ranks find out whether MPI can do that (`trial`).
//!   Where it cannot, where a machine has no room for a window (`room`), and with
//!   [`Puts::Messages`], puts go as parcels.
//! - **Order.** All parcels have one tag on one communicator of their own, where MPI keeps the
//!   order of a pair. Each receiver takes the messages of a sender one after another. A put is over
//!   before the next parcel to its receiver leaves, and may overtake those that left before.
//! - **Pieces.** MPI counts in 31 bits, and copies all of a piece in one call, in which the talker
//!   hears and says nothing. So parcels go in pieces of [`Options::piece_words`]; one that is
//!   shorter, or empty, is the last. It is the same on all ranks.
//! - **Waiting.** For [`SPIN`] after the last event, or [`SPIN_UNDER_WAY`] while something is under
//!   way, the talker looks again at once, giving way to other threads; then it sleeps for
//!   [`NAP_MIN`] to [`NAP_MAX`] between looks, and parcels wake it.
//! - **Failure.** Every rank tells the others four times in the time that they are patient that it
//!   is alive. Who is not heard of for so long is lost to the inbox, unless it has ended. One that
//!   was held up itself, as by a stop signal, does not blame the others for that time. MPI's faults
//!   are errors, as far as MPI lets them be: some end the process. And `mpirun` ends all ranks once
//!   one is killed, unless it is started with `--enable-recovery`.
//! - **Failure while ranks put.** The talker is deaf and mute while it waits for a put. That is why
//!   puts that need the receiver's help are not used: where one is stopped or killed, they never
//!   end, and a third rank hears neither of the two. Memory that processes of a machine share stays
//!   when its owner is gone: what is put there is lost with it, and it is named as ever, by its
//!   silence. Hardware between machines writes without the owner, too, and says so itself where it
//!   cannot. Against a put, or a window, that takes longer than ranks are patient there is a guard
//!   (`guard`), which names the receiver; a third rank may then name either.
//! - **End.** The last end of the fabric that is dropped closes it. Who has not ended by then has
//!   failed to the others. All that was sent leaves; then everybody says that it is gone, waits for
//!   all others to say so, and finalises MPI. After a failure it waits for them no longer than
//!   [`GRACE`]. Where not all have said it, MPI is not finalised, as that would wait for them for
//!   ever; nor is it aborted, as others may still be saving what they have. The launcher, who sees
//!   a process end so, ends those that are left. Finalising has [`GRACE`], too, after which the
//!   process goes on without.
//! - **Bounds.** [`WAITING_MAX`] parcels wait for each receiver, and one more is refused. MPI has
//!   [`PIECES_MAX`] pieces for each receiver and a sign of life at a time. Of each sender one is
//!   received at a time; small ones that MPI took at once wait inside it. What is whole is the
//!   inbox's, who counts it.

pub mod alltoallv;
mod guard;
pub mod launcher;
mod peer;
mod puts;
#[expect(unsafe_code, reason = "MPI works on memory while others do other things")]
mod raw;
#[expect(unsafe_code, reason = "other processes write into windows")]
mod rma;
mod room;
mod talker;
mod trial;
mod watch;
mod wire;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Carrier, Error, Fabric, Inbox, Message, Parcel, Result, WindowNumber};

/// Words of a piece, where nothing else is said: 64 MiB.
pub const PIECE_WORDS: usize = 1 << 23;
/// Parcels that wait for one receiver.
pub const WAITING_MAX: usize = 4096;
/// Pieces for one receiver that MPI works on.
pub const PIECES_MAX: usize = 8;
/// How long a process waits for others after a failure, and for MPI to finalise.
pub const GRACE: Duration = Duration::from_secs(3);
/// A rank that is gone without having ended goes because of another, who says so within this time,
/// or else is lost.
pub const EXPLAINED: Duration = Duration::from_secs(1);
/// How long the talker is awake after an event.
pub const SPIN: Duration = Duration::from_micros(200);
/// The same while MPI has something to do.
pub const SPIN_UNDER_WAY: Duration = Duration::from_millis(100);
/// The talker's first sleep; the next are twice as long.
pub const NAP_MIN: Duration = Duration::from_micros(20);
/// Its longest.
pub const NAP_MAX: Duration = Duration::from_micros(200);

/// How puts go into windows of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Puts {
    /// As messages, which the receiver's talker copies.
    Messages,
    /// By MPI into memory of the receiver, who does nothing for it; as messages where MPI cannot.
    OneSided,
}

/// How ranks talk; the same on all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Seconds after which a rank that was not heard of is lost, unless [`Fabric::be_patient`] says
    /// otherwise.
    pub patience_seconds: f64,
    /// Words that are sent at once.
    pub piece_words: usize,
    /// How puts go.
    pub puts: Puts,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience_seconds: 60.0, piece_words: PIECE_WORDS, puts: Puts::OneSided }
    }
}

/// Whether an MPI launcher started this process.
pub fn is_launched() -> bool {
    // Open MPI, PMIx (also srun), MPICH and Intel MPI, MVAPICH.
    let said_by =
        ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK", "MV2_COMM_WORLD_SIZE"];
    said_by.iter().any(|name| std::env::var_os(name).is_some())
}

/// This process's end of the fabric of all that were launched with it, once all have come here;
/// none where an MPI launcher did not start it.
///
/// # Errors
/// When MPI does not work, or was used in this process before.
pub fn join(options: Options) -> Result<Option<Fabric>> {
    if !is_launched() {
        return Ok(None);
    }
    let Options { patience_seconds, piece_words, .. } = options;
    if !(patience_seconds > 0.0 && (1..=i32::MAX as usize).contains(&piece_words)) {
        return Err(broken(format!("{options:?} make no sense")));
    }
    let (ready, outcome) = sync_channel(1);
    let talk = move || talker::run(options, &ready);
    let thread = std::thread::Builder::new().name("mpi".to_owned()).spawn(talk);
    thread.map_err(|error| broken(format!("no thread for MPI: {error}")))?;
    let gone = |_| Err(broken("the thread for MPI is gone".to_owned()));
    let (place, inbox, shared) = outcome.recv().unwrap_or_else(gone)?;
    let carrier = Mpi { own: place.0, inbox: Arc::clone(&inbox), shared };
    Ok(Some(Fabric::new(place, inbox, Arc::new(carrier))))
}

fn broken(why: String) -> Error {
    Error::Carrier { why }
}

/// What callers and the talker share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The state has something for the talker, who looks at this far more often. It is set with
    /// the state locked.
    is_fresh: AtomicBool,
    /// Something is to be sent.
    wake: Condvar,
    /// The phase is another one.
    turn: Condvar,
}

#[derive(Debug)]
struct State {
    receivers: Vec<Receiver>,
    /// Windows that were opened here and of which the talker does not know yet, and their bytes.
    opened: Vec<(WindowNumber, usize)>,
    is_asleep: bool,
    /// This rank told others that it failed.
    has_failed: bool,
    is_closing: bool,
    /// Another patience, and whether all know it.
    patience: Option<(f64, bool)>,
    phase: Phase,
}

#[derive(Clone, Debug, Default)]
struct Receiver {
    queue: VecDeque<Vec<u64>>,
    /// It was told that this rank ended or failed.
    is_told: bool,
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Talking,
    Finalising,
    Over,
}

impl Shared {
    fn new(size: usize) -> Self {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the talker of what `state` has for it.
    fn wake(&self, state: MutexGuard<'_, State>) {
        self.is_fresh.store(true, Ordering::Release);
        let is_asleep = state.is_asleep;
        drop(state);
        if is_asleep {
            self.wake.notify_one();
        }
    }

    fn enter(&self, phase: Phase) {
        self.lock().phase = phase;
        self.turn.notify_all();
    }
}

/// Hands parcels to the talker.
#[derive(Debug)]
struct Mpi {
    own: usize,
    inbox: Arc<Inbox>,
    shared: Arc<Shared>,
}

impl Carrier for Mpi {
    fn carry(&self, to: usize, parcel: Parcel) -> Result<Option<Message>> {
        let failed = matches!(parcel, Parcel::Failed(_));
        let is_last = failed || parcel == Parcel::Ended;
        let words = wire::pack(parcel);
        let refused = |why: &str| Error::Refused { rank: to, why: why.to_owned() };
        let mut state = self.shared.lock();
        if state.phase != Phase::Talking {
            return Err(refused("the thread for MPI is gone"));
        }
        state.has_failed |= failed;
        let receiver = &mut state.receivers[to];
        if receiver.is_lost {
            return Err(refused("it is lost"));
        }
        if receiver.queue.len() >= WAITING_MAX && !is_last {
            return Err(refused("too many parcels wait for it"));
        }
        receiver.is_told |= is_last;
        receiver.queue.push_back(words);
        self.shared.wake(state);
        Ok(None)
    }

    fn opened(&self, window: WindowNumber, bytes: usize) {
        let mut state = self.shared.lock();
        state.opened.push((window, bytes));
        self.shared.wake(state);
    }

    fn be_patient(&self, seconds: f64, all_know: bool) {
        let mut state = self.shared.lock();
        state.patience = Some((seconds, all_know));
        self.shared.wake(state);
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        // Where something is broken, why this rank goes is known, and the first reason counts.
        let is_broken = self.inbox.check().is_err();
        let mut state = self.shared.lock();
        for (rank, receiver) in state.receivers.iter_mut().enumerate() {
            if rank == self.own || receiver.is_lost {
                continue;
            }
            if !receiver.is_told && !is_broken {
                let why = "it went before its end".to_owned();
                receiver.queue.push_back(wire::pack(Parcel::Failed(why)));
            }
            receiver.queue.push_back(wire::gone());
        }
        state.is_closing = true;
        self.shared.wake(state);
        let (state, turn) = (self.shared.lock(), &self.shared.turn);
        // The talker ends this wait: others end, or are lost.
        let state = turn.wait_while(state, |state| state.phase == Phase::Talking);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        drop(turn.wait_timeout_while(state, GRACE, |state| state.phase == Phase::Finalising));
    }
}
