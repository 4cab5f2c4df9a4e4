//! Embeddings for somebody with a model of his own: bags go in, pooled embeddings come out,
//! gradients go back, and rows lie in memory and on disk meanwhile.
//!
//! ```text
//!   feed(bags) ──► … rows come up … ──► ready ──► gather ──► (the caller's model) ──► push
//! ```
//!
//! `examples/factors.rs` is a whole program.
//!
//! - **How.** A [`Hierarchy`] whose stages have threads of their own, and [`EmbeddingBags`] on top.
//!   Mini-batches that are fed ahead are planned and pulled while earlier ones are trained. The
//!   rows are, bit for bit, those that any other order of events would give.
//! - **Failure.** The first error ends the session: every later call gives one, too.
//! - **Bounds.** [`Tiers::memory`] bytes of rows, shared out by the bytes that an example touches
//!   if it has one id in each field; [`Tiers::lookahead`] + 2 mini-batches.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::rules::Rules;
use stepwell_base::{ByteCount, Key};
use stepwell_disk::{Disk, FileDisk};
use stepwell_mem::PolicyKind;
use stepwell_ssd::{Executor, ExecutorOptions, StoreOptions};

use crate::{
    Bags, Begin, Cargo, Columns, DenseView, EmbeddingBags, Error, Field, Gradients, GroupTables,
    Grouper, Hands, Hierarchy, MiniBatch, ModelDigest, NoLaps, Part, Placement, Pooled, Pooling,
    Purpose, Ready, Result, Retired, Scratch, Shape, TableLoad, TableSpec, TierOptions, TierPlan,
    Unit, Window, WorkingRows,
};

/// Most mini-batches that are fed ahead.
const LOOKAHEAD_MAX: usize = 10_000;

/// Memory and disk of a session.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// Bytes of all tables' rows in memory, their metadata included.
    pub memory: ByteCount,
    /// Bytes of the index of all tables' rows on disk.
    pub index: ByteCount,
    /// Directory of the stores, which must have no rows in it; none for a temporary one.
    pub directory: Option<PathBuf>,
    /// Mini-batches whose rows come up ahead of the one that is trained.
    pub lookahead: usize,
    /// Which rows are evicted first, among those without a known next use.
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
    /// What is with the caller.
    out: Option<Unit<Fed>>,
    /// The stores' directories, until the stores are closed.
    _scratch: Scratch,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("embeddings", &self.embeddings).finish_non_exhaustive()
    }
}

impl Session {
    /// New `tables`, whose fields go into `columns`, over `tiers`.
    ///
    /// # Errors
    /// When a directory or a thread cannot be had, `tiers.directory` has rows in it, the memory
    /// holds not one row of a table, or tables, columns and shape do not fit each other.
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
        let window = Window { lookahead: tiers.lookahead, horizon: tiers.lookahead + 1 };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Ok(Self {
            hierarchy: Hierarchy::new(groups, planners, window, clock, Hands::Threads)?,
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

    /// Feeds a mini-batch of as many examples as there are `labels`: for each table the bags of its
    /// fields, example by example.
    ///
    /// # Errors
    /// What a stage failed with; bags that are not those of so many examples.
    ///
    /// # Panics
    /// When there is no room for it.
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
            return refuse("a mini-batch of no example: feed one at least".to_owned());
        }
        if bags.len() != columns.len() {
            return refuse(format!("bags of {} tables: give {}", bags.len(), columns.len()));
        }
        let tables = self.embeddings.tables().iter().zip(bags).zip(columns);
        for ((table, Bags { keys, ends, weights }), fields) in tables {
            let (name, wanted) = (&table.name, examples * fields.len());
            if ends.len() != wanted {
                let count = ends.len();
                return refuse(format!("table '{name}': {count} bags, where {wanted} are due"));
            }
            if !ends.is_sorted() || ends.last().is_none_or(|end| *end as usize != keys.len()) {
                let count = keys.len();
                return refuse(format!(
                    "table '{name}': the ends do not cut {count} keys in order"
                ));
            }
            if ![0, keys.len()].contains(&weights.len()) {
                let (count, given) = (keys.len(), weights.len());
                return refuse(format!("table '{name}': {given} weights of {count} keys"));
            }
        }
        Ok(())
    }

    /// The next mini-batch that was fed, its rows at hand; none where all were taken. The one
    /// before is over.
    ///
    /// # Errors
    /// What a stage failed with.
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

    /// Gives back what is with the caller.
    fn retire(&mut self) {
        if let Some(unit) = self.out.take() {
            self.hierarchy.retire(Retired::Unit(unit));
        }
    }

    /// Steps trained.
    pub fn steps(&self) -> u64 {
        self.embeddings.steps()
    }

    /// Lets what was fed and not taken go untrained, and ends with a digest of all rows: equal for
    /// equal rows.
    ///
    /// # Errors
    /// What a stage failed with.
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

/// A mini-batch whose rows are at hand. Dropped, it leaves no trace.
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

    /// Labels, as they were fed. // (examples)
    pub fn labels(&self) -> &[f32] {
        &self.fed.labels
    }

    /// Whether it was fed to be trained on.
    pub fn trains(&self) -> bool {
        self.trains
    }

    /// Pools the rows of the examples of `range`; threads may share ranges.
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

    /// Ends the step: rows are updated by the gradients of the pooled embeddings (examples,
    /// columns) and of the sums of first-order weights (examples), of which there may be none where
    /// no table has such weights.
    ///
    /// # Errors
    /// When a device fails.
    ///
    /// # Panics
    /// When it was fed for reading alone, or gradients are of another number of examples.
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

/// Refuses a model that makes no sense.
fn check_model(
    tables: &[TableSpec],
    columns: &Columns,
    shape: &Shape,
    tiers: &Tiers,
) -> std::result::Result<(), String> {
    if tables.is_empty() || tables.len() != columns.of_fields.len() {
        let (count, fields) = (tables.len(), columns.of_fields.len());
        return Err(format!("{count} tables and fields of {fields}: give one of each or more"));
    }
    if shape.blocks == 0 || tiers.lookahead > LOOKAHEAD_MAX {
        return Err(format!("give 1 block or more, and a lookahead of {LOOKAHEAD_MAX} at most"));
    }
    for (table, fields) in tables.iter().zip(&columns.of_fields) {
        let (name, dim) = (&table.name, table.dim);
        if table.weight_count() == 0 || table.wide > 1 || fields.is_empty() {
            return Err(format!(
                "table '{name}': give it a weight at least, 0 or 1 of them wide, and a field"
            ));
        }
        let outside = |field: &&Field| field.column + dim > columns.count;
        if let Some(field) = fields.iter().find(outside) {
            let (first, count) = (field.column, columns.count);
            return Err(format!(
                "table '{name}': a field has {dim} columns from column {first} on, of {count}"
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

/// The tiers of `tables`, whose fields have an id each.
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
