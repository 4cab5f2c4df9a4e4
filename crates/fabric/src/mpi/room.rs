//! Whether machines have room for a window.
//!
//! - **Why.** Processes of one machine share a window's memory through a file in [`SHARED`], which
//!   containers often have little of. Where it is full, Open MPI fails at one rank and waits for
//!   ever at the others. So nobody asks for what does not fit.
//! - **How.** Ranks tell each other on which machine they are and how much they want; each compares
//!   what all on its machine want with what is free there.

use std::hash::{DefaultHasher, Hasher};

use super::raw::{Port, Result};

/// Where memory is shared, on Linux.
const SHARED: &str = "/dev/shm";
/// What MPI needs for a rank's part of a window beside its bytes, at most.
const BESIDE: u64 = 256 << 10;

/// Whether there is room on all machines for so many bytes of this rank, and for what the others
/// say; all come here together, and have one answer.
pub(super) fn is_there(port: &Port, bytes: u64) -> Result<bool> {
    let machine = machine();
    let (machines, all) = (port.gather(machine)?, port.gather(bytes)?);
    let here = machines.iter().zip(all).filter(|(other, _)| **other == machine);
    let wanted = here.fold(0u64, |sum, (_, bytes)| sum.saturating_add(bytes + BESIDE));
    let fits = wanted <= free();
    Ok(port.gather(u64::from(fits))?.iter().all(|fits| *fits == 1))
}

/// A number of this machine, by its name.
fn machine() -> u64 {
    // The same build of the program runs everywhere, so the same hash.
    let mut hasher = DefaultHasher::new();
    hasher.write(::mpi::environment::processor_name().unwrap_or_default().as_bytes());
    hasher.finish()
}

/// Bytes that are free, as far as that is known.
fn free() -> u64 {
    let room = rustix::fs::statvfs(SHARED);
    room.map_or(u64::MAX, |room| room.f_bavail.saturating_mul(room.f_frsize))
}
