//! Transfers of rows between the host and a device, piece by piece.

mod lifting;
mod lowering;

use std::sync::Arc;

use stepwell_device::{Arg, Buffer, Device, Event, Pinned, Stream};
use stepwell_kernels::named;

pub(crate) use self::lifting::Lifter;
pub(crate) use self::lowering::Lowerer;
use crate::Result;
use crate::device_tier::describe::SlabAt;
use crate::device_tier::moves::AboveMove;
use crate::device_tier::tier::DeviceTier;
use crate::group::Group;

/// Buffers for one piece of rows.
#[derive(Debug)]
pub(super) struct PieceRoom {
    pub(super) slots_host: Pinned<u32>,
    pub(super) slots: Buffer<u32>,
    pub(super) rows_host: Pinned<f32>,
    pub(super) rows: Buffer<f32>,
    pub(super) over: Event,
}

impl PieceRoom {
    pub(super) fn new(device: &Device, tier: &DeviceTier, groups: &[Arc<Group>]) -> Result<Self> {
        let rows = tier.plan.piece_rows.iter().copied().max().unwrap_or(0);
        let lanes = groups.iter().zip(&tier.plan.piece_rows);
        let lanes = lanes.map(|(group, rows)| group.spec().row_lanes() * rows).max().unwrap_or(0);
        Ok(Self {
            slots_host: device.pinned(rows, "slots of rows being moved")?,
            slots: device.buffer(rows, "slots of rows being moved")?,
            rows_host: device.pinned(lanes, "rows being moved")?,
            rows: device.buffer(lanes, "rows being moved")?,
            over: device.event()?,
        })
    }

    /// Writes the device slots of `moves` to the list of slots on the host.
    pub(super) fn put_slots(&mut self, moves: &[AboveMove]) -> Result<()> {
        let words = self.slots_host.write(moves.len())?.iter_mut();
        words.zip(moves).for_each(|(word, moved)| *word = moved.slot.0);
        Ok(())
    }
}

/// Slots in a list on a device: `count` words from word `first` on.
pub(super) struct SlotList<'a> {
    pub(super) words: Arg<'a>,
    pub(super) first: usize,
    pub(super) count: usize,
}

/// A stream that moves rows between a slab and a buffer of consecutive rows.
pub(super) trait MoveRows {
    /// Launches `kernel`, `rows_up` or `rows_down`, to move the rows in these slots of the slab
    /// `at`.
    fn move_rows(
        &self,
        kernel: &'static str,
        from: Arg<'_>,
        to: Arg<'_>,
        at: SlabAt,
        slots: SlotList<'_>,
    ) -> Result<()>;
}

impl MoveRows for Stream {
    fn move_rows(
        &self,
        kernel: &'static str,
        from: Arg<'_>,
        to: Arg<'_>,
        at: SlabAt,
        SlotList { words, first, count }: SlotList<'_>,
    ) -> Result<()> {
        let args = vec![
            from,
            to,
            words,
            Arg::u64(at.first_lane as u64),
            Arg::u32(first as u32),
            Arg::u32(count as u32),
            Arg::u32(at.row_lanes as u32),
        ];
        // If rows allow it, a thread moves four lanes.
        Ok(self.launch(named(kernel), (count * at.row_lanes).div_ceil(4), args)?)
    }
}
