//! `stepwell-lab bench hbm`.

use stepwell_base::ByteCount;
use stepwell_bench::hbm::{self, Figures, KernelFigures};
use stepwell_cli::Failure;
use stepwell_cli::say::{Page, put};
use stepwell_device::said;

use super::measured::measured;
use crate::cli::BenchHbmArgs;

/// Most rounds, as the times of all are kept.
const ROUNDS_MAX: usize = 1_000_000;

pub(super) fn run(args: &BenchHbmArgs) -> Result<(), Failure> {
    if !(1..=ROUNDS_MAX).contains(&args.rounds) {
        let why = format!("--rounds {}: give 1 to {ROUNDS_MAX}", args.rounds);
        return Err(Failure::Usage(why));
    }
    let options =
        hbm::Options { choice: args.device.clone(), bytes: args.bytes, rounds: args.rounds };
    measured(&args.json, &[], |say, keep| hbm::run(&options, say, keep), show)
}

fn show(figures: &Figures) -> Page {
    let (mut page, giga, million) = (Page::default(), 1e9, 1e6);
    put!(page, "{}, rows of {}", said(&figures.devices), ByteCount(figures.bytes));
    if figures.emulated {
        put!(page, "an emulated device checks every access: these figures say nothing about a GPU");
    }
    put!(page, "{:<34}{:>12.3} GB/s", "copies within", figures.copy_bytes_per_second / giga);
    for rows in &figures.rows {
        for KernelFigures { kernel, rows_per_second, bytes_per_second, over_copy, .. } in
            &rows.kernels
        {
            let name = format!("{kernel}, {} bytes", rows.row_bytes);
            let (rows, bytes) = (rows_per_second / million, bytes_per_second / giga);
            let over = 100.0 * over_copy;
            put!(page, "{name:<34}{bytes:>12.3} GB/s  {over:.1} % of copies, {rows:.3} M rows/s");
        }
    }
    let lookup = &figures.lookup;
    for table in &lookup.tables {
        let name = format!("{} places, load {}", table.places, table.load);
        let (get, insert) = (table.get_keys_per_second, table.insert_keys_per_second);
        let (get, insert) = (get / million, insert / million);
        put!(page, "{name:<34}{get:>12.3} M keys/s found, {insert:.3} inserted");
    }
    let [slots, table] = [lookup.slots_seconds, lookup.table_seconds].map(|of| of * million);
    put!(
        page,
        "{:<34}{slots:>12.3} us by slots, {table:.3} by the table: tiers.lookup = {} is cheaper",
        format!("{} rows of a step", lookup.step_rows),
        lookup.cheaper
    );
    for way in &figures.ways.host {
        let name = format!("copies of {}", ByteCount(way.bytes));
        let [up, down] = [way.up, way.down].map(|of| of / giga);
        put!(page, "{name:<34}{up:>12.3} GB/s up, {down:.3} down");
    }
    if let Some(across) = figures.ways.across {
        put!(page, "{:<34}{:>12.3} GB/s", "from the second device", across / giga);
    }
    page
}
