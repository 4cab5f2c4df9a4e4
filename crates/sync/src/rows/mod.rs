//! Rows next to the dense part: each rank owns the rows of some keys, others read them and push
//! gradients, and a bound limits their staleness.
//!
//! ```text
//! rank     dense: begin ─► pull keys ─► rows ─► begin ─► gradient ─► push ─► dense: give
//!                             ║          ║                            ║
//! owners                    wait? ─► answer                         apply
//! ```
//!
//! A rank's parameters are the dense ones followed by the weights of the rows of its mini-batch;
//! its gradient covers both. So learners, drivers and clocks do not know about rows. Any protocol
//! can move the dense part; if it drops a dense gradient, the row gradient still counts.
//!
//! - **Clock.** Staleness is counted in updates of the dense part: a rank's clock is the number of
//!   updates that it had seen when it asked for the rows of its current gradient, or has seen, if
//!   it computes none. If every gradient makes an update, as under `bsp`, that is the clock of SSP.
//!   Under `rna`, `eager_majority` and `rdma_wild` it advances while a slow rank computes, so that
//!   no rank waits for it before the bound. Under `ad_psgd` a rank only knows its own updates, and
//!   in groups of `rna` its group's: there, bounded rows are as under SSP, and fast ranks wait for
//!   slow ones.
//! - **Invariants.** Each pushed gradient is applied once before any rank ends.
//!   - If staleness is bounded by s, a read at clock c is answered once all gradients whose rows
//!     were read before clock c - s are in the rows; the other gradients are of the s updates
//!     before (SYNC-I10).
//!   - SYNC-I11: exact rows change by the sum of all ranks' gradients of a step, in the order of
//!     ranks, and are read after that: their bits do not depend on what arrives first.
//! - **Cost.** A step sends each owner one message of keys and one of gradients, and receives one
//!   of weights; a clock that advances while its rank does not compute costs one word to each
//!   owner.
//! - **Source.** Bounded staleness: Ho et al., "More effective distributed ML via a stale
//!   synchronous parallel parameter server" (2013), as used by GeePS.

mod message;
mod owner;
mod puller;
mod store;

use stepwell_fabric::{Fabric, Result};

pub use self::owner::Staleness;
pub use self::puller::StepKeys;
pub use self::store::{MemoryRows, OwnedRows};

use self::owner::Owner;
use self::puller::Puller;
use crate::hazard_rules::Rules;
use crate::kind::Kind;
use crate::number::Number;
use crate::options::OptionsError;
use crate::protocol::{Counts, Protocol, Work};

/// A rank's rows.
pub struct RankRows<T> {
    /// Allowed staleness of the rows that it reads.
    pub staleness: Staleness,
    /// The rows that it owns: see [`stepwell_base::owner`].
    pub owned: Box<dyn OwnedRows<T>>,
    /// The rows that its mini-batches need.
    pub keys: Box<dyn StepKeys>,
}

impl<T> std::fmt::Debug for RankRows<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RankRows").field("staleness", &self.staleness).finish_non_exhaustive()
    }
}

impl Kind {
    /// Adds rows to this rank's end of `dense`, which is of this kind.
    ///
    /// # Errors
    /// Exact rows under a protocol that does not wait for all ranks.
    pub fn with_rows<T: Number>(
        self,
        fabric: &Fabric,
        dense: Box<dyn Protocol<T>>,
        rows: RankRows<T>,
        rules: Rules,
    ) -> std::result::Result<Box<dyn Protocol<T>>, OptionsError> {
        if rows.staleness == Staleness::Exact && self != Self::Bsp {
            return Err(OptionsError::new(format!(
                "exact rows need every rank's gradient in every step, and {self} does not wait \
                 for them: use bounded or async rows, or bsp"
            )));
        }
        Ok(Box::new(WithRows::new(self, fabric, dense, rows, rules)))
    }
}

/// A protocol of the dense part, with rows.
#[derive(Debug)]
struct WithRows<T> {
    dense: Box<dyn Protocol<T>>,
    owner: Owner<T>,
    puller: Puller<T>,
    /// The dense parameters of the current gradient, and its rows' weights.
    joined: Vec<T>,
    dense_gradient: Vec<T>,
    row_gradient: Vec<T>,
    state: State,
    /// The clock that the owners know.
    said: u64,
    pushed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The dense part has begun no gradient.
    Idle,
    /// The rows of this gradient were requested.
    Pulling(u64),
    /// The rows of this gradient have arrived.
    Here(u64),
    Computing,
    /// The gradient is computed, and not yet sent.
    Given,
    /// This rank asks for no more rows.
    Through,
}

impl<T: Number> WithRows<T> {
    fn new(
        kind: Kind,
        fabric: &Fabric,
        dense: Box<dyn Protocol<T>>,
        rows: RankRows<T>,
        rules: Rules,
    ) -> Self {
        let ranks = fabric.size();
        let workers = ranks - kind.workers(ranks)..ranks;
        let lanes = rows.owned.lanes();
        Self {
            dense,
            owner: Owner::new(fabric, workers, rows.staleness, rules, rows.owned),
            puller: Puller::new(ranks, lanes, rows.keys),
            joined: Vec::new(),
            dense_gradient: Vec::new(),
            row_gradient: Vec::new(),
            state: State::Idle,
            said: 0,
            pushed: 0,
        }
    }

    /// Advances this rank's next gradient and its rows.
    fn go_on(&mut self, fabric: &Fabric) -> Result<Work> {
        match self.state {
            State::Given => {
                self.puller.push(fabric, &self.row_gradient)?;
                self.pushed += fabric.size() as u64;
                self.said = u64::MAX;
                self.dense.give(&mut self.dense_gradient);
                self.state = State::Idle;
                Ok(Work::STEP)
            }
            State::Idle | State::Computing if self.dense.ended() => {
                // A gradient in progress is no longer needed.
                self.puller.end(fabric)?;
                self.state = State::Through;
                Ok(Work::STEP)
            }
            State::Idle => {
                if let Some(step) = self.dense.begin() {
                    self.said = self.dense.clock();
                    self.puller.pull(fabric, step, self.said)?;
                    self.state = State::Pulling(step);
                    return Ok(Work::STEP);
                }
                self.say_clock(fabric)
            }
            State::Pulling(step) => {
                // This rank's clock must not change during the pull: else two ranks could wait at
                // two owners, each for rows that the other has read at the other owner.
                if !self.puller.poll(fabric)? {
                    return Ok(Work::NONE);
                }
                self.state = State::Here(step);
                Ok(Work::copy::<T>(self.puller.weights().len()))
            }
            State::Here(_) | State::Computing | State::Through => Ok(Work::NONE),
        }
    }

    /// Sends owners a clock that has advanced, so that no rank waits for this one.
    fn say_clock(&mut self, fabric: &Fabric) -> Result<Work> {
        let clock = self.dense.clock();
        if clock == self.said || !self.owner.hears_clock(fabric.rank()) {
            return Ok(Work::NONE);
        }
        self.puller.say_clock(fabric, clock)?;
        self.said = clock;
        Ok(Work::STEP)
    }
}

impl<T: Number> Protocol<T> for WithRows<T> {
    fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        fabric.check()?;
        let mut work = self.owner.poll(fabric)?;
        if !self.dense.ended() {
            work = work.and(self.dense.poll(fabric)?);
        }
        Ok(work.and(self.go_on(fabric)?))
    }

    fn begin(&mut self) -> Option<u64> {
        let State::Here(step) = self.state else { return None };
        self.state = State::Computing;
        self.joined.clear();
        self.joined.extend_from_slice(self.dense.parameters());
        self.joined.extend_from_slice(self.puller.weights());
        Some(step)
    }

    fn parameters(&self) -> &[T] {
        &self.joined
    }

    fn model(&self) -> &[T] {
        self.dense.model()
    }

    fn give(&mut self, gradient: &mut Vec<T>) {
        if self.state == State::Through {
            return;
        }
        assert_eq!(self.state, State::Computing, "the gradient was begun");
        assert_eq!(gradient.len(), self.joined.len(), "the gradient covers all parameters");
        let (dense, rows) = gradient.split_at(self.dense.model().len());
        self.dense_gradient.clear();
        self.dense_gradient.extend_from_slice(dense);
        self.row_gradient.clear();
        self.row_gradient.extend_from_slice(rows);
        self.state = State::Given;
    }

    fn ended(&self) -> bool {
        self.state == State::Through && self.owner.all_are_through()
    }

    fn counts(&self) -> Counts {
        let Counts { rows_applied, staleness_max, .. } = self.owner.counts();
        let dense = self.dense.counts();
        Counts { rows_pushed: self.pushed, rows_applied, staleness_max, ..dense }
    }
}
