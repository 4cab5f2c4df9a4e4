//! Mini-batches: the rows of a step, and the caller's data.

use stepwell_base::Key;

use crate::group::Group;
use crate::planner::Asked;
use crate::working_set::Part;

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
    /// Number of mini-batches before this one, evaluated ones included.
    pub number: u32,
    /// Whether the mini-batch is trained or only evaluated.
    pub purpose: Purpose,
    /// Request and places of the rows, by table.
    pub parts: Vec<Part>,
    /// The caller's data.
    pub cargo: C,
}

impl<C> MiniBatch<C> {
    /// Sorts the bags of the mini-batch's parts by row, if it will be trained.
    pub(crate) fn sort_bags(&mut self) {
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
