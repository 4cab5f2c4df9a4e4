//! `stepwell-lab bench ranks`.

use stepwell_bench::ranks::{self, Part};
use stepwell_cli::say::{Page, put};
use stepwell_cli::{Failure, launcher};

use super::arguments::{check_directory, config, models};
use super::measured::measured;
use crate::cli::BenchRanksArgs;

/// Settings that only `bench ranks` chooses.
pub(super) const OWN: [(&str, &str); 5] = [
    ("ranks", "it compares two ranks with one, and bytes of two and four"),
    ("threads", "it compares ranks of one thread with a rank of two"),
    ("train.blocks", "ranks have equal parts of 8 blocks"),
    ("tiers.dram", "it depends on the rows"),
    ("tiers.ssd", "give --dir"),
];

/// Measures several ranks.
pub(super) fn run(args: &BenchRanksArgs) -> Result<(), Failure> {
    launcher::refuse(|size| {
        format!(
            "a launcher started {size} processes, but this command launches its own with \
             --launcher; start it alone"
        )
    })?;
    check_directory(&args.dir)?;
    let options = ranks::Options {
        directory: args.dir.clone(),
        data: args.data.clone(),
        rows: args.rows,
        skew: args.skew,
        examples: args.examples,
        rounds: args.rounds,
        models: models(&args.models).map_err(Failure::Usage)?,
        parts: parts(&args.parts).map_err(Failure::Usage)?,
        launcher: args.launcher.split_whitespace().map(str::to_owned).collect(),
        config: config(&args.set, &OWN).map_err(Failure::Usage)?,
    };
    let run = |say: &mut dyn FnMut(&str), keep: &mut dyn FnMut(&_)| ranks::run(&options, say, keep);
    measured(&args.json, args.data.as_slice(), run, |figures| show(figures, &options.parts))
}

fn parts(names: &[String]) -> Result<Vec<Part>, String> {
    if names.is_empty() {
        return Ok(Part::ALL.to_vec());
    }
    let part = |name: &String| name.parse().map_err(|why| format!("--parts {name}: {why}"));
    names.iter().map(part).collect()
}

fn show(figures: &ranks::Figures, parts: &[Part]) -> Page {
    let mut page = Page::default();
    put!(page, "ranks joined by: {}", figures.fabric);
    show_exchanges(&mut page, figures, parts);
    for of in &figures.bytes {
        put!(
            page,
            "{:<10}{} ranks: {:>12.0} bytes a step, {:.3} times the least; {:.0} keys asked, {:.1} \
             messages",
            of.model,
            of.ranks,
            of.bytes_per_step,
            of.over_least,
            of.keys_per_step,
            of.messages_per_step,
        );
    }
    for of in &figures.pairs {
        let (ranks, threads) = (&of.ranks_examples_per_second, &of.threads_examples_per_second);
        put!(
            page,
            "{:<10}{:>3} % of {} rows in memory: 2 ranks of 1 thread {} examples/s, 1 rank of 2 \
             threads {}; {:.2}",
            of.model,
            of.share,
            of.rows,
            rates(ranks),
            rates(threads),
            of.ranks_over_threads,
        );
    }
    for of in &figures.network {
        put!(
            page,
            "{:<10}on {:.0} Mbit/s and {:.0} us: {} s, computing {} s, sending {:.2} s; {:.2} \
             times the longer",
            of.model,
            of.bytes_per_second * 8e-6,
            of.latency_seconds * 1e6,
            seconds(&of.wall_seconds),
            seconds(&of.computing_seconds),
            of.sending_seconds,
            of.wall_over_longest,
        );
    }
    for of in &figures.late {
        put!(
            page,
            "{:<10}late by 0 to {:.0} ms, {:<15}{} examples/s, in step {}; {:.2} (delays allow \
             {:.2}); rows lack {:.1} steps, {} at most; {:.1} % dropped",
            of.model,
            of.late_seconds_max * 1e3,
            of.dense,
            rates(&of.examples_per_second),
            rates(&of.in_step_examples_per_second),
            of.over_in_step,
            of.delays_allow,
            of.staleness_mean,
            of.staleness_max,
            of.dropped * 100.0,
        );
    }
    show_worst(&mut page, figures);
    page
}

fn show_exchanges(page: &mut Page, figures: &ranks::Figures, parts: &[Part]) {
    for of in &figures.exchanges {
        put!(
            page,
            "{:<10}{:>6} KiB to each: {:>8.3} GB/s, {} {:.3} GB/s; {:.2}",
            of.fabric,
            of.bytes >> 10,
            of.bytes_per_second / 1e9,
            of.limit,
            of.limit_bytes_per_second / 1e9,
            of.over_limit,
        );
    }
    if parts.contains(&Part::Exchange) && figures.alltoallv_over_raw.is_none() {
        let how = match cfg!(feature = "mpi") {
            true => "the launcher does not exist: give one with --launcher, such as mpirun -n 2",
            false => "this build has no MPI: build it with --features mpi",
        };
        put!(page, "messages over MPI against MPI_Alltoallv: not measured, {how}");
    }
}

/// Shows the worst figure of each part.
fn show_worst(page: &mut Page, figures: &ranks::Figures) {
    let mut line = |name: &str, figure: Option<f64>| {
        if let Some(figure) = figure {
            put!(page, "{name:<42}{figure:>7.3}");
        }
    };
    line("messages over MPI_Alltoallv, least", figures.alltoallv_over_raw);
    line("messages of threads over memcpy, least", figures.threads_alltoallv_over_memcpy);
    line("bytes of a step over the least, most", figures.bytes_over_least);
    line("time on a slow network over longest, most", figures.wall_over_longest);
}

/// Rates of each pair, in thousands.
fn rates(of: &[f64]) -> String {
    let all: Vec<String> = of.iter().map(|rate| format!("{:.1}", rate / 1e3)).collect();
    format!("{} K", all.join(" "))
}

/// Seconds of each pair.
fn seconds(of: &[f64]) -> String {
    let all: Vec<String> = of.iter().map(|seconds| format!("{seconds:.2}")).collect();
    all.join(" ")
}
