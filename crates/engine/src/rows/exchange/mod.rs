//! The row half of a step with several ranks: an owner's answers and updates, and a requester's
//! sums.

mod early;
mod lent;

use std::borrow::Cow;
use std::sync::Arc;

use pulp::Arch;
use rayon::prelude::*;
use stepwell_base::owner::RankOf;
use stepwell_fabric::{Error as FabricError, Message, Reader};
use stepwell_mem::Occurrence;

pub use self::early::EarlyRows;
use super::EmbeddingBags;
use super::laps::Laps;
use super::sums::combine::{self, Partials, RankSums, RowsSummed};
use super::sums::{Gradients, Sums, TableBags};
use super::update::{RowsOf, Update, Workspace};
use super::working::{TableRows, WorkingRows};
use crate::Result;
use crate::blocks::Blocks;
use crate::group::{Group, devices_above};
use crate::ranks::{Borrowed, Guests, Routes};
use crate::table_spec::TableSpec;
use crate::working_set::{Loan, Part};

/// Number of rows that one thread copies at a time.
const ANSWERED: usize = 512;

/// Adds the weights of the `asked` rows to `message`.
pub(super) fn put_weights(rows: &TableRows<'_>, asked: &[u32], message: &mut Message) {
    let width = rows.width();
    let weights: &mut [f32] = message.room(asked.len() * width);
    let pieces = weights.par_chunks_mut(ANSWERED * width).zip(asked.par_chunks(ANSWERED));
    pieces.for_each(|(weights, asked)| {
        for (place, row) in weights.chunks_exact_mut(width).zip(asked) {
            rows.weights(*row as usize).copy_to(place);
        }
    });
}

/// The rows of `asked` that were not sent early.
pub(super) fn late<'a>(rows: &TableRows<'_>, asked: Cow<'a, [u32]>) -> Cow<'a, [u32]> {
    if rows.askers.early.is_empty() {
        return asked;
    }
    asked.iter().copied().filter(|row| !rows.askers.is_early(*row as usize)).collect()
}

impl EmbeddingBags {
    /// Adds to each rank's message the weights of the rows that it requested, as this step reads
    /// them. `rows` are held by [`EmbeddingBags::hold`] for the requests of all ranks.
    pub fn answer(&self, rows: &WorkingRows<'_>, messages: &mut [Message]) {
        let trains = rows.trains;
        messages.par_iter_mut().enumerate().for_each(|(rank, message)| {
            for rows in &rows.tables {
                let asked = &rows.request.occurrence_rows[rows.askers.range(rank)];
                let asked = match self.lends && trains {
                    true => lent::answer(rows, asked, message),
                    false => asked.into(),
                };
                put_weights(rows, &late(rows, asked), message);
            }
        });
    }

    /// Adds to `message` the current weights of the rows that `rank` alone requested.
    pub fn answer_to(&self, rank: usize, rows: &WorkingRows<'_>, message: &mut Message) {
        for rows in &rows.tables {
            let asked = &rows.request.occurrence_rows[rows.askers.range(rank)];
            put_weights(rows, asked, message);
        }
    }

    /// Bytes of the answer to rank `rank`.
    pub fn answer_bytes(&self, rows: &WorkingRows<'_>, rank: usize) -> usize {
        let of_table = |rows: &TableRows<'_>| {
            let begun = lent::count(rows, rank, Loan::Begins) * rows.row_lanes();
            let asked = rows.askers.range(rank).len();
            48 + asked / 8 + (asked * rows.width() + begun) * size_of::<f32>()
        };
        rows.tables.iter().map(of_table).sum()
    }

    /// Whether owners receive how often rows of `table` occur in a mini-batch: if their history or
    /// the policy counts that. Otherwise it is enough that they occur.
    pub fn tells_seen(table: &TableSpec, weighs_occurrences: bool) -> bool {
        table.life.is_some() || weighs_occurrences
    }

    /// Maximum bytes of the sums for `owner`, with these `routes` and this rank's `blocks`.
    pub fn sums_bytes_max(&self, routes: &[Routes], owner: usize, blocks: Blocks) -> usize {
        let subtrees = blocks.subtrees().count();
        let of_table = |(routes, table): (&Routes, &TableSpec)| {
            let lanes = subtrees * table.weight_count();
            let lanes = if self.lends { lanes.max(table.row_lanes()) } else { lanes };
            64 + routes.of(owner).len() * (lanes * size_of::<f32>() + 12)
        };
        routes.iter().zip(&self.tables).map(of_table).sum()
    }

    /// The rows of other ranks that `parts` request, for pooling by [`EmbeddingBags::gather`].
    pub fn visit<'a>(&self, parts: &'a mut [Part], guests: &'a Guests) -> WorkingRows<'a> {
        let tables = parts.iter_mut().enumerate();
        // Guests are f32, whatever the storage of their rows.
        let rows = |(number, part)| TableRows::of_guests(part, guests.slab(number));
        let tables = tables.map(rows).collect();
        WorkingRows { tables, groups: &[], trains: false, number: 0, pooled: false }
    }

    /// Adds to each owner's message the sums of gradients of its rows among the visiting `rows`;
    /// `routes` give each owner's rows, and `blocks` are this rank's. Borrowed rows have no sums;
    /// those to be returned follow.
    ///
    /// # Panics
    /// If the number of examples differs.
    pub fn sum_for_owners(
        &self,
        rows: &WorkingRows<'_>,
        (gradients, blocks): (Gradients<'_>, Blocks),
        (routes, borrowed): (&[Routes], Option<&Borrowed>),
        messages: &mut [Message],
    ) {
        let examples = gradients.d_first_order.len();
        assert_eq!(blocks.place().len(), examples, "gradients of all local examples");
        assert_eq!(gradients.d_x.len(), examples * self.columns.count, "one row each");
        messages.par_iter_mut().enumerate().for_each(|(owner, message)| {
            for (number, rows) in rows.tables.iter().enumerate() {
                let bags = self.bags_of(number, rows.bags, gradients, blocks);
                let borrowed = borrowed.map(|borrowed| borrowed.table(number));
                let kept = routes[number].kept_by(owner, borrowed);
                let table = &self.tables[number];
                match rows.request.is_weighed() {
                    true => self.sum_rows::<true>(table, &kept, &bags, message),
                    false => self.sum_rows::<false>(table, &kept, &bags, message),
                }
                if let Some(borrowed) = borrowed {
                    borrowed.give_back(routes[number].of(owner), message);
                }
            }
        });
    }

    fn sum_rows<const WEIGHED: bool>(
        &self,
        table: &TableSpec,
        rows: &[u32],
        bags: &TableBags<'_>,
        message: &mut Message,
    ) {
        let tells_seen = Self::tells_seen(table, self.weighs_occurrences);
        let mut workspace = self.workspaces.take(Workspace::default);
        let width = table.weight_count();
        Arch::new().dispatch(|| {
            let mut sums = Sums::<WEIGHED>::new(bags, table.dim, width, &mut workspace.sums);
            let sum = |range, place: &mut [f32]| {
                let (sum, seen) = sums.gradient(range);
                place.copy_from_slice(sum);
                seen
            };
            combine::write(message, rows, width, tells_seen, bags, sum);
        });
        self.workspaces.put_back(workspace);
    }

    /// Holds again the rows of a step with several ranks that [`EmbeddingBags::hold`] began.
    pub fn hold_again<'a>(
        &self,
        number: u32,
        parts: &'a mut [Part],
        groups: &'a [Arc<Group>],
    ) -> WorkingRows<'a> {
        assert!(self.is_open, "a step was begun");
        let tables = self.rows_in(parts, groups);
        WorkingRows { tables, groups, trains: true, number, pooled: false }
    }

    /// Ends a step as [`EmbeddingBags::apply`] does, with the sums of all ranks, the rest of each
    /// of `readers`; `blocks` are those of the whole mini-batch.
    ///
    /// # Errors
    /// Names the rank that sent an invalid message, in which case no row was updated, or the device
    /// that failed.
    ///
    /// # Panics
    /// As [`EmbeddingBags::apply`].
    pub fn apply_sums(
        &mut self,
        rows: &mut WorkingRows<'_>,
        mut readers: Vec<Reader<'_>>,
        blocks: Blocks,
        laps: &dyn Laps,
    ) -> Result<()> {
        let count = readers.len();
        let mut all = Vec::with_capacity(rows.tables.len());
        let mut back = Vec::new();
        for (table, spec) in rows.tables.iter().zip(&self.tables) {
            let mut ranks = Vec::with_capacity(readers.len());
            let tells_seen = Self::tells_seen(spec, self.weighs_occurrences);
            for (rank, reader) in readers.iter_mut().enumerate() {
                let own = blocks.of_rank(RankOf { rank, ranks: count });
                let wrong = |why| FabricError::malformed(rank, why);
                let (rows, width) = (lent::count(table, rank, Loan::None), table.width());
                let sums = RankSums::read(reader, RowsSummed { rows, width, tells_seen }, own);
                ranks.push(sums.map_err(wrong)?);
                if self.lends {
                    back.push(lent::read_back(table, spec, rank, reader).map_err(wrong)?);
                }
            }
            let TableRows { bags, askers, request, .. } = *table;
            all.push(Partials::new(ranks, blocks, bags, askers, request));
        }
        for (rank, reader) in readers.into_iter().enumerate() {
            reader.end().map_err(|why| FabricError::malformed(rank, why))?;
        }
        self.end_step(rows);
        lent::take_back(rows, count, &back);
        for (number, (table, partials)) in rows.tables.iter_mut().zip(&all).enumerate() {
            self.update(number, rows.groups, table, RowsOf::Partials(partials), laps);
        }
        rows.groups.iter().for_each(|group| group.set_steps(self.steps));
        self.send(rows)
    }

    /// Ends the step: rows read later belong to the next one.
    pub(super) fn end_step(&mut self, rows: &WorkingRows<'_>) {
        assert!(rows.trains && self.is_open, "only rows held for this step are updated");
        self.is_open = false;
        self.steps += 1;
        self.stale.passed();
    }

    /// Updates the rows of table `number`.
    pub(super) fn update(
        &self,
        number: usize,
        groups: &[Arc<Group>],
        table: &mut TableRows<'_>,
        gradients: RowsOf<'_>,
        laps: &dyn Laps,
    ) {
        let devices = devices_above(groups);
        let update = Update {
            sends: devices.is_some_and(|devices| devices.steps(number)),
            table: &self.tables[number],
            request: table.request,
            bags: table.bags,
            loans: &table.askers.loans,
            gradients,
            admissions: self.admissions[number].as_ref(),
            step: self.steps,
            laps,
            workspaces: &self.workspaces,
        };
        table.occurrences.resize(table.request.distinct.len(), Occurrence::default());
        let (rows, occurrences) = table.for_update();
        update.run(rows, occurrences);
    }
}
