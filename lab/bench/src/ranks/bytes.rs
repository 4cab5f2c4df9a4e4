//! Bytes that ranks send each other per step, relative to the least that the step needs.

use stepwell_engine::Blocks;
use stepwell_settings::ModelKind;

use super::figures::{BytesOfModel, Figures};
use super::job::{Bench, Job, exchanged};
use super::least_bytes::least_bytes;
use crate::Result;
use crate::measure::{most, over};

/// Numbers of ranks.
const RANKS: [usize; 2] = [2, 4];

pub(super) fn run(
    bench: &Bench<'_>,
    kind: ModelKind,
    say: &mut dyn FnMut(&str),
    figures: &mut Figures,
) -> Result<()> {
    for ranks in RANKS {
        say(&format!("{}: bytes of {ranks} ranks", kind.name()));
        let report = bench.train(&Job::of_ranks(kind, ranks))?;
        let all = exchanged(&report);
        let blocks = bench.options.config.train.blocks;
        let subtrees = Blocks::subtrees_max(blocks, ranks) as u64;
        let least = least_bytes(&all, report.steps, subtrees) as f64;
        let sent = all.iter().map(|rank| rank.bytes_sent).sum::<u64>() as f64;
        let per_step = |sum: f64| over(sum, report.steps as f64);
        figures.bytes.push(BytesOfModel {
            model: kind.name().to_owned(),
            ranks,
            steps: report.steps,
            keys_per_step: per_step(all.iter().map(|rank| rank.keys_asked).sum::<u64>() as f64),
            bytes_per_step: per_step(sent),
            least_bytes_per_step: per_step(least),
            over_least: over(sent, least),
            messages_per_step: per_step(
                all.iter().map(|rank| rank.messages_sent).sum::<u64>() as f64
            ),
        });
    }
    figures.bytes_over_least = most(figures.bytes.iter().map(|of| of.over_least));
    Ok(())
}
