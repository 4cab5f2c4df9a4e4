//! What flows through the stages: mini-batches, the batches they are planned in, and marks.

use stepwell_base::Key;

use crate::device::AboveMoves;
use crate::planner::Asked;
use crate::{Group, GroupUnit, Part};

/// What is done with a mini-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Scored, then trained on.
    Train,
    /// Only scored; no row comes to exist.
    Evaluate,
}

/// What a caller carries along with each mini-batch.
pub trait Cargo: Send + 'static {
    /// Number of examples, for messages.
    fn examples(&self) -> usize;

    /// Forgets everything and keeps the memory.
    fn clear(&mut self);

    /// Parts that are the caller's own, beside those that are planned.
    fn parts(&mut self) -> &mut [Part] {
        &mut []
    }
}

/// The rows of one step.
#[derive(Debug)]
pub struct MiniBatch<C> {
    /// Count of mini-batches before it, evaluated ones included.
    pub number: u32,
    /// What is done with it.
    pub purpose: Purpose,
    /// What it asks of each table, and where that lies.
    pub parts: Vec<Part>,
    /// What the caller carries along.
    pub cargo: C,
}

impl<C> MiniBatch<C> {
    /// Sorts the bags of its parts by row where it will be trained.
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

    /// What the tables of `group` ask for.
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

/// Mini-batches on their way to the planner, or what happens between two batches, in order.
#[derive(Debug)]
pub enum Item<C, M> {
    /// Mini-batches to be planned and pulled together.
    Batch(Vec<MiniBatch<C>>),
    /// A mark of the caller's.
    Mark(M),
    /// The model as of now is to be written.
    Checkpoint,
}

/// Mini-batches that were planned together.
#[derive(Debug)]
pub struct Unit<C> {
    /// Mini-batches with their slots.
    pub minis: Vec<MiniBatch<C>>,
    /// What moves for them, by table group.
    pub(crate) moves: Vec<GroupUnit>,
    /// What moves to and from devices.
    pub(crate) above: AboveMoves,
    /// Whether one of the mini-batches was trained: none is, once the run is to stop.
    pub trained: bool,
}

/// What comes up, in the order of [`Item`]s.
#[derive(Debug)]
pub enum Ready<C, M> {
    /// Rows that are pinned and filled. It goes back, whatever became of it.
    Unit(Unit<C>),
    /// A mark of the caller's. It does not go back.
    Mark(M),
    /// Everything is at rest, and dirty rows are on their way down: once no group's
    /// [`Staging`](crate::Staging) has any, the model can be written. It goes back then. Rows of
    /// later mini-batches may be on their way meanwhile, as they were when this was planned.
    Checkpoint(Pause),
}

/// A pause in which nothing is in flight, for a checkpoint.
#[derive(Debug)]
pub struct Pause {
    /// Every dirty row, by table group; their slots keep them.
    pub(crate) moves: Vec<GroupUnit>,
    /// Every row that is dirty on a device; their slots there keep them.
    pub(crate) above: AboveMoves,
}

/// What goes back to the planner.
#[derive(Debug)]
pub enum Retired<C> {
    /// Mini-batches that are over.
    Unit(Unit<C>),
    /// The model was written.
    Checkpoint(Pause),
}
