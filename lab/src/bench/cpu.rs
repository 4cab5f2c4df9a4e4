//! `stepwell-lab bench cpu`.

use stepwell_bench::cpu::{self, Figures};
use stepwell_cli::Failure;
use stepwell_cli::say::{Page, put};

use super::arguments::{config, models};
use super::measured::measured;
use crate::cli::BenchCpuArgs;

/// Settings that only `bench cpu` chooses or does not use.
pub(super) const OWN: [(&str, &str); 5] = [
    ("threads", "give --threads"),
    ("data.epochs", "give --steps"),
    ("data.batch", "a step has data.mini_batch examples"),
    ("tiers.", "all rows are in memory"),
    ("pipeline.", "it runs steps without the pipeline"),
];

/// Measures training in memory.
pub(super) fn run(args: &BenchCpuArgs) -> Result<(), Failure> {
    let options = cpu::Options {
        rows: args.rows,
        skew: args.skew,
        ids_per_slot: args.ids_per_slot,
        steps: args.steps,
        models: models(&args.models).map_err(Failure::Usage)?,
        threads: args.threads.clone(),
        limits: !args.no_limits,
        config: config(&args.set, &OWN).map_err(Failure::Usage)?,
    };
    measured(&args.json, &[], |say, keep| cpu::run(&options, say, keep), show)
}

fn show(figures: &Figures) -> Page {
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
