//! The capacity plan: every bound of a run, before it begins.

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_data::{Input, Schema};
use stepwell_engine::{
    Admission, BATCHES_QUEUED, EmbeddingBags, GroupTables, GroupUnit, Grouper, Life, Planner,
    Puller, SPARES, Staging, TableSpec, UNITS_PULLED, Want, share,
};
use stepwell_mem::{Victim, bytes_for, slots_within};
use stepwell_settings::Config;
use stepwell_ssd::StoreOptions;

use crate::batch::mini_batch_bytes_max;
use crate::metrics::Auc;
use crate::models::{Model, named};
use crate::pipeline::BLOCKS_PER_PARSER;
use crate::room::{self, Wants};
use crate::step::Trainer;
use crate::{Error, Result};

/// Code, stacks, and what the allocator keeps for itself.
const ALLOWANCE_BYTES: u64 = 64 << 20;

/// The bound that is mapped from the system, not taken from the allocator.
const ROWS_IN_MEMORY: &str = "rows in memory";
/// Stages of the pipeline but those that parse.
const OTHER_STAGES: u64 = 6;

/// Rows of a staged chunk take about this many bytes.
const CHUNK_BYTES: usize = 2 << 20;
const CHUNKS: usize = 4;

/// Bytes of a block of lines; no line and no block of a packed file may be longer.
pub(crate) const BLOCK_BYTES: usize = stepwell_data::BLOCK_BYTES / 4;

/// The sizes that a run is built with, and the sum of all bounds.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// Slots of the slab of each table group.
    pub slots: Vec<usize>,
    /// Mini-batches whose keys are known at once.
    pub horizon: usize,
    /// Rows of a staged chunk, by table group.
    pub chunk_rows: Vec<usize>,
    /// Chunks of each table group.
    pub chunks: usize,
    /// Bytes of a block of lines.
    pub block_bytes: usize,
    /// Examples whose scores are kept one by one.
    pub exact_scores: usize,
    /// All bounds.
    pub budget: Budget,
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
    /// Examples of an epoch, where they were counted.
    pub examples: Option<u64>,
    /// Bytes of the dense part that the run begins with; 0 where it begins anew.
    pub dense_bytes: u64,
    /// Store settings by table group.
    pub stores: &'a [StoreOptions],
    /// Blocks of the cache that is made of the data, and bytes that it takes.
    pub cache: Option<(u64, u64)>,
}

impl Capacity {
    /// Shares the memory out.
    ///
    /// # Errors
    /// When `tiers.dram` holds no row, or the store cannot be as it is wanted.
    pub fn plan(wanted: &Wanted<'_>) -> Result<Self> {
        let config = wanted.config;
        wanted.stores.iter().try_for_each(StoreOptions::check)?;
        let memory = Shares::of(config, wanted.model)?.memory;
        let groups = wanted.model.groups().iter().zip(memory);
        let slots = groups
            .map(|(group, bytes)| slots_of(config, (wanted.model, group), bytes))
            .collect::<Result<Vec<usize>>>()?;
        let chunk_rows = specs(wanted.model)
            .zip(&slots)
            .map(|(table, slots)| {
                (CHUNK_BYTES / table.row_bytes()).clamp(1, (slots / CHUNKS).max(1))
            })
            .collect();
        let exact = wanted.examples.unwrap_or(u64::MAX);
        let mut capacity = Self {
            slots,
            horizon: horizon_of(config),
            chunk_rows,
            chunks: CHUNKS,
            block_bytes: BLOCK_BYTES,
            exact_scores: usize::try_from(exact).unwrap_or(usize::MAX),
            budget: Budget::default(),
        };
        capacity.check_index(wanted)?;
        capacity.add_bounds(wanted)?;
        capacity.check_room(wanted)?;
        Ok(capacity)
    }

    /// Refuses an index that is too small for the rows in memory, all of which a checkpoint puts
    /// into the store: it would be found out when the only checkpoint of a run is written.
    fn check_index(&self, wanted: &Wanted<'_>) -> Result<()> {
        let config = wanted.config;
        if config.checkpoint.dir.is_none() {
            return Ok(());
        }
        let groups = wanted.model.groups().iter().zip(wanted.stores).zip(&self.slots);
        for ((group, options), slots) in groups {
            let of_example = ids_of(wanted.model, group);
            let ids = wanted.examples.map_or(u64::MAX, |count| count.saturating_mul(of_example));
            let rows = ids.min(*slots as u64);
            let needed = options.index_bytes_for(rows);
            if options.index_bytes_max < needed {
                // As large a part of the whole as it is now.
                let times = u128::from(config.tiers.index.0) * u128::from(needed);
                let whole = times.div_ceil(u128::from(options.index_bytes_max.max(1)));
                return Err(Error::Config(format!(
                    "tiers.index = {} is too small for a checkpoint of table '{}': {rows} rows in \
                     memory take up to {}; raise tiers.index to {} or more, or lower tiers.dram",
                    config.tiers.index,
                    names_of(wanted.model, group),
                    ByteCount(needed),
                    u64::try_from(whole).unwrap_or(u64::MAX).max(needed)
                )));
            }
        }
        Ok(())
    }

    /// Refuses what this machine cannot hold, and what this process may not take.
    fn check_room(&self, wanted: &Wanted<'_>) -> Result<()> {
        let bounds = self.budget.bounds();
        let mapped = bounds.iter().filter(|bound| bound.name == ROWS_IN_MEMORY);
        let wants = Wants {
            bytes: self.budget.total(),
            mapped: mapped.map(|bound| bound.bytes).sum(),
            threads: threads_of(wanted),
        };
        let Some(why) = room::lacks(&wants) else { return Ok(()) };
        let largest = bounds.iter().max_by_key(|bound| bound.bytes);
        let (name, part, reason) = largest
            .map_or(("", 0, ""), |bound| (bound.name.as_str(), bound.bytes, bound.why.as_str()));
        Err(Error::Config(format!(
            "{why}; the largest part is '{name}' with {} ({reason}); lower {}",
            ByteCount(part),
            mend(name)
        )))
    }

    fn add_bounds(&mut self, wanted: &Wanted<'_>) -> Result<()> {
        let config = wanted.config;
        let model = wanted.model;
        let mut budget = Budget::default();
        for (group, slots) in model.groups().iter().zip(&self.slots) {
            let table = &model.tables()[group.tables[0]];
            let of = match model.tables().len() {
                1 => String::new(),
                _ => format!(", {}", names_of(model, group)),
            };
            budget.add(
                ROWS_IN_MEMORY,
                slab_bytes(config, table, *slots as u64),
                format!("tiers.dram: {slots} slots of {} bytes{of}", table.row_bytes()),
            );
        }
        self.add_store(&mut budget, wanted);
        self.add_reading(&mut budget, wanted)?;
        self.add_batches(&mut budget, wanted);
        self.add_training(&mut budget, wanted)?;
        budget.add("code and allocator", ALLOWANCE_BYTES, "fixed");
        self.budget = budget;
        Ok(())
    }

    fn add_store(&self, budget: &mut Budget, wanted: &Wanted<'_>) {
        for options in wanted.stores {
            options.add_bounds(1, budget);
        }
        let staging: u64 = specs(wanted.model)
            .zip(&self.chunk_rows)
            .map(|(table, rows)| Staging::bytes_max(table.row_lanes(), *rows, self.chunks))
            .sum();
        budget.add("rows going down", staging, format!("{} chunks", self.chunks));
        let unit = self.unit_rows(wanted);
        let units = UNITS_PULLED.min(wanted.config.pipeline.lookahead + 1);
        let rows = unit * units as u64;
        let pulling: u64 =
            specs(wanted.model).map(|table| Puller::bytes_max(table.row_bytes(), rows)).sum();
        budget.add("rows coming up", pulling, format!("read buffers, lists of {units} units"));
        let units = wanted.config.pipeline.lookahead as u64 + 1;
        let slots: usize = self.slots.iter().sum();
        // A checkpoint lists every dirty row once.
        let marks = if wanted.config.checkpoint.dir.is_some() { slots } else { 0 };
        let moving = units * GroupUnit::bytes_max(unit) + (marks * size_of::<Victim>()) as u64;
        budget.add("rows to move", moving, format!("lists of {units} units, of a checkpoint"));
    }

    /// Distinct rows of a full batch at most.
    fn unit_rows(&self, wanted: &Wanted<'_>) -> u64 {
        let ids = wanted.config.batch() as u64 * ids_of_all(wanted.model);
        ids.min(self.slots.iter().sum::<usize>() as u64)
    }

    fn add_reading(&self, budget: &mut Budget, wanted: &Wanted<'_>) -> Result<()> {
        let threads = wanted.config.threads;
        let chunk = wanted.schema.chunk_bytes_max(self.block_bytes) as u64;
        let chunks = (BLOCKS_PER_PARSER * threads + threads + 1) as u64;
        let blocks = (2 * threads + 3) as u64;
        let bytes = blocks * self.block_bytes as u64 + chunks * chunk;
        let (block, chunk) = (ByteCount(self.block_bytes as u64), ByteCount(chunk));
        budget.add(
            "reading",
            bytes,
            format!("{blocks} blocks of {block}, {chunks} chunks of {chunk}"),
        );
        let mut source = 0;
        for input in wanted.inputs.into_iter().flatten() {
            source = source.max(input.source_bytes_max(self.block_bytes)?);
        }
        budget.add("source", source, "decompression window, tables of the built-in stream");
        if let Some((blocks, bytes)) = wanted.cache {
            budget.add("data cache", bytes, format!("a block, table of {blocks} blocks"));
        }
        Ok(())
    }

    fn add_batches(&self, budget: &mut Budget, wanted: &Wanted<'_>) {
        let config = wanted.config;
        let (batch, schema) = (config.batch() as u64, wanted.schema);
        let bytes = mini_batch_bytes_max(batch, schema.dense as u64, wanted.model.features());
        // Being cut, queued, known, planned, and coming back.
        let held =
            BATCHES_QUEUED + config.pipeline.horizon + config.pipeline.lookahead + 4 + SPARES;
        budget.add("batches", bytes * held as u64, format!("{held} of {}", ByteCount(bytes)));
        let ids = config.data.mini_batch as u64 * ids_of_all(wanted.model);
        let unit = self.unit_rows(wanted);
        let planning = Planner::bytes_max(ids, self.horizon as u64, unit) + Grouper::bytes_max(ids);
        budget.add("planning", planning, format!("{} mini-batches known ahead", self.horizon));
    }

    fn add_training(&self, budget: &mut Budget, wanted: &Wanted<'_>) -> Result<()> {
        let config = wanted.config;
        budget.add(
            "training",
            Trainer::bytes_max(wanted.model, config),
            "dense parameters, gradients by block, activations by thread",
        );
        self.add_history(budget, wanted);
        if wanted.dense_bytes > 0 {
            budget.add("checkpoint", wanted.dense_bytes, "its dense part, until it is taken over");
        }
        let examples = wanted.examples.unwrap_or(u64::MAX);
        // Progressive, evaluation, and the best reachable.
        let mut meters = 2;
        for input in wanted.inputs.into_iter().flatten() {
            meters = if input.has_truth()? { 3 } else { meters };
        }
        let scores = Auc::bytes_max(examples);
        budget.add("scores", meters * scores, format!("{meters} of {}", ByteCount(scores)));
        Ok(())
    }

    /// What is kept of the past: versions of rows for stale reads, counts of keys.
    fn add_history(&self, budget: &mut Budget, wanted: &Wanted<'_>) {
        let config = wanted.config;
        let (mut versions, mut elsewhere, mut sketches) = (0, 0, 0u64);
        let of_tables = wanted.model.features().ids_by_table();
        let sketch_bytes = wanted.model.sketch_bytes();
        for ((table, ids), sketch) in wanted.model.tables().iter().zip(of_tables).zip(sketch_bytes)
        {
            let rows = config.data.mini_batch as u64 * ids;
            let kept = EmbeddingBags::stale_bytes_max(table, config.staleness as u64, rows);
            // A checkpoint is written from a copy.
            let copies = 1 + u64::from(config.checkpoint.dir.is_some());
            versions += copies * kept;
            if config.staleness > 0 || table.life.is_some() {
                elsewhere += EmbeddingBags::elsewhere_bytes_max(table, rows);
            }
            if let Some(Life { admission: Admission::After(_), .. }) = table.life {
                sketches = EmbeddingBags::sketch_bytes_max(*sketch)
                    .saturating_mul(copies)
                    .saturating_add(sketches);
            }
        }
        if elsewhere > 0 {
            budget.add("rows read elsewhere", elsewhere, "rows of a mini-batch");
        }
        if versions > 0 {
            budget.add("stale rows", versions, format!("{} steps", config.staleness));
        }
        if sketches > 0 {
            let copied =
                if config.checkpoint.dir.is_some() { ", copied for a checkpoint" } else { "" };
            budget.add("admission", sketches, format!("rows.sketch{copied}"));
        }
    }
}

/// The first table of each group, whose rows have the parts of all of its tables.
fn specs(model: &Model) -> impl Iterator<Item = &TableSpec> {
    model.groups().iter().map(|group| &model.tables()[group.tables[0]])
}

/// Names of the tables of a group.
fn names_of(model: &Model, group: &GroupTables) -> String {
    let names = group.tables.iter().map(|table| model.tables()[*table].name.as_str());
    names.collect::<Vec<&str>>().join("', '")
}

/// Ids that an example has at most in the tables of a group.
fn ids_of(model: &Model, group: &GroupTables) -> u64 {
    let ids = model.features().ids_by_table();
    group.tables.iter().map(|table| ids[*table]).sum()
}

/// Ids that an example has at most.
fn ids_of_all(model: &Model) -> u64 {
    model.features().ids_by_table().into_iter().sum()
}

/// What each table group has of the memory, of the index and of the page cache. A table that was
/// given memory has that; the rest goes by the bytes of rows that an example is expected to touch,
/// the index by its ids.
pub(crate) struct Shares {
    pub(crate) memory: Vec<u64>,
    pub(crate) index: Vec<u64>,
    pub(crate) page_cache: Vec<u64>,
}

impl Shares {
    /// # Errors
    /// When tables were given more than there is.
    pub(crate) fn of(config: &Config, model: &Model) -> Result<Self> {
        let (mut by_bytes, mut by_ids, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        let tables = model.tables().iter().zip(model.features().expected_by_table());
        for (table, ids) in tables {
            let slot = Planner::slot_bytes(config.tiers.policy, table.row_lanes());
            by_bytes.push(Want { given: None, touched: ids * slot });
            by_ids.push(Want { given: None, touched: ids });
            let given = named(config, &table.name).dram.map(|bytes| bytes.0);
            memory.push(Want { given, touched: ids * slot });
        }
        let by_group = |total: u64, wants: &[Want]| {
            let shares = share(total, wants)?;
            let of = |group: &GroupTables| group.tables.iter().map(|table| shares[*table]).sum();
            Ok::<Vec<u64>, u64>(model.groups().iter().map(of).collect())
        };
        let too_much = |given| {
            let (given, dram) = (ByteCount(given), config.tiers.dram);
            Error::Config(format!(
                "the tables were given {given} of memory together, and tiers.dram is {dram}: raise \
                 it, or lower tables.NAME.dram"
            ))
        };
        Ok(Self {
            memory: by_group(config.tiers.dram.0, &memory).map_err(too_much)?,
            index: by_group(config.tiers.index.0, &by_ids).map_err(too_much)?,
            page_cache: by_group(config.tiers.page_cache.0, &by_bytes).map_err(too_much)?,
        })
    }
}

/// The settings that a bound follows from.
fn mend(bound: &str) -> &'static str {
    match bound {
        ROWS_IN_MEMORY => "tiers.dram",
        "store index" => "tiers.index",
        "store row lists" | "store write buffers" | "store compaction" => "tiers.segment",
        "rows going down" => "tiers.dram or model.dim",
        "rows read elsewhere" => "data.mini_batch",
        "scores" => "synth.examples, or the data",
        "reading" | "source" => "threads",
        "data cache" => "data.skip_max, or leave data.cache out",
        "batches" | "planning" => "data.mini_batch, data.batch or pipeline.horizon",
        "admission" => "rows.sketch",
        "rows coming up" | "rows to move" => "data.batch or pipeline.lookahead",
        "stale rows" => "pipeline.staleness or data.mini_batch",
        "training" => "model.hidden, model.dim, data.mini_batch or threads",
        _ => "tiers.dram, tiers.index or data.batch",
    }
}

/// Threads that a run starts: those that parse and compute, one for each other stage, and one for
/// each store, which merges segments.
fn threads_of(wanted: &Wanted<'_>) -> u64 {
    2 * wanted.config.threads as u64 + OTHER_STAGES + wanted.stores.len() as u64
}

/// Mini-batches whose keys are known at once.
fn horizon_of(config: &Config) -> usize {
    (config.pipeline.horizon + 1) * config.mini_batches_per_batch()
}

/// Bytes of `slots` slots of `table`, index and metadata included: the `tiers.dram` of a model of
/// one table that has exactly so many.
pub fn slab_bytes(config: &Config, table: &TableSpec, slots: u64) -> u64 {
    let ring = horizon_of(config) as u64 + 2;
    bytes_for(config.tiers.policy, slots, table.row_lanes(), Planner::bytes_for, ring)
}

fn slots_of(config: &Config, (model, group): (&Model, &GroupTables), bytes: u64) -> Result<usize> {
    let table = &model.tables()[group.tables[0]];
    let (policy, ring) = (config.tiers.policy, horizon_of(config) as u64 + 2);
    let slots = slots_within(policy, bytes, table.row_lanes(), Planner::bytes_for, ring) as usize;
    if slots == 0 {
        let part = match model.groups().len() {
            1 => String::new(),
            _ => format!(", of which it has {},", ByteCount(bytes)),
        };
        return Err(Error::Config(format!(
            "tiers.dram = {}{part} holds not one row of table '{}': {} bytes are the least",
            config.tiers.dram,
            names_of(model, group),
            slab_bytes(config, table, 1)
        )));
    }
    Ok(slots)
}
