//! The stages of the hierarchy, connected by bounded queues, with several batches in flight.
//!
//! ```text
//!            items            ready            ready
//!   caller ─────────► plan ──────────► pull ──────────► caller
//!                      ▲                 │ victims        │
//!                      │                 ▼                │
//!                      │               write              │
//!                      └──────────── retired ─────────────┘
//! ```
//!
//! Access: only `plan` touches the metadata; only `pull` touches rows that come or go; only the
//! caller touches rows that are pinned and filled; only `write` writes to the store.
//!
//! With devices, stage `lower` is between `plan` and `pull`, and stage `lift` between `pull` and
//! the caller.
//!
//! The stages are generic over what a caller attaches to a mini-batch, and over the marks that it
//! sends between batches.

mod broken_write;
mod counters;
mod due_checkpoints;
mod finished;
mod items;
mod lift;
mod lower;
mod plan;
mod pull;
mod spares;
mod too_large;
mod write;

use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_base::queue::{Events, Receiver, Sender, bounded};
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::{BoxedStage, among};

use self::broken_write::Disorder;
pub use self::counters::{Counters, Planned};
use self::due_checkpoints::Due;
pub use self::due_checkpoints::Times;
pub use self::finished::Finished;
pub use self::items::{Item, Pause, Ready, Retired, Unit};
pub use self::lift::LiftStage;
pub use self::lower::LowerStage;
use self::plan::PlanEnds;
pub use self::plan::{PlanStage, PrefetchDepth};
pub use self::pull::PullStage;
pub use self::spares::Spares;
use self::write::WriteStage;
use crate::group::{Group, devices_above, rules_of};
use crate::mini_batch::Cargo;
use crate::planner::Planner;
use crate::{Error, Result};

/// Maximum number of batches queued between the caller and `plan`.
pub const BATCHES_QUEUED: usize = 1;

/// The stages of a hierarchy, to be driven together with the caller's own, and the caller's ends of
/// their queues.
pub struct Stages<C, M> {
    /// Pins and unpins rows.
    pub plan: PlanStage<C, M>,
    /// Copies rows down from devices and up to them, if any.
    pub above: Option<(LowerStage<C, M>, LiftStage<C, M>)>,
    /// Fills slots.
    pub pull: PullStage<C, M>,
    /// Writes staged rows to the store.
    pub write: BoxedStage<Error>,
    /// The caller's ends.
    pub ends: Ends<C, M>,
    /// Receives the planners at the end.
    pub finished: Finished,
}

/// Ends of the queues through which a caller feeds mini-batches and receives them again.
pub struct Ends<C, M> {
    /// Mini-batches and marks, in order; closing it ends the stages.
    pub feed: Sender<Item<C, M>>,
    /// The same items in the same order, with rows loaded.
    pub ready: Receiver<Ready<C, M>>,
    /// Finished units and pauses; all must be returned, in order.
    pub retired: Sender<Retired<C>>,
    /// Memory of finished mini-batches.
    pub spares: Arc<Spares<C>>,
}

impl<C: Cargo, M: Send + 'static> Stages<C, M> {
    /// The stages in the order of the figure, and the caller's ends.
    pub fn in_order<E: From<Error> + 'static>(
        self,
    ) -> (Vec<BoxedStage<E>>, BoxedStage<E>, Ends<C, M>, Finished) {
        let mut stages = vec![among(self.plan)];
        let (lower, lift) =
            self.above.map_or((None, None), |(lower, lift)| (Some(lower), Some(lift)));
        stages.extend(lower.map(among));
        stages.push(among(self.pull));
        stages.extend(lift.map(among));
        (stages, among(self.write), self.ends, self.finished)
    }
}

/// Makes the stages that move the rows of `groups`, planned by `planners`.
///
/// # Errors
/// If a device fails.
pub fn stages<C: Cargo, M: Send>(
    (groups, planners): (&[Arc<Group>], Vec<Planner>),
    prefetch: PrefetchDepth,
    (times, clock): (Times, &Arc<dyn Clock>),
    counters: &Arc<Counters>,
    events: &Arc<Events>,
) -> Result<Stages<C, M>> {
    let units = prefetch.lookahead + 1;
    let (feed, items) = bounded(events, BATCHES_QUEUED);
    let (planned_in, planned_out) = bounded(events, units + 1);
    let (pulled_in, ready) = bounded(events, units + 1);
    let (retired, retired_out) = bounded(events, units + 1);
    let buffers = groups.iter().map(|group| group.staging.buffers()).sum();
    let (down_in, down_out) = bounded(events, buffers);
    let tier = devices_above(groups);
    let above = tier.map(|tier| {
        let (lowered_in, lowered) = bounded(events, units + 1);
        let (lifted_in, lifted) = bounded(events, units + 1);
        (tier, (lowered_in, lowered), (lifted_in, lifted))
    });
    let (spares, finished) = (Arc::new(Spares::default()), Finished::default());
    let plan = PlanEnds {
        due: Due::new(times, Arc::clone(clock)),
        input: items,
        output: planned_in,
        retired: retired_out,
        spares: Arc::clone(&spares),
        above: tier.cloned(),
        finished: finished.clone(),
    };
    let (pull_input, ready, above) = match above {
        None => (planned_out, ready, None),
        Some((tier, (lowered_in, lowered), (lifted_in, lifted))) => {
            let lower = LowerStage::new(tier, groups, planned_out, lowered_in)?;
            let lift = LiftStage::new(tier, groups, ready, lifted_in)?;
            (lowered, lifted, Some((lower, lift)))
        }
    };
    Ok(Stages {
        plan: PlanStage::new(planners, groups.to_vec(), prefetch, Arc::clone(counters), plan),
        above,
        pull: PullStage::new(groups, pull_input, pulled_in, down_in),
        write: writing(WriteStage::new(groups, down_out, Arc::clone(events)), rules_of(groups)),
        ends: Ends { feed, ready, retired, spares },
        finished,
    })
}

/// The stage that writes; out of order if a rule is switched off.
fn writing(stage: WriteStage, rules: Rules) -> BoxedStage<Error> {
    let broken = [Rule::WriteInOrder, Rule::PutBeforeForget];
    match broken.into_iter().find(|rule| !rules.hold(*rule)) {
        None => Box::new(stage),
        Some(broken) => Box::new(Disorder::new(stage, broken)),
    }
}
