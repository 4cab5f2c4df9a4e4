//! Items that flow through the stages: mini-batches, batches that are planned together, and marks.

use crate::device_tier::moves::AboveMoves;
use crate::mini_batch::MiniBatch;
use crate::unit::GroupUnit;

/// Input of the planner: mini-batches, and what happens between batches, in order.
#[derive(Debug)]
pub enum Item<C, M> {
    /// Mini-batches to be planned and pulled together.
    Batch(Vec<MiniBatch<C>>),
    /// A caller's mark.
    Mark(M),
    /// A request to write the current model.
    Checkpoint,
}

/// Mini-batches that were planned together.
#[derive(Debug)]
pub struct Unit<C> {
    /// Mini-batches with their slots.
    pub minis: Vec<MiniBatch<C>>,
    /// Moves of rows for these mini-batches, by table group.
    pub(crate) moves: Vec<GroupUnit>,
    /// Moves to and from devices.
    pub(crate) above: AboveMoves,
    /// Whether any mini-batch was trained; none is once the run is stopping.
    pub trained: bool,
}

/// Output of the stages, in the order of [`Item`]s.
#[derive(Debug)]
pub enum Ready<C, M> {
    /// Pinned and filled rows. Must be returned, whether trained or not.
    Unit(Unit<C>),
    /// A caller's mark, which is not returned.
    Mark(M),
    /// Everything is at rest, and dirty rows are being staged: once no group's
    /// [`Staging`](crate::Staging) has any, the model can be written. Must then be returned. Rows
    /// of later mini-batches may be moving, if that was planned before.
    Checkpoint(Pause),
}

/// A pause in which nothing is in flight, for a checkpoint.
#[derive(Debug)]
pub struct Pause {
    /// Every dirty row, by table group; the rows stay in their slots.
    pub(crate) moves: Vec<GroupUnit>,
    /// Every dirty row on devices; the rows stay in their slots there.
    pub(crate) above: AboveMoves,
}

/// Items returned to the planner.
#[derive(Debug)]
pub enum Retired<C> {
    /// Finished mini-batches.
    Unit(Unit<C>),
    /// The model was written.
    Checkpoint(Pause),
}
