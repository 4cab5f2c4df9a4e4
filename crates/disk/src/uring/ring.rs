//! A ring of the system, with the memory and files of its operations in flight.
//!
//! ```text
//!   launch ──► submission queue ──submit──► the system ──► completion queue ──reap──► land
//!              `waiting` entries            `under_way` operations
//!   flights[slot] is Some from launch to land; the slot is the entry's name in both queues
//! ```
//!
//! - **Invariants.**
//!   - DISK-I7: from before an entry is pushed until its completion is reaped, `flights` has its
//!     flight, with the memory and the descriptor, which stays open while it is held.
//!   - DISK-I8: a slot has at most one entry in the two queues and the system together.
//!   - DISK-I9: the ring is dropped only when the system has nothing in flight; otherwise flights
//!     and arena are never freed.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use io_uring::squeue::Flags;
use io_uring::{EnterFlags, IoUring, opcode, squeue, types};
use rustix::io::Errno;

use super::arena::{Arena, Lot};
use super::locked::Share;
use crate::buffer::Buffer;
use crate::descriptor::{Access, Descriptor};
use crate::file::File;
use crate::progress::Progress;
use crate::queue::QueueOptions;

/// The most operations of one ring; the system's own bound.
pub(super) const DEPTH_MAX: usize = 1 << 15;

/// The most bytes of an arena that the system registers as one buffer.
const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// Writes of at least this size are started by a thread of the system: finding their pages and
/// instructing the device takes longer than waking it.
const ASIDE_BYTES: usize = 128 << 10;

/// The most times in a row that the system may be too busy to take operations, and the pause after
/// each.
const REFUSALS_MAX: u32 = 10_000;
const REFUSAL_PAUSE: Duration = Duration::from_millis(1);

/// The most attempts to make a ring without memory, and the pause after each: the system returns
/// the locked memory of a ring some time after it was closed.
const MEMORY_TRIES: u32 = 50;
const MEMORY_PAUSE: Duration = Duration::from_millis(2);

pub(super) struct Ring {
    uring: IoUring,
    pub(super) arena: Arena,
    /// Present if the arena is registered.
    share: Option<Share>,
    flights: Vec<Option<Flight>>,
    vacant: Vec<u32>,
    waiting: usize,
    under_way: usize,
    refusals: u32,
}

/// An operation from start to end.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) token: u64,
    pub(super) file: Arc<dyn File>,
    pub(super) descriptor: Descriptor,
    pub(super) offset: u64,
    pub(super) memory: Memory,
    pub(super) progress: Progress,
}

/// Source or target of an operation's bytes.
#[derive(Debug)]
pub(super) enum Memory {
    /// Memory that a read fills.
    Lot(Lot),
    /// Memory that is written, also held by the caller.
    Lent(Arc<Buffer>),
}

impl Memory {
    pub(super) fn access(&self) -> Access {
        match self {
            Self::Lot(_) => Access::Read,
            Self::Lent(_) => Access::Write,
        }
    }
}

/// Makes a ring with `entries` entries; waits a while for memory.
fn build(entries: u32) -> io::Result<IoUring> {
    for _ in 1..MEMORY_TRIES {
        match build_now(entries) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                thread::sleep(MEMORY_PAUSE);
            }
            outcome => return outcome,
        }
    }
    build_now(entries)
}

/// Makes a ring with `entries` entries, with fewer interruptions if the system supports that.
fn build_now(entries: u32) -> io::Result<IoUring> {
    let modern = IoUring::builder()
        .dontfork()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .build(entries);
    match modern {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            IoUring::builder().dontfork().build(entries)
        }
        outcome => outcome,
    }
}

/// Checks that the system has rings that support reads and writes.
pub(super) fn probe() -> io::Result<()> {
    let uring = build(1)?;
    let mut probe = io_uring::Probe::new();
    uring.submitter().register_probe(&mut probe)?;
    let needed = [opcode::Read::CODE, opcode::ReadFixed::CODE, opcode::Write::CODE];
    if needed.into_iter().all(|code| probe.is_supported(code)) {
        Ok(())
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Ring {
    pub(super) fn new(options: QueueOptions) -> io::Result<Self> {
        let depth = options.depth.min(DEPTH_MAX);
        let uring = build(depth.next_power_of_two() as u32)?;
        let arena = Arena::new(options.read_bytes);
        let share = register(&uring, &arena);
        let flights = (0..depth).map(|_| None).collect();
        let vacant = (0..depth as u32).rev().collect();
        let (waiting, under_way, refusals) = (0, 0, 0);
        Ok(Self { uring, arena, share, flights, vacant, waiting, under_way, refusals })
    }

    pub(super) fn depth(&self) -> usize {
        self.flights.len()
    }

    /// Number of operations launched and not landed.
    pub(super) fn in_flight(&self) -> usize {
        self.flights.len() - self.vacant.len()
    }

    /// Number of operations not submitted to the system yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Puts an operation into the submission queue.
    ///
    /// # Panics
    /// If `depth` operations are in flight.
    pub(super) fn launch(&mut self, flight: Flight) {
        let Some(slot) = self.vacant.pop() else { unreachable!("more operations than the depth") };
        self.flights[slot as usize] = Some(flight);
        self.push(slot);
    }

    /// Puts the next attempt of a reaped operation into the submission queue.
    pub(super) fn launch_again(&mut self, slot: u32) {
        self.push(slot);
    }

    /// The operation of a reaped completion.
    pub(super) fn flight_mut(&mut self, slot: u32) -> &mut Flight {
        match &mut self.flights[slot as usize] {
            Some(flight) => flight,
            None => unreachable!("DISK-I7: slot {slot} has no operation"),
        }
    }

    /// Removes a reaped operation.
    pub(super) fn land(&mut self, slot: u32) -> Flight {
        let Some(flight) = self.flights[slot as usize].take() else {
            unreachable!("DISK-I7: slot {slot} has no operation")
        };
        self.vacant.push(slot);
        flight
    }

    fn push(&mut self, slot: u32) {
        let entry = self.entry(slot);
        let mut submission = self.uring.submission();
        // SAFETY: descriptor and memory of the entry belong to its flight, which stays in `flights`
        // until the completion is reaped (DISK-I7, DISK-I9).
        let pushed = unsafe { submission.push(&entry) };
        drop(submission);
        assert!(pushed.is_ok(), "DISK-I8: the submission queue has a place for each slot");
        self.waiting += 1;
    }

    fn entry(&mut self, slot: u32) -> squeue::Entry {
        let (arena, is_registered) = (&self.arena, self.share.is_some());
        let Some(flight) = &self.flights[slot as usize] else {
            unreachable!("DISK-I7: slot {slot} has no operation")
        };
        let descriptor = types::Fd(flight.descriptor.as_fd().as_raw_fd());
        let (from, to) = (flight.progress.from(), flight.progress.to());
        let offset = flight.offset + from as u64;
        // An attempt's length fits: `Progress` bounds it.
        let bytes = (to - from) as u32;
        let entry = match &flight.memory {
            Memory::Lot(lot) if is_registered => {
                let place = arena.place(lot, from);
                opcode::ReadFixed::new(descriptor, place, bytes, 0).offset(offset).build()
            }
            Memory::Lot(lot) => {
                let place = arena.place(lot, from);
                opcode::Read::new(descriptor, place, bytes).offset(offset).build()
            }
            Memory::Lent(buffer) => {
                let place = buffer[from..to].as_ptr();
                let entry = opcode::Write::new(descriptor, place, bytes).offset(offset).build();
                let flags = if to - from < ASIDE_BYTES { Flags::empty() } else { Flags::ASYNC };
                entry.flags(flags)
            }
        };
        entry.user_data(u64::from(slot))
    }

    /// Submits waiting operations, and waits until the system has `want` completions, is
    /// interrupted, or is busy.
    pub(super) fn submit(&mut self, want: usize) -> io::Result<()> {
        match self.uring.submit_and_wait(want) {
            Ok(taken) => {
                self.waiting -= taken;
                self.under_way += taken;
                self.refusals = 0;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if is_busy(&error) && self.refusals < REFUSALS_MAX => {
                self.refusals += 1;
                thread::sleep(REFUSAL_PAUSE);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the system withholds completions until it is entered.
    pub(super) fn must_enter(&mut self) -> bool {
        let submission = self.uring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// Appends the slot and outcome of every completion.
    pub(super) fn reap(&mut self, completions: &mut Vec<(u32, io::Result<usize>)>) {
        let before = completions.len();
        completions.extend(self.uring.completion().map(|entry| {
            let outcome = match usize::try_from(entry.result()) {
                Ok(bytes) => Ok(bytes),
                Err(_) => Err(io::Error::from_raw_os_error(-entry.result())),
            };
            (entry.user_data() as u32, outcome)
        }));
        self.under_way -= completions.len() - before;
    }

    /// Waits for at least one completion, without submitting anything.
    fn wait(&self) -> io::Result<()> {
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: nothing is submitted and no argument is passed; the call only waits.
        let entered = unsafe { self.uring.submitter().enter::<u64>(0, 1, flags, None) };
        entered.map(drop)
    }
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy)
}

/// Registers the arena, so that the system maps its pages once and not for each read; `None` if
/// that would lock too much memory.
fn register(uring: &IoUring, arena: &Arena) -> Option<Share> {
    if arena.bytes() == 0 || arena.bytes() > REGISTERED_BYTES_MAX {
        return None;
    }
    let share = Share::take(arena.bytes() as u64)?;
    let whole = libc::iovec { iov_base: arena.start().cast(), iov_len: arena.bytes() };
    // SAFETY: the arena's memory is mapped and is freed only when the system has nothing in flight
    // (DISK-I9); the registration itself pins the pages, whatever happens to the mapping.
    let registered = unsafe { uring.submitter().register_buffers(&[whole]) };
    registered.is_ok().then_some(share)
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut completions = Vec::new();
        self.reap(&mut completions);
        while self.under_way > 0 {
            let waited = self.wait();
            self.reap(&mut completions);
            match waited {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_busy(&error) => thread::sleep(REFUSAL_PAUSE),
                Err(_) => {
                    // DISK-I9: the system may still write to them.
                    std::mem::forget(std::mem::take(&mut self.flights));
                    std::mem::forget(std::mem::replace(&mut self.arena, Arena::new(0)));
                    return;
                }
            }
        }
        if self.share.is_some() {
            // The system would do so by itself, but later, and count the memory until then.
            let _ = self.uring.submitter().unregister_buffers();
        }
    }
}
