//! Embeddings for applications with their own model: bags go in, pooled embeddings come out,
//! gradients come back, and rows are in memory and on disk.
//!
//! ```text
//!   feed(bags) ──► … rows loaded … ──► ready ──► gather ──► (the caller's model) ──► push
//! ```
//!
//! `examples/factors.rs` is a complete program. A program that cannot hold a [`Turn`] between two
//! calls, such as one in Python, asks for it again ([`Session::turn`]). Mini-batches can be
//! prepared on other threads ([`Preparer`]).
//!
//! - **How.** A [`Hierarchy`] whose stages have their own threads, with [`EmbeddingBags`] on top.
//!   Mini-batches fed ahead are planned and pulled while earlier ones train. The order of events
//!   doesn't affect the bits of the rows.
//! - **Failure.** Invalid input is refused and changes nothing. The first error of a stage ends the
//!   session; every later call returns [`Error::Ended`].
//! - **Bounds.** [`Tiers::memory`] bytes, of which tables get as much for rows as an expected
//!   mini-batch touches; [`Tiers::horizon`] + 1 mini-batches.

mod by_key;
mod checkpoints;
mod memory;
mod preparer;
mod tiers;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::owner::RankOf;
use stepwell_base::random;
use stepwell_base::rules::Rules;
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{Executor, ExecutorOptions, KeyShardSet, StoreOptions};

pub use self::checkpoints::{SavedSession, Waiting};
use self::memory::{Division, Wanted};
pub use self::preparer::{BagsRef, Prepared, Preparer};
use self::preparer::{Capacity, Fed, TableFields};
pub use self::tiers::{ExpectedBatch, TableMemory, Tiers};
pub use self::turn::Turn;
use crate::checkpoint::{Checkpoint, Placement};
use crate::dense::DenseView;
use crate::digest::ModelDigest;
use crate::group_tables::GroupTables;
use crate::hierarchy::{Hands, Hierarchy, Next};
use crate::mini_batch::Purpose;
use crate::opening::Begin;
use crate::request::{Bags, Columns, Field, Grouper, is_pooled};
use crate::row_directory::Scratch;
use crate::rows::{EmbeddingBags, Shape};
use crate::stages::{Planned, PrefetchDepth, Ready, Retired, Unit};
use crate::table_spec::TableSpec;
use crate::{Error, Result};

/// Maximum number of mini-batches fed ahead.
const HORIZON_MAX: usize = 10_001;

/// Counters of a session, from [`Session::figures`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionFigures {
    /// Rows found in memory, loaded, and evicted.
    pub planned: Planned,
    /// Rows that fit in memory.
    pub rows_fit: u64,
    /// Loaded rows that started from their initial value.
    pub rows_initialized: u64,
    /// Loaded rows that were read from disk.
    pub rows_read: u64,
    /// Rows written to disk.
    pub rows_written: u64,
    /// Rows in the stores.
    pub rows_on_disk: u64,
    /// Bytes read from the stores' files, for any purpose.
    pub bytes_read: u64,
    /// Bytes written to the stores' files, for any purpose.
    pub bytes_written: u64,
    /// Bytes of the stores' files.
    pub bytes_on_disk: u64,
}

/// Tables, and the mini-batches that use them.
pub struct Session {
    hierarchy: Hierarchy<Fed>,
    embeddings: EmbeddingBags,
    preparer: Preparer,
    /// The unit that the caller has.
    out: Option<Unit<Fed>>,
    /// The rank that this session is.
    of: RankOf,
    /// Identifies the session's checkpoints.
    job: String,
    /// A random number drawn when rows were last written by key; 0 if never.
    written: u64,
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
        tables: Vec<TableSpec>,
        columns: Columns,
        shape: Shape,
        tiers: &Tiers,
    ) -> Result<Self> {
        Self::open_with(tables, columns, shape, tiers, None)
    }

    /// Like [`Session::open`], with the rows of the checkpoint `from`.
    fn open_with(
        mut tables: Vec<TableSpec>,
        columns: Columns,
        shape: Shape,
        tiers: &Tiers,
        from: Option<&Checkpoint>,
    ) -> Result<Self> {
        check_model(&tables, &columns, &shape, tiers).map_err(Error::Refused)?;
        let scratch = Scratch::open(tiers.directory.as_deref(), Placement::Fresh)?;
        let members = GroupTables::of(&mut tables, |table| tiers.of_table(table).whole);
        let members = members.map_err(Error::Refused)?;
        let wanted = Wanted {
            tables: &tables,
            groups: &members,
            columns: &columns,
            shape: &shape,
            tiers,
            before: &rows_before(from, members.len(), tiers.of),
        };
        let Division { plan, horizon } = wanted.divide()?;
        from.map_or(Ok(()), |from| plan.check_groups(&tables, from))?;
        let executor = Executor::new(ExecutorOptions::default());
        let mut groups = Vec::new();
        for number in 0..members.len() {
            let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&scratch.rows(number)?)?);
            let key_shards = KeyShardSet::part(tiers.of.rank, tiers.of.ranks);
            let executor = Some(executor.clone());
            let machine = |store| StoreOptions { executor, key_shards, ..store };
            let begin = from.map_or(Begin::Empty, |from| Begin::Checkpoint(from, number));
            groups.push(plan.open(
                number,
                &tables,
                (disk, begin),
                machine,
                (Rules::default(), None),
            )?);
        }
        let planners = plan.planners(Rules::default());
        let prefetch = PrefetchDepth { lookahead: tiers.lookahead, horizon };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let hierarchy = Hierarchy::new(groups, planners, prefetch, clock, Hands::Threads)?;
        let of_tables = tables.iter().zip(&columns.of_fields).map(|(table, fields)| TableFields {
            name: table.name.clone(),
            salt: table.salt(),
            fields: fields.clone(),
        });
        let preparer = Preparer {
            tables: of_tables.collect(),
            capacities: hierarchy.groups().iter().map(|group| Capacity::of(group)).collect(),
            dram: plan.options().dram,
            spares: Arc::clone(hierarchy.spares()),
            groupers: tables.iter().map(|_| Grouper::default()).collect(),
        };
        let embeddings = EmbeddingBags::new(tables, columns, shape);
        Ok(Self {
            hierarchy,
            embeddings,
            preparer,
            out: None,
            of: tiers.of,
            job: drawn_job(),
            written: 0,
            _scratch: scratch,
        })
    }

    /// Makes mini-batches for [`Session::feed_prepared`], on any thread.
    pub fn preparer(&self) -> Preparer {
        self.preparer.clone()
    }

    /// The most mini-batches that are fed at once, the current one included.
    pub fn fed_max(&self) -> usize {
        self.hierarchy.fed_max()
    }

    /// Whether another mini-batch may be fed before one is taken.
    pub fn has_room(&self) -> bool {
        self.hierarchy.has_room()
    }

    /// Feeds a mini-batch with one example per label: for each table the bags of its fields,
    /// example by example.
    ///
    /// # Errors
    /// The error of a stage; bags that don't match the number of examples, more distinct rows than
    /// fit in memory at once, or no room: these change nothing.
    pub fn feed(&mut self, bags: &[Bags], labels: &[f32], purpose: Purpose) -> Result<()> {
        let bags: Vec<BagsRef<'_>> = bags.iter().map(BagsRef::from).collect();
        let prepared = self.preparer.prepare(labels.len(), &bags, Some(labels), purpose)?;
        self.feed_prepared(prepared)
    }

    /// Feeds a mini-batch that a [`Preparer`] of this session made.
    ///
    /// # Errors
    /// The error of a stage; no room for the mini-batch, which is then discarded.
    pub fn feed_prepared(&mut self, Prepared(mini): Prepared) -> Result<()> {
        if !self.has_room() {
            let fed = self.hierarchy.fed();
            self.hierarchy.spares().give_back(mini);
            return Err(Error::Refused(format!(
                "{fed} mini-batches are fed, as many as the horizon allows: take one first"
            )));
        }
        self.hierarchy.feed(mini)
    }

    /// The next mini-batch fed, with its rows loaded; `None` if all were taken. Ends the previous
    /// one.
    ///
    /// # Errors
    /// The error of a stage.
    pub fn ready(&mut self) -> Result<Option<Turn<'_>>> {
        self.ready_within(Duration::MAX)?;
        self.turn()
    }

    /// Ends the current mini-batch and makes the next one fed the current one, once its rows are
    /// loaded, but waits at most for `time`. Then [`Session::turn`] returns it.
    ///
    /// # Errors
    /// The error of a stage.
    pub fn ready_within(&mut self, time: Duration) -> Result<Next<()>> {
        self.retire();
        Ok(match self.hierarchy.ready_within(time)? {
            Next::Ready(Ready::Unit(unit)) => {
                self.out = Some(unit);
                Next::Ready(())
            }
            Next::Ready(_) => unreachable!("only mini-batches are fed"),
            Next::End => Next::End,
            Next::Late => Next::Late,
        })
    }

    /// The current mini-batch with its rows; `None` before the first, after the last, and once
    /// gradients were pushed. Others may be fed between two calls; dropping a turn without a push
    /// keeps the mini-batch current.
    ///
    /// # Errors
    /// If a device fails.
    pub fn turn(&mut self) -> Result<Option<Turn<'_>>> {
        let Some(unit) = self.out.as_mut().filter(|unit| !unit.trained) else { return Ok(None) };
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

    /// Sets the learning rate of table `table` for later steps; a schedule may lower it to 0.
    ///
    /// # Errors
    /// A table that doesn't exist, or a rate that its optimizer refuses.
    pub fn set_learning_rate(&mut self, table: usize, lr: f64) -> Result<()> {
        self.check_table(table)?;
        let optimizer = self.embeddings.tables()[table].optimizer.with_lr(lr);
        let optimizer = optimizer.map_err(|why| Error::Refused(why.to_string()))?;
        self.embeddings.set_optimizer(table, optimizer);
        Ok(())
    }

    fn check_table(&self, table: usize) -> Result<()> {
        let count = self.embeddings.tables().len();
        if table < count {
            return Ok(());
        }
        Err(Error::Refused(format!("there are {count} tables, and no table {table}")))
    }

    /// Whether an error of a stage has ended the session; other errors change nothing.
    pub fn has_ended(&self) -> bool {
        self.hierarchy.has_ended()
    }

    /// Number of steps trained.
    pub fn steps(&self) -> u64 {
        self.embeddings.steps()
    }

    /// Counters since the session was opened.
    pub fn figures(&self) -> SessionFigures {
        let planned = self.hierarchy.counters().count();
        let mut figures = SessionFigures { planned, ..SessionFigures::default() };
        for group in self.hierarchy.groups() {
            let (moved, store) = (group.traffic.count(), group.store.stats());
            figures.rows_fit += group.slab.slots() as u64;
            figures.rows_initialized += moved.initialized;
            figures.rows_read += moved.refilled;
            figures.rows_written += moved.written_back;
            figures.rows_on_disk += store.rows_live;
            figures.bytes_read += store.bytes_read;
            figures.bytes_written += store.bytes_written;
            figures.bytes_on_disk += store.bytes_files;
        }
        figures
    }

    /// Discards mini-batches that were not taken, and returns a digest of all rows; equal rows have
    /// equal digests.
    ///
    /// # Errors
    /// The error of a stage.
    pub fn finish(mut self) -> Result<String> {
        while let Next::Ready(()) = self.ready_within(Duration::MAX)? {}
        let groups = self.hierarchy.groups().to_vec();
        let planners = self.hierarchy.finish()?;
        let mut digest = ModelDigest::default();
        for (group, planner) in groups.iter().zip(&planners) {
            group.digest(planner.cache(), &mut digest, &mut || Ok(()))?;
        }
        Ok(digest.finish(&DenseView::default()))
    }
}

/// A name for the checkpoints of a new session, different from all others.
fn drawn_job() -> String {
    random::drawn::<2>().map(|word| format!("{word:016x}")).concat()
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
    if shape.blocks == 0 || tiers.known() > HORIZON_MAX {
        return Err(format!("give at least 1 block, and a horizon of at most {HORIZON_MAX}"));
    }
    for (table, fields) in tables.iter().zip(&columns.of_fields) {
        let (name, dim) = (&table.name, table.dim);
        if table.weight_count() == 0 || table.wide > 1 || fields.is_empty() {
            return Err(format!(
                "table '{name}': give it at least one weight, 0 or 1 of them wide, and a field"
            ));
        }
        let has_columns = is_pooled(fields);
        let outside = |field: &&Field| has_columns && field.column + dim > columns.count;
        if let Some(field) = fields.iter().find(outside) {
            let (first, count) = (field.column, columns.count);
            return Err(format!(
                "table '{name}': a field has {dim} columns from column {first} on, but there are \
                 {count}"
            ));
        }
    }
    Ok(())
}

/// Rows of a rank in each of `groups` table groups of the checkpoint that a session begins with, if
/// any.
fn rows_before(from: Option<&Checkpoint>, groups: usize, of: RankOf) -> Vec<u64> {
    let rows = |group| {
        let stores = from.and_then(|from| from.manifests_of_group(group)).unwrap_or_default();
        let rows: u64 = stores.iter().map(|store| store.rows).sum();
        rows.div_ceil(of.ranks as u64)
    };
    (0..groups).map(rows).collect()
}
