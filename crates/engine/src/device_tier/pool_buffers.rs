//! Buffers of one device for pooling.

use stepwell_device::{Buffer, Device, Event, Pinned, RowsAt, Stream};
use stepwell_kernels::PoolTable;

use super::describe::SentTables;
use super::pool_sizes::PoolSizes;
use crate::Result;

/// Buffers and state of one device for pooling.
#[derive(Debug)]
pub(crate) struct PoolBuffers {
    pub(crate) pools_host: Pinned<PoolTable>,
    pub(crate) pools: Buffer<PoolTable>,
    /// Weights of all devices' rows, if there are several devices.
    pub(crate) rows: Buffer<f32>,
    /// Gradients of all devices' examples, if there are several devices. // (rows, columns)
    pub(crate) d_x: Buffer<f32>,
    pub(crate) d_first_order: Buffer<f32>, // (rows)
    /// Recorded after the device's rows were read for other devices.
    pub(crate) read: Event,
    /// The mini-batch that is pooled and will be trained.
    pub(crate) pooled: Option<Pooled>,
    /// Number of words of the mini-batch's lists.
    pub(crate) words: usize,
    /// For each column its table, field and weight of rows.
    pub(crate) columns_of: Buffer<u32>,
}

/// A pooled mini-batch on a device, until it is updated.
#[derive(Debug)]
pub(crate) struct Pooled {
    pub(crate) number: u32,
    pub(crate) tables: SentTables,
    /// The rows that the device updates.
    pub(crate) rows: Vec<RowsAt>,
    /// Number of rows of gradients that the mini-batch's bags refer to.
    pub(crate) examples: usize,
}

impl PoolBuffers {
    pub(crate) fn new(
        device: &Device,
        stream: &Stream,
        tables: usize,
        sizes: &PoolSizes,
    ) -> Result<Self> {
        let words = sizes.columns_of.len();
        let mut host = device.pinned(words, "columns")?;
        let columns_of = device.buffer(words, "columns")?;
        host.write(words)?.copy_from_slice(&sizes.columns_of);
        stream.up(&host, 0..words, &columns_of, 0)?;
        let lanes = |count: usize, what| device.buffer::<f32>(count.max(1), what);
        Ok(Self {
            pools_host: device.pinned(tables, "pooled tables")?,
            pools: device.buffer(tables, "pooled tables")?,
            rows: lanes(sizes.lanes, "weights of all devices")?,
            d_x: lanes(sizes.rows * sizes.columns(), "gradients of all devices")?,
            d_first_order: lanes(sizes.rows, "first order of all devices")?,
            read: device.event()?,
            pooled: None,
            words: 0,
            columns_of,
        })
    }
}
