//! State that the application and the machines of a rank share.
//!
//! - **Lock.** One for everything, and one count of events: the application has one thread, and
//!   data moved under the lock is moved in one pass. Source: Cui et al., GeePS (2016), section 4.2,
//!   "Locking". Every change that others wait for notifies the events.
//! - **Who.** Line and pool: allocator, reclaimer, and the application's requests. Values of
//!   caches: puller writes, allocator reads. Updates: reclaimer sums, pusher takes. Local data:
//!   allocator and reclaimer. Rows of shards are not here: only the keeper has them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::Key;
use stepwell_base::clock::Clock;
use stepwell_base::queue::Events;
use stepwell_fabric::Fabric;

use crate::cache::Cache;
use crate::hazard_rules::Rules;
use crate::layout::{Index, Layout, Rows};
use crate::memory::{Memory, Piece, Staged, Store};
use crate::operation::{Acquire, Save, What};
use crate::placement::Placement;
use crate::pool::Pool;
use crate::request_line::{Line, Served};
use crate::sequence::{Operation, Sequence};
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::{Error, Result};

/// Local data.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) rows: Rows,
    /// An index of all of it.
    pub(crate) whole: Index,
    pub(crate) store: Store,
    /// Whether a buffer has, or may have, values that will be saved here.
    pub(crate) is_out: bool,
    /// Whether the application requested it and has not returned it.
    pub(crate) is_held: bool,
}

/// A return of the application.
#[derive(Debug)]
pub(crate) enum Reclaim {
    /// A buffer whose content is not needed.
    Buffer(Piece),
    Update(Acquire, Piece),
    Local(Acquire, Served, Save),
    /// Commits this table's updates so far to a clock.
    Commit(usize),
}

/// Updates being copied from a device.
#[derive(Debug)]
pub(crate) struct Lowered {
    pub(crate) table: usize,
    pub(crate) index: Index,
    pub(crate) staged: Staged,
}

/// The plan made by a virtual iteration.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) sequence: Sequence,
    pub(crate) placement: Placement,
    /// Bytes of indexes on the device.
    pub(crate) index_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) caches: Vec<Cache>,
    pub(crate) locals: Vec<Local>,
    pub(crate) memory: Memory,
    pub(crate) pool: Pool,
    /// Bytes of pinned data and of indexes.
    pub(crate) pinned_bytes: u64,
    pub(crate) line: Line,
    pub(crate) sequence: Sequence,
    /// The operations recorded so far in a virtual iteration.
    pub(crate) gathering: Option<Vec<Operation>>,
    /// The plan to install once nothing is in use.
    pub(crate) plan: Option<Plan>,
    pub(crate) placement: Option<Placement>,
    pub(crate) reclaims: VecDeque<Reclaim>,
    pub(crate) lowered: VecDeque<Lowered>,
    /// Accesses that were requested and not returned.
    pub(crate) held: usize,
    /// Bytes of access buffers that the application took.
    pub(crate) taken_bytes: u64,
    pub(crate) statistics: Statistics,
    /// Whether the application requests nothing more.
    pub(crate) is_closing: bool,
    /// Whether the puller takes and acknowledges nothing more.
    pub(crate) is_deaf: bool,
    /// Number of machines that have ended.
    pub(crate) done: usize,
    /// The shard's rows by table, once the keeper has ended.
    pub(crate) shard: Option<Vec<Vec<f32>>>,
    pub(crate) failed: Option<Error>,
}

impl State {
    /// Checks that the server has not failed.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Name and rows of the requested table or local data.
    pub(crate) fn rows(&self, what: What) -> (&str, &Rows) {
        match what {
            What::Read(table, _) | What::PreUpdate(table) => {
                let layout = &self.caches[table].layout;
                (&layout.name, &layout.rows)
            }
            What::Local(local, _) => (&self.locals[local].name, &self.locals[local].rows),
        }
    }

    /// The index of these keys: the sequence's, or a new one.
    pub(crate) fn index(&self, what: What, keys: &[Key], indexed: bool) -> Result<Index> {
        let known = match &self.gathering {
            Some(operations) => crate::sequence::index(operations, what, keys),
            None => self.sequence.index(what, keys),
        };
        let (name, rows) = self.rows(what);
        known.filter(|_| indexed).map_or_else(|| Index::new(name, rows, keys), Ok)
    }

    /// Clocks of all tables.
    pub(crate) fn clocks(&self) -> Vec<u64> {
        self.caches.iter().map(|cache| cache.clock).collect()
    }

    /// Gives back all that was foreseen and not requested; returns the place of the first.
    pub(crate) fn drop_foreseen(&mut self) -> Option<usize> {
        let dropped = self.line.drop_foreseen();
        let first = dropped.front().and_then(|waiting| waiting.place);
        for waiting in dropped {
            if let Some(Ok(served)) = waiting.outcome {
                self.undo(&waiting.acquire, served);
            }
        }
        first
    }

    /// Gives back a buffer that was not written to.
    pub(crate) fn undo(&mut self, acquire: &Acquire, served: Served) {
        if let Some(local) = acquire.local() {
            self.locals[local].is_out = false;
            if served.is_lent {
                self.locals[local].store = Store::Placed(served.piece);
                return;
            }
        }
        self.pool.give(served.piece);
    }

    /// Gives something back: to the reclaimer, unless that takes neither a copy nor a sum and waits
    /// for nothing.
    pub(crate) fn give_back(&mut self, reclaim: Reclaim) {
        match reclaim {
            Reclaim::Buffer(piece) => self.pool.give(piece),
            Reclaim::Local(acquire, served, _) if served.is_lent => self.undo(&acquire, served),
            Reclaim::Local(acquire, served, Save::NoSave) => self.undo(&acquire, served),
            other => self.reclaims.push_back(other),
        }
    }

    /// Records the most memory in use.
    pub(crate) fn note_peak(&mut self) {
        let bytes = self.pinned_bytes + self.pool.peak();
        self.statistics.peak_bytes = self.statistics.peak_bytes.max(bytes);
    }
}

/// State of a rank.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) events: Arc<Events>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) fabric: Fabric,
    pub(crate) layouts: Vec<Arc<Layout>>,
    pub(crate) first_tag: u16,
    pub(crate) clocks_ahead: u64,
    pub(crate) indexed: bool,
    pub(crate) pins: bool,
    pub(crate) hands_over: bool,
    pub(crate) prefetch: bool,
    pub(crate) budget_bytes: u64,
    pub(crate) rules: Rules,
}

impl Shared {
    pub(crate) fn new(
        settings: &Settings,
        state: State,
        fabric: Fabric,
        clock: Arc<dyn Clock>,
        layouts: Vec<Arc<Layout>>,
    ) -> Arc<Self> {
        let events = Events::new();
        fabric.wakes(&events);
        Arc::new(Self {
            state: Mutex::new(state),
            events,
            clock,
            fabric,
            layouts,
            first_tag: settings.first_tag,
            clocks_ahead: settings.clocks_ahead,
            indexed: settings.indexed,
            pins: settings.pins,
            hands_over: settings.hands_over,
            prefetch: settings.prefetch,
            budget_bytes: settings.budget_bytes,
            rules: settings.rules,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails the server on all ranks for this reason, unless there was an earlier one.
    pub(crate) fn fail(&self, error: &Error) {
        let is_first = {
            let failed = &mut self.lock().failed;
            let is_first = failed.is_none();
            failed.get_or_insert_with(|| error.clone());
            is_first
        };
        let is_told = matches!(error, Error::Fabric(stepwell_fabric::Error::Failed { .. }));
        if is_first && !is_told {
            self.fabric.fail(&error.to_string());
        }
        self.events.stop();
    }

    /// Reports why the server failed, if it did.
    pub(crate) fn check(&self) -> Result<()> {
        self.lock().check()?;
        if self.events.is_stopped() {
            return Err(Error::Panicked("a machine of the parameter server"));
        }
        Ok(())
    }
}
