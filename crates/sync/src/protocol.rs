//! The interface of protocols: one rank's end.

use std::fmt::Debug;

use stepwell_fabric::{Fabric, Result};

/// Result of a poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Whether anything happened, so that polling again may do more.
    pub progressed: bool,
    /// Bytes of parameters and gradients that its arithmetic read and wrote, counted as additions
    /// of one vector to another: adding each of n vectors to a sum reads two and writes one,
    /// although they are added in one pass. A cost model turns them into time.
    pub bytes: u64,
}

impl Work {
    /// Nothing happened.
    pub const NONE: Self = Self { progressed: false, bytes: 0 };
    /// Something happened, in negligible time.
    pub const STEP: Self = Self { progressed: true, bytes: 0 };

    /// `count` additions of a vector of `lanes` numbers of type `T` to another.
    pub(crate) fn additions<T>(count: usize, lanes: usize) -> Self {
        Self { progressed: true, bytes: (3 * count * lanes * size_of::<T>()) as u64 }
    }

    /// A copy of a vector of `lanes` numbers of type `T`.
    pub(crate) fn copy<T>(lanes: usize) -> Self {
        Self { progressed: true, bytes: (2 * lanes * size_of::<T>()) as u64 }
    }

    /// The combined work of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { progressed: self.progressed || other.progressed, bytes: self.bytes + other.bytes }
    }
}

/// Outcomes of gradients, as counted by one rank: a worker counts its own, a server the gradients
/// that it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Gradients that this rank computed.
    pub given: u64,
    /// Gradients that reached the parameters.
    pub used: u64,
    /// Gradients dropped because they were older than the bound.
    pub dropped: u64,
    /// Gradients that wait to be used. A server's workers do not know whether it has used their
    /// last.
    pub left: u64,
    /// Updates of the parameters that this rank made or took part in.
    pub updates: u64,
    /// The largest age, in updates, of a gradient that was used.
    pub age_max: u64,
    /// With rows: row gradients that this rank sent to owners.
    pub rows_pushed: u64,
    /// Row gradients that this rank received as an owner and applied.
    pub rows_applied: u64,
    /// The largest staleness of reads of this rank's rows: how many updates the reader's clock was
    /// ahead of the earliest clock at which another rank read, or may yet read, rows for a gradient
    /// that has not arrived; 0 if rows are exact.
    pub staleness_max: u64,
}

impl Counts {
    /// Sums over several ranks; updates and ages are the largest.
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

    /// Row gradients in flight between ranks; once all ranks have ended, lost ones.
    pub fn rows_lost(&self) -> i64 {
        self.rows_pushed.cast_signed() - self.rows_applied.cast_signed()
    }

    /// Gradients without an outcome; if negative, some were used twice.
    pub fn lost(&self) -> i64 {
        let known = self.used + self.dropped + self.left;
        self.given.cast_signed() - known.cast_signed()
    }
}

/// One rank's end of a protocol.
///
/// The caller polls it whenever a message arrives or a gradient was given, and, if ranks may rest,
/// after `begin` returned `None`. It calls [`Protocol::begin`] while nothing is being computed, and
/// computes on a copy of [`Protocol::parameters`], which may change during the computation.
pub trait Protocol<T>: Debug + Send {
    /// Advances by one piece, with the messages that have arrived.
    ///
    /// # Errors
    /// If a rank is gone, or sends an invalid message.
    fn poll(&mut self, fabric: &Fabric) -> Result<Work>;

    /// Returns the number of this rank's next gradient, from 0, if it may begin now. The gradient
    /// is then in progress until [`Protocol::give`].
    fn begin(&mut self) -> Option<u64>;

    /// The parameters known to this rank.
    fn parameters(&self) -> &[T];

    /// This rank's part of the trained model: its parameters, or the server's if it has the server.
    fn model(&self) -> &[T] {
        self.parameters()
    }

    /// Gives the gradient that began last, of the mean over the rank's mini-batch; replaces it by a
    /// buffer of the same size.
    fn give(&mut self, gradient: &mut Vec<T>);

    /// Whether nothing is left to do: no more polls are needed, and a gradient in progress is not
    /// used.
    fn ended(&self) -> bool;

    /// Outcomes of gradients so far.
    fn counts(&self) -> Counts;

    /// Number of updates in the parameters that this rank knows: updates by all ranks, except under
    /// `ad_psgd`, which counts only its own, and with groups of `rna`, which count their group's.
    fn clock(&self) -> u64 {
        self.counts().updates
    }
}

/// A protocol of the dense part whose number of gradients is set while it runs, and that can begin
/// again after it has ended.
pub trait OpenEnded<T>: Protocol<T> {
    /// Sets the number of gradients that each computing rank gives in all, including gradients
    /// before the last [`OpenEnded::resume`]. The protocol has ended once all of them are used or
    /// dropped. All ranks pass the same number, each as soon as it is known.
    ///
    /// # Panics
    /// If this rank has begun more.
    fn end_after(&mut self, gradients: u64);

    /// Begins again after the protocol has ended on all ranks, with `parameters`, which are the
    /// same on all ranks.
    ///
    /// # Panics
    /// If the protocol has not ended, or `parameters` are of another model.
    fn resume(&mut self, parameters: &[T]);
}

/// Replaces the `parameters` of a protocol that has `ended`.
pub(crate) fn replace<T: Copy>(ended: bool, parameters: &mut [T], by: &[T]) {
    assert!(ended, "a protocol restarts only after it has ended");
    assert_eq!(parameters.len(), by.len(), "the parameters are those of the same model");
    parameters.copy_from_slice(by);
}
