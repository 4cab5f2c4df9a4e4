//! The row half of a step for lent rows: they are sent whole with the answer, updated by the
//! borrower as soon as it has its own gradients, which are the only ones, and sent back whole.

use std::borrow::Cow;

use pulp::Arch;
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::slab::RowsMut;
use stepwell_fabric::{Malformed, Message, Reader};
use stepwell_optim::Storage;

use crate::blocks::Blocks;
use crate::ranks::{Borrowed, BorrowedTable, marked};
use crate::rows::EmbeddingBags;
use crate::rows::laps::Laps;
use crate::rows::sums::{Gradients, RowGradients as _, Sums, TableBags};
use crate::rows::update::{Workspace, step_row};
use crate::rows::witness::Moment;
use crate::rows::working::{TableRows, WorkingRows};
use crate::rows::workspaces::refill;
use crate::table_spec::TableSpec;
use crate::working_set::Loan;

/// Number of rows that one thread updates at a time.
const UPDATED: usize = 256;

/// Number of rows with the state `loan` for rank `rank`.
pub(super) fn count(rows: &TableRows<'_>, rank: usize, loan: Loan) -> usize {
    let asked = &rows.request.occurrence_rows[rows.askers.range(rank)];
    if rows.askers.loans.is_empty() {
        return if loan == Loan::None { asked.len() } else { 0 };
    }
    asked.iter().filter(|row| rows.askers.loan(**row as usize) == loan).count()
}

/// Adds to `message` which of the `asked` rows change hands, and the rows that are lent now.
/// Returns the rows whose weights follow.
pub(super) fn answer<'a>(
    rows: &TableRows<'_>,
    asked: &'a [u32],
    message: &mut Message,
) -> Cow<'a, [u32]> {
    let loans = |row: &u32| rows.askers.loan(*row as usize);
    let changes = |(_, row): &(u32, &u32)| matches!(loans(row), Loan::Begins | Loan::Ends);
    let changed: Vec<u32> = match rows.askers.loans.is_empty() {
        true => Vec::new(),
        false => (0..).zip(asked).filter(changes).map(|(number, _)| number).collect(),
    };
    marked::put(message, asked.len(), &changed);
    let begun: Vec<u32> = asked.iter().copied().filter(|row| loans(row) == Loan::Begins).collect();
    let lanes = rows.row_lanes();
    let places: &mut [f32] = message.room(begun.len() * lanes);
    for (place, row) in places.chunks_exact_mut(lanes).zip(begun) {
        place.copy_from_slice(rows.held(row as usize));
    }
    match rows.askers.loans.is_empty() {
        true => asked.into(),
        false => asked.iter().copied().filter(|row| loans(row) == Loan::None).collect(),
    }
}

/// Reads the rows that rank `rank` returns.
pub(super) fn read_back<'a>(
    rows: &TableRows<'_>,
    table: &TableSpec,
    rank: usize,
    reader: &mut Reader<'a>,
) -> Result<&'a [f32], Malformed> {
    let lanes = rows.row_lanes();
    let back: &[f32] = reader.take_exactly(count(rows, rank, Loan::Ends) * lanes)?;
    match back.chunks_exact(lanes).all(|row| table.owns(row)) {
        true => Ok(back),
        false => Err(Malformed::Wrong("it gives back rows of another table")),
    }
}

/// Puts the returned rows `back`, by table and rank, into their slots.
pub(super) fn take_back(rows: &mut WorkingRows<'_>, ranks: usize, back: &[&[f32]]) {
    let rules = rows.groups.first().map_or_else(Rules::default, |group| group.rules);
    if back.is_empty() || !rules.hold(Rule::TakeBack) {
        return;
    }
    for (table, back) in rows.tables.iter_mut().zip(back.chunks(ranks)) {
        let (lanes, askers, request) = (table.row_lanes(), table.askers, table.request);
        for (rank, back) in back.iter().enumerate() {
            let asked = &request.occurrence_rows[askers.range(rank)];
            let ends = asked.iter().filter(|row| askers.loan(**row as usize) == Loan::Ends);
            for (row, back) in ends.zip(back.chunks_exact(lanes)) {
                table.rows_mut().row(*row as usize).copy_from_slice(back);
            }
        }
    }
}

impl EmbeddingBags {
    /// Updates the `borrowed` rows among `rows`, which visit for mini-batch `number`, by the
    /// gradients of this rank's `blocks`; no other rank has gradients for them.
    pub fn update_borrowed(
        &self,
        (rows, number): (&WorkingRows<'_>, u32),
        (gradients, blocks): (Gradients<'_>, Blocks),
        borrowed: &Borrowed,
        laps: &dyn Laps,
    ) {
        for (table, rows) in rows.tables.iter().enumerate() {
            let here = borrowed.table(table);
            if here.is_idle() {
                continue;
            }
            let bags = self.bags_of(table, rows.bags, gradients, blocks);
            let update =
                BorrowedUpdate { embeddings: self, table: &self.tables[table], rows, bags, laps };
            update.show(here, number);
            let slots = here.slots(here.rows());
            let mut held = here.slab().hold(&slots);
            update.share(held.rows_mut(), here.rows());
        }
    }
}

/// Inputs for the update of one table's borrowed rows.
struct BorrowedUpdate<'a> {
    embeddings: &'a EmbeddingBags,
    table: &'a TableSpec,
    rows: &'a TableRows<'a>,
    bags: TableBags<'a>,
    laps: &'a dyn Laps,
}

impl BorrowedUpdate<'_> {
    /// Shows the borrowed rows that this mini-batch reads to the witness.
    fn show(&self, here: &BorrowedTable, number: u32) {
        let Some(witness) = &self.embeddings.witness else { return };
        let at = Moment { steps: self.embeddings.steps, number, evaluates: false };
        let mut weights = vec![0.0; self.table.weight_count()];
        let state = self.table.weight_lanes()..self.table.model_lanes();
        let ran = |row: &u32| here.loan(*row) != Loan::Begins;
        let rows: Vec<u32> = here.rows().iter().copied().filter(ran).collect();
        let slots = here.slots(&rows);
        let held = here.slab().hold(&slots);
        for (place, row) in rows.iter().enumerate() {
            let key = self.rows.request.distinct[*row as usize];
            self.table.weights(held.row(place)).copy_to(&mut weights);
            witness.read(at, self.table.id, key, &weights, &held.row(place)[state.clone()]);
        }
    }

    /// Updates `rows`, which have these `numbers` in the request.
    fn share(&self, rows: RowsMut<'_>, numbers: &[u32]) {
        if numbers.len() > UPDATED {
            let (left, right) = rows.split_at(numbers.len() / 2);
            let (before, after) = numbers.split_at(numbers.len() / 2);
            rayon::join(|| self.share(left, before), || self.share(right, after));
            return;
        }
        let begin = self.laps.now();
        let lanes: usize = numbers.iter().map(|row| self.bags.bags.of(*row as usize).len()).sum();
        let lanes =
            lanes * self.table.weight_count() + 2 * numbers.len() * self.table.model_lanes();
        match self.rows.request.is_weighed() {
            true => self.update::<true>(rows, numbers),
            false => self.update::<false>(rows, numbers),
        }
        self.laps.over(begin, (lanes * size_of::<f32>()) as u64);
    }

    fn update<const WEIGHED: bool>(&self, mut rows: RowsMut<'_>, numbers: &[u32]) {
        let Self { embeddings, table, .. } = *self;
        let mut workspace = embeddings.workspaces.take(Workspace::default);
        let (width, lanes, storage) = (table.weight_count(), table.model_lanes(), table.storage);
        Arch::new().dispatch(|| {
            let Workspace { sums, weights } = &mut workspace;
            refill(weights, width);
            let mut gradients = Sums::<WEIGHED>::new(&self.bags, table.dim, width, sums);
            for (place, number) in numbers.iter().enumerate() {
                let (gradient, _) = gradients.of(*number as usize);
                let key = self.rows.request.distinct[*number as usize];
                let (model, step) = (&mut rows.row(place)[..lanes], embeddings.steps + 1);
                match storage {
                    Storage::F32 => {
                        step_row(table, Storage::F32, model, key, step, gradient, weights);
                    }
                    other => step_row(table, other, model, key, step, gradient, weights),
                }
            }
        });
        embeddings.workspaces.put_back(workspace);
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::slab::Slab;
    use stepwell_base::{Key, SlotIndex};
    use stepwell_optim::{RowOptimizer, Rule};

    use super::*;
    use crate::request::Grouper;
    use crate::working_set::Part;

    /// A table with weights and state that shares its store.
    fn table() -> TableSpec {
        let adagrad = RowOptimizer::new(Rule::adagrad(0.1)).unwrap();
        TableSpec { shared: true, ..TableSpec::new(0, "shared", 1, adagrad) }
    }

    /// Requests of ranks 0 and 1; of the four rows of rank 1, one becomes lent, one is lent, one
    /// isn't, and one is returned.
    fn asked() -> Part {
        let mut part = Part::default();
        let keys = [7, 1, 2, 3, 4].map(Key);
        Grouper::default().group_into(&keys, 0, &mut part.request);
        part.askers.ends = vec![1, 5];
        part.askers.loans = vec![Loan::None, Loan::Begins, Loan::Runs, Loan::None, Loan::Ends];
        part.rows.slots = (0..5).map(SlotIndex).collect();
        part
    }

    #[test]
    fn an_answer_has_whole_rows_that_go_and_nothing_of_those_that_are_away() {
        let (table, mut part) = (table(), asked());
        let mut slab = Slab::new(5, table.row_lanes()).unwrap();
        let numbers = slab.lanes_mut().iter_mut().zip(0u16..);
        numbers.for_each(|(lane, number)| *lane = f32::from(number));
        let rows = TableRows::new(&mut part, &slab, &table);
        let counts =
            [Loan::None, Loan::Begins, Loan::Runs, Loan::Ends].map(|of| count(&rows, 1, of));
        assert_eq!((counts, count(&rows, 0, Loan::None)), ([1, 1, 1, 1], 1));
        let mut message = Message::new();
        let asked = &rows.request.occurrence_rows[rows.askers.range(1)];
        assert_eq!(answer(&rows, asked, &mut message)[..], [3], "weights of one follow");
        let mut reader = message.reader();
        let changed = marked::read(&mut reader, 4).unwrap();
        assert_eq!(changed, [true, false, false, true]);
        assert_eq!(reader.take::<f32>().unwrap(), [3.0, 4.0, 5.0]);
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn rows_that_come_back_are_whole_and_of_their_table() {
        let (table, mut part) = (table(), asked());
        let slab = Slab::new(5, table.row_lanes()).unwrap();
        let rows = TableRows::new(&mut part, &slab, &table);
        let read = |lanes: &[f32]| {
            let mut message = Message::new();
            message.put(lanes);
            read_back(&rows, &table, 1, &mut message.reader()).map(<[f32]>::to_vec)
        };
        let mut row = vec![0.0; table.row_lanes()];
        table.initial_row(Key(4), &mut row);
        assert_eq!(read(&row), Ok(row.clone()));
        assert!(read(&row[1..]).is_err() && read(&[&row[..], &row].concat()).is_err());
        let last = row.len() - 1;
        row[last] = 0.0;
        assert!(matches!(read(&row), Err(Malformed::Wrong(_))), "of another table");
    }
}
