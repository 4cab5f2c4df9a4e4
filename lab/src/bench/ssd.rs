//! `stepwell-lab bench ssd`.

use stepwell_bench::ssd::{self, Figures};
use stepwell_cli::Failure;
use stepwell_cli::say::{Page, put};

use super::arguments::check_directory;
use super::measured::measured;
use crate::cli::BenchSsdArgs;

/// Measures the store of rows.
pub(super) fn run(args: &BenchSsdArgs) -> Result<(), Failure> {
    check_directory(&args.dir)?;
    let options = ssd::Options {
        directory: args.dir.clone(),
        rows: args.rows,
        row_bytes: args.row_bytes,
        batch: args.batch,
        skew: args.skew,
        depth: args.depth,
        seconds: args.seconds,
        overwrites: args.overwrites,
        rounds: args.rounds,
        index_rows: args.index_rows,
    };
    measured(&args.json, &[], |say, keep| ssd::run(&options, say, keep), show)
}

fn show(figures: &Figures) -> Page {
    let mut page = Page::default();
    let million = 1e6;
    let line = |to: &mut Page, name: &str, value: f64, unit: &str, limit: &str| {
        put!(to, "{name:<34}{value:>12.3} {unit:<12}{limit}");
    };
    let over = |ratio: f64, what: &str| format!("{:.1} % of {what}", ratio * 100.0);
    let (f, to) = (figures, &mut page);
    line(to, "raw random reads", f.raw_read_iops / 1e3, "K/s", "");
    let raw = "raw reads";
    line(
        to,
        "cold rows, four look-ups",
        f.cold_rows_per_second / 1e3,
        "K/s",
        &over(f.read_over_raw, raw),
    );
    let one = over(f.read_over_raw_one, raw);
    line(to, "cold rows, one look-up", f.cold_rows_per_second_one / 1e3, "K/s", &one);
    let raw_cpu = format!("{:.3} us for a raw read", f.raw_cpu_us_per_read);
    line(to, "processor time of a cold row", f.cpu_us_per_row, "us", &raw_cpu);
    let times = |ratio: f64| format!("{ratio:.2} times cold rows");
    line(
        to,
        "rows put together",
        f.grouped_rows_per_second / 1e3,
        "K/s",
        &times(f.grouped_over_cold),
    );
    line(
        to,
        "half together, half random",
        f.mixed_rows_per_second / 1e3,
        "K/s",
        &times(f.mixed_over_cold),
    );
    line(to, "raw sequential write", f.raw_write_bytes_per_second / million, "MB/s", "");
    let load = over(f.load_over_raw, "the raw write");
    line(to, "bulk load, payload", f.load_bytes_per_second / million, "MB/s", &load);
    line(to, "bulk load", f.load_rows_per_second / million, "M rows/s", "");
    let update = over(f.update_over_raw, "the raw write");
    line(to, "random updates", f.update_rows_per_second / million, "M rows/s", &update);
    line(to, "overwriting", f.overwrite_rows_per_second / million, "M rows/s", "");
    line(to, "space afterwards, times live", f.space_amplification, "", "");
    line(to, "  maximum", f.space_amplification_most, "", "");
    line(to, "bytes written over bytes put", f.write_amplification, "", "");
    line(to, "head, padding and footer", f.format_overhead * 100.0, "%", "of payload");
    line(to, "  rows of 512 to 16384, at most", f.row_space_worst, "", "times the payload");
    line(to, "  rows of 64", f.row_space_64, "", "times the payload");
    line(to, "index", f.index_bytes_per_key, "bytes/key", "");
    line(to, "index, reopened", f.index_bytes_per_key_reopened, "bytes/key", "");
    for (name, value, unit) in [
        ("index, maximum while growing", f.index_bytes_per_key_growing, "bytes/key"),
        ("  longest rewrite", f.index_rewrite_ms_longest, "ms"),
        ("  longest put of 1024", f.growing_put_ms_most, "ms"),
    ] {
        match f.index_bytes_per_key_growing > 0.0 {
            true => line(to, name, value, unit, ""),
            false => put!(to, "{name:<34}{:>12} (not measured: --index-rows)", "-"),
        }
    }
    line(to, "reopening", f.reopen_seconds, "s", "");
    line(to, "  by one thread", f.open_ns_per_row, "ns/row", "of all in segments");
    line(to, "  by two", f.open_ns_per_row_two, "ns/row", "");
    let anew = over(f.refresh_over_open, "opening again");
    line(to, "refreshing, 1 % changed", f.refresh_ms, "ms", &anew);
    line(to, "snapshot", f.snapshot_seconds, "s", "");
    page
}
