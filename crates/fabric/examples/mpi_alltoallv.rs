//! How fast ranks exchange messages over MPI, against MPI's own `MPI_Alltoallv`.
//!
//! ```text
//! cargo run --release -p stepwell-fabric --features mpi --example mpi_alltoallv [RANKS [ROUNDS]]
//! ```
//!
//! Starts itself by `mpirun`, once for each way and round, in turns, so that neither way disturbs
//! the other. Nobody sends to itself; what came is sent back, so that nothing but the exchange is
//! measured.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program of measurements")]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Instant;

use ::mpi::datatype::{Partition, PartitionMut};
use ::mpi::traits::{Communicator, CommunicatorCollectives};
use stepwell_fabric::collective::{AllToAll, Barrier};
use stepwell_fabric::mpi::{self, Options};
use stepwell_fabric::{Message, Tag};

const KIB: [usize; 3] = [256, 1024, 4096];
/// Bytes to each peer in one measurement.
const BYTES: usize = 1 << 30;
const WAYS: [&str; 2] = ["MPI_Alltoallv", "AllToAll"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if mpi::is_launched() {
        return if arguments[0] == WAYS[0] { raw() } else { ours() };
    }
    let ranks = arguments.first().map_or("2", String::as_str);
    let rounds = arguments.get(1).map_or(5, |rounds| rounds.parse().unwrap());
    let mut rates: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        for turn in 0..WAYS.len() {
            let way = WAYS[(round + turn) % WAYS.len()];
            for (kib, rate) in launch(ranks, way) {
                rates.entry((kib, way)).or_default().push(rate);
            }
        }
    }
    rates.values_mut().for_each(|rates| rates.sort_by(f64::total_cmp));
    println!("{ranks} ranks, {rounds} rounds: GiB/s to each peer, median (least to most)");
    for kib in KIB {
        let medians = WAYS.map(|way| {
            let rates = &rates[&(kib, way)];
            let (least, most) = (rates[0], rates[rates.len() - 1]);
            let median = rates[rates.len() / 2];
            println!("{kib:>5} KiB  {way:<14} {median:.2} ({least:.2} to {most:.2})");
            median
        });
        println!("{kib:>5} KiB  share          {:.2}", medians[1] / medians[0]);
    }
}

/// One launch, which measures all sizes: KiB and GiB/s.
fn launch(ranks: &str, way: &str) -> Vec<(usize, f64)> {
    let mut launcher = Command::new("mpirun");
    launcher.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    launcher.args(["--oversubscribe", "-n", ranks]).arg(std::env::current_exe().unwrap()).arg(way);
    let output = launcher.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "mpirun ended well");
    let text = String::from_utf8(output.stdout).unwrap();
    let pair = |line: &str| {
        let (kib, rate) = line.split_once(' ').unwrap();
        (kib.parse().unwrap(), rate.parse().unwrap())
    };
    text.lines().map(pair).collect()
}

/// Exchanges `BYTES` in messages of each size, and says how fast, if it is rank 0.
fn measure(rank: usize, mut exchange: impl FnMut(usize)) {
    for kib in KIB {
        // The first few bring memory and connections about.
        (0..10).for_each(|_| exchange(kib << 10));
        let times = BYTES / (kib << 10);
        let start = Instant::now();
        (0..times).for_each(|_| exchange(kib << 10));
        let seconds = start.elapsed().as_secs_f64();
        if rank == 0 {
            println!("{kib} {}", (times * kib) as f64 / f64::from(1 << 20) / seconds);
        }
    }
}

fn raw() {
    let universe = ::mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let (mut sent, mut came) = (Vec::new(), Vec::new());
    measure(rank, |bytes| {
        let words = bytes / 8;
        sent.resize(words * (size - 1), 1u64);
        came.resize(words * (size - 1), 0u64);
        let counts: Vec<i32> =
            (0..size).map(|peer| if peer == rank { 0 } else { words as i32 }).collect();
        let before = |peer| counts[..peer].iter().sum();
        let places: Vec<i32> = (0..size).map(before).collect();
        let from = Partition::new(&sent[..], &counts[..], &places[..]);
        let mut to = PartitionMut::new(&mut came[..], &counts[..], &places[..]);
        world.all_to_all_varcount_into(&from, &mut to);
        // As messages do: memory that is always the sender's stays in the receiver's cache.
        std::mem::swap(&mut sent, &mut came);
    });
}

fn ours() {
    let fabric = mpi::join(Options::default()).unwrap().unwrap();
    let mut messages: Vec<Message> = Vec::new();
    measure(fabric.rank(), |bytes| {
        if messages.iter().all(|message| message.bytes() != bytes + 8) {
            messages.drain(..).for_each(|message| fabric.keep(message));
            let message = |peer| {
                let mut message = fabric.message_of(bytes + 8);
                if peer != fabric.rank() {
                    message.room::<u8>(bytes).fill(1);
                }
                message
            };
            messages = (0..fabric.size()).map(message).collect();
        }
        let all = AllToAll::start(&fabric, Tag(1), std::mem::take(&mut messages)).unwrap();
        messages = fabric.wait(all).unwrap();
    });
    fabric.wait(Barrier::start(Tag(0))).unwrap();
    fabric.end();
}
