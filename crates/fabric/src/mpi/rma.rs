//! Windows of MPI: memory of each rank into which all others put. With `raw`, the only place with
//! unsafe code.
//!
//! ```text
//! a rank's memory   how often each rank has put, a word for each | the window's bytes
//! ```
//!
//! - **Why unsafe.** Other processes write into memory of this one at any time.
//! - **Rules.** [`Memory`] is read and written by atomic operations alone, so that no reference
//!   claims exclusive access. MPI owns it; it is valid as long as it has an owner here: a window is
//!   freed only by the last owner of its memory, and otherwise kept forever. Only memory leaves the
//!   thread that made the [`Port`].
//! - **Memory model.** MPI must report that puts become visible in this memory without a call of
//!   its owner (`MPI_WIN_UNIFIED`). Words of 8 bytes become visible whole: MPI does not promise
//!   that, but whatever copies into memory does so.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ::mpi::datatype::traits::Equivalence;
use ::mpi::ffi;
use ::mpi::traits::AsRaw;

use super::raw::{Fault, Port, Result, check};
use super::window_room;

const WORD: usize = size_of::<u64>();
/// Bytes passed to MPI at once: it counts in 31 bits.
const PIECE_MAX: usize = 1 << 30;

/// This rank's memory in a window.
pub(super) struct Memory {
    place: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: it is only used through atomic words, and needs no call of MPI.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl AsRef<[AtomicU64]> for Memory {
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: `count` words are there, aligned, as `Window::open` has checked, for as long as
        // this memory has an owner. All users in this process use them as atomics; other processes
        // write to them outside of all that this program can see.
        unsafe { std::slice::from_raw_parts(self.place.as_ptr(), self.count) }
    }
}

/// The bytes of a window, after the counts.
pub(super) struct Bytes(Arc<Memory>, usize);

impl AsRef<[AtomicU64]> for Bytes {
    fn as_ref(&self) -> &[AtomicU64] {
        &(*self.0).as_ref()[self.1..]
    }
}

/// A window that all ranks have opened.
pub(super) struct Window {
    win: ffi::MPI_Win,
    memory: Arc<Memory>,
    /// Bytes of each rank's window, without its counts.
    bytes: Vec<u64>,
}

impl Window {
    /// Opens a window of `bytes` bytes here, all zero, together with all other ranks: for all of
    /// them, or for none. `ready` gets this rank's memory before any rank puts.
    ///
    /// Memory of a failed attempt is never freed: other ranks may not have come as far.
    pub(super) fn open(
        port: &Port,
        bytes: usize,
        ready: impl FnOnce(Bytes),
    ) -> Result<Option<Self>> {
        let size = port.size();
        if !window_room::is_there(port, (size * WORD + bytes) as u64)? {
            return Ok(None);
        }
        let made = allocate(port, size + bytes.div_ceil(WORD)).ok();
        let all = port.gather(u64::from(made.is_some()))?;
        let bytes = port.gather(bytes as u64)?;
        let Some((win, memory)) = made.filter(|_| all.iter().all(|made| *made == 1)) else {
            return Ok(None);
        };
        let memory = Arc::new(memory);
        ready(Bytes(Arc::clone(&memory), size));
        port.meet()?;
        Ok(Some(Self { win, memory, bytes }))
    }

    /// Bytes of the window of rank `rank`.
    pub(super) fn bytes(&self, rank: usize) -> u64 {
        self.bytes[rank]
    }

    /// This rank's memory: counts of all ranks, then bytes.
    pub(super) fn words(&self) -> &[AtomicU64] {
        (*self.memory).as_ref()
    }

    /// Puts `length` bytes of `words`, after the first one, into the window of rank `to`, at most
    /// `piece` words per call, and waits until they are there. Returns the words.
    pub(super) fn put(
        &self,
        to: usize,
        offset: u64,
        words: Vec<u64>,
        length: usize,
        piece: usize,
    ) -> Result<Vec<u64>> {
        let room = self.bytes[to].checked_sub(offset).is_some_and(|room| length as u64 <= room);
        assert!(room, "{length} bytes at {offset} exceed the window of rank {to}");
        let start = self.bytes.len() * WORD + offset as usize;
        self.write(to, start, words, 1..length.div_ceil(WORD) + 1, length, piece)
    }

    /// Puts this rank's number of puts (`own` is the rank) into memory of rank `to`, and waits
    /// until it is there.
    pub(super) fn count(&self, to: usize, own: usize, count: u64) -> Result<()> {
        self.write(to, own * WORD, vec![count], 0..1, WORD, 1).map(drop)
    }

    /// Writes `length` bytes of a range of `words` into the memory of rank `to`.
    fn write(
        &self,
        to: usize,
        start: usize,
        words: Vec<u64>,
        range: Range<usize>,
        length: usize,
        piece: usize,
    ) -> Result<Vec<u64>> {
        let bytes = &bytemuck::cast_slice::<u64, u8>(&words[range])[..length];
        let mut pieces = bytes.chunks(piece.saturating_mul(WORD).min(PIECE_MAX)).scan(start, next);
        let written = pieces.try_for_each(|(place, bytes)| self.start(to, place, bytes));
        if let Err(fault) = written.and_then(|()| self.flush(to)) {
            // MPI may still read them.
            std::mem::forget(words);
            return Err(fault);
        }
        Ok(words)
    }

    /// Starts to write `bytes`, which must not change until [`Self::flush`] has returned.
    fn start(&self, to: usize, place: usize, bytes: &[u8]) -> Result<()> {
        let (length, byte) = (bytes.len() as c_int, u8::equivalent_datatype().as_raw());
        let (from, place) = (bytes.as_ptr().cast::<c_void>(), place as ffi::MPI_Aint);
        let to = to as c_int;
        // SAFETY: `write` keeps the bytes until they have left, or forever if that is unknown. They
        // fit into the memory of the other rank, as `put` has checked and `count` knows.
        check(unsafe { ffi::MPI_Put(from, length, byte, to, place, length, byte, self.win) })
    }

    fn flush(&self, to: usize) -> Result<()> {
        // SAFETY: the window is open and locked.
        check(unsafe { ffi::MPI_Win_flush(to as c_int, self.win) })
    }

    /// Makes others' puts visible to this process.
    pub(super) fn sync(&self) -> Result<()> {
        // SAFETY: the window is open and locked.
        check(unsafe { ffi::MPI_Win_sync(self.win) })
    }

    /// Frees the window, together with all other ranks.
    ///
    /// # Panics
    /// If its memory has another owner.
    pub(super) fn close(mut self) -> Result<()> {
        assert!(Arc::into_inner(self.memory).is_some(), "nobody reads a window that closes");
        // SAFETY: the window is open and locked.
        check(unsafe { ffi::MPI_Win_unlock_all(self.win) })?;
        // SAFETY: the window is open and no longer locked, and its memory has no other owner.
        check(unsafe { ffi::MPI_Win_free(&raw mut self.win) })
    }
}

/// The next piece, and its place.
fn next<'a>(place: &mut usize, bytes: &'a [u8]) -> Option<(usize, &'a [u8])> {
    let start = *place;
    *place += bytes.len();
    Some((start, bytes))
}

/// A window with `count` words here, all zero, locked for all.
fn allocate(port: &Port, count: usize) -> Result<(ffi::MPI_Win, Memory)> {
    let too_many = |_| Fault("it is too large".to_owned());
    let bytes = ffi::MPI_Aint::try_from(count * WORD).map_err(too_many)?;
    // SAFETY: a constant of MPI.
    let no_info = unsafe { ffi::RSMPI_INFO_NULL };
    let mut place: *mut c_void = std::ptr::null_mut();
    let mut win = MaybeUninit::uninit();
    let (to_place, to_win) = ((&raw mut place).cast::<c_void>(), win.as_mut_ptr());
    // SAFETY: the communicator is alive, and both places may be written to: MPI takes the address
    // of the pointer as a pointer to anything.
    let code = unsafe { ffi::MPI_Win_allocate(bytes, 1, no_info, port.raw(), to_place, to_win) };
    check(code)?;
    // SAFETY: MPI wrote the window that it made.
    let win = unsafe { win.assume_init() };
    // SAFETY: a constant of MPI.
    let errors_return = unsafe { ffi::RSMPI_ERRORS_RETURN };
    // SAFETY: the window is open, and the handler is one of MPI's own.
    check(unsafe { ffi::MPI_Win_set_errhandler(win, errors_return) })?;
    if !is_unified(win)? {
        return Err(Fault("data that is put does not become visible by itself".to_owned()));
    }
    let place = NonNull::new(place.cast::<AtomicU64>());
    let place = place.filter(|place| place.is_aligned());
    let place = place.ok_or_else(|| Fault("a window's words are not aligned".to_owned()))?;
    // SAFETY: MPI allocated that many bytes, and no other code knows them yet.
    unsafe { place.as_ptr().write_bytes(0, count) };
    // SAFETY: the window is open, and this process has not locked it before.
    check(unsafe { ffi::MPI_Win_lock_all(ffi::MPI_MODE_NOCHECK as c_int, win) })?;
    Ok((win, Memory { place, count }))
}

/// Whether puts become visible in memory without a call of its owner.
fn is_unified(win: ffi::MPI_Win) -> Result<bool> {
    let (mut model, mut flag) = (std::ptr::null_mut::<c_int>(), 0);
    let (key, to_model) = (ffi::MPI_WIN_MODEL as c_int, (&raw mut model).cast::<c_void>());
    // SAFETY: the window is open, and the value of this attribute is the address of a number.
    check(unsafe { ffi::MPI_Win_get_attr(win, key, to_model, &raw mut flag) })?;
    if flag == 0 || model.is_null() {
        return Ok(false);
    }
    // SAFETY: MPI wrote the address of a number of its own, which is valid as long as the window.
    let model = unsafe { model.read() };
    Ok(model == ffi::MPI_WIN_UNIFIED as c_int)
}
