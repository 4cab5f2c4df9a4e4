//! `stepwell-lab bench train`.

use stepwell_bench::train::{self, StoreAge};
use stepwell_cli::Failure;
use stepwell_cli::say::{Page, put};

use super::arguments::{check_directory, config, models};
use super::measured::measured;
use crate::cli::BenchTrainArgs;

/// Settings that only `bench train` chooses.
pub(super) const OWN: [(&str, &str); 4] = [
    ("data.epochs", "give --examples"),
    ("tiers.dram", "give --shares"),
    ("tiers.ssd", "give --dir"),
    ("tiers.page_cache", "it measures the disk"),
];

/// Measures training out of core.
pub(super) fn run(args: &BenchTrainArgs) -> Result<(), Failure> {
    check_directory(&args.dir)?;
    let config = config(&args.set, &OWN).map_err(Failure::Usage)?;
    let options = train::Options {
        directory: args.dir.clone(),
        rows: args.rows,
        skew: args.skew,
        equal: args.equal,
        warmup: args.warmup,
        examples: args.examples,
        models: models(&args.models).map_err(Failure::Usage)?,
        shares: args.shares.clone(),
        stores: stores(&args.store).map_err(Failure::Usage)?,
        only_out_of_core: args.only_out_of_core,
        no_plain: args.no_plain,
        config,
    };
    measured(&args.json, &[], |say, keep| train::run(&options, say, keep), show)
}

fn stores(names: &[String]) -> Result<Vec<StoreAge>, String> {
    let mut stores = Vec::new();
    for name in names {
        let store = name.parse().map_err(|why| format!("--store {name}: {why}"))?;
        if stores.contains(&store) {
            return Err(format!("--store: {name} is given twice; give it once"));
        }
        stores.push(store);
    }
    Ok(stores)
}

fn show(figures: &train::Figures) -> Page {
    let mut page = Page::default();
    for made in &figures.stores {
        put!(
            page,
            "{:<8} {} rows of {} bytes in {:.0} s: {:.2} times written, {:.1} % of its versions \
             dead",
            made.store.map_or("", StoreAge::name),
            made.rows,
            made.row_bytes,
            made.seconds,
            made.writes as f64 / made.rows.max(1) as f64,
            made.dead_share * 100.0,
        );
    }
    let unit = "per example:";
    put!(
        page,
        "{:<10}{:<8}{:>7}{:>10}{:>11}{:>12}  {unit} {:>7}{:>8}{:>8}{:>8}{:>10}{:>10}",
        "model",
        "store",
        "share",
        "slots",
        "in memory",
        "out of core",
        "cold",
        "ideal",
        "reads",
        "pages",
        "raw IOPS",
        "raw MB/s"
    );
    figures.runs.iter().for_each(|run| show_run(&mut page, run, unit));
    page
}

fn show_run(page: &mut Page, run: &train::Run, unit: &str) {
    put!(
        page,
        "{:<10}{:<8}{:>6}%{:>10}{:>11.0}{:>12.0}  {unit} {:>7.3}{:>8.3}{:>8.3}{:>8.3}{:>10.0}\
         {:>10.0}",
        run.model,
        run.store.map_or("", StoreAge::name),
        run.share,
        run.slots,
        run.in_memory_examples_per_second,
        run.examples_per_second,
        run.cold_rows_per_example,
        run.ideal_cold_rows_per_example,
        run.reads_per_example,
        run.pages_read_per_example,
        run.raw_read_iops,
        run.raw_read_bytes_per_second / 1e6,
    );
    put!(
        page,
        "          {:.1} % of the limit, {:.1} % of memory, wall {:.2} times the {}",
        run.over_limit * 100.0,
        run.over_in_memory * 100.0,
        run.wall_over_largest,
        run.bound_by
    );
    let costs = run.stage_cpu_us_per_example.iter();
    let costs: Vec<String> =
        costs.map(|cost| format!("{} {:.2}", cost.name, cost.cpu_us_per_example)).collect();
    put!(
        page,
        "          processor us an example: {:.2} ({:.2} in memory); with the warm-up: {}",
        run.cpu_us_per_example,
        run.in_memory_cpu_us_per_example,
        costs.join(", ")
    );
    put!(
        page,
        "          with the warm-up, an example: {:.2} rows put, {:.2} rows moved, {:.0} bytes \
         written",
        run.rows_put_per_example,
        run.rows_moved_per_example,
        run.bytes_written_per_example
    );
    let ratios = [
        run.rate_over_plain,
        run.reads_over_plain,
        run.pages_over_plain,
        run.disk_seconds_over_plain,
    ];
    if let [Some(rate), Some(reads), Some(pages), Some(seconds)] = ratios {
        put!(
            page,
            "          over plain: rate {rate:.2}, reads {reads:.2}, pages {pages:.2}, disk \
             seconds {seconds:.2}"
        );
    }
}
