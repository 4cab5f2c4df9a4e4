//! Ranks with random delays: in step, and out of step with each protocol for dense parameters.

use stepwell_settings::{Config, DenseKind, ModelKind, RowsKind};
use stepwell_train::Late;

use super::figures::{Figures, WhenLate};
use super::job::{Bench, Job};
use crate::Result;
use crate::measure::{in_turns, median, over};

/// Number of ranks.
const RANKS: usize = 4;
/// Each rank is delayed by 0 to 50 ms in every step.
const LATE: Late = Late { seconds_max: 0.05, seed: 1 };
/// Steps whose updates rows may miss, and batches in flight in addition to the current one.
const STALENESS: u64 = 8;

/// Speedup that delays alone allow, in `steps` steps that take no other time.
fn delays_allow(steps: u64) -> f64 {
    let of = |rank| (0..steps).map(move |step| LATE.seconds(rank, step));
    let slowest = |step| (0..RANKS).map(|rank| LATE.seconds(rank, step)).fold(0.0, f64::max);
    let in_step: f64 = (0..steps).map(slowest).sum();
    let longest = (0..RANKS).map(|rank| of(rank).sum::<f64>()).fold(0.0, f64::max);
    over(in_step, longest)
}

/// Sets the protocol of ranks to `dense`; `None` for ranks in step.
fn agree(config: &mut Config, dense: Option<DenseKind>) {
    config.pipeline.lookahead = STALENESS as usize;
    config.pipeline.horizon = config.pipeline.horizon.max(STALENESS as usize);
    let Some(dense) = dense else { return };
    config.sync.dense = dense;
    (config.sync.rows, config.sync.staleness) = (RowsKind::Bounded, STALENESS);
}

pub(super) fn run(
    bench: &Bench<'_>,
    kind: ModelKind,
    say: &mut dyn FnMut(&str),
    figures: &mut Figures,
    keep: &mut dyn FnMut(&Figures),
) -> Result<()> {
    let job = Job { late: Some(LATE), ..Job::of_ranks(kind, RANKS) };
    let rounds = bench.options.rounds;
    for dense in DenseKind::ALL {
        let (mut of, mut in_step, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = None;
        for round in 0..rounds {
            say(&format!("{}, late ranks by {dense}: pair {} of {rounds}", kind.name(), round + 1));
            let by = |dense| bench.train_with(&job, move |config| agree(config, dense));
            let (apart, together) = in_turns(round, || by(Some(dense)), || by(None))?;
            ratios.push(over(apart.examples_per_second, together.examples_per_second));
            of.push(apart.examples_per_second);
            in_step.push(together.examples_per_second);
            last = Some(apart);
        }
        let Some(last) = last else { continue };
        let apart: Vec<_> = last.by_rank.iter().filter_map(|rank| rank.ranks?.apart).collect();
        let given: u64 = apart.iter().map(|rank| rank.gradients).sum();
        let dropped: u64 = apart.iter().map(|rank| rank.dropped).sum();
        let means = apart.iter().map(|rank| rank.staleness_mean).sum::<f64>();
        figures.late.push(WhenLate {
            model: kind.name().to_owned(),
            dense: dense.name().to_owned(),
            ranks: RANKS,
            late_seconds_max: LATE.seconds_max,
            staleness: STALENESS,
            examples_per_second: of,
            in_step_examples_per_second: in_step,
            over_in_step: median(ratios),
            delays_allow: delays_allow(last.steps),
            staleness_max: apart.iter().map(|rank| rank.staleness_max).max().unwrap_or(0),
            staleness_mean: means / apart.len().max(1) as f64,
            dropped: over(dropped as f64, given as f64),
        });
        keep(figures);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_allow_what_their_means_say() {
        // The longest of four uniform delays has a mean of 0.8 of the maximum, each single delay
        // a mean of half of it.
        let allowed = delays_allow(5000);
        assert!((allowed - 1.6).abs() < 0.05, "{allowed}");
    }
}
