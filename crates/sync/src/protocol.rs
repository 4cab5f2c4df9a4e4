//! The seam: one rank's end of a protocol.

use std::fmt::Debug;

use stepwell_fabric::{Fabric, Result};

/// What a poll did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Whether anything happened: then polling again may do more.
    pub progressed: bool,
    /// Bytes of parameters and gradients that its arithmetic read and wrote, counted as additions
    /// of one vector to another: of n vectors to a sum, each reads two and writes one, though here
    /// they are added in one pass. A model of costs turns them into time.
    pub bytes: u64,
}

impl Work {
    /// Nothing happened.
    pub const NONE: Self = Self { progressed: false, bytes: 0 };
    /// Something happened that takes no time to speak of.
    pub const STEP: Self = Self { progressed: true, bytes: 0 };

    /// So many additions of a vector of `lanes` numbers of type `T` to another.
    pub(crate) fn additions<T>(count: usize, lanes: usize) -> Self {
        Self { progressed: true, bytes: (3 * count * lanes * size_of::<T>()) as u64 }
    }

    /// A copy of a vector of `lanes` numbers of type `T`.
    pub(crate) fn copy<T>(lanes: usize) -> Self {
        Self { progressed: true, bytes: (2 * lanes * size_of::<T>()) as u64 }
    }

    /// Both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { progressed: self.progressed || other.progressed, bytes: self.bytes + other.bytes }
    }
}

/// What became of gradients, as one rank counts them: of its own, but for servers, which count
/// those that they used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Gradients that this rank computed.
    pub given: u64,
    /// Gradients that reached the parameters.
    pub used: u64,
    /// Gradients that were older than the bound.
    pub dropped: u64,
    /// Gradients that wait to be used. Workers of a server do not know whether it has used their
    /// last.
    pub left: u64,
    /// Updates of the parameters that this rank made or took part in.
    pub updates: u64,
    /// The largest age, in updates, of a gradient that was used.
    pub age_max: u64,
    /// Where there are rows: gradients of rows that this rank sent to owners.
    pub rows_pushed: u64,
    /// Gradients of rows that came to this rank as their owner, and changed them.
    pub rows_applied: u64,
    /// The most updates before the clock of a rank, as it read rows here, that another had read
    /// those of a gradient that was not yet in, or was still to read them; 0 where rows are exact.
    pub staleness_max: u64,
}

impl Counts {
    /// Those of several ranks together; updates and ages are the largest.
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, counts| Self {
            given: sum.given + counts.given,
            used: sum.used + counts.used,
            dropped: sum.dropped + counts.dropped,
            left: sum.left + counts.left,
            updates: sum.updates.max(counts.updates),
            age_max: sum.age_max.max(counts.age_max),
            rows_pushed: sum.rows_pushed + counts.rows_pushed,
            rows_applied: sum.rows_applied + counts.rows_applied,
            staleness_max: sum.staleness_max.max(counts.staleness_max),
        })
    }

    /// Gradients of rows that are under way between ranks; once all have ended, that are lost.
    pub fn rows_lost(&self) -> i64 {
        self.rows_pushed.cast_signed() - self.rows_applied.cast_signed()
    }

    /// Gradients of which nothing is known any more; below zero, some were used twice.
    pub fn lost(&self) -> i64 {
        let known = self.used + self.dropped + self.left;
        self.given.cast_signed() - known.cast_signed()
    }
}

/// One rank's end of a protocol.
///
/// Its caller polls it whenever something arrives or was given, and, where a rank may rest, after
/// it was asked in vain. It asks [`Protocol::begin`] while nothing is being computed, and computes
/// on a copy of [`Protocol::parameters`]: these may change while it computes.
pub trait Protocol<T>: Debug + Send {
    /// Goes one piece further, with what has arrived.
    ///
    /// # Errors
    /// When some rank is gone, or sends what makes no sense.
    fn poll(&mut self, fabric: &Fabric) -> Result<Work>;

    /// The number of the next gradient of this rank, from 0, if it may begin now; it is then under
    /// way until it is given.
    fn begin(&mut self) -> Option<u64>;

    /// The parameters as this rank knows them.
    fn parameters(&self) -> &[T];

    /// This rank's part of the model that is trained: its parameters, but where it has a server's.
    fn model(&self) -> &[T] {
        self.parameters()
    }

    /// The gradient that began last, of the mean over the rank's mini-batch; memory of the same
    /// size comes back in its place.
    fn give(&mut self, gradient: &mut Vec<T>);

    /// Whether there is nothing left to do: it is not polled any more, and what is being computed
    /// is not wanted.
    fn ended(&self) -> bool;

    /// What became of gradients so far.
    fn counts(&self) -> Counts;

    /// How far the parameters are that this rank knows, in updates: those of all ranks, but under
    /// `ad_psgd`, where a rank knows its own alone, and between groups of `rna`.
    fn clock(&self) -> u64 {
        self.counts().updates
    }
}

/// A protocol of the dense part whose ranks learn on the way how many gradients they give, and that
/// begins again after it has ended.
pub trait OpenEnded<T>: Protocol<T> {
    /// Each rank that computes gives so many gradients in all, those before the last
    /// [`OpenEnded::resume`] included. It has ended once all of them are used, or dropped. All
    /// ranks say the same number, each as soon as it knows.
    ///
    /// # Panics
    /// When this rank has begun more.
    fn end_after(&mut self, gradients: u64);

    /// Begins again after it has ended on all ranks, with these parameters, which all ranks say
    /// alike.
    ///
    /// # Panics
    /// When it has not ended, or these are of another model.
    fn resume(&mut self, parameters: &[T]);
}

/// Replaces the `parameters` of a protocol that has `ended`.
pub(crate) fn replace<T: Copy>(ended: bool, parameters: &mut [T], by: &[T]) {
    assert!(ended, "a protocol begins again after it has ended");
    assert_eq!(parameters.len(), by.len(), "parameters of the same model");
    parameters.copy_from_slice(by);
}
