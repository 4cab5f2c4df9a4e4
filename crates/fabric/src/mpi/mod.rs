//! Ranks as processes that an MPI launcher started.
//!
//! ```text
//!  carry ──► queue of the receiver ──► talker ══ MPI ══► talker of the receiver ──► its Inbox
//! ```
//!
//! - **Why.** Clusters have MPI; it uses any network between their machines, and starts the
//!   processes.
//! - **How.** One thread of a process, the talker, makes all calls of MPI, from the first to the
//!   last: MPI sees it as the main thread, so that `MPI_THREAD_FUNNELED` is enough. A parcel is the
//!   words of its message and two more (`wire`). They are sent from the message's buffer, which
//!   then goes to the inbox for reuse. The receiver learns the length from a matched probe, and MPI
//!   writes the words to their final place.
//! - **Puts.** Once all ranks have opened theirs, windows are in memory of MPI's own windows; the
//!   sender's talker writes into it (`MPI_Put`) and waits until that is done (`MPI_Win_flush`), and
//!   the receiver does nothing for it ([the
//!   reasons](../../../../docs/decisions/0022-one-sided-puts.md)). Opening, order, waking and
//!   closing: `puts`; memory: `rma`. With the first window, ranks find out whether MPI can do that
//!   (`put_trial`). If it cannot, if a machine has no room for a window (`window_room`), and with
//!   [`Puts::Messages`], puts are sent as parcels.
//! - **Order.** All parcels have one tag on a separate communicator, where MPI keeps the order of a
//!   pair. Each receiver takes the messages of a sender one after another. A put is complete before
//!   the next parcel to its receiver leaves, and may overtake earlier ones.
//! - **Pieces.** MPI counts in 31 bits, and copies all of a piece in one call, during which the
//!   talker does nothing else. So parcels are sent in pieces of [`Options::piece_words`], the same
//!   on all ranks; a shorter or empty piece is the last.
//! - **Waiting.** For [`SPIN`] after the last event, or [`SPIN_UNDER_WAY`] while something is in
//!   flight, the talker polls again at once, yielding to other threads; then it sleeps for
//!   [`NAP_MIN`] to [`NAP_MAX`] between polls, and parcels wake it.
//! - **Failure.** Every rank sends the others four signs of life within their patience. A rank that
//!   is silent for longer is reported lost to the inbox, unless it has ended. A rank that was
//!   itself suspended, as by a stop signal, does not blame the others for that time. MPI's faults
//!   are errors as far as MPI allows; some end the process. `mpirun` ends all ranks once one is
//!   killed, unless it is started with `--enable-recovery`.
//! - **Failure while ranks put.** The talker does nothing else while it waits for a put. That is
//!   why puts that need the receiver's help are not used: if the receiver is stopped or killed,
//!   they never end, and a third rank receives signs of life from neither. Memory that processes of
//!   a machine map together remains when its owner is gone: puts into it are lost with the owner,
//!   which is reported by its silence as usual. Hardware between machines also writes without the
//!   owner, and reports it if it cannot. A put, or a window, that takes longer than the ranks'
//!   patience is caught by a guard (`guard`), which names the receiver; a third rank may then name
//!   either.
//! - **End.** Dropping the last end of the fabric closes it. To the others, a rank that has not
//!   ended by then has failed. Everything sent leaves; then each rank announces that it is gone,
//!   waits for all others to do so, and finalises MPI. After a failure it waits for them no longer
//!   than [`GRACE`]. If some have not announced it, MPI is not finalised, as that would wait for
//!   them forever; nor is it aborted, as others may still be saving their state. The launcher
//!   notices a process that ends this way and ends the remaining ones. Finalising also has
//!   [`GRACE`], after which the process continues without it.
//! - **Bounds.** [`WAITING_MAX`] parcels wait for each receiver; further ones are refused. MPI has
//!   at most [`PIECES_MAX`] pieces and one sign of life for each receiver at a time. One message is
//!   received from each sender at a time; small ones that MPI took at once wait inside it. Complete
//!   parcels are in the inbox, which counts them.

pub mod alltoallv;
mod guard;
mod last_heard;
pub mod launcher;
mod mpi_thread;
mod put_trial;
mod puts;
#[expect(unsafe_code, reason = "MPI works on memory while others do other things")]
mod raw;
#[expect(unsafe_code, reason = "other processes write into windows")]
mod rma;
mod shared;
mod traffic;
mod window_room;
mod wire;

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};

use tracing::info;

pub use self::shared::{
    EXPLAINED, GRACE, NAP_MAX, NAP_MIN, Options, PIECE_WORDS, PIECES_MAX, Puts, SPIN,
    SPIN_UNDER_WAY, WAITING_MAX,
};
use self::shared::{Phase, Shared, broken};
use crate::carrier::{Carrier, KnownBy, Parcel, WindowNumber};
use crate::fabric::Fabric;
use crate::inbox::Inbox;
use crate::message::Message;
use crate::{Error, Result};

/// Whether an MPI launcher started this process.
pub fn is_launched() -> bool {
    // Open MPI, PMIx (also srun), MPICH and Intel MPI, MVAPICH.
    let said_by =
        ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK", "MV2_COMM_WORLD_SIZE"];
    said_by.iter().any(|name| std::env::var_os(name).is_some())
}

/// This process's end of the fabric of all processes launched with it, once all have called this;
/// `None` if no MPI launcher started it.
///
/// # Errors
/// If MPI does not work, or was used in this process before.
pub fn join(options: Options) -> Result<Option<Fabric>> {
    if !is_launched() {
        return Ok(None);
    }
    let Options { patience_seconds, piece_words, .. } = options;
    if !(patience_seconds > 0.0 && (1..=i32::MAX as usize).contains(&piece_words)) {
        return Err(broken(format!("{options:?} are not valid")));
    }
    let (ready, outcome) = sync_channel(1);
    let talk = move || mpi_thread::run(options, &ready);
    let thread = std::thread::Builder::new().name("mpi".to_owned()).spawn(talk);
    thread.map_err(|error| broken(format!("cannot start a thread for MPI: {error}")))?;
    let gone = |_| Err(broken("the thread for MPI is gone".to_owned()));
    let mpi_thread::Joined { rank, size, inbox, shared } = outcome.recv().unwrap_or_else(gone)?;
    info!(rank, ranks = size, "ranks connected by MPI");
    let carrier = Mpi { own: rank, inbox: Arc::clone(&inbox), shared };
    Ok(Some(Fabric::new(rank, size, inbox, Arc::new(carrier))))
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

    fn be_patient(&self, seconds: f64, known_by: KnownBy) {
        let mut state = self.shared.lock();
        state.patience = Some((seconds, known_by));
        self.shared.wake(state);
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        // After a fault, the reason is known, and the first one counts.
        let is_broken = self.inbox.check().is_err();
        let mut state = self.shared.lock();
        for (rank, receiver) in state.receivers.iter_mut().enumerate() {
            if rank == self.own || receiver.is_lost {
                continue;
            }
            if !receiver.is_told && !is_broken {
                let why = "it left before its end".to_owned();
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
