//! `stepwell-lab bench cpu`: training steps alone, compared with the machine's limits.
//!
//! First measures the limits: multiplications in registers and of large matrices, copying memory,
//! reading rows at random. Then, for each model and number of threads, times steps over examples
//! drawn beforehand, with all rows in memory, and reports what share of its limit each kernel
//! reaches.

mod examples;
mod limits;
mod loops;
mod options;

use std::sync::Arc;

use serde::Serialize;
use stepwell_base::ByteCount;
use stepwell_base::clock::SystemClock;
use stepwell_settings::{Config, ModelKind};
use stepwell_train::{KernelReport, LayerReport, Limits, StepSeconds, Steps, memory_bytes};

use self::examples::Drawn;
pub use self::options::Options;
use crate::machine::Machine;
use crate::measure::over;
use crate::{Error, Result};

/// All results.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Options of the benchmark.
    pub options: Option<Options>,
    machine: Option<Machine>,
    /// Limits by number of threads.
    pub limits: Vec<Limits>,
    /// One entry per model and number of threads.
    pub runs: Vec<Run>,
}

/// Steps of one model.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// Name of the model.
    pub model: String,
    /// Number of threads.
    pub threads: usize,
    /// Examples per second of a step: gather, forward, loss, backward, optimizers.
    pub step_examples_per_second: f64,
    /// Examples per second of the fastest step, which other load on the machine disturbed least.
    pub fastest_step_examples_per_second: f64,
    /// Examples per second including grouping ids by row and finding rows, all sequentially.
    pub examples_per_second: f64,
    /// Operations of the graph per second.
    pub flops_per_second: f64,
    /// `flops_per_second` relative to large matrix products.
    pub over_gemm: f64,
    /// Gather and update of rows relative to bare loops that read and write the same bytes of the
    /// same rows, in processor seconds.
    pub rows_over_limit: f64,
    /// Seconds for grouping ids, over all counted steps.
    pub group_seconds: f64,
    /// Seconds for finding rows.
    pub plan_seconds: f64,
    /// Seconds for the steps themselves.
    pub train_seconds: f64,
    /// Sum of the losses of all counted examples.
    pub loss: f64,
    /// Results per kernel over the counted steps, with limits if one thread's were measured.
    pub kernels: Vec<KernelReport>,
    /// Results per layer, likewise.
    pub layers: Vec<LayerReport>,
}

/// Runs the benchmark; calls `say` with a description of each part, and `keep` with the results so
/// far after it.
///
/// # Errors
/// Invalid arguments, or too little memory.
pub fn run(
    options: &Options,
    say: &mut dyn FnMut(&str),
    keep: &mut dyn FnMut(&Figures),
) -> Result<Figures> {
    check(options)?;
    let mut figures = Figures {
        options: Some(options.clone()),
        machine: Some(Machine::here("none")),
        ..Figures::default()
    };
    for threads in options.threads.iter().filter(|_| options.limits) {
        say(&format!("limits of {threads} threads"));
        figures.limits.push(limits::measure(*threads)?);
        keep(&figures);
    }
    say("drawing examples");
    let drawn = Drawn::new(options);
    for kind in &options.models {
        for (number, threads) in options.threads.iter().enumerate() {
            say(&format!("{}, {threads} threads", kind.name()));
            let limits = figures.limits.get(number).cloned().unwrap_or_default();
            let mut run = steps(options, *kind, *threads, &drawn, &limits)?;
            if let Some(of_one) = figures.limits.iter().find(|limits| limits.threads == 1) {
                let precision = options.config.model.precision;
                of_one.put_beside(&mut run.kernels, &mut run.layers, precision);
            }
            figures.runs.push(run);
            keep(&figures);
        }
    }
    Ok(figures)
}

fn check(options: &Options) -> Result<()> {
    let fail = |why: &str| Err(Error::Arguments(why.to_owned()));
    if !(26..=1 << 31).contains(&options.rows) {
        return fail("--rows: give 26 to 2^31");
    }
    if !(0.01..=10.0).contains(&options.skew) {
        return fail("--skew: give 0.01 to 10");
    }
    if !(1..=1000).contains(&options.ids_per_slot) {
        return fail("--ids-per-slot: give 1 to 1000");
    }
    if !(1..=100_000).contains(&options.steps) {
        return fail("--steps: give 1 to 100000");
    }
    if options.threads.is_empty() || options.threads.iter().any(|of| !(1..=1024).contains(of)) {
        return fail("--threads: give numbers from 1 to 1024, such as 1,2");
    }
    let most = options.threads.iter().copied().max().filter(|_| options.limits).unwrap_or(0);
    let bytes = limits::bytes_max(most);
    if let Some(memory) = memory_bytes().filter(|memory| bytes > *memory) {
        let (bytes, memory) = (ByteCount(bytes), ByteCount(memory));
        return fail(&format!(
            "the limits of {most} threads need {bytes} of memory, but this machine has {memory}; \
             lower --threads, or give --no-limits"
        ));
    }
    let drawn = Drawn::bytes_min(options);
    if let Some(memory) = memory_bytes().filter(|memory| drawn > *memory) {
        let (drawn, memory) = (ByteCount(drawn), ByteCount(memory));
        return fail(&format!(
            "the examples of all steps take {drawn} of memory, but this machine has {memory}; \
             lower --steps, --ids-per-slot or data.mini_batch"
        ));
    }
    if options.config.rows.life().is_some() || options.config.pipeline.staleness > 0 {
        return fail("rows.* settings and pipeline.staleness are not measured here");
    }
    Ok(())
}

fn steps(
    options: &Options,
    kind: ModelKind,
    threads: usize,
    drawn: &Drawn,
    limits: &Limits,
) -> Result<Run> {
    let mut config = Config { threads, ..options.config.clone() };
    config.model.kind = kind;
    let failed = |error: stepwell_train::Error| Error::Arguments(error.to_string());
    let mut steps =
        Steps::new(&config, drawn.slots(), Arc::new(SystemClock::new())).map_err(failed)?;
    let train = |steps: &mut Steps| -> Result<(f64, StepSeconds, f64)> {
        let (mut loss, mut sum, mut fastest) = (0.0, StepSeconds::default(), f64::INFINITY);
        for examples in drawn.steps() {
            let (of_step, seconds) = steps.step(examples.clone()).map_err(failed)?;
            loss += of_step;
            sum.group += seconds.group;
            sum.plan += seconds.plan;
            sum.train += seconds.train;
            fastest = fastest.min(seconds.train);
        }
        Ok((loss, sum, fastest))
    };
    // Creates rows, and touches memory for the first time.
    train(&mut steps)?;
    let (kernels, layers) = (steps.profile(), steps.layers());
    let (loss, seconds, fastest) = train(&mut steps)?;
    let kernels = since(&kernels, &steps.profile(), KernelReport::since);
    let layers = since(&layers, &steps.layers(), LayerReport::since);
    let examples = drawn.examples() as f64;
    let flops = over(examples * steps.flops_per_example() as f64, seconds.train);
    let table = stepwell_train::tables(&config).map_err(failed)?.swap_remove(0);
    let bare = loops::seconds(drawn, table.weight_lanes(), table.row_lanes());
    let of_rows = kernels.iter().filter(|kernel| ["gather", "rows"].contains(&&*kernel.name));
    Ok(Run {
        model: kind.name().to_owned(),
        threads,
        step_examples_per_second: over(examples, seconds.train),
        fastest_step_examples_per_second: over(examples / options.steps as f64, fastest),
        examples_per_second: over(examples, seconds.group + seconds.plan + seconds.train),
        flops_per_second: flops,
        over_gemm: over(flops, limits.gemm(config.model.precision)),
        rows_over_limit: over(bare, of_rows.map(|kernel| kernel.seconds).sum()),
        group_seconds: seconds.group,
        plan_seconds: seconds.plan,
        train_seconds: seconds.train,
        loss,
        kernels,
        layers,
    })
}

/// Differences between two lists of reports.
fn since<T>(before: &[T], after: &[T], of: fn(&T, &T) -> T) -> Vec<T> {
    before.iter().zip(after).map(|(before, after)| of(after, before)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_can_do_is_refused() {
        let options = Options {
            rows: 1000,
            skew: 1.05,
            ids_per_slot: 1,
            steps: 1,
            models: vec![ModelKind::Lr],
            threads: vec![1],
            limits: false,
            config: Config::default(),
        };
        assert!(check(&options).is_ok());
        let refused = |options: &Options| check(options).map_err(|error| error.to_string());
        let threads = refused(&Options { threads: vec![1, 5000], ..options.clone() });
        assert!(threads.unwrap_err().contains("--threads: give numbers from 1 to 1024"));
        // 1 GiB per thread, and more.
        let many = Options { threads: vec![1, 1024], limits: true, ..options.clone() };
        assert!(limits::bytes_max(1024) > 1 << 40);
        if memory_bytes().is_some_and(|memory| memory < 1 << 40) {
            assert!(refused(&many).unwrap_err().contains("lower --threads, or give --no-limits"));
            assert!(refused(&Options { limits: false, ..many }).is_ok());
        }
        let steps = Options { ids_per_slot: 1000, steps: 100_000, ..options };
        // 4096 examples of 26,000 ids. If the system doesn't report its memory, nothing is checked.
        let bytes = Drawn::bytes_min(&steps);
        assert!(bytes > 4096 * 26_000 * 12 * 100_000);
        if memory_bytes().is_some_and(|memory| memory < bytes) {
            assert!(refused(&steps).unwrap_err().contains("lower --steps"));
        }
    }

    #[test]
    fn training_reads_the_limits_that_are_written() {
        let limits = Limits {
            threads: 1,
            fma_flops_per_second: 8e10,
            gemm_flops_per_second: 4e10,
            bf16_gemm_flops_per_second: 9e10,
            memcpy_bytes_per_second: 6e9,
            gather_bytes_per_second: 4e9,
        };
        let figures = Figures {
            machine: Some(Machine::here("none")),
            limits: vec![Limits { threads: 2, ..limits.clone() }, limits.clone()],
            ..Figures::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("limits.json");
        std::fs::write(&path, serde_json::to_string_pretty(&figures).unwrap()).unwrap();
        assert_eq!(Limits::read(&path).unwrap(), limits);
    }
}
