//! The `stepwell` program: reads what people type, runs the job, prints what came of it.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is what a program is for")]

mod bench;
mod cache_sim;
mod cli;
mod convert;
mod eval;
mod file;
mod inspect;
mod outputs;
mod progress;
mod settings;
mod store;
mod synth;
mod table;
mod train;

use std::process::ExitCode;

use cli::Job;

/// Keeps the memory of finished batches for the next ones instead of returning it to the system,
/// whose clearing of pages takes a fifth of a run otherwise.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match cli::parse().job {
        Job::Train(args) => train::run(&args),
        Job::Eval(args) => eval::run(&args),
        Job::Inspect(args) => inspect::run(&args),
        Job::Synth(args) => synth::run(&args),
        Job::Convert(args) => convert::run(&args),
        Job::Plan(args) => train::plan(&args),
        Job::Store(args) => store::run(&args),
        Job::Bench(args) => bench::run(&args),
        Job::CacheSim(args) => cache_sim::run(&args),
        Job::Config => {
            table::print_settings();
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("stepwell: {message}");
            ExitCode::FAILURE
        }
    }
}
