//! The server between groups: it adds each group's changes, and answers with the parameters of all.
//!
//! The thesis averages the groups' parameters at the server. A mean would weigh a group that rarely
//! pushes as much as one that just has, and pull the fast ones back; so changes are added instead,
//! as in an asynchronous parameter server, and no gradient counts for less.
//!
//! - **Invariants.** A group pushes once between two answers: its changes since the last one
//!   (SYNC-I7), and nothing changes its parameters in between; so each change is added once.

use stepwell_fabric::{Error, Fabric, Malformed, Result};

use super::messages::{PULL, PUSH};
use crate::all_reduce::{slice_message, slice_of};
use crate::number::Number;
use crate::protocol::Work;

#[derive(Debug)]
pub(crate) struct Server<T> {
    parameters: Vec<T>,
    ranks: usize,
    /// Number of pushes still to come, from all groups.
    expected: u64,
    groups: usize,
    /// Number of groups that have not pushed their last changes.
    open: usize,
}

impl<T: Number> Server<T> {
    pub(crate) fn new(parameters: Vec<T>, ranks: usize, groups: usize, steps: u64) -> Self {
        let expected = steps.saturating_mul(groups as u64);
        Self { parameters, ranks, expected, groups, open: groups }
    }

    /// Continues with other parameters.
    pub(crate) fn resume(&mut self, parameters: &[T]) {
        self.parameters.copy_from_slice(parameters);
        self.open = self.groups;
    }

    pub(crate) fn parameters(&self) -> &[T] {
        &self.parameters
    }

    pub(crate) fn ended(&self) -> bool {
        self.expected == 0 || self.open == 0
    }

    pub(crate) fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        if self.ended() {
            return Ok(Work::NONE);
        }
        for from in 0..self.ranks {
            let Some(message) = fabric.receive(from, PUSH)? else { continue };
            let (head, change) = slice_of::<T>(from, &message)?;
            if change.len() != self.parameters.len() {
                let why = Malformed::Wrong("it has a different number of parameters");
                return Err(Error::malformed(from, why));
            }
            self.parameters.iter_mut().zip(change).for_each(|(all, change)| *all += *change);
            fabric.keep(message);
            fabric.send(from, PULL, slice_message(fabric, [0, 0], &self.parameters))?;
            self.expected -= 1;
            self.open = self.open.saturating_sub(usize::from(head[1] > 0));
            return Ok(Work::additions::<T>(1, self.parameters.len()));
        }
        Ok(Work::NONE)
    }
}
