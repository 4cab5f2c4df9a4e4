//! Sums the values of some ranks in a fixed order.
//!
//! ```text
//! rank i ── its lanes of slice j ──► rank j: sum by the tree of ranks ── slice j ──► all
//! ```
//!
//! A rank sends and receives (n-1)/n of the lanes twice, as in a ring, in two rounds of messages
//! instead of 2(n-1). A rank without values takes part with an empty message; the same ranks are
//! present in all slices, and all learn how many gradients are in the sum.
//!
//! - **Invariants.** The present ranks' values are summed by the tree of `nn::tree_sum` over all
//!   ranks, with the absent ones left out: the sum depends on who is present, never on the order of
//!   arrival. All ranks get the same bits.

use bytemuck::Pod;
use stepwell_fabric::{Error, Fabric, Malformed, Message, Result, Tag};
use stepwell_nn::tree_sum_of_subtrees;

use crate::number::Number;
use crate::protocol::Work;

/// Result of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reduced {
    /// Gradients in the sum: none, one or several of each rank.
    pub(crate) gradients: u64,
}

/// Whether a member gives more gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// The member may give more.
    Continues,
    /// The member gives no more.
    Ends,
}

/// Repeated sums among `members`, one at a time.
#[derive(Debug)]
pub(crate) struct AllReduce<T> {
    members: Vec<usize>,
    /// This rank's place among them.
    place: usize,
    tags: [Tag; 2],
    sum: Vec<T>,
    state: State,
    came: Vec<Option<Message>>,
    gradients: u64,
    /// By member, whether it has announced that it gives no more gradients.
    through: Vec<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Rest,
    /// Waits for the members' lanes of this rank's slice.
    Slices,
    /// Waits for the sums of the other slices.
    Sums,
}

impl<T: Number> AllReduce<T> {
    /// The sum of `lanes` numbers among `members`, which ascend and include this rank.
    pub(crate) fn new(fabric: &Fabric, members: Vec<usize>, tags: [Tag; 2], lanes: usize) -> Self {
        let place = members.iter().position(|member| *member == fabric.rank());
        let Some(place) = place else { unreachable!("rank {} is a member", fabric.rank()) };
        let (came, through) = (vec![None; members.len()], vec![false; members.len()]);
        let (sum, state) = (vec![T::ZERO; lanes], State::Rest);
        Self { members, place, tags, sum, state, came, gradients: 0, through }
    }

    /// Takes part, with the `sum` of a number of gradients; without gradients, `sum` is ignored.
    pub(crate) fn start(
        &mut self,
        fabric: &Fabric,
        gradients: u64,
        member: Member,
        sum: &[T],
    ) -> Result<()> {
        assert_eq!(self.state, State::Rest, "one sum at a time");
        self.state = State::Slices;
        for distance in 1..=self.members.len() {
            let place = (self.place + distance) % self.members.len();
            let lanes = if gradients == 0 { &[][..] } else { &sum[self.slice(place)] };
            let ends = u64::from(member == Member::Ends);
            let message = slice_message(fabric, [gradients, ends], lanes);
            fabric.send(self.members[place], self.tags[0], message)?;
        }
        Ok(())
    }

    /// Whether a sum is in progress.
    pub(crate) fn is_under_way(&self) -> bool {
        self.state != State::Rest
    }

    /// Advances the sum; returns its result once it is complete.
    pub(crate) fn poll(&mut self, fabric: &Fabric) -> Result<(Work, Option<Reduced>)> {
        let round = match self.state {
            State::Rest => return Ok((Work::NONE, None)),
            State::Slices => 0,
            State::Sums => 1,
        };
        if !self.gather(fabric, round)? {
            return Ok((Work::NONE, None));
        }
        if round == 0 {
            let work = self.add(fabric)?;
            self.state = State::Sums;
            return Ok((work, None));
        }
        self.put_together(fabric)?;
        self.state = State::Rest;
        Ok((Work::STEP, Some(Reduced { gradients: self.gradients })))
    }

    /// The sum, after it is complete.
    pub(crate) fn sum(&self) -> &[T] {
        &self.sum
    }

    /// By member, whether it has announced its end in a completed sum: the same on all ranks.
    pub(crate) fn through(&self) -> &[bool] {
        &self.through
    }

    /// Whether all have announced their end.
    pub(crate) fn all_are_through(&self) -> bool {
        self.through.iter().all(|through| *through)
    }

    /// All members continue.
    pub(crate) fn go_on(&mut self) {
        self.through.fill(false);
    }

    /// The lanes that the member at `place` sums.
    fn slice(&self, place: usize) -> std::ops::Range<usize> {
        let (lanes, count) = (self.sum.len(), self.members.len());
        place * lanes / count..(place + 1) * lanes / count
    }

    /// Whether all members' messages have arrived.
    fn gather(&mut self, fabric: &Fabric, round: usize) -> Result<bool> {
        for (place, came) in self.came.iter_mut().enumerate().filter(|(_, came)| came.is_none()) {
            *came = fabric.receive(self.members[place], self.tags[round])?;
        }
        Ok(self.came.iter().all(Option::is_some))
    }

    /// Sums this rank's slice, and sends it to all.
    fn add(&mut self, fabric: &Fabric) -> Result<Work> {
        let own = self.slice(self.place);
        let mut values: Vec<(usize, &[T])> = Vec::with_capacity(self.members.len());
        self.gradients = 0;
        for (place, message) in self.came.iter().enumerate() {
            let Some(message) = message else { unreachable!("all parts have arrived") };
            let from = self.members[place];
            let (head, lanes) = slice_of::<T>(from, message)?;
            let present = head[0] > 0;
            if lanes.len() != if present { own.len() } else { 0 } {
                let why = Malformed::Wrong("it has a different number of parameters");
                return Err(Error::malformed(from, why));
            }
            self.gradients += head[0];
            self.through[place] |= head[1] > 0;
            values.extend(present.then_some((place, lanes)));
        }
        if !values.is_empty() {
            tree_sum_of_subtrees(&values, &mut self.sum[own.clone()]);
        }
        let work = Work::additions::<T>(values.len(), own.len());
        for distance in 1..=self.members.len() {
            let place = (self.place + distance) % self.members.len();
            let head = [1, self.gradients];
            let message = slice_message(fabric, head, &self.sum[own.clone()]);
            fabric.send(self.members[place], self.tags[1], message)?;
        }
        self.forget(fabric);
        Ok(work)
    }

    fn put_together(&mut self, fabric: &Fabric) -> Result<()> {
        for place in 0..self.members.len() {
            let range = self.slice(place);
            let Some(message) = &self.came[place] else { unreachable!("all parts have arrived") };
            let from = self.members[place];
            let (head, lanes) = slice_of::<T>(from, message)?;
            if lanes.len() != range.len() || head[1] != self.gradients {
                let why = Malformed::Wrong("it belongs to another sum");
                return Err(Error::malformed(from, why));
            }
            self.sum[range].copy_from_slice(lanes);
        }
        self.forget(fabric);
        Ok(())
    }

    fn forget(&mut self, fabric: &Fabric) {
        self.came.iter_mut().filter_map(Option::take).for_each(|message| fabric.keep(message));
    }
}

/// A message with a head of two numbers, and values.
pub(crate) fn slice_message<T: Pod>(fabric: &Fabric, head: [u64; 2], values: &[T]) -> Message {
    let mut message = fabric.message_of(size_of_val(values) + 40);
    message.put(&head);
    message.put(values);
    message
}

/// Reads a message of [`slice_message`].
pub(crate) fn slice_of<T: Pod>(from: usize, message: &Message) -> Result<([u64; 2], &[T])> {
    let mut reader = message.reader();
    let read = reader.take::<u64>().and_then(|head| {
        let values = reader.take::<T>()?;
        reader.end()?;
        let head =
            head.try_into().map_err(|_| Malformed::Wrong("its header has the wrong length"))?;
        Ok((head, values))
    });
    read.map_err(|why| Error::malformed(from, why))
}
