//! Assigns mini-batches to ranks, and computes their gradients.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::Key;
use stepwell_nn::Graph;
use stepwell_sync::{Learner, OwnedRows};

use super::examples::Clicks;
use super::model::{Pass, distinct};

/// Examples of a rank's mini-batch.
pub(super) const MINI_BATCH: usize = 64;

/// Assigns mini-batches, in repeated passes over the examples.
///
/// - **Why.** If ranks wait for each other, step s of rank r has mini-batch s n + r of n ranks,
///   regardless of delays. Otherwise, whichever rank is free takes the next one, so that each is
///   used once.
#[derive(Debug)]
pub(super) struct Deal {
    ranks: usize,
    by_turn: bool,
    mini_batches: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    next: usize,
    /// Each rank's last step and its mini-batch: a rank has one at a time.
    of: Vec<Option<(u64, usize)>>,
}

impl Deal {
    pub(super) fn new(ranks: usize, by_turn: bool, mini_batches: usize) -> Arc<Self> {
        let taken = Mutex::new(Taken { next: 0, of: vec![None; ranks] });
        Arc::new(Self { ranks, by_turn, mini_batches, taken })
    }

    /// Examples of a rank's step; the first call assigns a mini-batch.
    fn examples(&self, rank: usize, step: u64) -> Range<usize> {
        let number = if self.by_turn {
            step as usize * self.ranks + rank
        } else {
            let mut taken = lock(&self.taken);
            match taken.of[rank] {
                Some((last, number)) if last == step => number,
                _ => {
                    let number = taken.next;
                    taken.of[rank] = Some((step, number));
                    taken.next += 1;
                    number
                }
            }
        };
        let start = number % self.mini_batches * MINI_BATCH;
        start..start + MINI_BATCH
    }
}

/// A rank's learner.
pub(super) struct ClickLearner {
    pub(super) rank: usize,
    pub(super) graph: Arc<Graph<f32>>,
    pub(super) clicks: Arc<Clicks>,
    pub(super) deal: Arc<Deal>,
    pub(super) pass: Pass,
}

impl Learner<f32> for ClickLearner {
    fn gradient(&mut self, step: u64, parameters: &[f32], gradient: &mut [f32]) {
        let examples = self.deal.examples(self.rank, step);
        self.pass.run(&self.graph, &self.clicks, examples, parameters, Some(gradient));
    }
}

/// Keys of a rank's mini-batches.
pub(super) fn keys_of(
    rank: usize,
    clicks: &Arc<Clicks>,
    deal: &Arc<Deal>,
) -> impl FnMut(u64, &mut Vec<Key>) + Send + use<> {
    let (clicks, deal) = (Arc::clone(clicks), Arc::clone(deal));
    move |step, keys| distinct(&clicks, deal.examples(rank, step), keys)
}

/// Rows that can be read from outside the rank that owns them.
#[derive(Clone, Debug)]
pub(super) struct SharedRows(Arc<Mutex<Box<dyn OwnedRows<f32>>>>);

impl SharedRows {
    pub(super) fn new(rows: impl OwnedRows<f32> + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(rows))))
    }
}

impl OwnedRows<f32> for SharedRows {
    fn lanes(&self) -> usize {
        lock(&self.0).lanes()
    }

    fn read(&mut self, keys: &[Key], weights: &mut Vec<f32>) -> Result<(), String> {
        lock(&self.0).read(keys, weights)
    }

    fn apply(&mut self, keys: &[Key], gradients: &[f32]) -> Result<(), String> {
        lock(&self.0).apply(keys, gradients)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
