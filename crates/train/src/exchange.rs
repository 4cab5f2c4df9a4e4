//! The most bytes of exchanges between ranks, for the capacity plan.

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_base::owner::RankOf;
use stepwell_engine::{Blocks, Borrowed, EmbeddingBags, Grouper, Guests, Lender, TableSpec};
use stepwell_settings::ExchangeKind;

use crate::models::Model;
use crate::run_plan::RunPlan;

/// Mini-batches that may wait for other ranks' requests: their messages never fill an inbox.
pub(crate) const ASKS: usize = 8;

/// Bytes of a rank's requests, answers and gradients.
pub(crate) struct Exchange {
    /// Visiting rows of the current mini-batch.
    guests: u64,
    /// Rows borrowed for the current batch, and the record of loans.
    borrowed: Option<u64>,
    /// Messages in flight in both directions.
    messages: u64,
    /// Scratch for writing and reading messages.
    scratch: u64,
}

/// A key, and how often it occurs.
const ASKED: u64 = 12;
/// Bit mask of the subtrees that use a row, if there are several.
const MASK: u64 = 4;
/// Number of occurrences, if the row's owner needs it.
const SEEN: u64 = 8;
/// Logit, label and true probability of an example.
const SCORED: u64 = 9;

/// The most mini-batches whose rows a rank may have borrowed at once.
const BORROWED_MAX: usize = 8;

/// Blocks of a full mini-batch, of all ranks.
pub(crate) fn blocks_of_all(plan: &RunPlan<'_>) -> Blocks {
    plan.batching.full_mini_batch().beside_servers(plan.ranks.servers)
}

/// Number of examples of the rank that has the most.
fn own_examples(plan: &RunPlan<'_>) -> usize {
    let (ranks, all) = (plan.ranks.count, plan.batching.mini_batch);
    let blocks = blocks_of_all(plan);
    let of_rank = |rank| blocks.of_rank(RankOf { rank, ranks }).examples_max();
    (0..ranks).map(of_rank).max().unwrap_or(all)
}

impl Exchange {
    pub(crate) const BORROWED: &str = "rows that other ranks lend";
    pub(crate) const ROWS_OF_OTHERS: &str = "rows of other ranks";
    pub(crate) const MESSAGES: &str = "messages";

    /// The bytes of the rank that has the most examples.
    pub(crate) fn of(plan: &RunPlan<'_>, model: &Model) -> Self {
        let RunPlan { batching, ranks, tiers, .. } = plan;
        let (all, own) = (batching.mini_batch, own_examples(plan));
        let borrowed = Self::borrowed_rows(plan, model);
        let subtrees = Blocks::subtrees_max(batching.blocks, ranks.learners()) as u64;
        let ids = model.features().ids_by_table();
        let of = |examples: usize, bytes: &dyn Fn(&TableSpec) -> u64| -> u64 {
            let of_tables = model.tables().iter().zip(&ids);
            of_tables.map(|(table, ids)| ids * examples as u64 * bytes(table)).sum()
        };
        let weights = |table: &TableSpec| (table.weight_count() * size_of::<f32>()) as u64;
        let mask = if subtrees > 1 { MASK } else { 0 };
        let weighs = tiers.policy.weighs_occurrences();
        let seen = |table: &TableSpec| {
            if EmbeddingBags::tells_seen(table, weighs) { SEEN } else { 0 }
        };
        let sums = |table: &TableSpec| subtrees * weights(table) + mask + seen(table);
        let dense = (model.summed_count() * size_of::<f32>()) as u64;
        let said = |examples: usize| examples as u64 * SCORED;
        // A neighbour may be as far ahead as allowed, and this rank as far behind.
        let asks = ASKS as u64 * (of(own, &|_| ASKED) + 2 * of(all, &|_| ASKED));
        // A lent row is sent and returned whole, in place of weights or sums; one bit marks that,
        // or that it was sent early.
        let lent = |bytes: u64, table: &TableSpec| match borrowed {
            Some(_) => bytes.max(table.row_bytes() as u64) + 1,
            None => bytes + 1,
        };
        let answer = |table: &TableSpec| lent(weights(table), table);
        let sums = |table: &TableSpec| lent(sums(table), table);
        // Rows sent early arrive in addition to the answers of the step before.
        let goes_early = |table: &TableSpec| batching.staleness == 0 && table.life.is_none();
        let answers = |table: &TableSpec| answer(table) * (1 + u64::from(goes_early(table)));
        let answers = of(all, &answers) + of(own, &answers);
        // Out of step, others may have sent gradients of as many steps as they may be ahead.
        let sums = of(own, &sums) + (1 + ranks.ahead_max) * of(all, &sums);
        // Rank 0 alone receives scores, from all.
        let scores = said(own) + (1 + ranks.ahead_max) * said(all);
        let rest = scores + 2 * (subtrees + 1) * dense;
        let rows: Vec<usize> = ids.iter().map(|ids| *ids as usize * own).collect();
        let borrowed = borrowed.map(|rows| {
            let batch = batching.per_batch as u64 * of(all, &|_| 1);
            Borrowed::bytes_max(model.tables(), &rows) + Lender::bytes_max(batch)
        });
        Self {
            borrowed,
            // Rows of an evaluation stay with their owners.
            guests: (1 + u64::from(!ranks.in_step)) * Guests::bytes_max(model.tables(), &rows),
            // A message's buffer may be an eighth larger.
            messages: (asks + answers + sums + rest) / 8 * 9,
            // Includes telling apart rows that were sent early.
            scratch: of(all, &|_| 12 + 17)
                + of(own, &|_| 5 + 9)
                + Grouper::bytes_max(of(all, &|_| 1)),
        }
    }

    /// Rows of each table that a rank may have borrowed at once; `None` if no rows are lent.
    pub(crate) fn borrowed_rows(plan: &RunPlan<'_>, model: &Model) -> Option<Vec<usize>> {
        let RunPlan { batching, ranks, .. } = plan;
        let minis = batching.per_batch;
        let lends = ranks.exchange == ExchangeKind::WorkingSet && minis > 1;
        if !lends || ranks.count < 2 {
            return None;
        }
        // A lent row is used at least twice.
        let rows = own_examples(plan) * (minis / 2).min(BORROWED_MAX);
        let ids = model.features().ids_by_table();
        Some(ids.iter().map(|ids| *ids as usize * rows).collect())
    }

    /// Rows of each table that a rank may borrow from each other rank at once; `None` if no rows
    /// are lent.
    pub(crate) fn lent_to_each(plan: &RunPlan<'_>, model: &Model) -> Option<Vec<usize>> {
        let others = plan.ranks.count.saturating_sub(1).max(1);
        let rows = Self::borrowed_rows(plan, model)?;
        Some(rows.into_iter().map(|rows| rows / others).collect())
    }

    /// Bytes of message buffers kept for reuse: enough for all messages in flight.
    pub(crate) fn kept(&self) -> u64 {
        self.messages
    }

    pub(crate) fn add_bounds(&self, budget: &mut Budget) {
        let Self { guests, borrowed, messages, scratch } = self;
        budget.add(Self::ROWS_OF_OTHERS, *guests, "weights for a rank's part of a mini-batch");
        if let Some(borrowed) = borrowed {
            budget.add(Self::BORROWED, *borrowed, "whole rows, and which ranks ask for them");
        }
        let kept = self.kept();
        let (of_messages, of_scratch) = (ByteCount(*messages), ByteCount(*scratch));
        let why = format!("{of_messages} in flight, as many kept, {of_scratch} to build them");
        budget.add(Self::MESSAGES, messages + kept + scratch, why);
    }
}
