//! Calls of MPI that own the memory they work on; windows are in `rma`.
//!
//! - **Why unsafe.** The safe interface of `mpi` lends memory to a call for a scope that waits at
//!   its end. Here memory goes with a message, calls overlap without an order, and faults are
//!   errors: by default MPI ends the process.
//! - **Rules.** Memory that MPI works on is owned by a [`Sending`] or a [`Receiving`], which is not
//!   accessed before MPI reports completion; if dropped before that, it is leaked. Nothing here
//!   leaves the thread that made the [`Port`].

use std::collections::VecDeque;
use std::ffi::c_int;
use std::mem::MaybeUninit;

use ::mpi::datatype::traits::Equivalence;
use ::mpi::ffi;
use ::mpi::point_to_point::Status;
use ::mpi::topology::{Communicator, SimpleCommunicator};
use ::mpi::traits::AsRaw;

/// A fault reported by MPI.
#[derive(Debug)]
pub(super) struct Fault(pub(super) String);

pub(super) type Result<T> = std::result::Result<T, Fault>;

/// Purpose of an MPI message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Pieces of parcels.
    Parcels = 0,
    /// Sign of life of its sender; empty.
    Beats = 1,
    /// A message about a window.
    Windows = 2,
}

impl Lane {
    fn of(tag: c_int) -> Self {
        let is = |lane: &Self| *lane as c_int == tag;
        [Self::Beats, Self::Windows].into_iter().find(is).unwrap_or(Self::Parcels)
    }
}

/// A separate communicator.
pub(super) struct Port {
    world: SimpleCommunicator,
    /// Not `Send`: all calls are made by one thread.
    _thread: std::marker::PhantomData<*const ()>,
}

/// A message that has arrived, to be received.
pub(super) struct Arrival {
    pub(super) from: usize,
    pub(super) lane: Lane,
    /// Number of its words.
    pub(super) count: usize,
    handle: ffi::MPI_Message,
}

/// Words on their way to another rank, in pieces.
pub(super) struct Sending {
    words: Vec<u64>,
    to: c_int,
    lane: Lane,
    /// Number of words passed to MPI.
    posted: usize,
    is_posted: bool,
    requests: VecDeque<ffi::MPI_Request>,
}

/// Words that are arriving after those already there.
pub(super) struct Receiving {
    words: Vec<u64>,
    /// Number of words once all have arrived.
    count: usize,
    request: Option<ffi::MPI_Request>,
}

pub(super) fn check(code: c_int) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0u8; ffi::MPI_MAX_ERROR_STRING as usize];
    let mut length: c_int = 0;
    // SAFETY: the text has the size that MPI may need.
    let known = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut length) };
    let length = if known == 0 { usize::try_from(length).unwrap_or(0) } else { 0 };
    let text = String::from_utf8_lossy(&text[..length.min(text.len())]);
    Err(Fault(format!("MPI says: {text} (code {code})")))
}

impl Port {
    /// A copy of `world` with separate messages, on which faults are errors.
    pub(super) fn new(world: &SimpleCommunicator) -> Result<Self> {
        let port = Self { world: world.duplicate(), _thread: std::marker::PhantomData };
        // SAFETY: a constant of MPI, which is initialised, as a communicator exists.
        let errors_return = unsafe { ffi::RSMPI_ERRORS_RETURN };
        // SAFETY: the communicator is alive, and the handler one of MPI's own.
        let code = unsafe { ffi::MPI_Comm_set_errhandler(port.world.as_raw(), errors_return) };
        check(code).map(|()| port)
    }

    /// This rank.
    pub(super) fn rank(&self) -> usize {
        usize::try_from(self.world.rank()).unwrap_or(0)
    }

    /// Number of ranks.
    pub(super) fn size(&self) -> usize {
        usize::try_from(self.world.size()).unwrap_or(0)
    }

    /// The communicator.
    pub(super) fn raw(&self) -> ffi::MPI_Comm {
        self.world.as_raw()
    }

    /// Gathers one word of every rank at every rank; waits for all.
    pub(super) fn gather(&self, word: u64) -> Result<Vec<u64>> {
        let mut all = vec![0u64; self.size()];
        let (from, to) = ((&raw const word).cast(), all.as_mut_ptr().cast());
        let (kind, world) = (u64::equivalent_datatype().as_raw(), self.world.as_raw());
        // SAFETY: there is one word to read, and room for one of each rank to write; the call
        // returns when it is done with them.
        let code = unsafe { ffi::MPI_Allgather(from, 1, kind, to, 1, kind, world) };
        check(code).map(|()| all)
    }

    /// Waits until all ranks have called this.
    pub(super) fn meet(&self) -> Result<()> {
        // SAFETY: the communicator is alive.
        check(unsafe { ffi::MPI_Barrier(self.world.as_raw()) })
    }

    /// The next message that has arrived, in the order of its sender.
    pub(super) fn probe(&self) -> Result<Option<Arrival>> {
        // SAFETY: a constant of MPI.
        let any_source = unsafe { ffi::RSMPI_ANY_SOURCE };
        // SAFETY: a constant of MPI.
        let any_tag = unsafe { ffi::RSMPI_ANY_TAG };
        let (world, mut flag) = (self.world.as_raw(), 0);
        let mut handle = MaybeUninit::uninit();
        let mut status = MaybeUninit::uninit();
        let (to_handle, to_status) = (handle.as_mut_ptr(), status.as_mut_ptr());
        // SAFETY: the communicator is alive, and the places may be written to.
        let code = unsafe {
            ffi::MPI_Improbe(any_source, any_tag, world, &raw mut flag, to_handle, to_status)
        };
        check(code)?;
        if flag == 0 {
            return Ok(None);
        }
        // SAFETY: MPI wrote the status of the message that it found.
        let status = Status::from_raw(unsafe { status.assume_init() });
        let count = usize::try_from(status.count(u64::equivalent_datatype()));
        let count = count.map_err(|_| Fault("a message is not made of words".to_owned()))?;
        let from = usize::try_from(status.source_rank());
        let from = from.map_err(|_| Fault("a message has no sender".to_owned()))?;
        let lane = Lane::of(status.tag());
        // SAFETY: MPI wrote the handle of the message that it found.
        let handle = unsafe { handle.assume_init() };
        Ok(Some(Arrival { from, lane, count, handle }))
    }

    /// Starts to receive `arrival` after the content of `words`.
    pub(super) fn receive(&self, arrival: Arrival, mut words: Vec<u64>) -> Result<Receiving> {
        words.reserve(arrival.count);
        let place = words.spare_capacity_mut().as_mut_ptr();
        let length = c_int::try_from(arrival.count).map_err(|error| Fault(error.to_string()))?;
        let (mut handle, mut request) = (arrival.handle, MaybeUninit::uninit());
        let datatype = u64::equivalent_datatype().as_raw();
        let to_request = request.as_mut_ptr();
        // SAFETY: there is room for `count` more words after those present, and the vector that
        // owns it is not accessed until MPI is done. The message was matched and not yet received.
        let code =
            unsafe { ffi::MPI_Imrecv(place.cast(), length, datatype, &raw mut handle, to_request) };
        check(code)?;
        let count = words.len() + arrival.count;
        // SAFETY: MPI wrote the request that it started.
        let request = unsafe { request.assume_init() };
        Ok(Receiving { words, count, request: Some(request) })
    }

    /// Starts to send the next piece of `sending`, of at most `piece` words. Parcels end with a
    /// shorter piece, which may be empty.
    pub(super) fn post(&self, sending: &mut Sending, piece: usize) -> Result<()> {
        let rest = &sending.words[sending.posted..];
        let now = &rest[..rest.len().min(piece)];
        let length = c_int::try_from(now.len()).map_err(|error| Fault(error.to_string()))?;
        let (datatype, world) = (u64::equivalent_datatype().as_raw(), self.world.as_raw());
        let (to, lane, mut request) = (sending.to, sending.lane as c_int, MaybeUninit::uninit());
        let (place, to_request) = (now.as_ptr(), request.as_mut_ptr());
        // SAFETY: the vector owns these words and is kept unchanged until MPI is done.
        let code =
            unsafe { ffi::MPI_Isend(place.cast(), length, datatype, to, lane, world, to_request) };
        check(code)?;
        sending.is_posted = now.len() < piece;
        sending.posted += now.len();
        // SAFETY: MPI wrote the request that it started.
        sending.requests.push_back(unsafe { request.assume_init() });
        Ok(())
    }
}

/// Whether MPI is done with `request`, which it then frees.
fn is_done(request: &mut ffi::MPI_Request) -> Result<bool> {
    let mut flag = 0;
    // SAFETY: a constant of MPI.
    let ignore = unsafe { ffi::RSMPI_STATUS_IGNORE };
    // SAFETY: the request was started and is not done; nothing is written to the status.
    let code = unsafe { ffi::MPI_Test(request, &raw mut flag, ignore) };
    check(code).map(|()| flag != 0)
}

impl Sending {
    pub(super) fn new(to: usize, lane: Lane, words: Vec<u64>) -> Self {
        // MPI reported the number of ranks in this type.
        let to = c_int::try_from(to).unwrap_or(c_int::MAX);
        Self { words, to, lane, posted: 0, is_posted: false, requests: VecDeque::new() }
    }

    /// Whether all pieces were passed to MPI.
    pub(super) fn is_posted(&self) -> bool {
        self.is_posted
    }

    /// Number of pieces that MPI is sending.
    pub(super) fn under_way(&self) -> usize {
        self.requests.len()
    }

    /// Checks which pieces have been sent; returns the words once all have.
    pub(super) fn poll(&mut self) -> Result<Option<Vec<u64>>> {
        while let Some(request) = self.requests.front_mut() {
            if !is_done(request)? {
                return Ok(None);
            }
            self.requests.pop_front();
        }
        Ok(self.is_posted.then(|| std::mem::take(&mut self.words)))
    }
}

impl Receiving {
    /// All words, including the earlier ones, once the last has arrived.
    pub(super) fn poll(&mut self) -> Result<Option<Vec<u64>>> {
        let Some(request) = self.request.as_mut() else { return Ok(None) };
        if !is_done(request)? {
            return Ok(None);
        }
        self.request = None;
        let mut words = std::mem::take(&mut self.words);
        // SAFETY: MPI wrote all words after the earlier ones: the message had exactly as many.
        unsafe { words.set_len(self.count) };
        Ok(Some(words))
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            // MPI may still read them.
            std::mem::forget(std::mem::take(&mut self.words));
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if self.request.is_some() {
            // MPI may still write to them.
            std::mem::forget(std::mem::take(&mut self.words));
        }
    }
}
