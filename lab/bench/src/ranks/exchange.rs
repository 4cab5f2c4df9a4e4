//! All-to-all messages, compared with copies in memory and with MPI's all-to-all.
//!
//! MPI is measured in processes launched separately for each method and round, so that the methods
//! don't disturb each other.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Barrier;
use std::time::Instant;

use stepwell_fabric::{speed, threads};

use super::figures::{Exchange, Figures};
use crate::measure::{median, over};
use crate::{Error, Result};

/// Bytes per pair, from 1 KiB to 16 MiB.
const SIZES: [usize; 8] =
    [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// Smallest size that counts for the summary.
const COUNTS_FROM: usize = 256 << 10;
/// Approximate bytes per pair in one measurement, and the most exchanges.
const BYTES: usize = 256 << 20;
const TIMES_MAX: usize = 20_000;
/// Number of ranks that are threads.
const RANKS: usize = 2;

/// Measurement of a launched process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `MPI_Alltoallv`.
    Raw,
    /// Messages of the fabric over MPI.
    Ours,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Ours => "ours",
        }
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let found = [Self::Raw, Self::Ours].into_iter().find(|way| way.name() == name);
        found.ok_or_else(|| "give raw or ours".to_owned())
    }
}

/// Number of exchanges of `bytes` bytes in one measurement.
fn times(bytes: usize) -> usize {
    (BYTES / bytes).clamp(1, TIMES_MAX)
}

/// By size, the rates of both sides: the fabric's first.
type Rates = BTreeMap<usize, [Vec<f64>; 2]>;

pub(super) fn run(
    rounds: usize,
    launcher: &[String],
    say: &mut dyn FnMut(&str),
    figures: &mut Figures,
) -> Result<()> {
    let mut rates = Rates::new();
    for round in 0..rounds {
        say(&format!(
            "messages of two threads and copies in memory: pair {} of {rounds}",
            round + 1
        ));
        for bytes in SIZES {
            let sides: [fn(usize) -> Result<f64>; 2] = [messages, copies];
            for turn in 0..2 {
                let side = (round + turn) % 2;
                let rate = (times(bytes) * bytes) as f64 / sides[side](bytes)?;
                rates.entry(bytes).or_default()[side].push(rate);
            }
        }
    }
    let all = figures_of(rates, "threads", "memcpy");
    figures.threads_alltoallv_over_memcpy = worst(&all);
    figures.exchanges.extend(all);
    if !cfg!(feature = "mpi") {
        return Ok(());
    }
    if let Some(rates) = over_mpi(rounds, launcher, say)? {
        let all = figures_of(rates, "mpi", "MPI_Alltoallv");
        figures.alltoallv_over_raw = worst(&all);
        figures.exchanges.extend(all);
    }
    Ok(())
}

fn figures_of(rates: Rates, fabric: &'static str, limit: &'static str) -> Vec<Exchange> {
    let of_size = |(bytes, [ours, theirs]): (usize, [Vec<f64>; 2])| {
        let (ours, theirs) = (median(ours), median(theirs));
        Exchange {
            fabric,
            limit,
            bytes,
            bytes_per_second: ours,
            limit_bytes_per_second: theirs,
            over_limit: over(ours, theirs),
        }
    };
    rates.into_iter().map(of_size).collect()
}

/// Lowest ratio among the sizes that count.
fn worst(all: &[Exchange]) -> Option<f64> {
    let large = all.iter().filter(|of| of.bytes >= COUNTS_FROM);
    large.map(|of| of.over_limit).min_by(f64::total_cmp)
}

/// Seconds of exchanges between ranks that are threads.
fn messages(bytes: usize) -> Result<f64> {
    let ranks = threads(RANKS);
    on_threads(|rank| {
        let seconds = speed::all_to_all_seconds(&ranks[rank], bytes, times(bytes));
        seconds.map_err(|error| Error::Arguments(error.to_string()))
    })
}

/// Seconds of the same number of threads that copy the same bytes in their own memory.
fn copies(bytes: usize) -> Result<f64> {
    let begin = Barrier::new(RANKS);
    on_threads(|_| {
        let (mut from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
        let mut copy = || {
            to.copy_from_slice(black_box(&from));
            // Like messages: received data is sent next.
            std::mem::swap(&mut from, &mut to);
        };
        (0..speed::WARM_UP).for_each(|_| copy());
        begin.wait();
        let watch = Instant::now();
        (0..times(bytes)).for_each(|_| copy());
        black_box(&from);
        Ok(watch.elapsed().as_secs_f64())
    })
}

/// Longest time of all ranks' threads.
fn on_threads(job: impl Fn(usize) -> Result<f64> + Sync) -> Result<f64> {
    let outcomes: Vec<Result<f64>> = std::thread::scope(|scope| {
        let job = &job;
        let threads: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || job(rank))).collect();
        let panicked = |_| Err(Error::Arguments("a rank panicked".to_owned()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    outcomes.into_iter().try_fold(0.0, |longest, seconds| Ok(seconds?.max(longest)))
}

/// Rates of messages over MPI and of MPI's all-to-all; `None` if the launcher doesn't exist.
fn over_mpi(
    rounds: usize,
    launcher: &[String],
    say: &mut dyn FnMut(&str),
) -> Result<Option<Rates>> {
    let mut rates = Rates::new();
    for round in 0..rounds {
        say(&format!("messages over MPI and MPI_Alltoallv: pair {} of {rounds}", round + 1));
        for turn in 0..2 {
            let side = (round + turn) % 2;
            let Some(measured) = launch(launcher, [Way::Ours, Way::Raw][side])? else {
                return Ok(None);
            };
            for (bytes, rate) in measured {
                rates.entry(bytes).or_default()[side].push(rate);
            }
        }
    }
    Ok(Some(rates))
}

/// Launches once, measuring all sizes; `None` if the launcher doesn't exist.
fn launch(launcher: &[String], way: Way) -> Result<Option<Vec<(usize, f64)>>> {
    let name = launcher.join(" ");
    let failed = |why: &str| Error::Arguments(format!("--launcher '{name}': {why}"));
    let (program, args) = launcher.split_first().ok_or_else(|| failed("give a program"))?;
    let own = std::env::current_exe().map_err(|error| failed(&error.to_string()))?;
    let mut command = Command::new(program);
    // Benchmarks may run as root.
    let allow = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    command.envs(allow.map(|name| (name, "1"))).stderr(Stdio::inherit());
    command.args(args).arg(own).args(["bench", "alltoallv", way.name()]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error.to_string())),
    };
    if !output.status.success() {
        return Err(failed("it failed; its output is above"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| {
        let (bytes, rate) = line.split_once(' ')?;
        Some((bytes.parse().ok()?, rate.parse().ok()?))
    };
    let rates: Option<Vec<_>> = text.lines().map(line).collect();
    let whole = rates.filter(|rates| rates.len() == SIZES.len());
    whole.map(Some).ok_or_else(|| failed("its output is not a list of rates"))
}

/// Measures one method as one of the launched processes. Rank 0 returns lines with bytes per pair
/// and bytes per second.
///
/// # Errors
/// MPI doesn't work.
#[cfg(feature = "mpi")]
pub fn launched(way: Way) -> Result<String> {
    use stepwell_fabric::collective;
    use stepwell_fabric::{Tag, mpi};

    let failed = |error: stepwell_fabric::Error| Error::Arguments(error.to_string());
    let sizes = SIZES.map(|bytes| (bytes, times(bytes)));
    let (rank, seconds) = match way {
        Way::Raw => mpi::alltoallv::seconds(&sizes).map_err(failed)?,
        Way::Ours => {
            let fabric = mpi::join(mpi::Options::default()).map_err(failed)?;
            let alone = || Error::Arguments("launch it with MPI".to_owned());
            let fabric = fabric.ok_or_else(alone)?;
            let of_size = |(bytes, times)| speed::all_to_all_seconds(&fabric, bytes, times);
            let seconds = sizes.into_iter().map(of_size).collect::<std::result::Result<_, _>>();
            let seconds = seconds.map_err(failed)?;
            fabric.wait(collective::Barrier::start(Tag(0))).map_err(failed)?;
            fabric.end();
            (fabric.rank(), seconds)
        }
    };
    let line = |((bytes, times), seconds): (&(usize, usize), &f64)| {
        format!("{bytes} {}\n", (bytes * times) as f64 / seconds)
    };
    let lines: String = sizes.iter().zip(&seconds).map(line).collect();
    Ok(if rank == 0 { lines } else { String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_count_for_the_one_figure() {
        let rates: Rates = SIZES
            .into_iter()
            .map(|bytes| {
                (bytes, [vec![bytes as f64; 3], vec![8.0 * bytes as f64, 2.0 * bytes as f64]])
            })
            .collect();
        let all = figures_of(rates, "threads", "memcpy");
        assert!(all.iter().all(|of| of.over_limit == 0.125), "the upper of two");
        let small = Exchange { bytes: 1024, over_limit: 0.01, ..all[0].clone() };
        let large = Exchange { bytes: COUNTS_FROM, over_limit: 0.1, ..all[0].clone() };
        assert_eq!(worst(&[small.clone(), large, all[7].clone()]), Some(0.1));
        assert_eq!(worst(&[small]), None);
        assert_eq!((times(1 << 10), times(16 << 20), times(1 << 40)), (TIMES_MAX, 16, 1));
    }

    #[test]
    fn both_sides_take_time() {
        assert!(messages(64 << 10).unwrap() > 0.0 && copies(64 << 10).unwrap() > 0.0);
    }
}
