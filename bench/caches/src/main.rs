//! `caches`: Stepwell's rows in memory and caches for general use, in turns with a bare loop.

#![forbid(unsafe_code)]

mod engine;
mod machine;
mod measure;
mod options;
mod report;
mod sequence;
mod stepwell;
mod workload;

use std::process::ExitCode;

use clap::Parser;

use engine::Engine;
use machine::Memory;
use measure::Measured;
use options::Options;
use report::Report;
use sequence::Sequence;
use stepwell::Shard;
use workload::{Row, SHARDS, present};

/// What went wrong, in a line.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            progress(&message);
            ExitCode::FAILURE
        }
    }
}

/// Says on standard error what is going on.
#[expect(clippy::print_stderr, reason = "the one place where progress is printed")]
fn progress(message: &str) {
    eprintln!("caches: {message}");
}

#[expect(clippy::print_stdout, reason = "the table is what the program is for")]
fn run(options: Options) -> Result<()> {
    options.check()?;
    machine::set_up_allocator(options.pages)?;
    let report = measure_all(options)?;
    println!("{}", report::table(&report));
    write_json(&report)
}

/// Ours first; its rows stay in memory as the array of the limit.
fn measure_all(options: Options) -> Result<Report> {
    let machine = machine::Machine::here();
    measure::begin_threads();
    progress("stepwell: filling memory");
    let (shards, memory) = measure::growth(|| Shard::all(&options));
    let mut shards = shards?;
    progress("drawing look-ups");
    let sequences = Sequence::all(&options, &shards);
    for (shard, sequence) in shards.iter().zip(&sequences) {
        shard.check(sequence)?;
    }
    progress("stepwell: look-ups");
    let measured = measure::ours(&mut shards, &sequences, options.rounds)?;
    let rows = shards.iter().map(|shard| shard.rows() as u64).sum();
    let asked = sequences.iter().map(|sequence| sequence.keys.len() as u64).sum();
    let mut engines: Vec<_> =
        measured.into_iter().map(|measured| measured.figures(Some(memory), rows, asked)).collect();
    engines.iter().for_each(|figures| progress(&report::in_short(figures)));
    let base = Memory::now();
    for engine in options.engines() {
        // In a thread of its own: what a thread keeps of freed memory goes when it ends, so that
        // the next engine's growth begins where this one's began.
        let (measured, memory) = std::thread::scope(|scope| {
            let run = || measure_peer(engine, &options, base, &mut shards, &sequences);
            scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let figures = measured.figures(memory, rows, asked);
        progress(&report::in_short(&figures));
        engines.push(figures);
    }
    let (command, load) = (std::env::args().collect(), machine::load_average());
    Ok(Report { command, machine, load_average_at_the_end: load, options, asked, rows, engines })
}

/// Fills a cache, checks what it gives, and measures it.
fn measure_peer(
    engine: Engine,
    options: &Options,
    base: Memory,
    shards: &mut [Shard],
    sequences: &[Sequence],
) -> Result<(Measured, Option<Memory>)> {
    let name = engine.name();
    // What an engine before left behind is used again, and is not seen as growth.
    let kept_max = options.rows * size_of::<Row>() as u64 / 64;
    let clean = Memory::now().since(base).bytes <= kept_max;
    progress(&format!("{name}: filling memory"));
    let (peer, memory) = measure::growth(|| {
        let peer = engine.empty(options.rows as usize);
        (0..SHARDS).for_each(|shard| peer.fill(&present(options, shard)));
        peer
    });
    for sequence in sequences {
        peer.check(&sequence.keys).map_err(|why| format!("{name}: {why}"))?;
    }
    progress(&format!("{name}: look-ups"));
    let measured = measure::peer(engine, &*peer, shards, sequences, options.rounds)?;
    Ok((measured, Some(memory).filter(|_| clean)))
}

fn write_json(report: &Report) -> Result<()> {
    let Some(path) = &report.options.json else { return Ok(()) };
    let cannot =
        |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let mut text = serde_json::to_vec_pretty(report).map_err(|error| cannot(&error))?;
    text.push(b'\n');
    std::fs::write(path, text).map_err(|error| cannot(&error))
}
