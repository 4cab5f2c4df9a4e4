//! The capacity plan: every bound of a run, before it begins. That of tiers is the engine's
//! ([`TierPlan`]).

mod auto;
mod devices;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_data::{BLOCKS_PER_PARSER, Input, Layout, Schema};
use stepwell_device::Offer;
use stepwell_engine::room::{self, Wants};
use stepwell_engine::{
    BATCHES_QUEUED, Checkpoint, Load, TableLoad, TableSpec, TierOptions, TierPlan,
};
use stepwell_settings::{Config, DensePlace};

pub(crate) use self::auto::part;
pub use self::devices::DeviceRoom;
use crate::batch::MiniBatchBytes;
use crate::dense::AgreedOptimizer;
use crate::exchange::Exchange;
use crate::metrics::Meter;
use crate::models::{Model, named};
use crate::pipeline::{Agreement, shuffle_bytes_max};
use crate::step::Trainer;
use crate::{Error, Result};

/// Code, stacks, and what the allocator keeps for itself.
const ALLOWANCE_BYTES: u64 = 64 << 20;
/// Stages of the pipeline but those that parse.
const OTHER_STAGES: u64 = 6;
/// What computes where ranks are out of step.
const LEARNING: &str = "learning";
/// Rows of a staged chunk take about this many bytes.
const CHUNK_BYTES: usize = 2 << 20;

/// Bytes of a block of lines; no line and no block of a packed file may be longer.
pub(crate) const BLOCK_BYTES: usize = stepwell_data::BLOCK_BYTES / 4;

/// The sizes that a run is built with, and the sum of all bounds.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// What each table group has.
    pub tiers: TierPlan,
    /// What devices have, where there are any.
    pub devices: Option<DeviceRoom>,
    /// Bytes of a block of lines.
    pub block_bytes: usize,
    /// Examples whose scores are kept one by one.
    pub exact_scores: usize,
    /// All bounds.
    pub budget: Budget,
    /// What may be too little, as the data alone tells for certain.
    pub tight: Vec<String>,
    /// Which devices are not used, and why, where nobody named any.
    pub notes: Vec<String>,
}

/// What the plan is made for.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Settings.
    pub config: &'a Config,
    /// Columns of the data.
    pub schema: Schema,
    /// What is read, and what is evaluated on where that is something else.
    pub inputs: [Option<&'a Input>; 2],
    /// The model.
    pub model: &'a Model,
    /// The devices of a rank, where there are any.
    pub offer: Option<Offer>,
    /// Examples of an epoch, where they were counted.
    pub examples: Option<u64>,
    /// What the run begins with; none where it begins anew.
    pub from: Option<&'a Checkpoint>,
    /// Whether it is scored with, and nothing trained.
    pub scores: bool,
    /// Blocks of the cache that is made of the data, and bytes that it takes.
    pub cache: Option<(u64, u64)>,
    /// Where the ranks are.
    pub ranks: RanksHere,
}

/// How many ranks share what this process and this machine have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RanksHere {
    /// Those that are threads of this process.
    pub threads: usize,
    /// Those that are processes on this machine, as this one is.
    pub processes: usize,
}

impl Capacity {
    /// Shares the memory out.
    ///
    /// # Errors
    /// When `tiers.dram` holds no row, or the store cannot be as it is wanted.
    pub fn plan(wanted: &Wanted<'_>) -> Result<Self> {
        let exact = wanted.examples.unwrap_or(u64::MAX);
        let Wanted { config, model, offer, .. } = wanted;
        if offer.is_none() && config.dense_place == DensePlace::Device {
            return Err(Error::Config(format!(
                "train.dense is device, and with device = {} there is none: name devices, such as \
                 emulated:1, or choose train.dense = host",
                config.device
            )));
        }
        let (mut tiers, load) = (tiers(config, model)?, load(wanted));
        if let Some(checkpoint) = wanted.from.filter(|_| wanted.scores) {
            tiers.hold(checkpoint);
        }
        let of_offer = |offer| auto::plan(config, model, (&tiers, &load), offer);
        let (devices, notes) = offer.as_ref().map(of_offer).transpose()?.unwrap_or_default();
        let mut capacity = Self {
            devices,
            tiers,
            block_bytes: BLOCK_BYTES,
            exact_scores: usize::try_from(exact).unwrap_or(usize::MAX),
            budget: Budget::default(),
            tight: Vec::new(),
            notes,
        };
        capacity.tight = capacity.tiers.tight(wanted.model.tables(), &load);
        let devices = capacity.devices.as_ref();
        capacity.tight.extend(devices.and_then(|devices| devices.tight(&capacity.tiers, wanted)));
        capacity.tiers.check_index(&load)?;
        capacity.add_bounds(wanted, &load)?;
        capacity.check_room(wanted)?;
        Ok(capacity)
    }

    /// Refuses what this machine cannot hold, and what this process may not take.
    fn check_room(&self, wanted: &Wanted<'_>) -> Result<()> {
        let Some(why) = room::lacks(&self.wants(wanted)) else { return Ok(()) };
        let bounds = self.budget.bounds();
        let largest = bounds.iter().max_by_key(|bound| bound.bytes);
        let (name, part, reason) = largest
            .map_or(("", 0, ""), |bound| (bound.name.as_str(), bound.bytes, bound.why.as_str()));
        Err(Error::Config(format!(
            "{why}; the largest part is '{name}' with {} ({reason}); lower {}",
            ByteCount(part),
            mend(name)
        )))
    }

    /// What the ranks of this process take, and those of other processes beside it.
    fn wants(&self, wanted: &Wanted<'_>) -> Wants {
        let bounds = self.budget.bounds().iter();
        let mapped = bounds.filter(|bound| bound.name == TierPlan::ROWS_IN_MEMORY);
        let ranks = wanted.ranks.threads as u64;
        Wants {
            bytes: self.budget.total().saturating_mul(ranks),
            mapped: mapped.map(|bound| bound.bytes).sum::<u64>().saturating_mul(ranks),
            threads: self.threads(wanted.config) * ranks,
            processes: wanted.ranks.processes as u64,
        }
    }

    /// Threads that a run starts: those that parse and compute, one for each other stage, and one
    /// for each store, which merges segments.
    fn threads(&self, config: &Config) -> u64 {
        // A rank has a thread of its own, and one more stage.
        let of_rank = if config.ranks.count > 1 { 2 } else { 0 };
        // Out of step another stage computes, on threads of its own.
        let of_learner = if config.in_step() { 0 } else { 1 + config.threads as u64 };
        let of_devices = self.devices.as_ref().map_or(0, |devices| {
            // Two more stages, and what works their streams off.
            2 + devices::THREADS * devices.offer.len() as u64
        });
        let stores = self.tiers.groups.len() as u64;
        2 * config.threads as u64 + OTHER_STAGES + of_rank + of_learner + of_devices + stores
    }

    fn add_bounds(&mut self, wanted: &Wanted<'_>, load: &Load) -> Result<()> {
        let mut budget = Budget::default();
        self.tiers.add_rows(load, &mut budget);
        if let Some(devices) = &self.devices {
            devices.add_host(&self.tiers, load, &mut budget);
        }
        self.add_reading(&mut budget, wanted)?;
        self.add_batches(&mut budget, wanted);
        if wanted.config.ranks.count > 1 {
            Exchange::of(wanted.config, wanted.model).add_bounds(&mut budget);
        }
        self.tiers.add_planning(load, &mut budget);
        self.add_training(&mut budget, wanted, load)?;
        budget.add("code and allocator", ALLOWANCE_BYTES, "fixed");
        self.budget = budget;
        Ok(())
    }

    fn add_reading(&self, budget: &mut Budget, wanted: &Wanted<'_>) -> Result<()> {
        let threads = wanted.config.threads;
        let layout = wanted.inputs.into_iter().flatten().find_map(Input::layout);
        let chunk = match layout {
            Some(layout) => layout.chunk_bytes_max(self.block_bytes),
            None => wanted.schema.chunk_bytes_max(self.block_bytes),
        } as u64;
        // One of each stream that is read, but for the one that comes.
        let streams = streams_read(wanted.config);
        let chunks = (BLOCKS_PER_PARSER * threads + threads + streams) as u64;
        let blocks = (2 * threads + 3) as u64;
        let mut block = self.block_bytes as u64;
        for input in wanted.inputs.into_iter().flatten() {
            block = block.max(self.block_bytes as u64 + input.rows_bytes_max(self.block_bytes)?);
        }
        let bytes = blocks * block + chunks * chunk;
        let (block, chunk) = (ByteCount(block), ByteCount(chunk));
        budget.add(
            "reading",
            bytes,
            format!("{blocks} blocks of {block}, {chunks} chunks of {chunk}"),
        );
        self.add_shuffle(budget, wanted, (layout, chunk.0));
        let mut source = 0;
        for input in wanted.inputs.into_iter().flatten() {
            source = source.max(input.source_bytes_max(self.block_bytes)?);
        }
        let of_each = "decompression window, tables of the built-in stream";
        match streams {
            1 => budget.add("source", source, of_each),
            _ => budget.add("source", source * streams as u64, format!("{streams} of: {of_each}")),
        }
        if let Some((blocks, bytes)) = wanted.cache {
            budget.add("data cache", bytes, format!("a block, table of {blocks} blocks"));
        }
        Ok(())
    }

    /// Windows of examples that are shuffled, with a chunk that lies in both.
    fn add_shuffle(
        &self,
        budget: &mut Budget,
        wanted: &Wanted<'_>,
        (layout, chunk): (Option<&Arc<Layout>>, u64),
    ) {
        let room = wanted.config.data.shuffle;
        if room == 0 {
            return;
        }
        let of_layout = layout
            .map_or(0, |layout| layout.id_names().into_iter().map(|(_, most)| most as u64).sum());
        let features = wanted.model.features();
        let bytes = shuffle_bytes_max(room, wanted.schema, (features, of_layout));
        let of_each = ByteCount(bytes / 2);
        let why = format!("2 windows of {room} examples, {of_each} each, and 2 chunks");
        budget.add("shuffle", bytes + 2 * chunk, why);
    }

    fn add_batches(&self, budget: &mut Budget, wanted: &Wanted<'_>) {
        let config = wanted.config;
        let (batch, features) = (config.batch() as u64, wanted.model.features());
        let mut bytes = MiniBatchBytes::new(batch, wanted.schema, features);
        if config.ranks.count > 1 {
            bytes = bytes.shared();
        }
        // Planned, and coming back; once they are over they serve the next ones.
        let planned = config.pipeline.lookahead + 3;
        // Being cut, queued, known.
        let known = BATCHES_QUEUED + config.pipeline.horizon + 1 + planned;
        let (of_known, of_planned) = (ByteCount(bytes.known), ByteCount(bytes.planned));
        budget.add(
            "batches",
            bytes.known * known as u64 + bytes.planned * planned as u64 + bytes.gathered,
            format!("{known} of {of_known}, {planned} planned with {of_planned} more"),
        );
    }

    fn add_training(&self, budget: &mut Budget, wanted: &Wanted<'_>, load: &Load) -> Result<()> {
        budget.add(
            "training",
            Trainer::bytes_max(wanted.model, wanted.config),
            "dense parameters, gradients by block, activations by thread",
        );
        if !wanted.config.in_step() {
            let bytes = learning_bytes_max(wanted.model, wanted.config)?;
            let why = "the same again for steps, and what agrees on the dense part";
            budget.add(LEARNING, bytes, why);
        }
        self.tiers.add_history(wanted.model.tables(), load, budget);
        if let Some(from) = wanted.from {
            budget.add("checkpoint", from.dense.bytes(), "its dense part, until it is taken over");
        }
        let examples = wanted.examples.unwrap_or(u64::MAX);
        // Progressive, evaluation, and the best reachable.
        let mut meters = 2;
        for input in wanted.inputs.into_iter().flatten() {
            meters = if input.has_truth()? { 3 } else { meters };
        }
        let scores = Meter::bytes_max(wanted.model.labels(), wanted.schema.labels, examples);
        budget.add("scores", meters * scores, format!("{meters} of {}", ByteCount(scores)));
        Ok(())
    }
}

/// The most bytes of what computes beside the trainer where ranks are out of step, and of what
/// agrees on the dense part.
fn learning_bytes_max(model: &Model, config: &Config) -> Result<u64> {
    let count = model.graph().parameter_count();
    let parameters = count * size_of::<f32>();
    let agreement = Agreement::bytes_max(config, model.graph().parameters())?;
    // Parameters and gradient of the step at hand, and what all are shown at a mark, as messages
    // and as it is read.
    let agreed = AgreedOptimizer::bytes_max(count);
    let shown = config.sync.dense.model_of(config.ranks.count).len();
    let moved = 2 * parameters + (2 + 2 * shown) * agreed;
    Ok(Trainer::bytes_max(model, config) + agreement + (agreed + moved) as u64)
}

/// The most streams of the data that a rank reads.
fn streams_read(config: &Config) -> usize {
    let (streams, blocks) = (config.data.streams, config.model.blocks);
    let ranks = config.ranks.count - config.servers();
    let of_each = blocks / streams;
    let read = |rank: usize| {
        (blocks * (rank + 1) / ranks).div_ceil(of_each) - blocks * rank / ranks / of_each
    };
    (0..ranks).map(read).max().unwrap_or(streams)
}

/// The tiers of a run.
fn tiers(config: &Config, model: &Model) -> Result<TierPlan> {
    let features = model.features();
    let (expected, most) = (features.expected_by_table(), features.ids_by_table());
    let tables = model.tables().iter().zip(expected).zip(most);
    let loads: Vec<TableLoad> = tables
        .map(|((table, expected), ids_max)| {
            let given = named(config, &table.name).dram.map(|bytes| bytes.0);
            TableLoad { given, expected, ids_max }
        })
        .collect();
    Ok(TierPlan::new(model.tables(), model.groups(), &loads, tier_options(config))?)
}

fn tier_options(config: &Config) -> TierOptions {
    TierOptions {
        dram: config.tiers.dram,
        index: config.tiers.index,
        page_cache: config.tiers.page_cache,
        harvest: config.tiers.harvest,
        read_unit: config.tiers.read_unit,
        segment: config.tiers.segment,
        space: config.tiers.space,
        policy: config.tiers.policy,
        chunk_bytes: CHUNK_BYTES,
        horizon: (config.pipeline.horizon + 1) * config.mini_batches_per_batch(),
    }
}

/// What the run asks of its tiers.
fn load(wanted: &Wanted<'_>) -> Load {
    let config = wanted.config;
    Load {
        mini_batch: config.data.mini_batch as u64,
        batch: config.batch() as u64,
        lookahead: config.pipeline.lookahead as u64,
        staleness: config.staleness as u64,
        sketch_bytes: wanted.model.sketch_bytes().to_vec(),
        saves: config.checkpoint.dir.is_some(),
        examples: wanted.examples,
    }
}

/// Bytes of `slots` slots of `table`, index and metadata included: the `tiers.dram` of a model of
/// one table that has exactly so many.
pub fn slab_bytes(config: &Config, table: &TableSpec, slots: u64) -> u64 {
    tier_options(config).slab_bytes(slots, table.row_lanes())
}

/// The settings that a bound follows from.
fn mend(bound: &str) -> &'static str {
    match bound {
        TierPlan::ROWS_IN_MEMORY => "tiers.dram",
        "store index" => "tiers.index",
        "store row lists" | "store write buffers" | "store compaction" => "tiers.segment",
        "rows going down" => "tiers.dram or model.dim",
        "rows read elsewhere" => "data.mini_batch",
        "scores" => "synth.examples, or the data",
        "reading" | "source" => "threads",
        "shuffle" => "data.shuffle",
        "data cache" => "data.skip_max, or leave data.cache out",
        Exchange::ROWS_OF_OTHERS | Exchange::MESSAGES => "data.mini_batch, model.dim or ranks",
        Exchange::BORROWED => "data.batch or data.mini_batch, or leave ranks.exchange out",
        "batches" | "planning" => "data.mini_batch, data.batch or pipeline.horizon",
        "admission" => "rows.sketch",
        "rows harvested" => "tiers.harvest",
        "rows coming up" | "rows to move" => "data.batch or pipeline.lookahead",
        "stale rows" => "pipeline.staleness or data.mini_batch",
        DeviceRoom::EMULATED | DeviceRoom::CHECKED => "tiers.hbm, or choose fewer devices",
        "copies of the dense part" => "data.mini_batch, or choose train.dense = host",
        "copies to devices" | "rows that visit" => "data.mini_batch, or choose fewer devices",
        "training" | LEARNING => "model.hidden, model.dim, data.mini_batch or threads",
        _ => "tiers.dram, tiers.index or data.batch",
    }
}
