//! `stepwell-lab bench mem`.

use stepwell_bench::mem::{self, Figures};
use stepwell_cli::Failure;
use stepwell_cli::say::{Page, put};

use super::measured::measured;
use crate::cli::BenchMemArgs;

/// Measures rows in memory.
pub(super) fn run(args: &BenchMemArgs) -> Result<(), Failure> {
    let options = mem::Options {
        keys: args.keys,
        slots: args.slots,
        row_bytes: args.row_bytes,
        skew: args.skew,
        batch: args.batch,
        lookups: args.lookups,
        rounds: args.rounds,
    };
    measured(&args.json, &[], |say, keep| mem::run(&options, say, keep), show)
}

fn show(figures: &Figures) -> Page {
    let mut page = Page::default();
    put!(page, "{:<34}{:>12.3} bytes/row", "metadata of a row", figures.metadata_bytes_per_row);
    put!(page, "{:<34}{:>12.3} %", "keys with a row in memory", figures.hit_rate * 100.0);
    for rates in &figures.threads {
        let mut line = |name: &str, rate: f64, ratio: f64| {
            let name = format!("{name}, {} threads", rates.threads);
            let rate = rate / 1e6;
            put!(page, "{name:<34}{rate:>12.3} M/s  {:.1} % of a bare loop", ratio * 100.0);
        };
        line("look-ups with their rows", rates.lookups, rates.lookup_over_limit);
        line("pooled rows", rates.gather, rates.gather_over_limit);
        line("updated rows", rates.scatter, rates.scatter_over_limit);
    }
    page
}
