//! Counts the distinct keys of a rank's part of a mini-batch, in the first mini-batches of the
//! data.

use stepwell_base::owner::RankOf;
use stepwell_data::{Chunk, Reader, Sources};
use stepwell_engine::{Blocks, Grouper, Request};

use crate::capacity::BLOCK_BYTES;
use crate::features::{Gathered, TableInput, append_example};
use crate::models::Model;
use crate::run_plan::{Batching, RunPlan};
use crate::{Error, Result};

/// Number of mini-batches to count, if the data has as many.
const MINI_BATCHES: usize = 4;

/// Distinct keys of a rank's part, by table: the mean over all ranks and the first mini-batches.
///
/// # Errors
/// Data that cannot be read, or has no example.
pub(super) fn count(plan: &RunPlan<'_>, sources: &Sources, model: &Model) -> Result<Vec<f64>> {
    let mut options = model.features().read_options(BLOCK_BYTES);
    options.skip_max = plan.data.skip_max;
    let mut reader = Reader::open((*sources.input).clone(), &options)?;
    let mut chunk = reader.chunk();
    let mut counter = Counter::new(plan.batching, plan.ranks.count, model.inputs());
    while !counter.has_all() && reader.next_chunk(&mut chunk)? {
        counter.add(&chunk);
    }
    counter.finish().ok_or_else(|| {
        Error::Config("the data has no example, so keys cannot be counted".to_owned())
    })
}

/// Cuts examples into mini-batches, and counts the distinct keys of their parts.
struct Counter {
    mini_batch: usize,
    ranks: usize,
    blocks: usize,
    tables: Vec<TableInput>,
    grouper: Grouper,
    /// Ids and ends of bags of the current mini-batch, by table.
    gathered: Vec<(Gathered, Vec<u32>)>,
    examples: usize,
    /// Distinct keys by table, over all parts.
    distinct: Vec<usize>,
    counted: usize,
}

impl Counter {
    fn new(batching: Batching, ranks: usize, tables: Vec<TableInput>) -> Self {
        Self {
            mini_batch: batching.mini_batch,
            ranks,
            blocks: batching.blocks,
            grouper: Grouper::default(),
            gathered: tables.iter().map(|_| Default::default()).collect(),
            examples: 0,
            distinct: vec![0; tables.len()],
            counted: 0,
            tables,
        }
    }

    fn has_all(&self) -> bool {
        self.counted == MINI_BATCHES
    }

    fn add(&mut self, chunk: &Chunk) {
        for example in 0..chunk.len() {
            if self.has_all() {
                return;
            }
            for ((gathered, ends), table) in self.gathered.iter_mut().zip(&self.tables) {
                append_example((gathered, ends), (chunk, example), &table.sources);
            }
            self.examples += 1;
            if self.examples == self.mini_batch {
                self.close();
            }
        }
    }

    /// Counts the current mini-batch.
    fn close(&mut self) {
        let all = Blocks::new(self.examples, self.blocks);
        let of_tables = self.gathered.iter_mut().zip(&self.tables).zip(&mut self.distinct);
        for (((gathered, ends), table), distinct) in of_tables {
            let bags = ends.len() / self.examples;
            let before = |bag: usize| if bag == 0 { 0 } else { ends[bag - 1] as usize };
            for rank in 0..self.ranks {
                let own = all.of_rank(RankOf { rank, ranks: self.ranks }).place();
                let keys = &gathered.keys[before(own.start * bags)..before(own.end * bags)];
                let mut request = Request::default();
                self.grouper.group_into(keys, table.salt, &mut request);
                *distinct += request.distinct.len();
            }
            gathered.clear();
            ends.clear();
        }
        self.examples = 0;
        self.counted += 1;
    }

    /// The mean; `None` if there was no example.
    fn finish(mut self) -> Option<Vec<f64>> {
        // A short mini-batch is used only if there is no whole one.
        if self.counted == 0 && self.examples > 0 {
            self.close();
        }
        let parts = (self.counted * self.ranks) as f64;
        let mean = |distinct: &usize| *distinct as f64 / parts;
        (self.counted > 0).then(|| self.distinct.iter().map(mean).collect())
    }
}
