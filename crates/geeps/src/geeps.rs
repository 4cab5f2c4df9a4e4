//! The application's interface: the calls of the paper's table 1.

use std::sync::Arc;
use std::task::Poll;

use stepwell_base::clock::Clock;
use stepwell_base::stage::BoxedStage;
use stepwell_base::{Key, TableId};
use stepwell_fabric::Fabric;

use crate::access::{Access, Held, Request};
use crate::allocator::serve_at_once;
use crate::cache::Cache;
use crate::hazard_rules::Rule;
use crate::layout::{Index, Rows};
use crate::machine::{MACHINES, machines};
use crate::memory::{Memory, bytes_counted};
use crate::operation::{Acquire, Fetch, LocalId, Save, What};
use crate::pool::Pool;
use crate::request_line::{Line, Served};
use crate::sequence::{Operation, Sequence};
use crate::settings::{LocalSettings, Settings, Staleness};
use crate::state::{Local, Reclaim, Shared, State};
use crate::statistics::Statistics;
use crate::{Error, Result};

/// A rank's parameter server, as seen by the application. It belongs to one thread, which owns its
/// loop; the machines returned with it move all data.
#[derive(Debug)]
pub struct Geeps {
    pub(crate) shared: Arc<Shared>,
}

/// The rows of a table in this rank's shard, with their keys.
pub type ShardRows = Vec<(Key, Vec<f32>)>;

fn local(settings: &LocalSettings, memory: &Memory) -> Result<Local> {
    let LocalSettings { name, row_floats, keys } = settings;
    let rows = Rows::new(name, *row_floats, keys.clone())?;
    let whole = Index::new(name, &rows, keys)?;
    let store = memory.swap(rows.floats())?;
    Ok(Local { name: name.clone(), rows, whole, store, is_out: false, is_held: false })
}

impl Geeps {
    /// Creates one end of a parameter server, and the machines to poll until all are done: by
    /// threads ([`crate::Running`]), or by a scheduler. All ranks of `fabric` do this, with the
    /// same tables.
    ///
    /// # Errors
    /// If settings are invalid, or a device refuses.
    pub fn new(
        settings: &Settings,
        fabric: Fabric,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Vec<BoxedStage<Error>>)> {
        settings.check()?;
        let memory = Memory::new(settings)?;
        let tables = 0..settings.tables.len();
        let caches = tables.map(|number| Cache::begin(settings, number, fabric.size()));
        let caches: Vec<Cache> = caches.collect::<Result<_>>()?;
        let layouts = caches.iter().map(|cache| Arc::clone(&cache.layout)).collect();
        let locals = settings.locals.iter().map(|settings| local(settings, &memory));
        let state = State {
            caches,
            locals: locals.collect::<Result<_>>()?,
            memory,
            pool: Pool::new(settings.budget_bytes),
            pinned_bytes: 0,
            line: Line::default(),
            sequence: Sequence::default(),
            gathering: None,
            plan: None,
            placement: None,
            reclaims: std::collections::VecDeque::new(),
            lowered: std::collections::VecDeque::new(),
            held: 0,
            taken_bytes: 0,
            statistics: Statistics::default(),
            is_closing: false,
            is_deaf: false,
            done: 0,
            shard: None,
            failed: None,
        };
        let shared = Shared::new(settings, state, fabric, clock, layouts);
        let machines = machines(&shared);
        Ok((Self { shared }, machines))
    }

    /// Requests a buffer with the rows of `keys`, no older than `staleness` allows.
    ///
    /// # Errors
    /// If there are no such rows, or the server failed.
    pub fn read(&self, table: TableId, keys: &[Key], staleness: Staleness) -> Result<Request> {
        self.acquire(What::Read(table.0 as usize, staleness), keys)
    }

    /// Gives back a buffer of [`Geeps::read`].
    ///
    /// # Errors
    /// If the buffer is of another call, or the server failed.
    pub fn post_read(&self, access: Access) -> Result<()> {
        let is_read = matches!(access.what(), What::Read(..));
        self.release("post_read", is_read, access, |_, served| Reclaim::Buffer(served.piece))
    }

    /// Requests a buffer of zeros for updates of the rows of `keys`.
    ///
    /// # Errors
    /// As for [`Geeps::read`].
    pub fn pre_update(&self, table: TableId, keys: &[Key]) -> Result<Request> {
        self.acquire(What::PreUpdate(table.0 as usize), keys)
    }

    /// Gives back a buffer of [`Geeps::pre_update`] and adds its values to the rows.
    ///
    /// # Errors
    /// If the buffer is of another call, or the server failed.
    pub fn update(&self, access: Access) -> Result<()> {
        let is_update = matches!(access.what(), What::PreUpdate(_));
        if let (What::PreUpdate(table), false) = (access.what(), access.is_virtual()) {
            self.shared.lock().caches[table].is_updated = true;
        }
        let reclaim = |acquire, served: Served| Reclaim::Update(acquire, served.piece);
        self.release("update", is_update, access, reclaim)
    }

    /// Requests local data, or a buffer for it.
    ///
    /// # Errors
    /// As for [`Geeps::read`], and if the application holds it.
    pub fn local_access(&self, local: LocalId, keys: &[Key], fetch: Fetch) -> Result<Request> {
        self.acquire(What::Local(local.0 as usize, fetch), keys)
    }

    /// Gives back a buffer of [`Geeps::local_access`].
    ///
    /// # Errors
    /// If the buffer is of another call, or the server failed.
    pub fn post_local_access(&self, access: Access, save: Save) -> Result<()> {
        let is_local = matches!(access.what(), What::Local(..));
        let bytes = bytes_counted(access.floats());
        self.release("post_local_access", is_local, access, |acquire, served| {
            let is_avoided = save == Save::NoSave && !served.is_lent;
            let avoided = if is_avoided { bytes } else { 0 };
            Given { reclaim: Reclaim::Local(acquire, served, save), avoided }
        })
    }

    /// Commits the updates of one table so far, and begins its next clock.
    ///
    /// # Errors
    /// If the table is too far ahead of its shards, a read of it waits, or the server failed.
    pub fn table_clock(&self, table: TableId) -> Result<()> {
        let state = &mut *self.shared.lock();
        state.check()?;
        let number = table.0 as usize;
        self.known(number, state.caches.len())?;
        if let Some(gathered) = &mut state.gathering {
            gathered.push(Operation::Clock(number));
            return Ok(());
        }
        let cache = &mut state.caches[number];
        if cache.ahead() >= self.shared.clocks_ahead {
            let (table, clocks) = (cache.layout.name.clone(), cache.ahead());
            return Err(Error::Ahead { table, clocks });
        }
        if state.line.reads(number) {
            // Whether the read sees this clock would depend on timing.
            let why = format!("a read of '{}' is pending: take it first", cache.layout.name);
            return Err(Error::call("table_clock", why));
        }
        cache.clock += 1;
        cache.is_updated = false;
        if self.shared.rules.hold(Rule::UpdatesBeforeClock) {
            state.reclaims.push_back(Reclaim::Commit(number));
        } else {
            cache.commit();
        }
        self.shared.events.notify();
        Ok(())
    }

    /// Statistics since the start.
    pub fn statistics(&self) -> Statistics {
        let state = self.shared.lock();
        let [bytes_up, bytes_down] = state.memory.copied();
        Statistics { bytes_up, bytes_down, ..state.statistics }
    }

    /// The data age of a table in this rank's cache.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn data_age(&self, table: TableId) -> Result<u64> {
        let state = self.shared.lock();
        self.known(table.0 as usize, state.caches.len())?;
        Ok(state.caches[table.0 as usize].age())
    }

    /// Fails the application, and with it all ranks.
    pub fn fail(&self, why: &str) {
        self.shared.fail(&Error::call("fail", why));
    }

    /// Declares that the application requests nothing more: its commits are sent, and machines end
    /// when all ranks have closed.
    ///
    /// # Errors
    /// If buffers are held, or updates were not committed.
    pub fn close(&self) -> Result<()> {
        let state = &mut *self.shared.lock();
        state.check()?;
        if state.held > 0 {
            let why = format!("{} buffers are held: return them first", state.held);
            return Err(Error::call("close", why));
        }
        if let Some(cache) = state.caches.iter().find(|cache| cache.is_updated) {
            let name = &cache.layout.name;
            let why = format!("updates of '{name}' were not committed: clock the table first");
            return Err(Error::call("close", why));
        }
        state.is_closing = true;
        self.shared.events.notify();
        Ok(())
    }

    /// The rows of this rank's shard, by table, once all ranks have closed.
    ///
    /// # Errors
    /// If the server failed, or was not closed.
    pub fn poll_closed(&self) -> Result<Poll<Vec<ShardRows>>> {
        let state = &mut *self.shared.lock();
        state.check()?;
        if !state.is_closing {
            return Err(Error::call("poll_closed", "it was not closed"));
        }
        if state.done < MACHINES {
            return Ok(Poll::Pending);
        }
        let rank = self.shared.fabric.rank();
        let Some(shard) = state.shard.take() else {
            return Err(Error::call("poll_closed", "the rows were already taken"));
        };
        let rows = self.shared.layouts.iter().zip(shard).map(|(layout, values)| {
            let keys = layout.rows.keys[layout.parts[rank].clone()].iter();
            let rows = values.chunks_exact(layout.rows.row_floats);
            keys.zip(rows).map(|(key, row)| (*key, row.to_vec())).collect()
        });
        Ok(Poll::Ready(rows.collect()))
    }

    fn known(&self, number: usize, count: usize) -> Result<()> {
        if number < count { Ok(()) } else { Err(Error::NoTable { number, count }) }
    }

    fn acquire(&self, what: What, keys: &[Key]) -> Result<Request> {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        state.check()?;
        match what {
            What::Read(table, _) | What::PreUpdate(table) => {
                self.known(table, state.caches.len())?;
            }
            What::Local(local, _) => self.known(local, state.locals.len())?,
        }
        if keys.is_empty() {
            let name = state.rows(what).0.to_owned();
            return Err(Error::call("access", format!("no keys of '{name}' were given")));
        }
        if state.is_closing {
            return Err(Error::call("access", "the parameter server was closed"));
        }
        if state.gathering.is_some() {
            let index = state.index(what, keys, true)?;
            let acquire = Acquire { what, index };
            let gathered = state.gathering.get_or_insert_default();
            gathered.push(Operation::Acquire(acquire.clone()));
            return Ok(Request::recorded(&self.shared, acquire, gathered.len() - 1));
        }
        if let What::Local(local, _) = what {
            let local = &mut state.locals[local];
            if std::mem::replace(&mut local.is_held, true) {
                return Err(Error::Twice(local.name.clone()));
            }
        }
        let request = self.ask(state, what, keys);
        let served = match &request {
            Ok(_) => {
                state.held += 1;
                serve_at_once(&self.shared, state)
            }
            Err(_) => {
                if let What::Local(local, _) = what {
                    state.locals[local].is_held = false;
                }
                Ok(())
            }
        };
        // Dropping a request takes the lock.
        drop(guard);
        self.shared.events.notify();
        served.inspect_err(|error| self.shared.fail(error))?;
        request
    }

    /// Adds the application's request to the line.
    fn ask(&self, state: &mut State, what: What, keys: &[Key]) -> Result<Request> {
        let clock = match what {
            What::Read(table, _) | What::PreUpdate(table) => state.caches[table].clock,
            What::Local(..) => 0,
        };
        // Data foreseen for another clock may be too old, or wait too long.
        let is_local = matches!(what, What::Local(..));
        let counts = !is_local && self.shared.rules.hold(Rule::ClockOfForeseen);
        if self.shared.prefetch && state.line.foreseen() == 0 {
            // The allocator has not yet foreseen anything.
            let foreseen = state.sequence.foresee();
            foreseen.into_iter().for_each(|foreseen| state.line.push_foreseen(foreseen));
        }
        if let Some((ticket, acquire)) = state.line.claim(what, keys, counts.then_some(clock)) {
            state.statistics.foreseen += 1;
            return Ok(Request::ticket(&self.shared, acquire, ticket));
        }
        let index = state.index(what, keys, self.shared.indexed)?;
        state.statistics.not_foreseen += 1;
        let from = state.drop_foreseen().unwrap_or(0);
        match state.sequence.find(what, keys, from) {
            Some(place) => {
                let clocks = state.clocks();
                state.sequence.go_to(place + 1, clocks);
            }
            None => state.sequence.stop(),
        }
        let acquire = Acquire { what, index };
        let ticket = state.line.ask(acquire.clone(), clock);
        Ok(Request::ticket(&self.shared, acquire, ticket))
    }

    fn release<R: Into<Given>>(
        &self,
        call: &'static str,
        is_right: bool,
        access: Access,
        reclaim: impl FnOnce(Acquire, Served) -> R,
    ) -> Result<()> {
        if !Arc::ptr_eq(&self.shared, &access.shared) {
            return Err(Error::call(call, "the buffer belongs to another parameter server"));
        }
        if !is_right {
            return Err(Error::call(call, format!("the buffer belongs to {:?}", access.what())));
        }
        access.check_unused(call)?;
        let acquire = access.acquire.clone();
        let held = access.give();
        let state = &mut *self.shared.lock();
        state.check()?;
        match held {
            Some(Held::Virtual(place)) => {
                let gathered = state.gathering.as_mut();
                gathered.into_iter().for_each(|gathered| gathered.push(Operation::Release(place)));
            }
            Some(Held::Served(served)) => {
                state.released(&acquire, &served);
                let Given { reclaim, avoided } = reclaim(acquire, served).into();
                state.statistics.saves_avoided += u64::from(avoided > 0);
                state.statistics.save_bytes_avoided += avoided;
                state.give_back(reclaim);
                self.shared.events.notify();
            }
            None => {}
        }
        Ok(())
    }
}

/// A return, and how many of its bytes need not be saved.
struct Given {
    reclaim: Reclaim,
    avoided: u64,
}

impl From<Reclaim> for Given {
    fn from(reclaim: Reclaim) -> Self {
        Self { reclaim, avoided: 0 }
    }
}
