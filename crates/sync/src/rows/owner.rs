//! The owner of rows: answers requests and applies gradients.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use stepwell_base::Key;
use stepwell_base::owner::owner;
use stepwell_fabric::{Error, Fabric, Malformed, Message, Result};

use super::message::{ASK, ROWS, Said, answer};
use super::store::OwnedRows;
use crate::hazard_rules::{Rule, Rules};
use crate::number::Number;
use crate::protocol::{Counts, Work};

/// Allowed staleness of the rows that a rank reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// Rows contain all gradients of all earlier steps, and no others: only under `bsp`.
    Exact,
    /// Rows lack gradients of at most this many of the last updates.
    Bounded(u64),
    /// Rows contain the gradients that have arrived.
    Async,
}

#[derive(Debug)]
pub(super) struct Owner<T> {
    rank: usize,
    staleness: Staleness,
    rules: Rules,
    store: Box<dyn OwnedRows<T>>,
    /// Ranks that compute.
    workers: Range<usize>,
    /// State of each rank.
    of: Vec<Asker<T>>,
    values: Vec<T>,
    /// Keys of the request being checked.
    seen: HashSet<Key>,
    counts: Counts,
}

/// State of a rank, as known to an owner.
#[derive(Clone, Debug)]
struct Asker<T> {
    /// The rank's clock; the maximum once the rank is through.
    clock: u64,
    /// Keys that the rank last asked for.
    keys: Vec<Key>,
    /// Whether the rank waits for the rows of `keys`.
    waits: bool,
    /// Clock at which the rank read the rows of a gradient that has not arrived.
    reads: Option<u64>,
    /// The rank's gradient, while it waits for the gradients of other ranks.
    pushed: Option<Vec<T>>,
    /// Buffer for the next gradient.
    spare: Vec<T>,
    through: bool,
}

impl<T: Number> Owner<T> {
    pub(super) fn new(
        fabric: &Fabric,
        workers: Range<usize>,
        staleness: Staleness,
        rules: Rules,
        store: Box<dyn OwnedRows<T>>,
    ) -> Self {
        let asker = |rank| Asker {
            // Servers read nothing.
            clock: if workers.contains(&rank) { 0 } else { u64::MAX },
            keys: Vec::new(),
            waits: false,
            reads: None,
            pushed: None,
            spare: Vec::new(),
            through: false,
        };
        Self {
            rank: fabric.rank(),
            staleness,
            rules,
            store,
            of: (0..fabric.size()).map(asker).collect(),
            workers,
            values: Vec::new(),
            seen: HashSet::new(),
            counts: Counts::default(),
        }
    }

    /// Whether the clock of `rank` affects staleness.
    pub(super) fn hears_clock(&self, rank: usize) -> bool {
        self.workers.contains(&rank) && self.staleness != Staleness::Exact
    }

    pub(super) fn all_are_through(&self) -> bool {
        self.of.iter().all(|asker| asker.through)
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Reads messages, and answers ranks that need not wait.
    pub(super) fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        let mut work = Work::NONE;
        for from in 0..self.of.len() {
            while let Some(message) = fabric.receive(from, ASK)? {
                work = work.and(self.hear(from, &message)?);
                fabric.keep(message);
            }
        }
        for to in 0..self.of.len() {
            if self.of[to].waits && self.may_read(to) {
                work = work.and(self.answer(fabric, to)?);
            }
        }
        Ok(work)
    }

    fn hear(&mut self, from: usize, message: &Message) -> Result<Work> {
        let wrong = |why| Err(Error::malformed(from, Malformed::Wrong(why)));
        let (ranks, works) = (self.of.len(), self.workers.contains(&from));
        let asker = &mut self.of[from];
        if asker.through {
            return wrong("it comes after the rank's last message");
        }
        let busy = asker.waits || asker.reads.is_some();
        match Said::<T>::read(from, message)? {
            Said::Pull(..) | Said::Clock(_) if busy || !works => {
                return wrong("it asks for rows while it has others, or it is a server");
            }
            Said::Pull(clock, _) | Said::Clock(clock)
                if clock < asker.clock || clock == u64::MAX =>
            {
                return wrong("its clock goes back");
            }
            Said::Pull(clock, keys) => {
                asker.keys.clear();
                asker.keys.extend(keys.iter().copied().map(Key));
                (asker.clock, asker.waits) = (clock, true);
                if asker.keys.iter().any(|key| owner(*key, ranks) != self.rank) {
                    return wrong("it asks for rows of another owner");
                }
                self.seen.clear();
                if !asker.keys.iter().all(|key| self.seen.insert(*key)) {
                    return wrong("it asks for a row twice");
                }
            }
            Said::Clock(clock) => asker.clock = clock,
            Said::End if asker.waits => return wrong("it ends before it has its rows"),
            Said::End => (asker.through, asker.clock, asker.reads) = (true, u64::MAX, None),
            Said::Push(gradient) => {
                if asker.reads.is_none() || gradient.len() != asker.keys.len() * self.store.lanes()
                {
                    return wrong("its gradient is not for the rows it has");
                }
                return self.take(from, gradient);
            }
        }
        Ok(Work::STEP)
    }

    /// Takes a gradient of the rows that a rank read.
    fn take(&mut self, from: usize, gradient: &[T]) -> Result<Work> {
        let share = self.share();
        let asker = &mut self.of[from];
        asker.reads = None;
        if self.staleness == Staleness::Exact {
            let mut pushed = std::mem::take(&mut asker.spare);
            pushed.clear();
            pushed.extend_from_slice(gradient);
            asker.pushed = Some(pushed);
            let all = self.workers.clone().all(|rank| self.of[rank].pushed.is_some());
            return if all { self.apply_sum() } else { Ok(Work::copy::<T>(gradient.len())) };
        }
        self.values.clear();
        self.values.extend(gradient.iter().map(|value| *value * share));
        applied(self.rank, self.store.apply(&asker.keys, &self.values))?;
        self.counts.rows_applied += 1;
        Ok(Work::additions::<T>(1, gradient.len()))
    }

    /// Weight of a rank's gradient in the mean of all.
    fn share(&self) -> T {
        T::ONE / T::from_f64(self.workers.len() as f64)
    }

    /// Exact rows (SYNC-I11): one update by all ranks' gradients, added in the order of ranks.
    fn apply_sum(&mut self) -> Result<Work> {
        let lanes = self.store.lanes();
        let (mut places, mut keys) = (HashMap::new(), Vec::<Key>::new());
        self.values.clear();
        let mut added = 0;
        for rank in self.workers.clone() {
            let asker = &mut self.of[rank];
            let Some(pushed) = asker.pushed.take() else {
                unreachable!("all gradients have arrived")
            };
            added += pushed.len();
            for (key, row) in asker.keys.iter().zip(pushed.chunks_exact(lanes)) {
                let place = *places.entry(*key).or_insert_with(|| {
                    keys.push(*key);
                    self.values.resize(keys.len() * lanes, T::ZERO);
                    keys.len() - 1
                });
                let sum = &mut self.values[place * lanes..(place + 1) * lanes];
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += *value);
            }
            asker.spare = pushed;
        }
        let share = self.share();
        self.values.iter_mut().for_each(|value| *value *= share);
        applied(self.rank, self.store.apply(&keys, &self.values))?;
        self.counts.rows_applied += self.workers.len() as u64;
        Ok(Work::additions::<T>(1, added))
    }

    /// Whether a rank's rows may be read now.
    fn may_read(&self, rank: usize) -> bool {
        match self.staleness {
            Staleness::Async => true,
            // The dense sum follows the ranks' pushes, so it holds them back as well.
            Staleness::Exact => self.of[rank].pushed.is_none(),
            Staleness::Bounded(most) => {
                self.age(rank) <= most || !self.rules.hold(Rule::WaitForRows)
            }
        }
    }

    /// How far a rank's clock is ahead of the earliest clock at which another rank read, or may yet
    /// read, rows for a gradient that has not arrived.
    fn age(&self, rank: usize) -> u64 {
        let others = self.of.iter().enumerate().filter(|(other, _)| *other != rank);
        let clocks = others.map(|(_, other)| other.reads.unwrap_or(other.clock));
        self.of[rank].clock.saturating_sub(clocks.min().unwrap_or(u64::MAX))
    }

    fn answer(&mut self, fabric: &Fabric, to: usize) -> Result<Work> {
        if self.staleness != Staleness::Exact {
            self.counts.staleness_max = self.counts.staleness_max.max(self.age(to));
        }
        let asker = &mut self.of[to];
        (asker.waits, asker.reads) = (false, Some(asker.clock));
        self.values.clear();
        applied(self.rank, self.store.read(&asker.keys, &mut self.values))?;
        let message = answer(fabric, self.of[to].clock, &self.values);
        fabric.send(to, ROWS, message)?;
        Ok(Work::copy::<T>(self.values.len()))
    }
}

/// Turns a row error into an error of rank `rank`.
fn applied(rank: usize, outcome: std::result::Result<(), String>) -> Result<()> {
    outcome.map_err(|why| Error::Failed { rank, why })
}
