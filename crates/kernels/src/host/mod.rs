//! Runs kernels on this processor.
//!
//! - **How.** A launch runs its blocks in an order drawn from a seed, on the requested number of
//!   system threads. Threads of a block of lanes are iterations of a loop; threads of other blocks
//!   are fibers on one thread, which resume in a drawn order after they synchronize.
//! - **Failure.** A [`Fault`], after which outputs are unspecified. Detected: barriers that not all
//!   threads of a block reach, deadlocks, diverging operations of a warp, masks and sources of
//!   missing lanes, writes just outside shared memory, launches that a device rejects. Not
//!   detected: accesses outside buffers (run under AddressSanitizer), races that no drawn order
//!   shows (ThreadSanitizer), weak memory order.
//! - **Cost.** 0.3 µs per launch on one thread, plus starting any others; a thread of lanes is a
//!   loop iteration; some 30 ns each time a fiber synchronizes.

use std::ffi::{CStr, c_char, c_void};

use crate::kernel::{Arguments, Kernel, Kind};

/// Shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Number of blocks, at least one.
    pub blocks: u32,
    /// Threads per block.
    pub threads: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
}

/// Order of blocks and threads, which must not affect results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Seed of the order.
    pub seed: u64,
    /// Number of system threads, including the caller's.
    pub workers: usize,
}

/// The fault that ended a launch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kernel}: block {block}, thread {thread}{}: {message}", at(file, *line))]
pub struct Fault {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// The source file; empty if the fault has no location.
    pub file: String,
    /// Line of the source, from 1.
    pub line: u32,
    /// The block in which it happened.
    pub block: u32,
    /// The thread of the block.
    pub thread: u32,
    /// Description of what happened.
    pub message: String,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A launch that a device rejects.
    Launch,
    /// Not all threads of a block reach one barrier.
    DivergentBarrier,
    /// No thread can continue.
    Deadlock,
    /// Lanes of a warp are in different operations.
    MixedWarp,
    /// A mask contains lanes that are missing, or not the calling one.
    BadMask,
    /// A lane takes the value of a lane that doesn't participate.
    BadSource,
    /// Memory next to shared memory was written.
    SharedOverrun,
    /// More shared memory than a block has.
    SharedSize,
    /// A kernel of lanes has threads that synchronize.
    LanesMeet,
    /// The processor does not round to nearest, or flushes subnormal numbers.
    Rounding,
    /// The shim ran out of memory.
    OutOfMemory,
}

impl FaultKind {
    /// All kinds, in the order of their numbers, from 1.
    const ALL: [Self; 11] = [
        Self::Launch,
        Self::DivergentBarrier,
        Self::Deadlock,
        Self::MixedWarp,
        Self::BadMask,
        Self::BadSource,
        Self::SharedOverrun,
        Self::SharedSize,
        Self::LanesMeet,
        Self::Rounding,
        Self::OutOfMemory,
    ];
}

fn at(file: &str, line: u32) -> String {
    if file.is_empty() { String::new() } else { format!(", {file}:{line}") }
}

impl Launch {
    /// A launch with a thread for each of `items`, in at most `blocks_max` blocks of lanes; with
    /// more items, threads process several.
    pub fn of_items(items: u64, blocks_max: u32) -> Self {
        let threads = Kind::LANES_THREADS_MAX;
        let blocks = items.div_ceil(u64::from(threads)).clamp(1, u64::from(blocks_max.max(1)));
        Self { blocks: blocks as u32, threads, shared_bytes: 0 }
    }
}

/// Runs `kernel` to its end, or to its first fault.
///
/// # Errors
/// If there is a fault; outputs are then unspecified.
///
/// # Safety
/// `args` must be pointers to the values of the kernel's parameters, in order and of their types.
/// Pointers among these values must lead to memory as large as the kernel assumes, aligned to its
/// elements, which nobody else writes, or reads if the kernel writes it, until this returns. No two
/// of these areas may overlap.
#[expect(unsafe_code, reason = "a launch takes pointers")]
pub unsafe fn run(
    kernel: &Kernel,
    launch: Launch,
    args: &[*const c_void],
    schedule: Schedule,
) -> Result<(), Fault> {
    let (kind, threads_bound) = match kernel.kind {
        Kind::Lanes => (0, Kind::LANES_THREADS_MAX),
        Kind::Block { threads } => (1, threads),
    };
    let Launch { blocks, threads, shared_bytes } = launch;
    let mut fault = RawFault::default();
    if args.len() == kernel.params.len() {
        let request = Request {
            entry: kernel.entry,
            arguments: args.as_ptr(),
            kind,
            blocks,
            threads,
            threads_bound,
            shared_bytes,
            workers: u32::try_from(schedule.workers).unwrap_or(u32::MAX),
            seed: schedule.seed,
        };
        // SAFETY: both pointers are to values that outlive the call and have the layout of their
        // C++ twins; the caller guarantees the arguments.
        unsafe { stepwell_shim_run(&request, &mut fault) };
    } else {
        let message = format!("{} arguments for {} parameters", args.len(), kernel.params.len());
        return Err(Fault { message, ..fault.of(kernel, FaultKind::Launch) });
    }
    let number = fault.kind.checked_sub(1);
    match number.map(|number| FaultKind::ALL.get(number as usize)) {
        None => Ok(()),
        Some(kind) => Err(fault.of(kernel, kind.copied().unwrap_or(FaultKind::OutOfMemory))),
    }
}

/// A launch as passed to the shim; its twin is in `shim/run.h`.
#[repr(C)]
struct Request {
    entry: unsafe extern "C" fn(Arguments),
    arguments: Arguments,
    kind: u32,
    blocks: u32,
    threads: u32,
    threads_bound: u32,
    shared_bytes: u32,
    workers: u32,
    seed: u64,
}

/// A fault as returned by the shim; its twin is in `shim/run.h`.
#[repr(C)]
struct RawFault {
    kind: u32,
    block: u32,
    thread: u32,
    line: u32,
    file: [u8; 96],
    text: [u8; 256],
}

const _: () = assert!(size_of::<c_char>() == 1, "text is bytes");

impl Default for RawFault {
    fn default() -> Self {
        Self { kind: 0, block: 0, thread: 0, line: 0, file: [0; 96], text: [0; 256] }
    }
}

impl RawFault {
    fn of(&self, kernel: &Kernel, kind: FaultKind) -> Fault {
        let text = |bytes: &[u8]| {
            let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
            text.to_string_lossy().into_owned()
        };
        Fault {
            kernel: kernel.name,
            kind,
            file: text(&self.file),
            line: self.line,
            block: self.block,
            thread: self.thread,
            message: text(&self.text),
        }
    }
}

#[expect(unsafe_code, reason = "the shim")]
unsafe extern "C" {
    fn stepwell_shim_run(request: *const Request, fault: *mut RawFault);
}

#[cfg(test)]
mod tests;
