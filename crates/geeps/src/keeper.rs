//! The keeper: a shard of all tables, its vector clocks, and its messages to caches.
//!
//! ```text
//!   push of worker w, clock c ──► waiting[w] ──► applied ──► clocks[w] = c + 1 ──► snapshots
//! ```
//!
//! - **By clock.** Updates wait until every worker that has not ended has sent its updates of the
//!   same clock; then they are applied in order of ranks, and the data age grows by one. So a sum
//!   has one order, whatever the order of arrival, and no snapshot has a part of a clock.
//! - **On arrival.** Updates are applied as they arrive; the age is still the least clock.
//! - **Snapshots.** All workers get one when the age grows; on arrival, the pushing worker always
//!   gets one, which acknowledges its updates. A worker gets at most [`CREDIT`] before it
//!   acknowledges one; later changes are in the next, newer one.
//! - **End.** A worker that has ended delays no other. When all have, and their updates are
//!   applied, the keeper announces that to all; when all keepers have, it is done: no messages are
//!   in flight, and another parameter server may have the same tags.
//! - **Invariants.** A push has the clock after the clock of the previous push, and the digest of
//!   this rank's table; otherwise, ranks differ, and all end.
//! - **Bounds.** `clocks_ahead` pushes of each worker and table wait.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::stage::{Progress, Stage};
use stepwell_fabric::{Malformed, Message};

use crate::cache::Cache;
use crate::clocks::VectorClock;
use crate::hazard_rules::Rule;
use crate::layout::Layout;
use crate::settings::Applies;
use crate::state::Shared;
use crate::wire::{About, Push, Snapshot, ended, tag};
use crate::{Error, Result};

/// The most snapshots of a table on their way to a worker.
pub(crate) const CREDIT: u32 = 2;

/// This rank's part of a table.
#[derive(Debug)]
struct Part {
    layout: Arc<Layout>,
    /// // (rows of the part, row_floats)
    values: Vec<f32>,
    clocks: VectorClock,
    /// Pushes that were not applied. // (ranks)
    waiting: Vec<VecDeque<Message>>,
    /// Snapshots that a worker may be sent. // (ranks)
    credit: Vec<u32>,
    /// Whether a worker is owed a snapshot. // (ranks)
    owed: Vec<bool>,
}

#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    parts: Vec<Part>,
    /// Ranks that push nothing more. // (ranks)
    ended: Vec<bool>,
    /// Whether this rank has announced that all ranks have ended, and that it sends nothing more.
    is_told: bool,
    /// Ranks that have announced the same. // (ranks)
    over: Vec<bool>,
}

impl Keeper {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let (rank, ranks) = (shared.fabric.rank(), shared.fabric.size());
        let part = |cache: &Cache| Part {
            values: cache.initial(cache.layout.parts[rank].clone()),
            layout: Arc::clone(&cache.layout),
            clocks: VectorClock::new(ranks),
            waiting: vec![VecDeque::new(); ranks],
            credit: vec![CREDIT; ranks],
            owed: vec![false; ranks],
        };
        let parts = shared.lock().caches.iter().map(part).collect();
        let (ended, over) = (vec![false; ranks], vec![false; ranks]);
        Self { shared: Arc::clone(shared), parts, ended, is_told: false, over }
    }

    /// Receives the messages of one rank.
    fn receive(&mut self, from: usize) -> Result<bool> {
        let (fabric, first) = (&self.shared.fabric, self.shared.first_tag);
        // Read first: then earlier pushes have arrived.
        let ends = match fabric.receive(from, ended(first, self.parts.len()))? {
            Some(message) => {
                fabric.keep(message);
                true
            }
            None => false,
        };
        let mut moved = ends;
        for (table, part) in self.parts.iter_mut().enumerate() {
            while let Some(message) = fabric.receive(from, tag(first, table, About::Push))? {
                part.check(from, &message)?;
                part.waiting[from].push_back(message);
                moved = true;
            }
            while let Some(message) = fabric.receive(from, tag(first, table, About::Credit))? {
                part.credit[from] += 1;
                if part.credit[from] > CREDIT {
                    let wrong = Malformed::Wrong("it returns a credit that it does not have");
                    return Err(Error::malformed(from, wrong));
                }
                message.reader().end().map_err(|why| Error::malformed(from, why))?;
                fabric.keep(message);
                moved = true;
            }
        }
        self.ended[from] |= ends;
        Ok(moved)
    }

    /// Whether no keeper sends anything more: each announces that once it has received everything.
    fn is_over(&mut self) -> Result<bool> {
        let Shared { fabric, first_tag, .. } = &*self.shared;
        let tag = ended(*first_tag, self.parts.len());
        let is_at_rest = |part: &Part| part.waiting.iter().all(VecDeque::is_empty);
        if !self.ended.iter().all(|ended| *ended) || !self.parts.iter().all(is_at_rest) {
            return Ok(false);
        }
        if !std::mem::replace(&mut self.is_told, true) {
            (0..fabric.size()).try_for_each(|to| fabric.send(to, tag, fabric.message()))?;
        }
        for from in 0..fabric.size() {
            if !self.over[from]
                && let Some(message) = fabric.receive(from, tag)?
            {
                fabric.keep(message);
                self.over[from] = true;
            }
        }
        Ok(self.over.iter().all(|over| *over))
    }

    /// Takes messages to a worker that had ended, so that the next user of these tags finds none. A
    /// rank that has left the fabric has sent nothing more.
    fn drain(&self) -> Result<()> {
        let (fabric, first) = (&self.shared.fabric, self.shared.first_tag);
        for (table, from) in (0..self.parts.len())
            .flat_map(|table| (0..fabric.size()).map(move |from| (table, from)))
        {
            for about in [About::Snapshot, About::Credit] {
                loop {
                    match fabric.receive(from, tag(first, table, about)) {
                        Ok(Some(message)) => fabric.keep(message),
                        Ok(None) | Err(stepwell_fabric::Error::Ended { .. }) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends owed snapshots, as far as there is credit.
    fn send(&mut self, table: usize) -> Result<bool> {
        let (fabric, first) = (&self.shared.fabric, self.shared.first_tag);
        let part = &mut self.parts[table];
        let mut sent = false;
        for worker in 0..fabric.size() {
            // Workers that have ended do not receive.
            if self.ended[worker] || !part.owed[worker] || part.credit[worker] == 0 {
                continue;
            }
            part.owed[worker] = false;
            part.credit[worker] -= 1;
            let mut message = fabric.message_of(32 + size_of_val(&*part.values));
            let (age, own) = (part.clocks.age(), part.clocks.of(worker));
            Snapshot { age, own, values: &part.values }.put(&mut message);
            fabric.send(worker, tag(first, table, About::Snapshot), message)?;
            sent = true;
        }
        Ok(sent)
    }
}

impl Part {
    /// Checks that a push is the expected one.
    fn check(&self, from: usize, message: &Message) -> Result<()> {
        let push = self.read(from, message)?;
        if push.digest != self.layout.digest {
            return Err(Error::Unlike { rank: from, table: self.layout.name.clone() });
        }
        if push.clock != self.clocks.of(from) + self.waiting[from].len() as u64 {
            return Err(Error::malformed(from, Malformed::Wrong("its clock is not the next one")));
        }
        Ok(())
    }

    fn read<'a>(&self, from: usize, message: &'a Message) -> Result<Push<'a>> {
        let rows = self.values.len() / self.layout.rows.row_floats;
        let push = Push::read(message, rows, self.layout.rows.row_floats);
        push.map_err(|why| Error::malformed(from, why))
    }

    /// Applies the oldest push of a worker; returns whether the age grew.
    fn apply(&mut self, worker: usize, shared: &Shared) -> Result<bool> {
        let Some(message) = self.waiting[worker].pop_front() else { return Ok(false) };
        let row_floats = self.layout.rows.row_floats;
        let rows = self.values.len() / row_floats;
        let push = Push::read(&message, rows, row_floats);
        push.map_err(|why| Error::malformed(worker, why))?.apply(&mut self.values, row_floats);
        shared.fabric.keep(message);
        self.owed[worker] |= self.layout.applies == Applies::OnArrival;
        Ok(self.clocks.tick(worker))
    }

    /// Applies what may be applied now; returns whether anything was.
    fn advance(&mut self, ended: &[bool], shared: &Shared) -> Result<bool> {
        let workers = self.waiting.len();
        let waits = shared.rules.hold(Rule::WaitForAllWorkers);
        let mut moved = false;
        loop {
            let is_here = |worker: &usize| !self.waiting[*worker].is_empty();
            let is_over = |worker: &usize| ended[*worker];
            let mut here: Vec<usize> = (0..workers).filter(is_here).collect();
            let all = (0..workers).all(|worker| is_here(&worker) || is_over(&worker));
            if self.layout.applies == Applies::ByClock && waits && !all || here.is_empty() {
                break;
            }
            if !shared.rules.hold(Rule::ApplyInOrderOfRanks) {
                here.reverse();
            }
            let mut grew = false;
            for worker in here {
                grew |= self.apply(worker, shared)?;
            }
            if grew {
                self.owed.fill(true);
            }
            moved = true;
        }
        Ok(moved)
    }

    /// A worker that has ended and has no pushes left delays no other.
    fn let_go(&mut self, ended: &[bool]) {
        let age = self.clocks.age();
        for worker in (0..ended.len()).filter(|worker| ended[*worker]) {
            if self.waiting[worker].is_empty() {
                self.clocks.set(worker, u64::MAX);
            }
        }
        if self.clocks.age() > age {
            self.owed.fill(true);
        }
    }
}

impl Stage for Keeper {
    type Error = Error;

    fn name(&self) -> &'static str {
        "keeper"
    }

    fn poll(&mut self) -> Result<Progress> {
        let mut moved = false;
        for from in 0..self.ended.len() {
            if !self.ended[from] {
                moved |= self.receive(from)?;
            }
        }
        for table in 0..self.parts.len() {
            moved |= self.parts[table].advance(&self.ended, &self.shared)?;
            self.parts[table].let_go(&self.ended);
            moved |= self.send(table)?;
        }
        if self.is_over()? {
            self.drain()?;
            let values = self.parts.iter_mut().map(|part| std::mem::take(&mut part.values));
            self.shared.lock().shard = Some(values.collect());
            return Ok(Progress::Done);
        }
        if moved {
            // A rank's messages to itself wake no thread.
            self.shared.events.notify();
        }
        Ok(if moved { Progress::Progressed } else { Progress::Blocked })
    }

    fn gives_way(&self) -> bool {
        false
    }
}
