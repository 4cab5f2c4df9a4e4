//! Buffers of a device for the rows of a step.

use stepwell_device::{Buffer, Device, Event, Pinned, Stream};
use stepwell_kernels::UpdateTable;

use super::key_table::Tables;
use super::lookup::Lookup;
use super::pool_buffers::PoolBuffers;
use super::sizes::DevicePlan;
use crate::Result;

/// Buffers and state of one device for the rows of a step.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) stream: Stream,
    pub(super) lists_host: Pinned<u32>,
    pub(super) lists: Buffer<u32>,
    /// Weights copied down, then sums of gradients copied up.
    pub(super) lanes_host: Pinned<f32>,
    pub(super) lanes: Buffer<f32>,
    pub(super) tables_host: Pinned<UpdateTable>,
    pub(super) tables: Buffer<UpdateTable>,
    /// Hash tables that find slots, if the host doesn't send them.
    pub(super) lookup: Option<Tables>,
    /// The mini-batch whose slots are at the start of the lists.
    pub(super) listed: Option<u32>,
    /// Buffers for pooling, if the dense part is on the device.
    pub(super) pool: Option<PoolBuffers>,
    pub(super) fetched: Event,
    pub(super) sent: Event,
}

impl Visitor {
    pub(super) fn new(device: &Device, plan: &DevicePlan) -> Result<Self> {
        let (words, lanes) = (plan.words(), plan.lanes_max());
        let tables = plan.rows_max.len();
        let stream = device.stream("step")?;
        Ok(Self {
            lists_host: device.pinned(words, "lists of a step")?,
            lists: device.buffer(words, "lists of a step")?,
            lanes_host: device.pinned(lanes, "weights and gradients")?,
            lanes: device.buffer(lanes, "weights and gradients")?,
            tables_host: device.pinned(tables, "tables of a step")?,
            tables: device.buffer(tables, "tables of a step")?,
            lookup: match plan.lookup {
                Lookup::Slots => None,
                Lookup::Table => {
                    let (rows, moved) = (plan.rows_of_step(), plan.list_words());
                    Some(Tables::new(device, &stream, &plan.slots, rows, moved)?)
                }
            },
            listed: None,
            pool: match &plan.pooling {
                Some(sizes) => Some(PoolBuffers::new(device, &stream, tables, sizes)?),
                None => None,
            },
            stream,
            fetched: device.event()?,
            sent: device.event()?,
        })
    }

    pub(super) fn pool(&self) -> &PoolBuffers {
        let Some(room) = &self.pool else { panic!("this device does not pool") };
        room
    }

    pub(super) fn pool_mut(&mut self) -> &mut PoolBuffers {
        let Some(room) = &mut self.pool else { panic!("this device does not pool") };
        room
    }
}
