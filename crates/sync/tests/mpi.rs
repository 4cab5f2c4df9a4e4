//! Ranks as processes: every protocol, on threads, over MPI.
//!
//! If MPI did not launch it, this program launches itself by `mpirun`, once for each protocol, and
//! again, with messages, for protocols that put. It adds up its ranks' counts of gradients.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test program prints its results")]

#[path = "protocols/problem.rs"]
mod problem;

use std::process::ExitCode;

use stepwell_fabric::mpi::launcher::again;
use stepwell_fabric::mpi::{self, Options, Puts};
use stepwell_sync::{Counts, Driven, Kind};

use problem::{begin, drive_rank, on_threads, options, plain_loop};

const RANKS: usize = 4;
const BY_MESSAGES: &str = "by messages";
const ONE_SIDED: &str = "one-sided";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if mpi::is_launched() {
        run_rank(arguments[0].parse().unwrap(), &arguments[1]);
        return ExitCode::SUCCESS;
    }
    if let Err(error) = again(1, &[]) {
        stepwell_skip::skipped(error);
        return ExitCode::SUCCESS;
    }
    let mut failures = 0;
    let all = Kind::ALL.map(|kind| (kind, ONE_SIDED)).into_iter();
    let putting = [Kind::SyncDsgd, Kind::RdmaWild].map(|kind| (kind, BY_MESSAGES));
    for (kind, way) in all.chain(putting) {
        match launch(kind, way).and_then(|said| judge(kind, &said)) {
            Ok(counts) => println!("{kind}, {way}: ok, {counts:?}"),
            Err(wrong) => {
                println!("{kind}, {way}: FAILED, {wrong}");
                failures += 1;
            }
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The output of the ranks of a protocol.
fn launch(kind: Kind, way: &str) -> Result<String, String> {
    let mut launcher = again(RANKS, &[]).unwrap();
    let output = launcher.args([kind.name(), way]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// One rank: trains, and prints its result.
fn run_rank(kind: Kind, way: &str) {
    let puts = if way == ONE_SIDED { Puts::OneSided } else { Puts::Messages };
    let options = Options { patience_seconds: 30.0, puts, ..Options::default() };
    let fabric = mpi::join(options).unwrap().unwrap();
    let driven = drive_rank(&fabric, kind, &problem::options());
    fabric.end();
    println!("{}", line(fabric.rank(), &driven));
}

/// `rank r: given used dropped left model`, with the bits of the model's numbers.
fn line(rank: usize, driven: &Driven<f64>) -> String {
    let Counts { given, used, dropped, left, .. } = driven.counts;
    let bits: Vec<String> = driven.model.iter().map(|w| format!("{:x}", w.to_bits())).collect();
    format!("rank {rank}: {given} {used} {dropped} {left} {}", bits.join(","))
}

/// Checks that no gradient was lost, and that the model equals the model of ranks as threads if the
/// order does not matter.
fn judge(kind: Kind, said: &str) -> Result<Counts, String> {
    let mut all = Vec::new();
    let mut models = Vec::new();
    for rank in 0..RANKS {
        let start = format!("rank {rank}: ");
        let found = said.lines().find_map(|line| line.strip_prefix(&start));
        let words: Vec<&str> = found.unwrap_or_default().split(' ').collect();
        let [given, used, dropped, left, model] = words[..] else {
            return Err(format!("rank {rank} printed no results: {said}"));
        };
        let [given, used, dropped, left] =
            [given, used, dropped, left].map(|count| count.parse().unwrap());
        all.push(Counts { given, used, dropped, left, ..Counts::default() });
        models.push(model.split(',').map(bits).collect::<Vec<f64>>());
    }
    let counts = Counts::sum(all);
    if counts.lost() != 0 || counts.used == 0 {
        return Err(format!("{} gradients lost: {counts:?}", counts.lost()));
    }
    let model = &models[0];
    if *model == begin() || !model.iter().all(|value| value.is_finite()) {
        return Err(format!("it did not learn: {model:?}"));
    }
    let replicas = [Kind::Bsp, Kind::EagerMajority, Kind::Rna].contains(&kind);
    if replicas && models.iter().any(|other| other != model) {
        return Err(format!("ranks differ after the same sums: {models:?}"));
    }
    if [Kind::Bsp, Kind::SyncDsgd].contains(&kind) {
        let workers = RANKS - kind.workers(RANKS)..RANKS;
        let threads = &on_threads(kind, RANKS, &options())[0].model;
        if model != threads || *model != plain_loop(workers, &options()) {
            return Err(format!("{model:?} instead of {threads:?}"));
        }
    }
    Ok(counts)
}

fn bits(text: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(text, 16).unwrap())
}
