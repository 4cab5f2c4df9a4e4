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
pub(crate) struct Visitor {
    pub(crate) stream: Stream,
    pub(crate) lists_host: Pinned<u32>,
    pub(crate) lists: Buffer<u32>,
    /// Weights copied down, then sums of gradients copied up.
    pub(crate) lanes_host: Pinned<f32>,
    pub(crate) lanes: Buffer<f32>,
    pub(crate) tables_host: Pinned<UpdateTable>,
    pub(crate) tables: Buffer<UpdateTable>,
    /// Hash tables that find slots, if the host doesn't send them.
    pub(crate) lookup: Option<Tables>,
    /// The mini-batch whose slots are at the start of the lists.
    pub(crate) listed: Option<u32>,
    /// Buffers for pooling, if the dense part is on the device.
    pub(crate) pool: Option<PoolBuffers>,
    pub(crate) fetched: Event,
    pub(crate) sent: Event,
}

impl Visitor {
    pub(crate) fn new(device: &Device, plan: &DevicePlan) -> Result<Self> {
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

    pub(crate) fn pool(&self) -> &PoolBuffers {
        let Some(room) = &self.pool else { panic!("this device does not pool") };
        room
    }

    pub(crate) fn pool_mut(&mut self) -> &mut PoolBuffers {
        let Some(room) = &mut self.pool else { panic!("this device does not pool") };
        room
    }
}
