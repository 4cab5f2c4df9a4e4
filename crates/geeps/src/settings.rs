//! Settings of a parameter server: tables, local data, memory, and how far workers may be apart.

use stepwell_base::random::Stream;
use stepwell_base::{ByteCount, Key, TableId};
use stepwell_device::Device;

use crate::hazard_rules::Rules;
use crate::{Error, Result};

/// Default of the most clocks that a worker may be ahead of what shards have answered.
pub const CLOCKS_AHEAD: u64 = 16;
/// The greatest [`Settings::clocks_ahead`]: messages of as many clocks wait at a shard.
pub const CLOCKS_AHEAD_MAX: u64 = 32;
/// Operations foreseen at once.
pub const FORESEEN_MAX: usize = 64;
/// The most tables: each has three message tags.
pub const TABLES_MAX: usize = 16_384;
/// The most floats of a row.
pub const ROW_FLOATS_MAX: usize = 1 << 24;

/// Allowed age of the data that a read returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Staleness {
    /// A worker at clock t sees all updates of all workers up to clock t - 1 minus this number.
    Clocks(u64),
    /// Any age.
    Unbounded,
}

impl Staleness {
    /// Bulk synchronous: every update of earlier clocks is seen.
    pub const BSP: Self = Self::Clocks(0);
}

/// When a shard applies workers' updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// The updates of a clock together, once all workers have committed theirs, in order of ranks:
    /// the bits depend on nothing else.
    ByClock,
    /// As they arrive: fresher, and sums have any order.
    OnArrival,
}

/// Initial values of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// Zeros.
    Zeros,
    /// Uniform in [-range, range), by seed, table and key: [`Stream::of_row`].
    Uniform {
        /// The seed.
        seed: u64,
        /// Half of the width.
        range: f32,
    },
}

impl Initial {
    /// Writes the initial values of row `key` of table number `table`.
    pub fn fill(&self, table: TableId, key: Key, row: &mut [f32]) {
        match *self {
            Self::Zeros => row.fill(0.0),
            Self::Uniform { seed, range } => {
                let mut stream = Stream::of_row(seed, table, key);
                row.iter_mut().for_each(|value| *value = stream.next_symmetric(range));
            }
        }
    }
}

/// A table of parameter data, which all workers share.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSettings {
    /// Name in messages, which also determines the owners of its keys.
    pub name: String,
    /// Floats of a row.
    pub row_floats: usize,
    /// Keys of the rows, without duplicates.
    pub keys: Vec<Key>,
    /// Initial values of the rows.
    pub initial: Initial,
    /// When shards apply updates.
    pub applies: Applies,
}

/// A table of one worker's local data; initially zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalSettings {
    /// Name in messages.
    pub name: String,
    /// Floats of a row.
    pub row_floats: usize,
    /// Keys of the rows, without duplicates. An access of all of them in this order may use the
    /// data in place.
    pub keys: Vec<Key>,
}

/// Memory of the application's buffers.
#[derive(Clone, Debug)]
pub enum Place {
    /// In memory of the host.
    Host,
    /// In memory of a device.
    Device(Device),
}

/// All settings of a parameter server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Parameter data; the number of a table is its place here.
    pub tables: Vec<TableSettings>,
    /// Initial values that replace [`TableSettings::initial`], the same on all ranks: for every
    /// table, or for none. // (tables)(keys, row_floats)
    pub values: Vec<Vec<f32>>,
    /// Local data, numbered likewise.
    pub locals: Vec<LocalSettings>,
    /// Memory of the application's buffers.
    pub place: Place,
    /// Bytes of that memory for pinned data and access buffers together.
    pub budget_bytes: u64,
    /// The most clocks that a worker may be ahead of what shards have answered.
    pub clocks_ahead: u64,
    /// Whether rows are moved in one pass, rather than one by one for comparison.
    pub batched: bool,
    /// Whether recorded indexes are kept, rather than looking up the keys of each access for
    /// comparison.
    pub indexed: bool,
    /// Whether data is pinned if there is room, rather than using the whole budget for access
    /// buffers for comparison.
    pub pins: bool,
    /// Whether a buffer whose local data was saved is reused for that data while it still holds it,
    /// rather than fetching the data again as in the paper.
    pub hands_over: bool,
    /// Whether recorded operations are served ahead of the application.
    pub prefetch: bool,
    /// The first message tag of this server, which uses three for each table, and one more.
    pub first_tag: u16,
    /// The rules that hold.
    pub rules: Rules,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tables: Vec::new(),
            values: Vec::new(),
            locals: Vec::new(),
            place: Place::Host,
            budget_bytes: 1 << 30,
            clocks_ahead: CLOCKS_AHEAD,
            batched: true,
            indexed: true,
            pins: true,
            hands_over: true,
            prefetch: true,
            first_tag: 0,
            rules: Rules::default(),
        }
    }
}

impl Settings {
    /// Checks the settings.
    ///
    /// # Errors
    /// A value that isn't allowed; the message has the allowed ones.
    pub fn check(&self) -> Result<()> {
        let wrong = |text: String| Err(Error::Setting(text));
        // Three tags each, and one more.
        let most = TABLES_MAX.min(usize::from(u16::MAX - self.first_tag) / 3);
        if self.tables.len() > most {
            let count = self.tables.len();
            return wrong(format!("{count} tables are too many: use at most {most}"));
        }
        if !(1..=CLOCKS_AHEAD_MAX).contains(&self.clocks_ahead) {
            let ahead = self.clocks_ahead;
            return wrong(format!("clocks_ahead is {ahead}: give 1 to {CLOCKS_AHEAD_MAX}"));
        }
        if let Place::Device(device) = &self.place {
            let [memory, ..] = device.memory();
            if self.budget_bytes > memory.0 {
                let (name, budget) = (&device.about().name, ByteCount(self.budget_bytes));
                return wrong(format!(
                    "budget_bytes is {budget}, but {name} has {memory}: lower it"
                ));
            }
        }
        let tables = self.tables.iter().map(|table| (&table.name, table.row_floats, &table.keys));
        let locals = self.locals.iter().map(|local| (&local.name, local.row_floats, &local.keys));
        for (name, row_floats, keys) in tables.chain(locals) {
            if !(1..=ROW_FLOATS_MAX).contains(&row_floats) {
                let most = ROW_FLOATS_MAX;
                return wrong(format!(
                    "rows of '{name}' have {row_floats} floats: give 1 to {most}"
                ));
            }
            if keys.is_empty() || u32::try_from(keys.len()).is_err() {
                return wrong(format!("'{name}' has {} keys: give 1 to {}", keys.len(), u32::MAX));
            }
            if keys.len().checked_mul(4 * row_floats).is_none() {
                return wrong(format!(
                    "'{name}' is larger than the address space: give fewer keys"
                ));
            }
        }
        if !self.values.is_empty() && self.values.len() != self.tables.len() {
            let (values, tables) = (self.values.len(), self.tables.len());
            return wrong(format!("values are given for {values} tables, but there are {tables}"));
        }
        for (table, values) in self.tables.iter().zip(&self.values) {
            let (name, floats) = (&table.name, table.keys.len() * table.row_floats);
            if values.len() != floats {
                let count = values.len();
                return wrong(format!("'{name}' has {floats} floats, but {count} initial values"));
            }
        }
        for table in &self.tables {
            if let Initial::Uniform { range, .. } = table.initial
                && !(range.is_finite() && range >= 0.0)
            {
                return wrong(format!(
                    "initial values of '{}' are within +-{range}: give a finite range, at least 0",
                    table.name
                ));
            }
        }
        Ok(())
    }
}
