//! The row half of a training step: rows into pooled embeddings, gradients into rows.
//!
//! ```text
//!  hold     rows of a mini-batch, which of them exist, how old they are read     one thread
//!  gather   rows ─► pooled embeddings in the columns of a matrix                 by example
//!  apply    gradients over a row's bags ─► row optimizer, in the slot            by row
//! ```
//!
//! This is the seam for computing on rows elsewhere: no slice of a slab leaves it. Threads divide
//! whole examples and whole rows among them, so their number doesn't affect the bits (invariant
//! I2).

mod admission;
mod bounds;
mod exchange;
mod gather;
mod in_place;
mod laps;
mod on_host;
mod put;
mod stale;
mod sums;
mod update;
mod witness;
mod working;
mod workspaces;

use std::sync::Arc;

use rayon::prelude::*;
use stepwell_base::owner::{RankOf, owner, shards_of};
use stepwell_optim::{RowOptimizer, Schedule};

use self::admission::{Admissions, Sketch};
pub use self::exchange::EarlyRows;
pub use self::gather::Pooled;
pub use self::laps::{Laps, NoLaps};
use self::stale::StaleRows;
pub use self::sums::Gradients;
use self::sums::TableBags;
use self::update::{RowsOf, Workspace};
pub use self::witness::{Moment, Witness};
use self::working::TableRows;
pub use self::working::WorkingRows;
pub use self::workspaces::Workspaces;
use crate::Result;
use crate::blocks::Blocks;
use crate::dense::Dense;
use crate::device::{LanesRead, PooledAt, RowsSent};
use crate::group::{Group, devices_above, group_of};
use crate::life::Admission;
use crate::request::{BagsByRow, Columns, is_pooled};
use crate::table_spec::TableSpec;
use crate::working_set::{Loan, Part};

/// Parameters of a model's embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Number of blocks of every mini-batch, the unit of summation.
    pub blocks: usize,
    /// Latest training steps that a step's row reads don't see.
    pub staleness: usize,
    /// Whether the policy needs to know how often a key occurred in a mini-batch, not only that it
    /// did.
    pub weighs_occurrences: bool,
    /// Bytes of the sketch that counts occurrences, by table; missing entries mean the minimum.
    pub sketch_bytes: Vec<u64>,
    /// Learning rates of all rows over time.
    pub schedule: Schedule,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            blocks: 8,
            staleness: 0,
            weighs_occurrences: false,
            sketch_bytes: Vec::new(),
            schedule: Schedule::default(),
        }
    }
}

/// The embeddings of a model: its tables, and past state that its steps need.
pub struct EmbeddingBags {
    /// The tables, with the learning rates of the current step.
    tables: Vec<TableSpec>,
    /// Their learning rates before the schedule.
    rates: Vec<f64>,
    schedule: Schedule,
    columns: Columns,
    blocks: usize,
    weighs_occurrences: bool,
    /// Whether rows are lent to other ranks.
    lends: bool,
    steps: u64,
    /// Whether rows are held for a step that has not been applied.
    is_open: bool,
    /// Admissions by table; `None` if rows exist forever from their first use.
    admissions: Vec<Option<Admissions>>,
    stale: StaleRows,
    workspaces: Workspaces<Workspace>,
    witness: Option<Arc<dyn Witness>>,
    /// Buffers of a dense part on devices for pooled rows, by device.
    pooled_at: Vec<Arc<PooledAt>>,
}

impl std::fmt::Debug for EmbeddingBags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("EmbeddingBags");
        shown.field("tables", &self.tables).field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl EmbeddingBags {
    /// The embeddings of `tables` before the first step.
    pub fn new(tables: Vec<TableSpec>, columns: Columns, shape: Shape) -> Self {
        assert_eq!(tables.len(), columns.of_fields.len(), "columns for every table");
        Self {
            admissions: tables
                .iter()
                .zip(shape.sketch_bytes.iter().copied().chain(std::iter::repeat(0)))
                .map(|(table, bytes)| Admissions::new(table, bytes))
                .collect(),
            stale: StaleRows::new(
                shape.staleness,
                tables.iter().map(TableSpec::weight_count).collect(),
            ),
            rates: tables.iter().map(|table| table.optimizer.lr()).collect(),
            schedule: shape.schedule,
            tables,
            columns,
            blocks: shape.blocks,
            weighs_occurrences: shape.weighs_occurrences,
            lends: false,
            steps: 0,
            is_open: false,
            workspaces: Workspaces::default(),
            witness: None,
            pooled_at: Vec::new(),
        }
    }

    /// Maximum bytes of one thread's part of an update.
    pub fn workspace_bytes_max(tables: &[TableSpec], blocks: usize) -> usize {
        Workspace::lanes_max(tables, blocks) * size_of::<f32>()
    }

    /// Names of the sections with stale versions: of step number `step` among those saved, oldest
    /// first, and of table `table`.
    pub fn stale_names(step: usize, table: usize) -> [String; 2] {
        [stale::keys_name(step, table), stale::weights_name(step, table)]
    }

    /// Name of the section with the sketch of `table`; `None` if nothing is counted.
    pub fn sketch_name(table: &TableSpec) -> Option<String> {
        let counts = table.life.is_some_and(|life| matches!(life.admission, Admission::After(_)));
        counts.then(|| admission::section(table))
    }

    /// Bytes that a sketch takes if assigned `bytes`.
    pub fn sketch_bytes_max(bytes: u64) -> u64 {
        Sketch::bytes(bytes)
    }

    /// Shows every row that is read later to `witness`.
    pub fn watch(&mut self, witness: Arc<dyn Witness>) {
        self.witness = Some(witness);
    }

    /// Lends rows to other ranks in later steps; see [`Lender`](crate::Lender).
    pub fn lend(&mut self) {
        self.lends = true;
    }

    /// The tables.
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// Columns of the tables' fields.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Sets the optimizer of table `table` in later steps; its state must have as many lanes.
    pub(crate) fn set_optimizer(&mut self, table: usize, optimizer: RowOptimizer) {
        let of = &mut self.tables[table];
        let lanes = |optimizer: &RowOptimizer| optimizer.state_lanes(of.lanes());
        assert_eq!(lanes(&of.optimizer), lanes(&optimizer), "lanes of state");
        of.optimizer = optimizer;
        self.rates[table] = optimizer.lr();
    }

    /// Sets how often the learning rates have fallen at a plateau, for later steps.
    pub fn set_falls(&mut self, falls: u64) {
        self.schedule = self.schedule.fallen(falls);
    }

    /// Learning rates of the tables before the schedule.
    pub(crate) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Gives the tables the learning rates of the current step.
    fn set_rates(&mut self) {
        if self.schedule == Schedule::default() {
            return;
        }
        let factor = self.schedule.factor(self.steps);
        for (table, rate) in self.tables.iter_mut().zip(&self.rates) {
            // A rate that f32 can't hold is 0, as at the end of a schedule.
            let rate = if (rate * factor) as f32 > 0.0 { rate * factor } else { 0.0 };
            match table.optimizer.with_lr(rate) {
                Ok(optimizer) => table.optimizer = optimizer,
                Err(why) => unreachable!("a part of a rate that was accepted: {why}"),
            }
        }
    }

    /// Number of steps trained.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Continues after `steps` steps.
    pub fn set_steps(&mut self, steps: u64) {
        self.steps = steps;
    }

    /// Holds the rows of mini-batch `number` (`parts` by table, in `groups`) as long as the result
    /// lives. If it `trains`, a step begins that [`EmbeddingBags::apply`] ends; a step that is
    /// never applied leaves no trace.
    ///
    /// # Errors
    /// If a device fails.
    ///
    /// # Panics
    /// If a row is not pinned and filled, or is already held.
    pub fn hold<'a>(
        &mut self,
        number: u32,
        parts: &'a mut [Part],
        groups: &'a [Arc<Group>],
        trains: bool,
    ) -> Result<WorkingRows<'a>> {
        self.abandon();
        if trains {
            self.set_rates();
        }
        let pooled = self.can_pool(parts, groups);
        let shows = self.witness.is_some();
        if let Some(devices) = devices_above(groups).filter(|_| shows || !pooled) {
            let read = if shows { LanesRead::All } else { LanesRead::Weights };
            self.bring_below(devices, parts, groups, read);
            devices.fetch(parts, groups, &self.tables, number, read)?;
        }
        if pooled {
            self.pool(number, parts, groups, trains)?;
        }
        self.is_open = trains;
        let mut tables = self.rows_in(parts, groups);
        for ((table, rows), admissions) in
            self.tables.iter().zip(&mut tables).zip(&mut self.admissions)
        {
            if let Some(admissions) = admissions {
                admissions.look(table, rows, self.steps, trains);
            }
        }
        if trains {
            self.stale.look_back(&mut tables, &self.admissions);
        }
        let at = Moment { steps: self.steps, number, evaluates: !trains };
        self.show(at, &tables);
        if trains {
            self.stale.keep(&tables);
        }
        tables.iter_mut().for_each(|rows| rows.occurrences.clear());
        Ok(WorkingRows { tables, groups, trains, number, pooled })
    }

    /// The rows of `parts` in the slabs of `groups`.
    fn rows_in<'a>(&self, parts: &'a mut [Part], groups: &'a [Arc<Group>]) -> Vec<TableRows<'a>> {
        let held = parts.iter_mut().zip(&self.tables).enumerate();
        let held = held.map(|(number, (part, table))| {
            let (_, group) = group_of(groups, number);
            match group.devices() {
                Some(_) => TableRows::visiting(part, group.visited(number), table),
                None => TableRows::new(part, &group.slab, table),
            }
        });
        held.collect()
    }

    /// Undoes a step that was begun and not applied.
    pub(crate) fn abandon(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.stale.forget();
            self.admissions.iter_mut().flatten().for_each(Admissions::undo);
        }
    }

    /// Shows the rows that a mini-batch reads to the witness.
    fn show(&self, at: Moment, tables: &[TableRows<'_>]) {
        let Some(witness) = &self.witness else { return };
        for (table, rows) in self.tables.iter().zip(tables) {
            let mut weights = vec![0.0; table.weight_count()];
            let state = table.weight_lanes()..table.model_lanes();
            for (row, key) in rows.request.distinct.iter().enumerate() {
                // The rank that has the row shows it.
                if matches!(rows.askers.loan(row), Loan::Runs | Loan::Ends) {
                    continue;
                }
                let state = &rows.held(row)[state.clone()];
                rows.weights(row).copy_to(&mut weights);
                witness.read(at, table.id, *key, &weights, state);
            }
        }
    }

    /// Ends a step: updates the rows held for it, on the threads of the calling pool.
    ///
    /// # Errors
    /// If a device fails.
    ///
    /// # Panics
    /// If the rows were only held for reading, others were held since, or the number of examples
    /// differs.
    pub fn apply(
        &mut self,
        rows: &mut WorkingRows<'_>,
        gradients: Gradients<'_>,
        laps: &dyn Laps,
    ) -> Result<()> {
        self.apply_all(rows, gradients, &[], laps)
    }

    /// [`EmbeddingBags::apply`] with gradients of distinct rows (rows, weights) for tables with
    /// unpooled fields, by the number of the table. A missing gradient counts as zeros.
    ///
    /// # Errors
    /// If a device fails.
    ///
    /// # Panics
    /// As [`EmbeddingBags::apply`], and if a table has another number of rows.
    pub(crate) fn apply_all(
        &mut self,
        rows: &mut WorkingRows<'_>,
        gradients: Gradients<'_>,
        d_rows: &[(usize, &[f32])],
        laps: &dyn Laps,
    ) -> Result<()> {
        self.end_step(rows);
        if rows.pooled {
            self.note_occurrences(rows, gradients.labels);
            return Ok(());
        }
        let examples = gradients.d_first_order.len();
        assert_eq!(gradients.d_x.len(), examples * self.columns.count, "one row each");
        let blocks = Blocks::new(examples, self.blocks);
        let (this, groups) = (&*self, rows.groups);
        // Small tables aren't divided, so threads take whole ones.
        rows.tables.par_iter_mut().enumerate().for_each(|(number, table)| {
            let bags = this.bags_of(number, table.bags, gradients, blocks);
            let given = d_rows.iter().find(|(of, _)| *of == number).map(|(_, given)| *given);
            let lanes = table.len() * table.width();
            let is_whole = given.is_none_or(|given| given.len() == lanes);
            assert!(is_whole, "a gradient for each weight of each row");
            let zeros;
            let gradients = match (is_pooled(&this.columns.of_fields[number]), given) {
                (true, None) => RowsOf::Bags(bags),
                (true, Some(given)) => RowsOf::BagsAndGiven(bags, given),
                (false, Some(given)) => RowsOf::Given(bags, given),
                (false, None) => {
                    zeros = vec![0.0; lanes];
                    RowsOf::Given(bags, &zeros)
                }
            };
            this.update(number, groups, table, gradients, laps);
        });
        rows.groups.iter().for_each(|group| group.set_steps(self.steps));
        self.send(rows)
    }

    /// Sends a step's results for rows to the devices that have them, if any.
    fn send(&self, rows: &WorkingRows<'_>) -> Result<()> {
        let Some(devices) = devices_above(rows.groups) else { return Ok(()) };
        self.step_below(rows);
        let sent = rows.tables.iter().enumerate().map(|(table, of_table)| RowsSent {
            group: group_of(rows.groups, table).0,
            above: of_table.above,
            rows: of_table.rows(),
        });
        let sent: Vec<RowsSent<'_>> = sent.collect();
        devices.send(&sent, &self.tables, rows.number, self.steps)
    }

    /// The bags of table `number` by row, with the gradients of `blocks`.
    fn bags_of<'a>(
        &'a self,
        number: usize,
        bags: &'a BagsByRow,
        gradients: Gradients<'a>,
        blocks: Blocks,
    ) -> TableBags<'a> {
        let (fields, columns) = (&self.columns.of_fields[number], self.columns.count);
        TableBags { bags, gradients, fields, columns, blocks }
    }

    /// Adds the state that a resumed run needs besides rows to a checkpoint's dense part, as
    /// sections of a rank. Sections of all ranks, joined in their order, equal a single rank's.
    ///
    /// # Panics
    /// If called within a step.
    pub fn save(&self, dense: &mut Dense, of: RankOf) {
        assert!(!self.is_open, "a model is saved between two steps");
        self.stale.save(dense);
        let shards = shards_of(of.rank, of.ranks);
        let admissions = self.admissions.iter().flatten();
        admissions.for_each(|admissions| admissions.save(dense, shards.clone()));
    }

    /// Restores the state of a rank from a checkpoint of all ranks after `steps` steps.
    ///
    /// # Errors
    /// Describes what doesn't match these tables.
    pub fn load(
        &mut self,
        dense: &Dense,
        steps: u64,
        of: RankOf,
    ) -> std::result::Result<(), String> {
        self.steps = steps;
        self.stale.load(dense, steps, &|key| owner(key, of.ranks) == of.rank)?;
        self.admissions.iter_mut().flatten().try_for_each(|admissions| admissions.load(dense))
    }
}
