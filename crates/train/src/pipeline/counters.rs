//! Counters of a run, and passes over the data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stepwell_base::owner::RankOf;
use stepwell_data::{Chunk, CutLists};
use stepwell_engine::{Counters as RowCounters, Purpose};

use super::fill;

/// One pass over a part of the data, to train on or to evaluate.
pub(crate) type Pass = stepwell_data::Pass<Purpose>;
/// The passes, in order.
pub(crate) type Passes = stepwell_data::Passes<Purpose>;

/// Counters of a run, in addition to its measurements.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Counts of the planner.
    pub(crate) rows: Arc<RowCounters>,
    skipped: AtomicU64,
    left_out: AtomicU64,
    /// Ids cut from lists in the first epoch, and the number of that epoch.
    cut_lists: Mutex<(Option<u64>, CutLists)>,
    keys_asked: AtomicU64,
    weights_asked: AtomicU64,
}

impl Counters {
    pub(super) fn add_skipped(&self, lines: u64) {
        self.skipped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Malformed lines that were skipped.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    pub(super) fn add_left_out(&self, negatives: usize) {
        self.left_out.fetch_add(negatives as u64, Ordering::Relaxed);
    }

    /// Negatives left out of the first epoch.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Counts the ids cut from lists of `chunk`, if `pass` belongs to the first epoch. If several
    /// ranks read the same data, only one of them counts.
    pub(super) fn add_cut_lists(&self, chunk: &Chunk, pass: &Pass, rank: Option<RankOf>) {
        let is_own = pass.share.is_some() || rank.is_none_or(|of| of.rank == 0);
        let mut counted = self.cut_lists.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, cut) = &mut *counted;
        if is_own && *first.get_or_insert(pass.epoch) == pass.epoch {
            cut.add(chunk, fill::lines_within(chunk, &chunk.lines, pass.end));
        }
    }

    /// Ids cut from lists.
    pub(crate) fn cut_lists(&self) -> CutLists {
        self.cut_lists.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    pub(super) fn add_asked(&self, keys: usize, weights: usize) {
        self.keys_asked.fetch_add(keys as u64, Ordering::Relaxed);
        self.weights_asked.fetch_add(weights as u64, Ordering::Relaxed);
    }

    /// Keys requested from other ranks, and the weights of their rows.
    pub(crate) fn asked(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.keys_asked), count(&self.weights_asked))
    }
}
