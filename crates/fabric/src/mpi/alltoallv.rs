//! MPI's own `MPI_Alltoallv`, for benchmarks: the reference for messages over MPI.

use ::mpi::datatype::{Partition, PartitionMut};
use ::mpi::traits::{Communicator, CommunicatorCollectives};
use stepwell_base::clock::{Clock, SystemClock};

use super::shared::broken;
use crate::Result;
use crate::speed::WARM_UP;

/// For each of `sizes`, bytes and times, returns the seconds of that many exchanges of that many
/// bytes from every rank to every other one; and this rank's number. It must be a process's only
/// use of MPI, and all processes launched together call it alike.
///
/// # Errors
/// If MPI does not work, was used in this process before, or has no room for the sizes.
pub fn seconds(sizes: &[(usize, usize)]) -> Result<(usize, Vec<f64>)> {
    let universe = ::mpi::initialize();
    let universe = universe.ok_or_else(|| broken("MPI was used before".to_owned()))?;
    let world = universe.world();
    let (rank, ranks) = (world.rank() as usize, world.size() as usize);
    let measured = sizes.iter().map(|(bytes, times)| of_size(&world, rank, ranks, *bytes, *times));
    Ok((rank, measured.collect::<Result<_>>()?))
}

fn of_size(
    world: &impl CommunicatorCollectives,
    rank: usize,
    size: usize,
    bytes: usize,
    times: usize,
) -> Result<f64> {
    let words = bytes / size_of::<u64>();
    if i32::try_from(words * size).is_err() {
        return Err(broken(format!("{bytes} bytes for each of {size} ranks are too many")));
    }
    let counts: Vec<i32> =
        (0..size).map(|peer| if peer == rank { 0 } else { words as i32 }).collect();
    let places: Vec<i32> = (0..size).map(|peer| counts[..peer].iter().sum()).collect();
    let (mut sent, mut came) = (vec![1u64; words * (size - 1)], vec![0u64; words * (size - 1)]);
    let mut exchange = || {
        let from = Partition::new(&sent[..], &counts[..], &places[..]);
        let mut to = PartitionMut::new(&mut came[..], &counts[..], &places[..]);
        world.all_to_all_varcount_into(&from, &mut to);
        // As with messages: buffers that always belong to the sender stay in the receiver's cache.
        std::mem::swap(&mut sent, &mut came);
    };
    (0..WARM_UP).for_each(|_| exchange());
    let clock = SystemClock::new();
    (0..times).for_each(|_| exchange());
    Ok(clock.seconds())
}
