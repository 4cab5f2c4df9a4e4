//! A rank's requests for rows, and its gradients for their owners.

use stepwell_base::Key;
use stepwell_base::owner::owner;
use stepwell_fabric::{Fabric, Message, Result};

use super::message::{ASK, ROWS, Said, answered, numbers};
use crate::number::Number;

/// The rows that a rank's mini-batches need.
pub trait StepKeys: Send {
    /// Appends the distinct keys of mini-batch number `step`, in the order of their weights among
    /// the parameters; called for one mini-batch after the other.
    fn keys(&mut self, step: u64, keys: &mut Vec<Key>);
}

impl<F: FnMut(u64, &mut Vec<Key>) + Send> StepKeys for F {
    fn keys(&mut self, step: u64, keys: &mut Vec<Key>) {
        self(step, keys);
    }
}

pub(super) struct Puller<T> {
    lanes: usize,
    source: Box<dyn StepKeys>,
    keys: Vec<Key>,
    /// For each owner, the places of its keys.
    places: Vec<Vec<usize>>,
    /// The weights of all keys.
    weights: Vec<T>,
    came: Vec<Option<Message>>,
    /// Number of owners whose answers have not arrived.
    awaited: usize,
    /// Clock of the request.
    clock: u64,
    numbers: Vec<u64>,
    gradient: Vec<T>,
}

impl<T> std::fmt::Debug for Puller<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Puller").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl<T: Number> Puller<T> {
    pub(super) fn new(ranks: usize, lanes: usize, source: Box<dyn StepKeys>) -> Self {
        Self {
            lanes,
            source,
            keys: Vec::new(),
            places: vec![Vec::new(); ranks],
            weights: Vec::new(),
            came: vec![None; ranks],
            awaited: 0,
            clock: 0,
            numbers: Vec::new(),
            gradient: Vec::new(),
        }
    }

    /// Asks all owners for the rows of mini-batch `step`; owners of none receive the clock.
    pub(super) fn pull(&mut self, fabric: &Fabric, step: u64, clock: u64) -> Result<()> {
        self.keys.clear();
        self.source.keys(step, &mut self.keys);
        self.places.iter_mut().for_each(Vec::clear);
        let ranks = self.places.len();
        for (place, key) in self.keys.iter().enumerate() {
            self.places[owner(*key, ranks)].push(place);
        }
        let mut own = Vec::new();
        for to in self.owners(fabric) {
            own.clear();
            own.extend(self.places[to].iter().map(|place| self.keys[*place]));
            numbers(&own, &mut self.numbers);
            let said = Said::<T>::Pull(clock, &self.numbers);
            fabric.send(to, ASK, said.message(fabric))?;
        }
        (self.awaited, self.clock) = (ranks, clock);
        Ok(())
    }

    /// Whether all rows have arrived.
    pub(super) fn poll(&mut self, fabric: &Fabric) -> Result<bool> {
        for (from, came) in self.came.iter_mut().enumerate().filter(|(_, came)| came.is_none()) {
            *came = fabric.receive(from, ROWS)?;
            self.awaited -= usize::from(came.is_some());
        }
        if self.awaited > 0 {
            return Ok(false);
        }
        self.weights.clear();
        self.weights.resize(self.keys.len() * self.lanes, T::ZERO);
        for (from, came) in self.came.iter_mut().enumerate() {
            let Some(message) = came.take() else { unreachable!("all answers have arrived") };
            let places = &self.places[from];
            let count = places.len() * self.lanes;
            let rows = answered::<T>(from, &message, self.clock, count)?;
            for (row, place) in rows.chunks_exact(self.lanes).zip(places) {
                self.weights[place * self.lanes..(place + 1) * self.lanes].copy_from_slice(row);
            }
            fabric.keep(message);
        }
        Ok(true)
    }

    /// The weights of the last requested rows, key by key.
    pub(super) fn weights(&self) -> &[T] {
        &self.weights
    }

    /// Sends owners the gradient of these rows.
    pub(super) fn push(&mut self, fabric: &Fabric, gradient: &[T]) -> Result<()> {
        let lanes = self.lanes;
        for to in self.owners(fabric) {
            self.gradient.clear();
            let places = self.places[to].iter();
            let rows = places.map(|place| &gradient[place * lanes..(place + 1) * lanes]);
            rows.for_each(|row| self.gradient.extend_from_slice(row));
            fabric.send(to, ASK, Said::Push(&self.gradient).message(fabric))?;
        }
        Ok(())
    }

    pub(super) fn say_clock(&self, fabric: &Fabric, clock: u64) -> Result<()> {
        self.say_to_all(fabric, &Said::Clock(clock))
    }

    pub(super) fn end(&self, fabric: &Fabric) -> Result<()> {
        self.say_to_all(fabric, &Said::End)
    }

    fn say_to_all(&self, fabric: &Fabric, said: &Said<'_, T>) -> Result<()> {
        self.owners(fabric).try_for_each(|to| fabric.send(to, ASK, said.message(fabric)))
    }

    /// All owners, starting with this rank's neighbour, so that not all ranks ask the same one
    /// first.
    fn owners(&self, fabric: &Fabric) -> impl Iterator<Item = usize> + use<T> {
        let (rank, ranks) = (fabric.rank(), self.places.len());
        (1..=ranks).map(move |distance| (rank + distance) % ranks)
    }
}
