//! Embeddings for applications with their own model: bags go in, pooled embeddings come out,
//! gradients come back, and rows are in memory and on disk.
//!
//! ```text
//!   feed(bags) ──► … rows loaded … ──► ready ──► gather ──► (the caller's model) ──► push
//! ```
//!
//! `examples/factors.rs` is a complete program.
//!
//! - **How.** A [`Hierarchy`] whose stages have their own threads, with [`EmbeddingBags`] on top.
//!   Mini-batches fed ahead are planned and pulled while earlier ones train. The order of events
//!   doesn't affect the bits of the rows.
//! - **Failure.** The first error ends the session; every later call returns an error.
//! - **Bounds.** [`Tiers::memory`] bytes of rows, divided among tables by the bytes that an example
//!   with one id per field touches; [`Tiers::lookahead`] + 2 mini-batches.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::rules::Rules;
use stepwell_base::{ByteCount, Key};
use stepwell_disk::{Disk, FileDisk};
use stepwell_mem::PolicyKind;
use stepwell_ssd::{Executor, ExecutorOptions, StoreOptions};

use crate::checkpoint::Placement;
use crate::dense::DenseView;
use crate::digest::ModelDigest;
use crate::group_tables::GroupTables;
use crate::hierarchy::{Hands, Hierarchy};
use crate::mini_batch::{Cargo, MiniBatch, Purpose};
use crate::opening::Begin;
use crate::request::{Bags, Columns, Field, Grouper, Pooling};
use crate::row_directory::Scratch;
use crate::rows::{EmbeddingBags, Gradients, NoLaps, Pooled, Shape, WorkingRows};
use crate::stages::{PrefetchDepth, Ready, Retired, Unit};
use crate::table_spec::TableSpec;
use crate::tiers::{TableLoad, TierOptions, TierPlan};
use crate::working_set::Part;
use crate::{Error, Result};

/// Maximum number of mini-batches fed ahead.
const LOOKAHEAD_MAX: usize = 10_000;

/// Memory and disk of a session.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// Bytes of all tables' rows in memory, metadata included.
    pub memory: ByteCount,
    /// Bytes of the index of all tables' rows on disk.
    pub index: ByteCount,
    /// Directory of the stores, which must not contain rows; `None` for a temporary one.
    pub directory: Option<PathBuf>,
    /// Mini-batches whose rows are loaded ahead of the one that trains.
    pub lookahead: usize,
    /// Policy that selects the rows to evict among those without a known next use.
    pub policy: PolicyKind,
}

impl Default for Tiers {
    fn default() -> Self {
        Self {
            memory: ByteCount(1 << 30),
            index: ByteCount(1 << 30),
            directory: None,
            lookahead: 2,
            policy: PolicyKind::default(),
        }
    }
}

/// A mini-batch as it was fed.
#[derive(Debug, Default)]
struct Fed {
    labels: Vec<f32>,
    examples: usize,
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

/// Tables, and the mini-batches that use them.
pub struct Session {
    hierarchy: Hierarchy<Fed>,
    embeddings: EmbeddingBags,
    grouper: Grouper,
    /// The unit that the caller has.
    out: Option<Unit<Fed>>,
    /// Directories of the stores; outlives them.
    _scratch: Scratch,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("embeddings", &self.embeddings).finish_non_exhaustive()
    }
}

impl Session {
    /// Opens new `tables`, whose fields go into `columns`, over `tiers`.
    ///
    /// # Errors
    /// If a directory or thread is not available, `tiers.directory` contains rows, the memory can't
    /// hold one row of a table, or tables, columns and shape don't match.
    pub fn open(
        mut tables: Vec<TableSpec>,
        columns: Columns,
        shape: Shape,
        tiers: &Tiers,
    ) -> Result<Self> {
        check_model(&tables, &columns, &shape, tiers).map_err(Error::Refused)?;
        let scratch = Scratch::open(tiers.directory.as_deref(), Placement::Fresh)?;
        let members = GroupTables::of(&mut tables, |_| false).map_err(Error::Refused)?;
        let plan = plan(&tables, &members, &columns, tiers)?;
        let executor = Executor::new(ExecutorOptions::default());
        let mut groups = Vec::new();
        for number in 0..members.len() {
            let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&scratch.rows(number)?)?);
            let machine = |store| StoreOptions { executor: Some(executor.clone()), ..store };
            let begin = (disk, Begin::Empty);
            groups.push(plan.open(number, &tables, begin, machine, (Rules::default(), None))?);
        }
        let planners = plan.planners(Rules::default());
        let prefetch = PrefetchDepth { lookahead: tiers.lookahead, horizon: tiers.lookahead + 1 };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Ok(Self {
            hierarchy: Hierarchy::new(groups, planners, prefetch, clock, Hands::Threads)?,
            embeddings: EmbeddingBags::new(tables, columns, shape),
            grouper: Grouper::default(),
            out: None,
            _scratch: scratch,
        })
    }

    /// Whether another mini-batch may be fed before one is taken.
    pub fn has_room(&self) -> bool {
        self.hierarchy.has_room()
    }

    /// Feeds a mini-batch with one example per label: for each table the bags of its fields,
    /// example by example.
    ///
    /// # Errors
    /// The error of a stage; bags that don't match the number of examples.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn feed(&mut self, bags: &[Bags], labels: &[f32], purpose: Purpose) -> Result<()> {
        self.check(bags, labels.len())?;
        let mut mini = self.hierarchy.spare().unwrap_or_else(|| MiniBatch {
            number: 0,
            purpose,
            parts: bags.iter().map(|_| Part::default()).collect(),
            cargo: Fed::default(),
        });
        mini.purpose = purpose;
        mini.cargo.labels.extend_from_slice(labels);
        mini.cargo.examples = labels.len();
        let tables = self.embeddings.tables().iter().zip(&self.embeddings.columns().of_fields);
        for ((part, bags), (table, fields)) in mini.parts.iter_mut().zip(bags).zip(tables) {
            part.request.ends.extend_from_slice(&bags.ends);
            part.request.weigh(fields, &bags.weights);
            self.grouper.group_into(&bags.keys, table.salt(), &mut part.request);
        }
        self.hierarchy.feed(mini)
    }

    fn check(&self, bags: &[Bags], examples: usize) -> Result<()> {
        let refuse = |why: String| Err(Error::Refused(why));
        let columns = &self.embeddings.columns().of_fields;
        if examples == 0 {
            return refuse("the mini-batch has no examples: feed at least one".to_owned());
        }
        if bags.len() != columns.len() {
            return refuse(format!("bags of {} tables: give {}", bags.len(), columns.len()));
        }
        let tables = self.embeddings.tables().iter().zip(bags).zip(columns);
        for ((table, Bags { keys, ends, weights }), fields) in tables {
            let (name, wanted) = (&table.name, examples * fields.len());
            if ends.len() != wanted {
                let count = ends.len();
                return refuse(format!("table '{name}': {count} bags, but {wanted} are needed"));
            }
            if !ends.is_sorted() || ends.last().is_none_or(|end| *end as usize != keys.len()) {
                let count = keys.len();
                return refuse(format!(
                    "table '{name}': the ends must ascend to {count}, the number of keys"
                ));
            }
            if ![0, keys.len()].contains(&weights.len()) {
                let (count, given) = (keys.len(), weights.len());
                return refuse(format!("table '{name}': {given} weights for {count} keys"));
            }
        }
        Ok(())
    }

    /// The next mini-batch fed, with its rows loaded; `None` if all were taken. Ends the previous
    /// one.
    ///
    /// # Errors
    /// The error of a stage.
    pub fn ready(&mut self) -> Result<Option<Turn<'_>>> {
        self.retire();
        let Some(Ready::Unit(unit)) = self.hierarchy.ready()? else { return Ok(None) };
        let unit = self.out.insert(unit);
        let [mini] = &mut unit.minis[..] else { unreachable!("one is fed at a time") };
        let trains = mini.purpose == Purpose::Train;
        let groups = self.hierarchy.groups();
        let rows = self.embeddings.hold(mini.number, &mut mini.parts, groups, trains)?;
        let (embeddings, fed) = (&mut self.embeddings, &mini.cargo);
        Ok(Some(Turn { embeddings, rows, fed, trains, trained: &mut unit.trained }))
    }

    /// Gives back the unit that the caller has.
    fn retire(&mut self) {
        if let Some(unit) = self.out.take() {
            self.hierarchy.retire(Retired::Unit(unit));
        }
    }

    /// Number of steps trained.
    pub fn steps(&self) -> u64 {
        self.embeddings.steps()
    }

    /// Discards mini-batches that were not taken, and returns a digest of all rows; equal rows have
    /// equal digests.
    ///
    /// # Errors
    /// The error of a stage.
    pub fn finish(mut self) -> Result<String> {
        while self.ready()?.is_some() {}
        let groups = self.hierarchy.groups().to_vec();
        let planners = self.hierarchy.finish()?;
        let mut digest = ModelDigest::default();
        for (group, planner) in groups.iter().zip(&planners) {
            group.digest(planner.cache(), &mut digest, &mut || Ok(()))?;
        }
        Ok(digest.finish(&DenseView::default()))
    }
}

/// A mini-batch whose rows are loaded. Dropping it without a push leaves no trace.
#[derive(Debug)]
pub struct Turn<'a> {
    embeddings: &'a mut EmbeddingBags,
    rows: WorkingRows<'a>,
    fed: &'a Fed,
    trains: bool,
    trained: &'a mut bool,
}

impl Turn<'_> {
    /// Number of examples.
    pub fn examples(&self) -> usize {
        self.fed.examples
    }

    /// Labels that were fed. // (examples)
    pub fn labels(&self) -> &[f32] {
        &self.fed.labels
    }

    /// Whether the mini-batch was fed for training.
    pub fn trains(&self) -> bool {
        self.trains
    }

    /// Pools the rows of the examples of `range`; threads may work on different ranges.
    pub fn gather(&self, range: Range<usize>, pooled: Pooled<'_>) {
        self.embeddings.gather(&self.rows, range, pooled);
    }

    /// The pooled embeddings of all examples. // (examples, columns)
    pub fn embeddings(&self) -> Vec<f32> {
        let (examples, width) = (self.examples(), self.embeddings.columns().count);
        let (mut x, mut first_order) = (vec![0.0; examples * width], vec![0.0; examples]);
        let pooled = Pooled { x: &mut x, width, first_order: &mut first_order };
        self.gather(0..examples, pooled);
        x
    }

    /// The distinct keys of a table, in order of first occurrence.
    pub fn keys(&self, table: usize) -> impl ExactSizeIterator<Item = Key> {
        let salt = self.embeddings.tables()[table].salt();
        self.rows.keys(table).iter().map(move |key| key.salted(salt))
    }

    /// Ends the step: updates rows by the gradients of the pooled embeddings (examples, columns)
    /// and of the sums of first-order weights (examples); the latter may be empty if no table has
    /// such weights.
    ///
    /// # Errors
    /// If a device fails.
    ///
    /// # Panics
    /// If the mini-batch was not fed for training, or the number of examples differs.
    pub fn push(mut self, d_x: &[f32], d_first_order: &[f32]) -> Result<()> {
        let wide = self.embeddings.tables().iter().any(|table| table.wide > 0);
        let none = vec![0.0; if wide { 0 } else { self.fed.examples }];
        let d_first_order =
            if !wide && d_first_order.is_empty() { &none[..] } else { d_first_order };
        let gradients = Gradients { d_x, d_first_order, labels: &self.fed.labels };
        self.embeddings.apply(&mut self.rows, gradients, &NoLaps)?;
        *self.trained = true;
        Ok(())
    }
}

/// Checks that tables, columns, shape and tiers match.
fn check_model(
    tables: &[TableSpec],
    columns: &Columns,
    shape: &Shape,
    tiers: &Tiers,
) -> std::result::Result<(), String> {
    if tables.is_empty() || tables.len() != columns.of_fields.len() {
        let (count, fields) = (tables.len(), columns.of_fields.len());
        return Err(format!(
            "{count} tables, and fields for {fields}: give at least one table, and fields for each"
        ));
    }
    if shape.blocks == 0 || tiers.lookahead > LOOKAHEAD_MAX {
        return Err(format!("give at least 1 block, and a lookahead of at most {LOOKAHEAD_MAX}"));
    }
    for (table, fields) in tables.iter().zip(&columns.of_fields) {
        let (name, dim) = (&table.name, table.dim);
        if table.weight_count() == 0 || table.wide > 1 || fields.is_empty() {
            return Err(format!(
                "table '{name}': give it at least one weight, 0 or 1 of them wide, and a field"
            ));
        }
        let outside = |field: &&Field| field.column + dim > columns.count;
        if let Some(field) = fields.iter().find(outside) {
            let (first, count) = (field.column, columns.count);
            return Err(format!(
                "table '{name}': a field has {dim} columns from column {first} on, but there are \
                 {count}"
            ));
        }
        if fields.iter().any(|field| field.pooling == Pooling::None) {
            return Err(format!(
                "table '{name}': rows that are not pooled are fed as bags of one id: give a field \
                 for each"
            ));
        }
    }
    Ok(())
}

/// Plans the tiers of `tables`, assuming one id per field.
fn plan(
    tables: &[TableSpec],
    groups: &[GroupTables],
    columns: &Columns,
    tiers: &Tiers,
) -> Result<TierPlan> {
    let load = |fields: &Vec<Field>| {
        let ids = fields.len() as u64;
        TableLoad { expected: ids, ids_max: ids, ..TableLoad::default() }
    };
    let loads: Vec<TableLoad> = columns.of_fields.iter().map(load).collect();
    let options = TierOptions {
        dram: tiers.memory,
        index: tiers.index,
        policy: tiers.policy,
        horizon: tiers.lookahead + 4,
        ..TierOptions::default()
    };
    TierPlan::new(tables, groups, &loads, options)
}
