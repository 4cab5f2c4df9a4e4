//! Divides a session's memory among its tiers.
//!
//! - **How.** The size of rows in memory decides the others: the index has room for
//!   [`ROWS_ON_DISK`] rows per slot and for the rows that the session begins with; a segment and
//!   harvested rows each take a [`PART`]th of the rows' bytes, or of half the memory if the size of
//!   rows is set. A binary search finds the largest size that fits. If the size of rows is set, the
//!   index gets the rest.
//! - **Bounds.** Everything that a session allocates, for mini-batches as large as expected. Larger
//!   ones are trained, and take more.

use stepwell_base::budget::Budget;
use stepwell_base::{ByteCount, cores};
use stepwell_ssd::StoreOptions;

use super::tiers::Tiers;
use crate::group_tables::GroupTables;
use crate::request::{Columns, Request};
use crate::rows::{EmbeddingBags, Shape};
use crate::table_spec::TableSpec;
use crate::tiers::{Load, TableLoad, TierOptions, TierPlan};
use crate::{Error, Result};

/// Rows that the index has room for, per slot in memory.
const ROWS_ON_DISK: u64 = 8;
/// Bytes of the allocator's own memory and of stacks, and the part of the memory that they take at
/// most.
const ALLOWANCE: (u64, u64) = (32 << 20, 5);
/// Harvested rows, and a segment, each take this fraction of the bytes of rows in memory.
const PART: u64 = 16;
/// Mini-batches known ahead take at most one in this many bytes of the memory.
const KNOWN_PART: u64 = 4;
/// A transfer takes this fraction of the memory.
const TRANSFER_PART: u64 = 512;
/// Least and greatest bytes of a transfer.
const TRANSFER: [u64; 2] = [16 << 10, 1 << 20];
/// Least and greatest bytes of a segment; a smaller one would have smaller pages.
const SEGMENT: [u64; 2] = [512 << 10, 64 << 20];
/// Rows that a segment has room for at least, with their pages.
const SEGMENT_ROWS: u64 = 8;
/// Smallest harvest; below it, the lists of wanted rows take more than the rows.
const HARVEST_MIN: u64 = 1 << 20;
/// Bytes of an index from which the size per row is computed.
const INDEX_WHOLE: u64 = 1 << 50;
/// Mini-batches beyond the horizon: one that the caller has, and those between stages.
const BEYOND_HORIZON: usize = 3;
/// Examples of a mini-batch if nothing else is known.
const EXAMPLES: u64 = 1024;
/// Bytes that planning takes for each id of a mini-batch that is known.
const KNOWN_BYTES: u64 = 40;
/// Bytes of rows, or of an index, at which the search for a size begins.
const LEAST: u64 = 64;
/// Bytes of rows, or of an index, with which any tables can be planned.
const PLENTY: u64 = 1 << 40;
/// Steps of the binary search for the best size.
const HALVINGS: u32 = 32;

/// Tiers of a session, and the length of its horizon.
pub(super) struct Division {
    pub(super) plan: TierPlan,
    /// Mini-batches whose keys are known ahead.
    pub(super) horizon: usize,
}

/// Inputs of a division.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) tables: &'a [TableSpec],
    pub(super) groups: &'a [GroupTables],
    pub(super) columns: &'a Columns,
    pub(super) shape: &'a Shape,
    pub(super) tiers: &'a Tiers,
    /// Rows that each table group begins with.
    pub(super) before: &'a [u64],
}

impl Wanted<'_> {
    /// Divides [`Tiers::memory`].
    ///
    /// # Errors
    /// Too little memory, with the least that suffices; sizes that don't fit together.
    pub(super) fn divide(&self) -> Result<Division> {
        if let Some(division) = self.divided()? {
            return Ok(division);
        }
        let mut tiers = self.tiers.clone();
        while (Wanted { tiers: &tiers, ..*self }).divided()?.is_none() {
            tiers.memory.0 += (tiers.memory.0 / 16).max(1 << 16);
        }
        let tables = if self.tables.len() == 1 { "table" } else { "tables" };
        Err(Error::Settings(format!(
            "memory = {}, but {} {tables} and their mini-batches need more: {} is enough",
            self.tiers.memory,
            self.tables.len(),
            ByteCount(tiers.memory.0.next_multiple_of(1 << 20)),
        )))
    }

    /// Divides [`Tiers::memory`]; `None` if it's too little.
    fn divided(&self) -> Result<Option<Division>> {
        let memory = self.tiers.memory.0;
        let horizon = self.horizon();
        let with = |bytes: u64| -> Result<(TierPlan, u64)> {
            let plan = self.plan(self.options(bytes, horizon)?)?;
            plan.check_index(&self.load())?;
            self.check_rows(&plan)?;
            let total = self.peak(&plan, horizon);
            Ok((plan, total))
        };
        // Fewer bytes than `least` hold no row, or not the index of the rows in memory.
        let mut least = LEAST;
        let (mut plan, total) = loop {
            match with(least) {
                Ok(found) => break found,
                Err(error) if least >= PLENTY => return Err(error),
                Err(_) => least += least / 4,
            }
        };
        if total > memory {
            return Ok(None);
        }
        let (mut low, mut high) = (least, memory.max(least));
        for _ in 0..HALVINGS {
            let middle = low + (high - low) / 2;
            match with(middle) {
                Ok((larger, total)) if total <= memory => (plan, low) = (larger, middle),
                _ => high = middle,
            }
        }
        Ok(Some(Division { plan, horizon }))
    }

    /// Refuses fewer slots than the rows of an expected mini-batch.
    fn check_rows(&self, plan: &TierPlan) -> Result<()> {
        let rows = &self.tiers.expected.rows;
        let rows_of = |table: &usize| rows.get(*table).copied().unwrap_or(0);
        for group in &plan.groups {
            let needed: u64 = group.members.tables.iter().map(rows_of).sum();
            if needed > group.slots as u64 {
                let (names, slots) = (&group.names, group.slots);
                return Err(Error::Settings(format!(
                    "memory has {slots} rows of table '{names}', but a mini-batch needs {needed}: \
                     raise tiers.dram, or the table's own"
                )));
            }
        }
        Ok(())
    }

    /// Examples of an expected mini-batch.
    fn examples(&self) -> u64 {
        match self.tiers.expected.examples {
            0 => EXAMPLES,
            examples => examples,
        }
    }

    /// Ids of an expected mini-batch, by table.
    fn ids(&self) -> Vec<u64> {
        let per_field = || self.columns.of_fields.iter().map(|fields| fields.len() as u64);
        match &self.tiers.expected.ids[..] {
            [] => per_field().map(|fields| fields * self.examples()).collect(),
            ids => ids.to_vec(),
        }
    }

    /// Bytes of the ids of one mini-batch, grouped.
    fn mini_batch_bytes(&self) -> u64 {
        let of_table = |(ids, fields): (u64, &Vec<_>)| {
            Request::bytes_max(fields.len() as u64 * self.examples(), ids, true)
        };
        self.ids().into_iter().zip(&self.columns.of_fields).map(of_table).sum()
    }

    /// The wanted horizon, or as far as a part of the memory allows.
    fn horizon(&self) -> usize {
        let ids: u64 = self.ids().iter().sum();
        let each = self.mini_batch_bytes() + ids * KNOWN_BYTES;
        let most = self.tiers.memory.0 / KNOWN_PART / each.max(1);
        let least = self.tiers.lookahead + 1;
        usize::try_from(most).unwrap_or(usize::MAX).clamp(least, self.tiers.known())
    }

    /// Sizes of the tiers if `bytes` go to the searched one: rows in memory, or the index if the
    /// size of rows is set.
    fn options(&self, bytes: u64, horizon: usize) -> Result<TierOptions> {
        let Tiers { memory, dram, index, harvest, page_cache, policy, .. } = *self.tiers;
        let rows = dram.map_or(bytes, |dram| dram.0);
        // Few rows in memory are no reason to read and write less at once, if there's memory.
        let part = dram.map_or(bytes, |_| memory.0 / 2) / PART;
        let transfer = (memory.0 / TRANSFER_PART).clamp(TRANSFER[0], TRANSFER[1]) >> 12 << 12;
        let most = TierOptions::default().harvest.0;
        let shared = if part < HARVEST_MIN { 0 } else { part.min(most) };
        let row = self.tables.iter().map(|table| table.row_bytes() as u64).max().unwrap_or(0);
        let segment = part.clamp(SEGMENT[0], SEGMENT[1]).max(SEGMENT_ROWS * row) >> 12 << 12;
        let mut options = TierOptions {
            dram: ByteCount(rows),
            index: index.unwrap_or(ByteCount(INDEX_WHOLE)),
            page_cache,
            harvest: harvest.unwrap_or(ByteCount(shared)),
            segment: ByteCount(segment),
            policy,
            staging_buffer_bytes: transfer as usize,
            transfer: ByteCount(transfer),
            horizon: horizon + BEYOND_HORIZON,
            ..TierOptions::default()
        };
        options.index = match (dram, index) {
            (_, Some(index)) => index,
            (Some(_), None) => ByteCount(bytes),
            (None, None) => {
                let plan = self.plan(options.clone())?;
                ByteCount(plan.index_for(ROWS_ON_DISK, self.before))
            }
        };
        Ok(options)
    }

    fn plan(&self, options: TierOptions) -> Result<TierPlan> {
        let examples = self.examples();
        let load = |(table, ids): (usize, u64)| TableLoad {
            given: self.tiers.of_table(table).dram.map(|bytes| bytes.0),
            expected: ids.max(1),
            ids_max: ids.div_ceil(examples).max(1),
            ..TableLoad::default()
        };
        let loads: Vec<TableLoad> = self.ids().into_iter().enumerate().map(load).collect();
        TierPlan::new(self.tables, self.groups, &loads, options)
    }

    fn load(&self) -> Load {
        let mut sketch_bytes = self.shape.sketch_bytes.clone();
        sketch_bytes.resize(self.tables.len(), 0);
        Load {
            mini_batch: self.examples(),
            batch: self.examples(),
            lookahead: self.tiers.lookahead as u64,
            staleness: self.shape.staleness as u64,
            sketch_bytes,
            saves: true,
            ..Load::default()
        }
    }

    /// The most bytes that the session allocates at once.
    fn peak(&self, plan: &TierPlan, horizon: usize) -> u64 {
        let budget = self.budget(plan, horizon);
        // The plan's bound assumes a full store; here, the store opens with the checkpoint's rows.
        let later = budget.bounds().iter().filter(|bound| bound.name != StoreOptions::OPENING);
        let later = later.map(|bound| bound.bytes).sum::<u64>();
        let mut opening = 0;
        for (group, rows) in plan.groups.iter().zip(self.before).filter(|(_, rows)| **rows > 0) {
            let index_bytes_max = group.store.index_bytes_for(*rows);
            let mut bounds = Budget::default();
            StoreOptions { index_bytes_max, ..group.store.clone() }.add_bounds(1, "", &mut bounds);
            let of_opening = bounds.bounds().iter().find(|of| of.name == StoreOptions::OPENING);
            opening += index_bytes_max + of_opening.map_or(0, |bound| bound.bytes);
        }
        later.max(opening)
    }

    /// Bounds of everything that the session allocates.
    fn budget(&self, plan: &TierPlan, horizon: usize) -> Budget {
        let load = self.load();
        let mut budget = Budget::default();
        plan.add_rows(&load, &mut budget);
        plan.add_planning(&load, &mut budget);
        plan.add_history(self.tables, &load, &mut budget);
        let minis = (horizon + BEYOND_HORIZON) as u64;
        budget.add("mini-batches", minis * self.mini_batch_bytes(), format!("{minis} of them"));
        let sums = EmbeddingBags::workspace_bytes_max(self.tables, self.shape.blocks) as u64;
        budget.add("gradients", sums * cores() as u64, "sums of each thread");
        let (bytes, part) = ALLOWANCE;
        budget.add("allocator", bytes.min(self.tiers.memory.0 / part), "and stacks");
        budget
    }
}

#[cfg(test)]
mod tests {
    use stepwell_optim::{RowOptimizer, Rule};

    use super::super::tiers::{ExpectedBatch, TableMemory};
    use super::*;
    use crate::request::Field;

    fn divided(tiers: &Tiers, dims: &[usize], before: &[u64]) -> Result<(Division, u64)> {
        let optimizer = RowOptimizer::new(Rule::adagrad(0.1)).unwrap();
        let table = |(number, dim): (usize, &usize)| {
            TableSpec::new(number as u32, &format!("t{number}"), *dim, optimizer)
        };
        let mut tables: Vec<TableSpec> = dims.iter().enumerate().map(table).collect();
        let groups = GroupTables::of(&mut tables, |_| false).unwrap();
        let of_fields = dims.iter().map(|_| vec![Field::sum(0)]).collect();
        let columns = Columns { of_fields, count: dims.iter().copied().max().unwrap_or(0) };
        let wanted = Wanted {
            tables: &tables,
            groups: &groups,
            columns: &columns,
            shape: &Shape::default(),
            tiers,
            before,
        };
        let division = wanted.divide()?;
        let total = wanted.peak(&division.plan, division.horizon);
        Ok((division, total))
    }

    #[test]
    fn a_session_takes_nearly_all_of_its_memory_and_no_more() {
        let mut slots = 0;
        for shift in [24, 26, 28, 31, 35] {
            let tiers = Tiers { memory: ByteCount(1 << shift), ..Tiers::default() };
            let (division, total) = divided(&tiers, &[16, 16, 4], &[]).unwrap();
            assert!(total <= tiers.memory.0, "{total} of {}", tiers.memory);
            assert!(total > tiers.memory.0 / 10 * 9, "{total} of {}", tiers.memory);
            let found: usize = division.plan.groups.iter().map(|group| group.slots).sum();
            assert!(found > 2 * slots, "{found} slots, {slots} with less");
            slots = found;
        }
    }

    #[test]
    fn many_tables_run_in_eight_mebibytes() {
        let expected = ExpectedBatch { examples: 256, ids: vec![256; 26], rows: vec![100; 26] };
        let tiers = Tiers {
            memory: ByteCount(8 << 20),
            lookahead: 4,
            expected: expected.clone(),
            ..Tiers::default()
        };
        let (division, _) = divided(&tiers, &[8; 26], &[]).unwrap();
        // Most ids of real mini-batches repeat.
        assert!(division.plan.groups[0].slots > 26 * 256 / 6, "{:?}", division.plan.groups[0]);
        assert!((5..16).contains(&division.horizon), "{}", division.horizon);
        let less = Tiers { memory: ByteCount(1 << 20), expected, ..Tiers::default() };
        let why = divided(&less, &[8; 26], &[]).err().unwrap().to_string();
        let (begin, end) =
            ("memory = 1.0 MiB, but 26 tables and their mini-batches need more: ", " is enough");
        let enough = why.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end)).unwrap();
        let memory: ByteCount = enough.replace(' ', "").parse().unwrap();
        assert!(memory.0 <= 8 << 20, "{enough}");
        divided(&Tiers { memory, ..less }, &[8; 26], &[]).unwrap();
    }

    #[test]
    fn sizes_that_are_set_are_kept_and_the_index_has_room_for_rows_that_exist() {
        let dram = Some(ByteCount(20 << 10));
        let tiers = Tiers { dram, index: Some(ByteCount(3 << 20)), ..Tiers::default() };
        let (division, total) = divided(&tiers, &[4], &[]).unwrap();
        let options = division.plan.options();
        assert_eq!((options.dram, options.index), (ByteCount(20 << 10), ByteCount(3 << 20)));
        assert!(total < tiers.memory.0 / 4, "{total}");
        let (division, _) = divided(&Tiers { dram, ..Tiers::default() }, &[4], &[]).unwrap();
        assert!(division.plan.options().index.0 > 500 << 20, "{:?}", division.plan.options());
        let tiers = Tiers { index: Some(ByteCount(3 << 20)), ..Tiers::default() };
        let (division, _) = divided(&tiers, &[4, 8], &[]).unwrap();
        assert!(
            (16 << 10..1 << 24).contains(&division.plan.options().dram.0),
            "as the index allows"
        );
        let tiers = Tiers { index: Some(ByteCount(10)), ..Tiers::default() };
        let why = divided(&tiers, &[4, 8], &[]).err().unwrap().to_string();
        assert!(why.contains("raise tiers.index"), "{why}");
        let own = TableMemory { dram: Some(ByteCount(1 << 20)), whole: false };
        let tiers = Tiers { of_tables: vec![TableMemory::default(), own], ..Tiers::default() };
        let slots = |dims: &[usize]| {
            let (division, total) = divided(&tiers, dims, &[]).unwrap();
            assert!(total <= tiers.memory.0, "{total}");
            division.plan.groups[1].slots
        };
        assert_eq!(slots(&[16, 4]), slots(&[1, 4]));
        assert!((10_000..40_000).contains(&slots(&[16, 4])));
        let (rows, tiers) = (20_000_000, Tiers::default());
        let index = |before| divided(&tiers, &[4], before).unwrap().0.plan.options().index.0;
        assert!(index(&[rows]) > index(&[]) + 2 * rows);
    }
}
