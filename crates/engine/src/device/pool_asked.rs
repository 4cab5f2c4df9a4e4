//! A mini-batch to be pooled, and the buffers of the dense part for it.

use std::sync::Arc;

use stepwell_device::{Buffer, Event};

use crate::blocks::Blocks;
use crate::group::Group;
use crate::request::Columns;
use crate::table_spec::TableSpec;
use crate::working_set::Part;

/// Buffers that connect the rows on a device with its replica of the dense part. A row of a buffer
/// is an example; blocks of the device begin `slot_rows` rows apart.
#[derive(Debug)]
pub struct PooledAt {
    /// Input of the layers, pooled embeddings first. // (rows, columns)
    pub x: Buffer<f32>,
    /// Number of columns of the input.
    pub columns: usize,
    /// Sums of first-order weights. // (rows)
    pub first_order: Buffer<f32>,
    /// Gradients of the pooled embeddings. // (rows, embedding columns)
    pub d_x: Buffer<f32>,
    /// Gradients of the sums of first-order weights. // (rows)
    pub d_first_order: Buffer<f32>,
    /// Recorded after rows are pooled; layers wait for it.
    pub pooled: Event,
    /// Recorded by the owner of the layers after their gradients are complete.
    pub passed: Event,
}

/// A mini-batch whose rows are all on devices, to be pooled.
#[derive(Clone, Copy)]
pub(crate) struct PoolAsked<'a> {
    pub(crate) parts: &'a [Part],
    pub(crate) groups: &'a [Arc<Group>],
    pub(crate) tables: &'a [TableSpec],
    pub(crate) columns: &'a Columns,
    pub(crate) blocks: Blocks,
    pub(crate) at: &'a [Arc<PooledAt>],
    pub(crate) number: u32,
    /// Number of the step, if the mini-batch trains.
    pub(crate) step: Option<u64>,
}
