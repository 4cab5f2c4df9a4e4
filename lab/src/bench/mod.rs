//! `stepwell-lab bench`.

mod arguments;
mod cpu;
mod hbm;
mod measured;
mod mem;
mod ranks;
mod ssd;
mod train;

use stepwell_cli::Failure;
#[cfg(feature = "mpi")]
use stepwell_cli::say;

use crate::cli::{BenchArgs, BenchJob};
#[cfg(feature = "mpi")]
use crate::end::OrEnd;

/// Measures a part of the program against the machine's limits.
pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    match &args.job {
        BenchJob::Ssd(args) => ssd::run(args),
        BenchJob::Mem(args) => mem::run(args),
        BenchJob::Hbm(args) => hbm::run(args),
        BenchJob::Train(args) => train::run(args),
        BenchJob::Cpu(args) => cpu::run(args),
        BenchJob::Ranks(args) => ranks::run(args),
        #[cfg(feature = "mpi")]
        BenchJob::Alltoallv { way } => run_launched(way),
    }
}

/// Measures as one of the processes that `bench ranks` launched.
#[cfg(feature = "mpi")]
fn run_launched(way: &str) -> Result<(), Failure> {
    let way = way.parse().map_err(|why| format!("{way}: {why}"))?;
    let said = stepwell_bench::ranks::launched(way).or_end()?;
    say::whole(&said)
}

#[cfg(test)]
mod tests {
    use stepwell_settings::{SETTINGS, look_up};

    use super::arguments::OWN;
    use super::*;

    #[test]
    fn what_a_benchmark_does_not_take_are_settings() {
        for (own, _) in OWN.iter().chain(&train::OWN).chain(&cpu::OWN).chain(&ranks::OWN) {
            let of_run = SETTINGS.iter().any(|setting| setting.key.starts_with(own));
            let of_part =
                ["a.dim", "1.ids"].iter().any(|key| look_up(&format!("{own}{key}")).is_ok());
            assert!(of_run || of_part, "{own}");
        }
    }
}
