//! A rank's rows in tiers: those in use in memory, the others on disk.
//!
//! - **Invariants.** The rows equal, bit for bit, those of `MemoryRows` with the same optimizer and
//!   initial values: each is read and changed by one occurrence of its key.
//! - **Bounds.** The given bytes for rows and their metadata, and 16 MiB for the index of rows on
//!   disk; mini-batches of 64 keys.

use stepwell_base::initial::Initial;
use stepwell_base::{ByteCount, Key};
use stepwell_engine::{
    Bags, Columns, Field, Pooled, Purpose, Session, Shape, TableSpec, Tiers, Turn,
};
use stepwell_optim::RowOptimizer;
use stepwell_sync::OwnedRows;

/// Rows processed at a time.
const CHUNK: usize = 64;

/// Rows in memory and on disk.
#[derive(Debug)]
pub(super) struct TieredRows {
    session: Session,
    dim: usize,
    bags: [Bags; 1],
    labels: Vec<f32>,
    d_x: Vec<f32>,
    d_first_order: Vec<f32>,
    first_order: Vec<f32>,
}

impl TieredRows {
    /// New rows of `dim` lanes and a first-order weight, with `memory` for them.
    ///
    /// # Errors
    /// Memory, a directory or a thread isn't available.
    pub(super) fn open(
        dim: usize,
        seed: u64,
        init_range: f32,
        optimizer: RowOptimizer,
        memory: ByteCount,
    ) -> stepwell_engine::Result<Self> {
        // A table of this name has no salt, so ranks' keys are its keys.
        let table = TableSpec::new(0, stepwell_engine::DEFAULT_TABLE, dim, optimizer);
        let initial = Initial::Uniform { range: init_range };
        let table = TableSpec { wide: 1, seed, initial, ..table };
        let columns = Columns { of_fields: vec![vec![Field::sum(0)]], count: dim };
        let index = ByteCount(16 << 20);
        let tiers = Tiers {
            memory: ByteCount(1 << 40),
            dram: Some(memory),
            index: Some(index),
            lookahead: 0,
            horizon: 0,
            ..Tiers::default()
        };
        Ok(Self {
            session: Session::open(vec![table], columns, Shape::default(), &tiers)?,
            dim,
            bags: [Bags::default()],
            labels: Vec::new(),
            d_x: Vec::new(),
            d_first_order: Vec::new(),
            first_order: Vec::new(),
        })
    }

    /// Loads the rows of `keys`: one example with one id for each.
    fn turn(&mut self, keys: &[Key], purpose: Purpose) -> stepwell_engine::Result<Turn<'_>> {
        let [bags] = &mut self.bags;
        bags.keys.clear();
        bags.keys.extend_from_slice(keys);
        bags.ends.clear();
        bags.ends.extend(1..=keys.len() as u32);
        self.labels.clear();
        self.labels.resize(keys.len(), 0.0);
        self.session.feed(&self.bags, &self.labels, purpose)?;
        let Some(turn) = self.session.ready()? else { unreachable!("the fed mini-batch is ready") };
        Ok(turn)
    }

    fn read_some(&mut self, keys: &[Key], weights: &mut Vec<f32>) -> stepwell_engine::Result<()> {
        let (begin, width) = (weights.len(), self.dim + 1);
        weights.resize(begin + keys.len() * width, 0.0);
        let mut first_order = std::mem::take(&mut self.first_order);
        first_order.clear();
        first_order.resize(keys.len(), 0.0);
        let turn = self.turn(keys, Purpose::Evaluate)?;
        let x = &mut weights[begin..];
        turn.gather(0..keys.len(), Pooled { x, width, first_order: &mut first_order });
        drop(turn);
        let rows = weights[begin..].chunks_exact_mut(width);
        rows.zip(&first_order).for_each(|(row, wide)| row[width - 1] = *wide);
        self.first_order = first_order;
        Ok(())
    }

    fn apply_some(&mut self, keys: &[Key], gradients: &[f32]) -> stepwell_engine::Result<()> {
        let (dim, width) = (self.dim, self.dim + 1);
        let (mut d_x, mut d_first_order) =
            (std::mem::take(&mut self.d_x), std::mem::take(&mut self.d_first_order));
        d_x.clear();
        d_first_order.clear();
        for row in gradients.chunks_exact(width) {
            d_x.extend_from_slice(&row[..dim]);
            d_first_order.push(row[dim]);
        }
        self.turn(keys, Purpose::Train)?.push(&d_x, &d_first_order)?;
        (self.d_x, self.d_first_order) = (d_x, d_first_order);
        Ok(())
    }
}

impl OwnedRows<f32> for TieredRows {
    fn lanes(&self) -> usize {
        self.dim + 1
    }

    fn read(&mut self, keys: &[Key], weights: &mut Vec<f32>) -> Result<(), String> {
        let mut chunks = keys.chunks(CHUNK);
        chunks.try_for_each(|keys| self.read_some(keys, weights)).map_err(|why| why.to_string())
    }

    fn apply(&mut self, keys: &[Key], gradients: &[f32]) -> Result<(), String> {
        let width = self.dim + 1;
        let mut chunks = keys.chunks(CHUNK).zip(gradients.chunks(CHUNK * width));
        let outcome = chunks.try_for_each(|(keys, gradients)| self.apply_some(keys, gradients));
        outcome.map_err(|why| why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_base::TableId;
    use stepwell_base::random::{Stream, initial_weights};
    use stepwell_optim::Rule;
    use stepwell_sync::MemoryRows;

    #[test]
    fn rows_that_go_to_disk_and_back_are_those_in_memory() {
        let (dim, seed, range) = (4, 7, 0.1);
        let optimizer = || RowOptimizer::new(Rule::adagrad(0.05)).unwrap();
        let mut memory = MemoryRows::new(dim + 1, optimizer(), move |key, weights| {
            initial_weights(seed, TableId(0), key, range, dim, weights);
        });
        // Space for a third of the rows.
        let mut tiered =
            TieredRows::open(dim, seed, range, optimizer(), ByteCount(48 << 10)).unwrap();
        let mut stream = Stream::named(1, b"rows");
        for _ in 0..60 {
            let mut keys: Vec<Key> = (0..400).map(|_| Key(stream.next_u64() % 2500)).collect();
            keys.sort_unstable();
            keys.dedup();
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            memory.read(&keys, &mut expected).unwrap();
            tiered.read(&keys, &mut found).unwrap();
            assert_eq!(found, expected);
            let gradients: Vec<f32> =
                found.iter().map(|weight| weight - stream.next_symmetric(0.5)).collect();
            memory.apply(&keys, &gradients).unwrap();
            tiered.apply(&keys, &gradients).unwrap();
        }
        assert!(memory.count() > 2000, "most keys have rows");
    }
}
