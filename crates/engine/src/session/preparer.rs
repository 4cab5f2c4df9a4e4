//! Mini-batches made ready for a session, on any thread.
//!
//! - **Why.** Grouping the ids of a mini-batch takes as long as feeding, gathering and pushing it
//!   together. Callers do it on other threads while the session trains.
//! - **Failure.** A mini-batch that the session couldn't train is refused here, before it is fed,
//!   and ends nothing.

use std::sync::Arc;

use rayon::prelude::*;
use stepwell_base::{ByteCount, Key};

use crate::group::Group;
use crate::mini_batch::{Cargo, MiniBatch, Purpose};
use crate::request::{Bags, Field, Grouper, is_pooled};
use crate::stages::Spares;
use crate::working_set::Part;
use crate::{Error, Result};

/// Bags of ids, in example order, borrowed from the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BagsRef<'a> {
    /// Keys in example order, field by field.
    pub keys: &'a [Key], // (occurrences)
    /// Where each bag ends in `keys`; bag `example * fields + field`.
    pub ends: &'a [u32], // (examples * fields)
    /// Weight of each row in its bag; empty if all are 1.
    pub weights: &'a [f32], // (occurrences)
}

impl<'a> From<&'a Bags> for BagsRef<'a> {
    fn from(bags: &'a Bags) -> Self {
        Self { keys: &bags.keys, ends: &bags.ends, weights: &bags.weights }
    }
}

/// The caller's data of a mini-batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Fed {
    pub(super) labels: Vec<f32>,
    pub(super) examples: usize,
}

impl Cargo for Fed {
    fn examples(&self) -> usize {
        self.examples
    }

    fn clear(&mut self) {
        self.labels.clear();
        self.examples = 0;
    }
}

/// A mini-batch that a session accepts.
#[derive(Debug)]
pub struct Prepared(pub(super) MiniBatch<Fed>);

/// Properties of a table that its bags depend on.
#[derive(Clone, Debug)]
pub(super) struct TableFields {
    pub(super) name: String,
    pub(super) salt: u64,
    pub(super) fields: Vec<Field>,
}

/// Tables that share memory, and the number of their rows that fit.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    pub(super) names: String,
    pub(super) tables: Vec<usize>,
    pub(super) slots: usize,
}

impl Capacity {
    pub(super) fn of(group: &Group) -> Self {
        let (names, tables) = (group.names(), group.members().to_vec());
        Self { names, tables, slots: group.slab.slots() }
    }

    /// Distinct rows of `mini` in these tables.
    fn rows_of(&self, mini: &MiniBatch<Fed>) -> usize {
        self.tables.iter().map(|table| mini.parts[*table].request.distinct.len()).sum()
    }
}

/// Makes mini-batches for a session. Each thread has its own, from
/// [`Session::preparer`](super::Session::preparer).
#[derive(Debug)]
pub struct Preparer {
    pub(super) tables: Arc<[TableFields]>,
    pub(super) capacities: Arc<[Capacity]>,
    pub(super) dram: ByteCount,
    pub(super) spares: Arc<Spares<Fed>>,
    /// One for each table.
    pub(super) groupers: Vec<Grouper>,
}

impl Clone for Preparer {
    fn clone(&self) -> Self {
        Self {
            tables: Arc::clone(&self.tables),
            capacities: Arc::clone(&self.capacities),
            dram: self.dram,
            spares: Arc::clone(&self.spares),
            groupers: self.tables.iter().map(|_| Grouper::default()).collect(),
        }
    }
}

impl Preparer {
    /// Makes a mini-batch of `examples` examples: for each table the bags of its fields, example by
    /// example. Labels (examples) count how often a row's examples were positive; without any, no
    /// example is. Threads of the current rayon pool divide the tables among them.
    ///
    /// # Errors
    /// Bags or labels that don't match the number of examples; more distinct rows than fit in
    /// memory at once.
    pub fn prepare(
        &mut self,
        examples: usize,
        bags: &[BagsRef<'_>],
        labels: Option<&[f32]>,
        purpose: Purpose,
    ) -> Result<Prepared> {
        self.check(examples, bags, labels).map_err(Error::Refused)?;
        let mut mini = self.spares.take().unwrap_or_else(|| MiniBatch {
            number: 0,
            purpose,
            parts: bags.iter().map(|_| Part::default()).collect(),
            cargo: Fed::default(),
        });
        mini.purpose = purpose;
        mini.cargo.examples = examples;
        mini.cargo.labels.extend_from_slice(labels.unwrap_or_default());
        mini.cargo.labels.resize(examples, 0.0);
        let parts = mini.parts.par_iter_mut().zip(bags).zip(&*self.tables);
        parts.zip(&mut self.groupers).for_each(|(((part, bags), table), grouper)| {
            part.request.ends.extend_from_slice(bags.ends);
            part.request.weigh(&table.fields, bags.weights);
            grouper.group_into(bags.keys, table.salt, &mut part.request);
        });
        match self.too_large(&mini) {
            None => Ok(Prepared(mini)),
            Some(why) => {
                self.spares.give_back(mini);
                Err(Error::Refused(why))
            }
        }
    }

    /// A mini-batch with the rows of `keys` in table `table`, all in one bag.
    pub(super) fn of_keys(
        &mut self,
        table: usize,
        keys: &[Key],
        purpose: Purpose,
    ) -> Result<Prepared> {
        let tables = Arc::clone(&self.tables);
        // The other fields' bags are empty.
        let ends = tables.iter().enumerate().map(|(number, of)| {
            let end = if number == table { keys.len() as u32 } else { 0 };
            vec![end; of.fields.len()]
        });
        let ends: Vec<Vec<u32>> = ends.collect();
        let bags = ends.iter().enumerate().map(|(number, ends)| {
            let keys = if number == table { keys } else { &[] };
            BagsRef { keys, ends, weights: &[] }
        });
        let bags: Vec<BagsRef<'_>> = bags.collect();
        self.prepare(1, &bags, None, purpose)
    }

    fn check(
        &self,
        examples: usize,
        bags: &[BagsRef<'_>],
        labels: Option<&[f32]>,
    ) -> std::result::Result<(), String> {
        if examples == 0 {
            return Err("the mini-batch has no examples: feed at least one".to_owned());
        }
        if let Some(given) = labels.map(<[f32]>::len).filter(|given| *given != examples) {
            return Err(format!("{given} labels for {examples} examples"));
        }
        if bags.len() != self.tables.len() {
            return Err(format!("bags of {} tables: give {}", bags.len(), self.tables.len()));
        }
        for (TableFields { name, fields, .. }, bags) in self.tables.iter().zip(bags) {
            let (BagsRef { keys, ends, weights }, wanted) = (bags, examples * fields.len());
            if ends.len() != wanted {
                let count = ends.len();
                return Err(format!("table '{name}': {count} bags, but {wanted} are needed"));
            }
            if !ends.is_sorted() || ends.last().is_none_or(|end| *end as usize != keys.len()) {
                let count = keys.len();
                return Err(format!(
                    "table '{name}': the ends must ascend to {count}, the number of keys"
                ));
            }
            if !weights.is_empty() && !is_pooled(fields) {
                return Err(format!("table '{name}' is not pooled, so its rows have no weights"));
            }
            if ![0, keys.len()].contains(&weights.len()) {
                let (count, given) = (keys.len(), weights.len());
                return Err(format!("table '{name}': {given} weights for {count} keys"));
            }
        }
        Ok(())
    }

    /// Why memory can't hold the rows of `mini`, if it can't.
    fn too_large(&self, mini: &MiniBatch<Fed>) -> Option<String> {
        let exceeds = |of: &&Capacity| of.rows_of(mini) > of.slots;
        let fuller = |of: &&Capacity| of.rows_of(mini) * 1_000_000 / of.slots.max(1);
        let of = self.capacities.iter().filter(exceeds).max_by_key(fuller)?;
        let (rows, slots, dram) = (of.rows_of(mini), of.slots, self.dram.0);
        let needed = u128::from(dram) * rows as u128 / slots.max(1) as u128 + 1;
        Some(format!(
            "a mini-batch of {} examples needs {rows} distinct rows of table '{}', but tiers.dram, \
             {dram} bytes, holds {slots}: give it about {needed} bytes, or more memory if it isn't \
             set, or feed fewer examples at once",
            mini.cargo.examples, of.names,
        ))
    }
}
