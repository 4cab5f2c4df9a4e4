//! Checks that machines have room for a window.
//!
//! - **Why.** Processes of one machine share a window's memory through a file in [`SHARED`], which
//!   is often small in containers. If it is full, Open MPI fails at one rank and waits forever at
//!   the others. So a window that does not fit is not requested.
//! - **How.** Ranks exchange their machines and the bytes that they need; each compares the sum for
//!   its machine with the free bytes there.

use std::hash::{DefaultHasher, Hasher};

use super::raw::{Port, Result};

/// Directory of shared memory on Linux.
const SHARED: &str = "/dev/shm";
/// The most bytes that MPI needs for a rank's part of a window, in addition to its content.
const BESIDE: u64 = 256 << 10;

/// Whether all machines have room for `bytes` bytes of this rank and for the others' bytes; all
/// ranks call this together, and get the same answer.
pub(super) fn is_there(port: &Port, bytes: u64) -> Result<bool> {
    let machine = machine();
    let (machines, all) = (port.gather(machine)?, port.gather(bytes)?);
    let here = machines.iter().zip(all).filter(|(other, _)| **other == machine);
    let wanted = here.fold(0u64, |sum, (_, bytes)| sum.saturating_add(bytes + BESIDE));
    let fits = wanted <= free();
    Ok(port.gather(u64::from(fits))?.iter().all(|fits| *fits == 1))
}

/// A number of this machine, computed from its name.
fn machine() -> u64 {
    // All ranks run the same build of the program, so the same hash.
    let mut hasher = DefaultHasher::new();
    hasher.write(::mpi::environment::processor_name().unwrap_or_default().as_bytes());
    hasher.finish()
}

/// Free bytes; `u64::MAX` if unknown.
fn free() -> u64 {
    let room = rustix::fs::statvfs(SHARED);
    room.map_or(u64::MAX, |room| room.f_bavail.saturating_mul(room.f_frsize))
}
