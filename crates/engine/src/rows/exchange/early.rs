//! Rows of the next step that the current one doesn't touch: they are sent while it is computed.
//!
//! - **Why.** The network is idle while ranks compute, and ranks are idle while it delivers rows.
//! - **How.** When an owner begins a step, it knows all ranks' requests for the next one. It sends
//!   the rows that the current step doesn't hold, and so doesn't change, at once; the rest goes
//!   with the next answer, after the update (hazard H5). Rows that are lent wait, as do those of
//!   tables that count uses, whose values only their own step knows.
//! - **Source.** Overlapped and non-overlapped look-ups of adjacent steps, as in BagPipe and the
//!   pipelines of `TorchRec`; here the owner separates them, since it knows all ranks' requests.
//! - **Cost.** At most one bit per requested row besides the weights; holding the rows of a
//!   mini-batch a second time.

use std::sync::Arc;

use rayon::prelude::*;
use stepwell_base::rules::Rule;
use stepwell_base::slab::Slab;
use stepwell_fabric::Message;

use super::put_weights;
use crate::group::{Group, devices_above, group_of};
use crate::ranks::marked;
use crate::rows::EmbeddingBags;
use crate::rows::working::{TableRows, WorkingRows};
use crate::working_set::{Loan, Part};

/// Marks the rows of `part` that may go early: rows in `slab` that are not held, except lent ones.
/// Returns their number.
fn find(part: &mut Part, slab: &Slab) -> usize {
    let askers = &mut part.askers;
    slab.which_are_free(&part.rows.slots, &mut askers.early);
    for (early, loan) in askers.early.iter_mut().zip(&askers.loans) {
        *early &= *loan == Loan::None;
    }
    askers.early.iter().filter(|early| **early).count()
}

/// Maximum bytes of the message of `tables` to rank `rank`.
fn bytes_for(tables: &[TableRows<'_>], rank: usize) -> usize {
    let of_table = |rows: &TableRows<'_>| {
        let asked = &rows.request.occurrence_rows[rows.askers.range(rank)];
        let early = asked.iter().filter(|row| rows.askers.is_early(**row as usize)).count();
        32 + asked.len() / 8 + early * rows.width() * size_of::<f32>()
    };
    tables.iter().map(of_table).sum()
}

/// Rows sent to a rank for the next step ahead of its answer.
#[derive(Debug)]
pub struct EarlyRows {
    /// Numbers of the rows, and their weights.
    pub message: Message,
    /// Number of rows.
    pub rows: u64,
}

impl EarlyRows {
    /// Adds the early rows of `rows` that rank `rank` requested.
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
    /// Whether rows may be sent before their step: not if steps read older versions of them.
    pub fn sends_early(&self) -> bool {
        self.stale.staleness() == 0
    }

    /// Makes a message for each rank, with the rows that it requests in the `next` mini-batch and
    /// that the current step, whose rows are `held`, doesn't touch; `None` if there is no such row.
    /// The answer to `next` has the others.
    pub fn answer_early(
        &self,
        held: WorkingRows<'_>,
        next: &mut [Part],
        groups: &[Arc<Group>],
        (message, ranks): (impl Fn(usize) -> Message + Sync, usize),
    ) -> Option<Vec<EarlyRows>> {
        if devices_above(groups).is_some() {
            // Rows above devices may not be up to date in the slab.
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
    use crate::request::Grouper;
    use crate::rows::exchange::late;
    use crate::table_spec::TableSpec;

    #[test]
    fn what_nobody_holds_goes_and_the_rest_follows() {
        let sgd = RowOptimizer::new(stepwell_optim::Rule::sgd(0.1)).unwrap();
        let table = TableSpec::new(0, "t", 1, sgd);
        let mut slab = Slab::new(6, table.row_lanes()).unwrap();
        slab.lanes_mut().iter_mut().zip(0u16..).for_each(|(lane, slot)| *lane = f32::from(slot));
        // Rank 0 requests one row, rank 1 four, one of them lent. The current step holds two
        // others, and one that nobody requests.
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
