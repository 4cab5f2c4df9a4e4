//! Two ranks of one thread compared with one rank of two threads, alternately.

use stepwell_settings::ModelKind;

use super::figures::Pairs;
use super::job::{Bench, Job, SHARE};
use crate::Result;
use crate::measure::{in_turns, median, over};

/// Ranks on one side, and threads on the other.
const SIDES: usize = 2;

pub(super) fn run(
    bench: &Bench<'_>,
    kind: ModelKind,
    out_of_core: bool,
    say: &mut dyn FnMut(&str),
) -> Result<Pairs> {
    let share = if out_of_core { SHARE } else { 100 };
    let mut pairs = Pairs {
        model: kind.name().to_owned(),
        share,
        rows: bench.rows,
        examples: 0,
        ranks_examples_per_second: Vec::new(),
        threads_examples_per_second: Vec::new(),
        ranks_over_threads: 0.0,
    };
    let of_ranks = Job { out_of_core, ..Job::of_ranks(kind, SIDES) };
    let of_threads = Job { ranks: 1, threads: SIDES, ..of_ranks };
    let (name, rounds) = (kind.name(), bench.options.rounds);
    for round in 0..rounds {
        say(&format!("{name}, {share} % of the rows in memory: pair {} of {rounds}", round + 1));
        let (ranks, threads) =
            in_turns(round, || bench.train(&of_ranks), || bench.train(&of_threads))?;
        pairs.examples = ranks.examples;
        pairs.ranks_examples_per_second.push(ranks.examples_per_second);
        pairs.threads_examples_per_second.push(threads.examples_per_second);
    }
    let both = pairs.ranks_examples_per_second.iter().zip(&pairs.threads_examples_per_second);
    pairs.ranks_over_threads =
        median(both.map(|(ranks, threads)| over(*ranks, *threads)).collect());
    Ok(pairs)
}
