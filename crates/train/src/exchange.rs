//! The most bytes of what ranks exchange, for the capacity plan.

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_engine::{Blocks, EmbeddingBags, Grouper, Guests, TableSpec};
use stepwell_settings::Config;

use crate::models::Model;
use crate::pipeline::ASKS;

/// What a rank asks for, is asked for, and says, in bytes.
pub(crate) struct Exchange {
    /// Rows of others, for the mini-batch at hand.
    guests: u64,
    /// Messages that are sent or have come, at once.
    messages: u64,
    /// Scratch for making and reading them.
    scratch: u64,
}

/// A key, and how often it occurs.
const ASKED: u64 = 12;
/// Of a row: which subtrees have it, where there are several.
const MASK: u64 = 4;
/// How often it occurs, where its owner asks.
const SEEN: u64 = 8;
/// Logit, label and true probability of an example.
const SCORED: u64 = 9;

impl Exchange {
    pub(crate) const ROWS_OF_OTHERS: &str = "rows of other ranks";
    pub(crate) const MESSAGES: &str = "messages";

    /// That of a rank of `config`, the one that has the most examples.
    pub(crate) fn of(config: &Config, model: &Model) -> Self {
        let (ranks, all) = (config.ranks.count, config.data.mini_batch);
        let blocks = Blocks::new(all, config.model.blocks);
        let of_rank = |rank| blocks.of_rank(rank, ranks).examples_max();
        let own = (0..ranks).map(of_rank).max().unwrap_or(all);
        let subtrees = Blocks::subtrees_max(config.model.blocks, ranks) as u64;
        let ids = model.features().ids_by_table();
        let of = |examples: usize, bytes: &dyn Fn(&TableSpec) -> u64| -> u64 {
            let of_tables = model.tables().iter().zip(&ids);
            of_tables.map(|(table, ids)| ids * examples as u64 * bytes(table)).sum()
        };
        let weights = |table: &TableSpec| (table.weight_count() * size_of::<f32>()) as u64;
        let mask = if subtrees > 1 { MASK } else { 0 };
        let weighs = config.tiers.policy.weighs_occurrences();
        let seen = |table: &TableSpec| {
            if EmbeddingBags::tells_seen(table, weighs) { SEEN } else { 0 }
        };
        let sums = |table: &TableSpec| subtrees * weights(table) + mask + seen(table);
        let dense = (model.graph().parameter_count() * size_of::<f32>()) as u64;
        let said = |examples: usize| examples as u64 * SCORED;
        // A neighbour may be as far ahead as it is allowed to, and this rank as far behind.
        let asks = ASKS as u64 * (of(own, &|_| ASKED) + 2 * of(all, &|_| ASKED));
        let answers = of(all, &weights) + of(own, &weights);
        let sums = of(own, &sums) + of(all, &sums);
        // Rank 0 alone is told of examples, by all.
        let rest = said(own) + said(all) + 2 * (subtrees + 1) * dense;
        let rows: Vec<usize> = ids.iter().map(|ids| *ids as usize * own).collect();
        Self {
            guests: Guests::bytes_max(model.tables(), &rows),
            // Memory for a message may have an eighth more.
            messages: (asks + answers + sums + rest) / 8 * 9,
            scratch: of(all, &|_| 12) + of(own, &|_| 5) + Grouper::bytes_max(of(all, &|_| 1)),
        }
    }

    /// Bytes of messages whose memory is kept for others: as many as there are at once.
    pub(crate) fn kept(&self) -> u64 {
        self.messages
    }

    pub(crate) fn add_bounds(&self, budget: &mut Budget) {
        let Self { guests, messages, scratch } = self;
        budget.add(Self::ROWS_OF_OTHERS, *guests, "weights for a rank's part of a mini-batch");
        let kept = self.kept();
        let (of_messages, of_scratch) = (ByteCount(*messages), ByteCount(*scratch));
        let why = format!("{of_messages} under way, as many kept, {of_scratch} to make them");
        budget.add(Self::MESSAGES, messages + kept + scratch, why);
    }
}
