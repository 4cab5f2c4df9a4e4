//! Items that flow through the stages: mini-batches, batches that are planned together, and marks.

use stepwell_base::Key;

use crate::device::AboveMoves;
use crate::planner::Asked;
use crate::{Group, GroupUnit, Part};

/// Purpose of a mini-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Scored, then trained.
    Train,
    /// Only scored; creates no row.
    Evaluate,
}

/// Data that a caller attaches to each mini-batch.
pub trait Cargo: Send + 'static {
    /// Number of examples, for messages.
    fn examples(&self) -> usize;

    /// Clears everything and keeps the memory.
    fn clear(&mut self);

    /// Parts of the caller's own, in addition to the planned ones.
    fn parts(&mut self) -> &mut [Part] {
        &mut []
    }
}

/// The rows of one step.
#[derive(Debug)]
pub struct MiniBatch<C> {
    /// Number of mini-batches before it, evaluated ones included.
    pub number: u32,
    /// Whether it is trained or only evaluated.
    pub purpose: Purpose,
    /// By table, its request and where the rows are.
    pub parts: Vec<Part>,
    /// The caller's data.
    pub cargo: C,
}

impl<C> MiniBatch<C> {
    /// Sorts the bags of its parts by row, if it will be trained.
    pub(super) fn sort_bags(&mut self) {
        if self.purpose == Purpose::Train {
            self.parts.iter_mut().for_each(Part::sort_bags);
        }
    }

    /// The distinct keys of the tables of `group`.
    pub(crate) fn keys_of<'a>(
        &'a self,
        group: &'a Group,
    ) -> impl Iterator<Item = &'a [Key]> + Clone {
        group.members().iter().map(|table| &self.parts[*table].request.distinct[..])
    }

    /// Keys and slots of the tables of `group`.
    pub(crate) fn asked_of<'a>(&'a mut self, group: &'a Group) -> Vec<Asked<'a>> {
        // Both ascend.
        let mut members = group.members().iter().zip(0..).peekable();
        let asked = self.parts.iter_mut().enumerate().filter_map(|(number, part)| {
            let (_, table) = members.next_if(|(member, _)| **member == number)?;
            let Part { request, rows, .. } = part;
            Some(Asked { table, keys: &request.distinct, slots: &mut rows.slots })
        });
        asked.collect()
    }
}

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
    /// Rows that move for them, by table group.
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
