//! Ranks out of step: how they may differ from a single rank, and how not.

use stepwell_settings::{Config, DenseKind, RowsKind};
use stepwell_train::{OutOfStepReport, Report};

use crate::dice::Dice;
use crate::finding::Finding;
use crate::oracle::Oracle;
use crate::shape::Shape;
use crate::tally::RanksTally;

impl Shape {
    /// Draws the protocol of `ranks` ranks. If blocks divide evenly among them, that may be the
    /// blocking sum with fresh rows, whose result is known bit for bit.
    pub fn agree_by(&mut self, seed: u64, ranks: usize) {
        let mut dice = Dice::new(seed, "agree");
        let blocks = self.config.train.blocks;
        let evenly = blocks.is_power_of_two() && ranks.is_power_of_two() && ranks <= blocks;
        let sync = &mut self.config.sync;
        sync.rows = RowsKind::Bounded;
        (sync.dense, sync.staleness) = (DenseKind::BSP, 0);
        if evenly && dice.once_in(2) {
            return;
        }
        // Only GeePS has dense tables, whose clocks a rank may lack.
        let kinds = [&DenseKind::ALL[..], &[DenseKind::Geeps]].concat();
        sync.dense = dice.pick(&kinds);
        sync.staleness = dice.pick(&[0, 1, 2, 3, 8]);
        (sync.probes, sync.age) = (dice.within(1, ranks.min(3) as u64) as usize, dice.below(6));
        if dice.once_in(3) {
            sync.rows = RowsKind::Async;
        }
    }
}

/// Whether ranks of `config` train the same model as a single rank, bit for bit.
pub(crate) fn is_exact(config: &Config, ranks: usize) -> bool {
    let sync = &config.sync;
    let lacks_nothing = sync.rows == RowsKind::Bounded && sync.staleness == 0;
    let evenly = config.train.blocks.is_power_of_two() && ranks.is_power_of_two();
    sync.rows == RowsKind::Exact || sync.dense == DenseKind::BSP && lacks_nothing && evenly
}

/// Checks that each rank trained every step, gave the gradient of each once, and read no row beyond
/// the staleness bound.
pub(crate) fn judge_apart(
    reports: &[Report],
    shape: &Shape,
    oracle: &Oracle,
    resumed: Option<u64>,
    tally: &mut RanksTally,
) -> Result<(), Finding> {
    let mut config = shape.config.clone();
    config.ranks.count = reports.len();
    for (rank, report) in reports.iter().enumerate() {
        if report.steps != oracle.report.steps {
            let why = format!(
                "rank {rank} ended after step {}, not {}",
                report.steps, oracle.report.steps
            );
            return Err(Finding::WrongEnd(why));
        }
        tally.evictions += report.tiers.host.evictions;
        tally.refilled += report.tiers.host.refilled;
        let trained = report.steps - resumed.unwrap_or(0);
        let Some(apart) = report.ranks.and_then(|ranks| ranks.apart) else {
            match trained {
                0 => continue,
                _ => return Err(Finding::WrongFigures(format!("rank {rank} reports nothing"))),
            }
        };
        tally.lacked = tally.lacked.max(apart.staleness_max);
        tally.dropped += apart.dropped;
        if apart.staleness_max > config.ahead_max() {
            let (lacks, bound) = (apart.staleness_max, config.ahead_max());
            return Err(Finding::WrongRow(format!(
                "rows lack {lacks} steps, at most {bound} are allowed"
            )));
        }
        let given = if rank < config.servers() { 0 } else { trained };
        if apart.gradients != given {
            let why = format!("rank {rank} gave {} gradients instead of {given}", apart.gradients);
            return Err(Finding::WrongFigures(why));
        }
        if config.sync.dense == DenseKind::Geeps {
            judge_tables(rank, &apart, &config, tally)?;
        }
    }
    Ok(())
}

/// Checks that every update of a rank is in the tables of the dense part, and that it read none
/// beyond the slack.
fn judge_tables(
    rank: usize,
    apart: &OutOfStepReport,
    config: &Config,
    tally: &mut RanksTally,
) -> Result<(), Finding> {
    tally.in_tables += 1;
    if (apart.updates, apart.dropped) != (apart.gradients, 0) {
        let why =
            format!("rank {rank}: {} updates for {} gradients", apart.updates, apart.gradients);
        return Err(Finding::WrongFigures(why));
    }
    if config.sync.rows != RowsKind::Bounded {
        return Ok(());
    }
    tally.missed = tally.missed.max(apart.age_max);
    if apart.age_max > config.ahead_max() {
        let (lacked, bound) = (apart.age_max, config.ahead_max());
        let why = format!(
            "rank {rank} read tables that lack {lacked} clocks, at most {bound} are allowed"
        );
        return Err(Finding::WrongRow(why));
    }
    Ok(())
}
