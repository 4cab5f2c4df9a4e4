//! Lowers rows from a device into their slots on the host.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::SlotIndex;
use stepwell_base::rules::Rule;
use stepwell_device::{Arg, Stream};

use super::{MoveRows, PieceRoom, SlotList};
use crate::Result;
use crate::device_tier::moves::AboveMove;
use crate::device_tier::sizes::PIECES;
use crate::device_tier::tier::DeviceTier;
use crate::group::Group;

/// A piece in flight: its buffers, its group, and the slots for its rows.
#[derive(Debug)]
struct Piece {
    room: PieceRoom,
    group: usize,
    slots: Vec<SlotIndex>,
}

/// Lowers rows from one device.
#[derive(Debug)]
pub(crate) struct Lowerer {
    tier: Arc<DeviceTier>,
    device: usize,
    stream: Stream,
    free: Vec<PieceRoom>,
    under_way: VecDeque<Piece>,
}

impl Lowerer {
    pub(crate) fn new(
        tier: &Arc<DeviceTier>,
        device: usize,
        groups: &[Arc<Group>],
    ) -> Result<Self> {
        let of = &tier.devices[device].device;
        let free = (0..PIECES).map(|_| PieceRoom::new(of, tier, groups));
        Ok(Self {
            stream: of.stream("lower")?,
            free: free.collect::<Result<_>>()?,
            under_way: VecDeque::new(),
            tier: Arc::clone(tier),
            device,
        })
    }

    /// Begins to lower the first of `moves` of group `number`, as many as fit a piece; returns
    /// their number, 0 if no buffer is free. Steps after mini-batch `over` don't use these rows.
    pub(crate) fn begin(
        &mut self,
        number: usize,
        moves: &[AboveMove],
        over: Option<u32>,
    ) -> Result<usize> {
        let count = moves.len().min(self.tier.plan.piece_rows[number]);
        let Some(mut room) = self.free.pop() else { return Ok(0) };
        let moves = &moves[..count];
        let one = &self.tier.devices[self.device];
        room.put_slots(moves)?;
        if self.tier.rules.hold(Rule::StepBeforeLower) {
            one.wait_for_steps(&self.stream, over)?;
        }
        let (stream, at) = (&self.stream, one.slabs[number]);
        let lanes = count * at.row_lanes;
        stream.up(&room.slots_host, 0..count, &room.slots, 0)?;
        let touched = one.touched(number, moves.iter().map(|moved| moved.slot.0));
        let slab = Arg::rows(&one.rows, vec![touched]);
        let slots = SlotList { words: Arg::first(&room.slots, count), first: 0, count };
        stream.move_rows("rows_down", slab, Arg::first(&room.rows, lanes), at, slots)?;
        stream.down(&room.rows, 0..lanes, &room.rows_host, 0)?;
        stream.record(&room.over)?;
        self.tier.copied_up(count);
        self.tier.copied_down(lanes);
        let slots = moves.iter().map(|moved| moved.host).collect();
        self.under_way.push_back(Piece { room, group: number, slots });
        Ok(count)
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Puts the rows of the first piece into their slots if it has arrived; returns `false` if it
    /// hasn't.
    pub(crate) fn advance(&mut self, groups: &[Arc<Group>]) -> Result<bool> {
        let Some(first) = self.under_way.front() else { return Ok(false) };
        if self.tier.rules.hold(Rule::WaitForLowered) && !first.room.over.is_over()? {
            return Ok(false);
        }
        self.put_first(groups)?;
        Ok(true)
    }

    /// Waits for the first piece, and puts its rows into their slots.
    pub(crate) fn wait(&mut self, groups: &[Arc<Group>]) -> Result<()> {
        let Some(first) = self.under_way.front() else { return Ok(()) };
        first.room.over.wait()?;
        self.put_first(groups)
    }

    /// Puts the rows of the first piece, which has arrived, into their slots.
    fn put_first(&mut self, groups: &[Arc<Group>]) -> Result<()> {
        let Some(Piece { mut room, group, slots }) = self.under_way.pop_front() else {
            return Ok(());
        };
        let slab = &groups[group].slab;
        let lanes = slab.row_lanes();
        let rows = room.rows_host.read(slots.len() * lanes)?;
        let mut held = slab.hold(&slots);
        let mut places = held.rows_mut();
        for (index, row) in rows.chunks_exact(lanes).enumerate() {
            places.row(index).copy_from_slice(row);
        }
        drop(held);
        self.free.push(room);
        Ok(())
    }
}
