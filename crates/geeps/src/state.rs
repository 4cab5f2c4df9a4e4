//! What the application and the machines of a rank share.
//!
//! - **Lock.** One for all of it, and one count of events: the application has one thread, and what
//!   is moved under the lock is moved in one pass. Source: Cui et al., GeePS (2016), section 4.2,
//!   "Locking". Whoever changes something that others wait for notifies the events.
//! - **Who.** Line and pool: allocator, reclaimer, the application as it asks. Values of caches:
//!   puller writes, allocator reads. Updates: reclaimer sums, pusher takes. Local data: allocator
//!   and reclaimer. Rows of shards: none of this, the keeper alone has them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::Key;
use stepwell_base::clock::Clock;
use stepwell_base::queue::Events;
use stepwell_fabric::Fabric;

use crate::cache::Cache;
use crate::layout::{Index, Layout, Rows};
use crate::line::{Line, Served};
use crate::memory::{Memory, Piece, Staged, Store};
use crate::operation::{Acquire, Save, What};
use crate::placement::Placement;
use crate::pool::Pool;
use crate::sequence::{Operation, Sequence};
use crate::{Error, Result, Rules, Statistics};

/// Local data.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) rows: Rows,
    /// All of it.
    pub(crate) whole: Index,
    pub(crate) store: Store,
    /// Whether a buffer has what will be saved here, or may.
    pub(crate) is_out: bool,
    /// Whether the application asked for it and did not give it back.
    pub(crate) is_held: bool,
}

/// What the application gave back.
#[derive(Debug)]
pub(crate) enum Reclaim {
    /// Nothing in it is wanted.
    Buffer(Piece),
    Update(Acquire, Piece),
    Local(Acquire, Served, Save),
    /// The updates of this table so far are those of a clock.
    Commit(usize),
}

/// Updates on their way from a device.
#[derive(Debug)]
pub(crate) struct Lowered {
    pub(crate) table: usize,
    pub(crate) index: Index,
    pub(crate) staged: Staged,
}

/// What a virtual iteration led to.
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
    /// The operations of a virtual iteration that goes on.
    pub(crate) gathering: Option<Vec<Operation>>,
    /// What is to be installed once all is at rest.
    pub(crate) plan: Option<Plan>,
    pub(crate) placement: Option<Placement>,
    pub(crate) reclaims: VecDeque<Reclaim>,
    pub(crate) lowered: VecDeque<Lowered>,
    /// Accesses that were asked for and not given back.
    pub(crate) held: usize,
    /// Bytes of access buffers that the application took.
    pub(crate) taken_bytes: u64,
    pub(crate) statistics: Statistics,
    /// The application will ask for nothing more.
    pub(crate) is_closing: bool,
    /// The puller takes nothing more, and says of nothing more that it took it.
    pub(crate) is_deaf: bool,
    /// Machines that are done.
    pub(crate) done: usize,
    /// The shard's rows by table, once the keeper is done.
    pub(crate) shard: Option<Vec<Vec<f32>>>,
    pub(crate) failed: Option<Error>,
}

impl State {
    /// Whether anything goes on.
    ///
    /// # Errors
    /// Why nothing does.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// The keys of what is asked for, and its name.
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

    /// Gives back whatever was foreseen and not asked for; the place of the first of it.
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

    /// A buffer that nobody wrote to is given back.
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

    /// Something is given back: to the reclaimer, but for what takes neither a copy nor a sum, nor
    /// waits for anything.
    pub(crate) fn give_back(&mut self, reclaim: Reclaim) {
        match reclaim {
            Reclaim::Buffer(piece) => self.pool.give(piece),
            Reclaim::Local(acquire, served, _) if served.is_lent => self.undo(&acquire, served),
            Reclaim::Local(acquire, served, Save::NoSave) => self.undo(&acquire, served),
            other => self.reclaims.push_back(other),
        }
    }

    /// Notes the most memory in use.
    pub(crate) fn note_peak(&mut self) {
        let bytes = self.pinned_bytes + self.pool.peak();
        self.statistics.peak_bytes = self.statistics.peak_bytes.max(bytes);
    }
}

/// What belongs to a rank.
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
        (settings, state): (&crate::Settings, State),
        (fabric, clock): (Fabric, Arc<dyn Clock>),
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

    /// Nothing goes on on any rank, for this reason, unless there was one before.
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

    /// Why nothing goes on, if that is so.
    pub(crate) fn check(&self) -> Result<()> {
        self.lock().check()?;
        if self.events.is_stopped() {
            return Err(Error::Panicked("a machine of the parameter server"));
        }
        Ok(())
    }
}
