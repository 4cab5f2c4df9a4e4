//! Rows for the next step that the step at hand does not touch: they travel while it is computed.
//!
//! - **Why.** A network is idle while ranks compute, and ranks are while it carries what they need.
//! - **How.** When an owner begins a step it knows what all ranks ask of the next one. Of that it
//!   sends what the step at hand does not hold, and so does not change, at once; the rest goes with
//!   the next answer, after the update (hazard H5). Rows wait that are lent, and those of tables
//!   that count uses, whose values only their own step knows.
//! - **Source.** Overlapped and non-overlapped look-ups of neighbouring steps, as BagPipe and the
//!   pipelines of `TorchRec` have them; here the owner tells them apart, who knows what all ranks
//!   ask for.
//! - **Cost.** One bit a row that is asked for, at most, beside the weights; holding the rows of a
//!   mini-batch a second time.

use std::borrow::Cow;
use std::sync::Arc;

use rayon::prelude::*;
use stepwell_base::rules::Rule;
use stepwell_base::slab::Slab;
use stepwell_fabric::Message;

use super::shared::put_weights;
use super::working::TableRows;
use super::{EmbeddingBags, WorkingRows};
use crate::group::{devices_above, group_of};
use crate::ranks::{Loan, marked};
use crate::{Group, Part};

/// Those of the rows that are `asked` for which were not sent before.
pub(super) fn late<'a>(rows: &TableRows<'_>, asked: Cow<'a, [u32]>) -> Cow<'a, [u32]> {
    if rows.askers.early.is_empty() {
        return asked;
    }
    asked.iter().copied().filter(|row| !rows.askers.is_early(*row as usize)).collect()
}

/// Finds which rows of `part` may go early: those of `slab` that nobody holds, but for what is
/// lent. Gives how many.
fn find(part: &mut Part, slab: &Slab) -> usize {
    let askers = &mut part.askers;
    slab.which_are_free(&part.rows.slots, &mut askers.early);
    for (early, loan) in askers.early.iter_mut().zip(&askers.loans) {
        *early &= *loan == Loan::None;
    }
    askers.early.iter().filter(|early| **early).count()
}

/// Bytes of what rank `rank` is sent of `tables`, at most.
fn bytes_for(tables: &[TableRows<'_>], rank: usize) -> usize {
    let of_table = |rows: &TableRows<'_>| {
        let asked = &rows.request.occurrence_rows[rows.askers.range(rank)];
        let early = asked.iter().filter(|row| rows.askers.is_early(**row as usize)).count();
        32 + asked.len() / 8 + early * rows.width() * size_of::<f32>()
    };
    tables.iter().map(of_table).sum()
}

/// What a rank is sent for the next step before it.
#[derive(Debug)]
pub struct EarlyRows {
    /// Which rows, and their weights.
    pub message: Message,
    /// How many.
    pub rows: u64,
}

impl EarlyRows {
    /// Adds the early ones of `rows`, of which rank `rank` asked for some.
    fn put(&mut self, rows: &TableRows<'_>, rank: usize) {
        let asked = &rows.request.occurrence_rows[rows.askers.range(rank)];
        let early = (0..).zip(asked.iter().copied());
        let early = early.filter(|(_, row)| rows.askers.is_early(*row as usize));
        let (numbers, early): (Vec<u32>, Vec<u32>) = early.unzip();
        marked::put(&mut self.message, asked.len(), &numbers);
        put_weights(rows, &early, &mut self.message);
        self.rows += early.len() as u64;
    }
}

impl EmbeddingBags {
    /// Whether rows may travel before their step: not where steps read older versions of them.
    pub fn sends_early(&self) -> bool {
        self.stale.staleness() == 0
    }

    /// Makes a message for each rank of the rows that it asks for in the `next` mini-batch and that
    /// the step at hand, whose rows are `held`, does not touch; none where there is no such row.
    /// The answer to `next` has the others.
    pub fn answer_early(
        &self,
        held: WorkingRows<'_>,
        next: &mut [Part],
        groups: &[Arc<Group>],
        (message, ranks): (impl Fn(usize) -> Message + Sync, usize),
    ) -> Option<Vec<EarlyRows>> {
        if devices_above(groups).is_some() {
            // Their rows are not where this looks.
            return None;
        }
        let rules = groups.first()?.rules;
        let held = rules.hold(Rule::UpdateBeforeSend).then_some(held);
        let mut count = 0;
        for (number, (part, table)) in next.iter_mut().zip(&self.tables).enumerate() {
            part.askers.early.clear();
            if table.life.is_none() {
                let (_, group) = group_of(groups, number);
                count += find(part, &group.slab);
            }
        }
        drop(held);
        if count == 0 {
            next.iter_mut().for_each(|part| part.askers.early.clear());
            return None;
        }
        let tables = self.rows_in(next, groups);
        let answer = |rank| {
            let mut early = EarlyRows { message: message(bytes_for(&tables, rank)), rows: 0 };
            tables.iter().for_each(|rows| early.put(rows, rank));
            early
        };
        Some((0..ranks).into_par_iter().map(answer).collect())
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::{Key, SlotIndex};
    use stepwell_optim::RowOptimizer;

    use super::*;
    use crate::{Grouper, TableSpec};

    #[test]
    fn what_nobody_holds_goes_and_the_rest_follows() {
        let sgd = RowOptimizer::new(stepwell_optim::Rule::sgd(0.1)).unwrap();
        let table = TableSpec::new(0, "t", 1, sgd);
        let mut slab = Slab::new(6, table.row_lanes()).unwrap();
        slab.lanes_mut().iter_mut().zip(0u16..).for_each(|(lane, slot)| *lane = f32::from(slot));
        // Rank 0 asks for one row, rank 1 for four, one of which is lent. The step at hand holds
        // two others, and one that nobody asks for.
        let mut part = Part::default();
        Grouper::default().group_into(&[7, 1, 7, 3, 4].map(Key), 0, &mut part.request);
        part.askers.ends = vec![1, 5];
        part.askers.loans = vec![Loan::None, Loan::None, Loan::Begins, Loan::None];
        part.rows.slots = [5, 3, 1, 2].map(SlotIndex).to_vec();
        let at_hand = [3, 0].map(SlotIndex);
        let held = slab.hold(&at_hand);
        assert_eq!(find(&mut part, &slab), 2);
        assert_eq!(part.askers.early, [true, false, false, true]);
        drop(held);
        let tables = [TableRows::new(&mut part, &slab, &table)];
        let of_rank = |rank: usize| {
            let mut early = EarlyRows { message: Message::new(), rows: 0 };
            early.put(&tables[0], rank);
            assert!(early.message.bytes() <= bytes_for(&tables, rank));
            let (mut reader, asked) = (early.message.reader(), tables[0].askers.range(rank).len());
            let marked = marked::read(&mut reader, asked).unwrap();
            let weights = reader.take::<f32>().unwrap().to_vec();
            assert_eq!((reader.end(), early.rows), (Ok(()), weights.len() as u64));
            (marked, weights)
        };
        assert_eq!(of_rank(0), (vec![true], vec![5.0]));
        assert_eq!(of_rank(1), (vec![false, true, false, true], vec![5.0, 2.0]));
        let late = |rows: &[u32]| late(&tables[0], rows.into()).into_owned();
        assert_eq!((late(&[0]), late(&[1, 0, 2, 3])), (vec![], vec![1, 2]));
    }
}
