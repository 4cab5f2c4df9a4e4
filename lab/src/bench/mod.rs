//! `stepwell-lab bench`.

mod hbm;
mod ranks;
mod train;

use std::path::{Path, PathBuf};

use serde::Serialize;
use stepwell_bench::ssd::{self, Figures};
use stepwell_bench::{cpu, mem};
use stepwell_cli::say::{self, Page, put};
use stepwell_cli::{Failure, outputs};
use stepwell_settings::{Config, ModelKind, find, read_model, removed_value};

use crate::cli::{
    BenchArgs, BenchCpuArgs, BenchJob, BenchMemArgs, BenchSsdArgs, Json, file_of, is_said,
};
use crate::end::OrEnd;

/// Measures a part of the program against the machine's limits.
pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    match &args.job {
        BenchJob::Ssd(args) => run_ssd(args),
        BenchJob::Mem(args) => run_mem(args),
        BenchJob::Hbm(args) => hbm::run(args),
        BenchJob::Train(args) => train::run(args),
        BenchJob::Cpu(args) => run_cpu(args),
        BenchJob::Ranks(args) => ranks::run(args),
        #[cfg(feature = "mpi")]
        BenchJob::Alltoallv { way } => run_launched(way),
    }
}

/// Figures that are written while a benchmark runs.
#[derive(Serialize)]
struct Unfinished<'a, F> {
    unfinished: bool,
    #[serde(flatten)]
    figures: &'a F,
}

/// Runs a benchmark that reads `inputs`, and prints its figures as JSON or as a page. If `json`
/// names a file, it has the figures so far after each part, so an interrupted run leaves them.
fn measured<F: Serialize>(
    json: &Json,
    inputs: &[PathBuf],
    run: impl FnOnce(&mut dyn FnMut(&str), &mut dyn FnMut(&F)) -> stepwell_bench::Result<F>,
    page: impl FnOnce(&F) -> Page,
) -> Result<(), Failure> {
    let file = file_of(json);
    outputs::check(&[("--json", file)], inputs)?;
    let mut keep = |figures: &F| {
        let kept = outputs::write(file, &Unfinished { unfinished: true, figures });
        kept.unwrap_or_else(say::warn);
    };
    let figures = run(&mut |what| say::remark(what), &mut keep).or_end()?;
    if is_said(json) {
        return say::json(&figures);
    }
    outputs::write(file, &figures)?;
    page(&figures).say()
}

/// Refuses a directory to measure that is missing.
fn check_directory(path: &Path) -> Result<(), Failure> {
    match path.is_dir() {
        true => Ok(()),
        false => {
            let why = "is not a directory: create it first";
            Err(Failure::Usage(format!("--dir {} {why}", path.display())))
        }
    }
}

/// Measures as one of the processes that `bench ranks` launched.
#[cfg(feature = "mpi")]
fn run_launched(way: &str) -> Result<(), Failure> {
    let way = way.parse().map_err(|why| format!("{way}: {why}"))?;
    let said = stepwell_bench::ranks::launched(way).or_end()?;
    say::whole(&said)
}

fn run_cpu(args: &BenchCpuArgs) -> Result<(), Failure> {
    let options = cpu::Options {
        rows: args.rows,
        skew: args.skew,
        ids_per_slot: args.ids_per_slot,
        steps: args.steps,
        models: models(&args.models).map_err(Failure::Usage)?,
        threads: args.threads.clone(),
        limits: !args.no_limits,
        config: config(&args.set, &CPU_OWN).map_err(Failure::Usage)?,
    };
    measured(&args.json, &[], |say, keep| cpu::run(&options, say, keep), show_cpu)
}

fn show_cpu(figures: &cpu::Figures) -> Page {
    let mut page = Page::default();
    let giga = 1e9;
    for limits in &figures.limits {
        put!(
            page,
            "{} threads: {:.1} GFLOP/s in registers, {:.1} in products of matrices, {:.1} in bf16; \
             {:.1} GB/s copied, {:.1} GB/s of rows read at random",
            limits.threads,
            limits.fma_flops_per_second / giga,
            limits.gemm_flops_per_second / giga,
            limits.bf16_gemm_flops_per_second / giga,
            limits.memcpy_bytes_per_second / giga,
            limits.gather_bytes_per_second / giga,
        );
    }
    for run in &figures.runs {
        put!(
            page,
            "{:<10}{} threads {:>9.0} examples/s ({:.0} in the fastest step, {:.0} with grouping \
             and planning) {:>7.1} GFLOP/s, {:.1} % of products; rows {:.1} % of bare loops",
            run.model,
            run.threads,
            run.step_examples_per_second,
            run.fastest_step_examples_per_second,
            run.examples_per_second,
            run.flops_per_second / giga,
            run.over_gemm * 100.0,
            run.rows_over_limit * 100.0,
        );
        for kernel in &run.kernels {
            put!(
                page,
                "    {:<10}{:>9.3} s{:>9.1} GFLOP/s{:>9.1} GB/s",
                kernel.name,
                kernel.seconds,
                kernel.flops_per_second / giga,
                kernel.bytes_per_second / giga
            );
        }
    }
    page
}

/// Settings that `bench train`, `bench cpu` and `bench ranks` refuse, and what to give instead. A
/// key that ends in a point or an underscore means all that begin with it.
const OWN: [(&str, &str); 12] = [
    ("data.paths", "its examples follow from --rows and --skew"),
    ("data.eval_", "it evaluates nothing"),
    ("data.skip_max", "it has no malformed lines"),
    ("synth.", "its examples follow from --rows and --skew"),
    ("model.kind", "give --models"),
    ("checkpoint.", "it writes no checkpoints"),
    ("tables.", "it measures one table with all columns"),
    ("features.", "it measures one table with all columns"),
    ("rows.admit_", NO_LIFE),
    ("rows.expire_after", NO_LIFE),
    ("rows.history", NO_LIFE),
    ("rows.sketch", NO_LIFE),
];

/// Settings that only `bench cpu` chooses or does not use.
const CPU_OWN: [(&str, &str); 5] = [
    ("threads", "give --threads"),
    ("data.epochs", "give --steps"),
    ("data.batch", "a step has data.mini_batch examples"),
    ("tiers.", "all rows are in memory"),
    ("pipeline.", "it runs steps without the pipeline"),
];

const NO_LIFE: &str = "it does not measure rows that come and go";

/// The settings of a benchmark: the built-in ones, changed by KEY=VALUE pairs other than its `own`.
fn config(pairs: &[String], own: &[(&str, &str)]) -> Result<Config, String> {
    let mut config = Config::default();
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or(format!("--set {pair}: give KEY=VALUE"))?;
        let key = key.trim();
        let is_of = |name: &str| match name.ends_with(['.', '_']) {
            true => key.starts_with(name),
            false => key == name,
        };
        if let Some((_, instead)) = OWN.iter().chain(own).find(|(name, _)| is_of(name)) {
            return Err(format!("--set {key}: this benchmark does not take it: {instead}"));
        }
        find(key)?.set(&mut config, value)?;
        removed_value(key, value).into_iter().for_each(say::warn);
    }
    config.check()?;
    Ok(config)
}

fn models(names: &[String]) -> Result<Vec<ModelKind>, String> {
    let model = |name: &String| read_model(name).map_err(|why| format!("--models {name}: {why}"));
    match names {
        [] => Ok(ModelKind::ALL.to_vec()),
        names => names.iter().map(model).collect(),
    }
}

fn run_mem(args: &BenchMemArgs) -> Result<(), Failure> {
    let options = mem::Options {
        keys: args.keys,
        slots: args.slots,
        row_bytes: args.row_bytes,
        skew: args.skew,
        batch: args.batch,
        lookups: args.lookups,
        rounds: args.rounds,
    };
    measured(&args.json, &[], |say, keep| mem::run(&options, say, keep), show_mem)
}

fn show_mem(figures: &mem::Figures) -> Page {
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

fn run_ssd(args: &BenchSsdArgs) -> Result<(), Failure> {
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

#[cfg(test)]
mod tests {
    use stepwell_settings::{SETTINGS, look_up};

    use super::*;

    #[test]
    fn what_a_benchmark_does_not_take_are_settings() {
        for (own, _) in OWN.iter().chain(&train::OWN).chain(&CPU_OWN).chain(&ranks::OWN) {
            let of_run = SETTINGS.iter().any(|setting| setting.key.starts_with(own));
            let of_part =
                ["a.dim", "1.ids"].iter().any(|key| look_up(&format!("{own}{key}")).is_ok());
            assert!(of_run || of_part, "{own}");
        }
    }
}
