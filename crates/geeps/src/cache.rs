//! The parameter cache: a table's rows as last received, and updates on their way back.
//!
//! - **Write-back.** Updates are summed in the cache, over all of a clock, and leave with its
//!   commit. They are visible to reads once the shard has them: a read sees data of some age, and
//!   never a part of the reader's current clock. So reads under BSP are the same for all workers.
//! - **First touch.** The first update of a row in a clock is copied, not added to zero, so that a
//!   sum of one update equals that update to the bit.
//! - **Bounds.** A worker is at most `clocks_ahead` clocks ahead of what all shards have answered;
//!   at most that many lists of updates are in flight.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use stepwell_base::TableId;

use crate::Result;
use crate::layout::{Index, Layout};
use crate::memory::Store;
use crate::settings::Settings;

/// Sums of updates of one clock.
#[derive(Debug)]
pub(crate) struct Updates {
    /// Values of untouched rows are unspecified. // (rows, row_floats)
    pub(crate) values: Vec<f32>,
    // (rows)
    touched: Vec<bool>,
    count: usize,
}

impl Updates {
    fn new(layout: &Layout) -> Self {
        let rows = &layout.rows;
        Self { values: vec![0.0; rows.floats()], touched: vec![false; rows.count()], count: 0 }
    }

    /// Adds `values` to the rows of an index, in their order.
    pub(crate) fn add(&mut self, index: &Index, row_floats: usize, values: &[f32]) {
        for (place, values) in index.places.iter().zip(values.chunks_exact(row_floats)) {
            let place = *place as usize;
            let row = &mut self.values[place * row_floats..(place + 1) * row_floats];
            if self.touched[place] {
                row.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            } else {
                row.copy_from_slice(values);
                self.touched[place] = true;
                self.count += 1;
            }
        }
    }

    /// Updated rows of `part`, numbered from its start.
    pub(crate) fn touched(&self, part: &Range<usize>) -> Vec<u32> {
        let touched = self.touched[part.clone()].iter().enumerate();
        touched.filter(|(_, touched)| **touched).map(|(row, _)| row as u32).collect()
    }

    fn clear(&mut self) {
        self.touched.fill(false);
        self.count = 0;
    }
}

/// Updates that a clock committed.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) clock: u64,
    /// `None` if there were none.
    pub(crate) updates: Option<Updates>,
}

/// The cache of one table.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) layout: Arc<Layout>,
    pub(crate) store: Store,
    /// Data age of each shard's part. // (ranks)
    ages: Vec<u64>,
    /// Number of this worker's clocks whose updates are in each shard's part. // (ranks)
    answered: Vec<u64>,
    /// How often the application clocked.
    pub(crate) clock: u64,
    /// Number of these clocks that were committed.
    committed: u64,
    /// Updates of the current clock.
    pending: Option<Updates>,
    /// Whether the application updated since its last clock.
    pub(crate) is_updated: bool,
    /// Committed updates for the pusher.
    pub(crate) outgoing: VecDeque<Committed>,
    spares: Vec<Updates>,
}

impl Cache {
    /// The cache of table number `number`, for `ranks` ranks.
    ///
    /// # Errors
    /// If settings are invalid.
    pub(crate) fn begin(settings: &Settings, number: usize, ranks: usize) -> Result<Self> {
        let table = &settings.tables[number];
        let layout = Layout::new(TableId(number as u32), table, ranks)?;
        let (layout, values) = match settings.values.get(number) {
            Some(values) => layout.with_values(table, values),
            None => {
                let values = layout.initial(0..layout.rows.count());
                (layout, values)
            }
        };
        Ok(Self::new(Arc::new(layout), values))
    }

    /// A cache whose rows begin with these values, by place.
    fn new(layout: Arc<Layout>, values: Vec<f32>) -> Self {
        let ranks = layout.parts.len();
        assert_eq!(values.len(), layout.rows.floats(), "values of all rows");
        Self {
            store: Store::Host(values),
            layout,
            ages: vec![0; ranks],
            answered: vec![0; ranks],
            clock: 0,
            committed: 0,
            pending: None,
            is_updated: false,
            outgoing: VecDeque::new(),
            spares: Vec::new(),
        }
    }

    /// Initial values of the rows `places`: valid before anything else is done with the cache.
    pub(crate) fn initial(&self, places: Range<usize>) -> Vec<f32> {
        let row = self.layout.rows.row_floats;
        match &self.store {
            Store::Host(values) => values[places.start * row..places.end * row].to_vec(),
            _ => unreachable!("data is placed only once machines run"),
        }
    }

    /// The least age of all rows.
    pub(crate) fn age(&self) -> u64 {
        self.ages.iter().copied().min().unwrap_or(0)
    }

    /// Number of clocks that some shard has not answered.
    pub(crate) fn ahead(&self) -> u64 {
        self.ahead_at(self.clock)
    }

    /// Number of clocks that some shard has not answered when the application is at `clock`.
    pub(crate) fn ahead_at(&self, clock: u64) -> u64 {
        clock.saturating_sub(self.answered.iter().copied().min().unwrap_or(0))
    }

    /// Records that part `shard` is now of this age, with `own` of this worker's clocks.
    pub(crate) fn refreshed(&mut self, shard: usize, age: u64, own: u64) {
        assert!(
            age >= self.ages[shard] && own >= self.answered[shard],
            "clocks of shards never go back"
        );
        (self.ages[shard], self.answered[shard]) = (age, own);
    }

    pub(crate) fn update(&mut self, index: &Index, values: &[f32]) {
        let Self { layout, spares, pending, .. } = self;
        let pending =
            pending.get_or_insert_with(|| spares.pop().unwrap_or_else(|| Updates::new(layout)));
        pending.add(index, layout.rows.row_floats, values);
    }

    /// Commits the updates so far to the next clock.
    pub(crate) fn commit(&mut self) {
        let (clock, updates) = (self.committed, self.pending.take());
        self.committed += 1;
        self.outgoing.push_back(Committed { clock, updates });
    }

    /// Keeps the memory of sent updates.
    pub(crate) fn keep(&mut self, mut updates: Updates) {
        updates.clear();
        self.spares.push(updates);
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::Key;

    use super::*;
    use crate::{Applies, Initial, TableSettings};

    fn cache() -> Cache {
        let settings = TableSettings {
            name: "table".to_owned(),
            row_floats: 2,
            keys: (0..5).map(Key).collect(),
            initial: Initial::Zeros,
            applies: Applies::ByClock,
        };
        Cache::new(Arc::new(Layout::new(TableId(0), &settings, 2).unwrap()), vec![0.0; 10])
    }

    #[test]
    fn updates_of_a_clock_are_summed_and_leave_together() {
        let mut cache = cache();
        let index = |keys: &[u64]| {
            let keys: Vec<Key> = keys.iter().copied().map(Key).collect();
            Index::new("table", &cache.layout.rows, &keys).unwrap()
        };
        let (some, one) = (index(&[4, 1]), index(&[1, 1]));
        cache.update(&some, &[1.0, -0.0, 2.0, 3.0]);
        cache.update(&one, &[0.5, 0.5, 0.25, 0.25]);
        cache.commit();
        cache.commit();
        let first = cache.outgoing.pop_front().unwrap();
        let updates = first.updates.unwrap();
        let row = |key: u64| {
            let place = cache.layout.rows.place(Key(key)).unwrap() as usize;
            &updates.values[2 * place..2 * place + 2]
        };
        assert_eq!((first.clock, row(4), row(1)), (0, &[1.0, -0.0][..], &[2.75, 3.75][..]));
        assert!(row(4)[1].is_sign_negative(), "a sum of one update is that update");
        let parts = cache.layout.parts.clone();
        let touched = parts.iter().map(|part| updates.touched(part).len()).sum::<usize>();
        assert_eq!(touched, 2);
        let second = cache.outgoing.pop_front().unwrap();
        assert!(second.clock == 1 && second.updates.is_none());
        // The memory of `updates` is reused, without the content.
        cache.keep(updates);
        cache.update(&some, &[7.0; 4]);
        cache.commit();
        let third = cache.outgoing.pop_front().unwrap().updates.unwrap();
        let place = cache.layout.rows.place(Key(1)).unwrap() as usize;
        assert_eq!(third.values[2 * place], 7.0);
    }

    #[test]
    fn a_cache_is_as_old_as_its_oldest_part_and_as_far_ahead_as_its_slowest_shard() {
        let mut cache = cache();
        cache.clock = 3;
        cache.refreshed(0, 2, 3);
        assert_eq!((cache.age(), cache.ahead()), (0, 3));
        cache.refreshed(1, 1, 2);
        assert_eq!((cache.age(), cache.ahead()), (1, 1));
        cache.refreshed(1, 5, u64::MAX);
        assert_eq!((cache.age(), cache.ahead()), (2, 0));
    }
}
