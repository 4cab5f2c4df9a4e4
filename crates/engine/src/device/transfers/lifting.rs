//! Lifts rows from their slots on the host into those on a device.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::SlotIndex;
use stepwell_base::rules::Rule;
use stepwell_device::{Arg, Event, Stream};

use super::{MoveRows, PieceRoom, SlotList};
use crate::Result;
use crate::device_tier::moves::AboveMove;
use crate::device_tier::sizes::PIECES;
use crate::device_tier::tier::DeviceTier;
use crate::group::Group;

/// Lifts rows to one device.
#[derive(Debug)]
pub(crate) struct Lifter {
    tier: Arc<DeviceTier>,
    device: usize,
    stream: Stream,
    /// Buffers for pieces, the least recently used first, as it may still be in flight.
    rooms: VecDeque<PieceRoom>,
    slots: Vec<SlotIndex>,
}

impl Lifter {
    pub(crate) fn new(
        tier: &Arc<DeviceTier>,
        device: usize,
        groups: &[Arc<Group>],
    ) -> Result<Self> {
        let of = &tier.devices[device].device;
        let rooms = (0..PIECES).map(|_| PieceRoom::new(of, tier, groups));
        Ok(Self {
            stream: of.stream("lift")?,
            rooms: rooms.collect::<Result<_>>()?,
            slots: Vec::new(),
            tier: Arc::clone(tier),
            device,
        })
    }

    /// Whether a buffer is free.
    pub(crate) fn has_room(&self) -> Result<bool> {
        let Some(first) = self.rooms.front() else { return Ok(false) };
        first.over.is_over().map_err(Into::into)
    }

    /// Waits until a buffer is free.
    pub(crate) fn wait_for_room(&self) -> Result<()> {
        if let Some(first) = self.rooms.front() {
            first.over.wait()?;
        }
        self.has_room().map(drop)
    }

    /// Sends the first of `moves` of group `number`, as many as fit a piece, and returns their
    /// number. A buffer must be free; slots become free after mini-batch `over`.
    pub(crate) fn send(
        &mut self,
        number: usize,
        group: &Group,
        moves: &[AboveMove],
        over: Option<u32>,
    ) -> Result<usize> {
        let count = moves.len().min(self.tier.plan.piece_rows[number]);
        let Some(mut room) = self.rooms.pop_front() else { return Ok(0) };
        let moves = &moves[..count];
        let one = &self.tier.devices[self.device];
        room.put_slots(moves)?;
        let at = one.slabs[number];
        let lanes = count * at.row_lanes;
        self.slots.clear();
        self.slots.extend(moves.iter().map(|moved| moved.host));
        let places = room.rows_host.write(lanes)?.chunks_exact_mut(at.row_lanes);
        let held = group.slab.hold(&self.slots);
        places.enumerate().for_each(|(index, place)| place.copy_from_slice(held.row(index)));
        drop(held);
        let stream = &self.stream;
        if self.tier.rules.hold(Rule::StepBeforeLift) {
            one.wait_for_steps(stream, over)?;
        }
        stream.up(&room.slots_host, 0..count, &room.slots, 0)?;
        stream.up(&room.rows_host, 0..lanes, &room.rows, 0)?;
        let touched = one.touched(number, moves.iter().map(|moved| moved.slot.0));
        let slab = Arg::rows(&one.rows, vec![touched]);
        let slots = SlotList { words: Arg::first(&room.slots, count), first: 0, count };
        stream.move_rows("rows_up", Arg::first(&room.rows, lanes), slab, at, slots)?;
        stream.record(&room.over)?;
        self.tier.copied_up(count + lanes);
        self.rooms.push_back(room);
        Ok(count)
    }

    /// An event after everything sent so far has arrived.
    pub(crate) fn sent(&self) -> Result<Event> {
        let event = self.tier.devices[self.device].device.event()?;
        self.stream.record(&event)?;
        Ok(event)
    }
}
