//! What pooling on devices takes of each.

use stepwell_device::Device;
use stepwell_kernels::{FREQUENT_BAGS, NONE, PoolTable};

use crate::TableSpec;
use crate::rows::{Blocks, Columns};

/// How a dense part on devices has its examples, and the columns that rows are pooled into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape<'a> {
    /// Columns of the pooled embeddings.
    pub columns: &'a Columns,
    /// Blocks of a mini-batch.
    pub blocks: usize,
    /// Devices that have blocks.
    pub devices: usize,
    /// Blocks of a device at most.
    pub slots: usize,
    /// Rows from the first example of a block to that of the next.
    pub slot_rows: usize,
}

/// What each device has for pooling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolSizes {
    /// Devices that have blocks.
    pub(super) devices: usize,
    pub(super) slot_rows: usize,
    pub(super) blocks: usize,
    /// What each column is: a table, a field of it, and a weight of its rows. // (columns, 3)
    pub(super) columns_of: Vec<u32>,
    tables: usize,
    /// Words of lists beside the slots of rows, and what rounds them.
    pub(in crate::device) words: usize,
    /// Lanes of weights of all devices; none for one device.
    pub(super) lanes: usize,
    /// Rows of gradients of all devices; none for one device.
    pub(super) rows: usize,
}

impl PoolSizes {
    /// Of `tables` on so many `devices`, `rows` distinct ones of each table at most and `lanes`
    /// lanes of them all; `ids` are the ids of a mini-batch at most, by table.
    pub(in crate::device) fn new(
        shape: PoolShape<'_>,
        (tables, devices): (&[TableSpec], usize),
        (rows, lanes, ids): (&[usize], usize, &[usize]),
    ) -> Self {
        let several = usize::from(devices > 1);
        let own_rows = shape.slots * shape.slot_rows;
        let of_table = |((fields, rows), ids): ((usize, &usize), &usize)| {
            // Ends of bags, rows and factors of occurrences, and where rows are;
            let pooled = own_rows * fields + 2 * ids + several * rows;
            // ends of rows' bags, these and their factors, frequent rows, ends of blocks, columns
            // of fields.
            let frequent = ids / FREQUENT_BAGS as usize;
            pooled + rows + 2 * ids + frequent + shape.blocks + fields
        };
        let fields = shape.columns.of_fields.iter().map(Vec::len);
        let words: usize = fields.zip(rows).zip(ids).map(of_table).sum();
        Self {
            devices: shape.devices,
            slot_rows: shape.slot_rows,
            blocks: shape.blocks,
            columns_of: columns_of(shape.columns, tables),
            tables: shape.columns.of_fields.len(),
            words,
            // Those of a device begin where 16 bytes can be read at once.
            lanes: several * (lanes + 4 * devices),
            rows: several * shape.blocks * shape.slot_rows,
        }
    }

    /// Columns of the pooled embeddings.
    pub(super) fn columns(&self) -> usize {
        self.columns_of.len() / 3
    }

    /// The blocks of a mini-batch, without regard to its examples.
    pub(super) fn all_blocks(&self) -> Blocks {
        Blocks::new(0, self.blocks)
    }

    /// Bytes of a device that the host has as well: what tables and columns are
    /// described by.
    pub(in crate::device) fn moving_bytes(&self) -> u64 {
        let bytes = [self.tables * size_of::<PoolTable>(), size_of_val(&*self.columns_of)];
        bytes.iter().map(|bytes| Device::bytes_counted(*bytes as u64)).sum()
    }

    /// Bytes of a device alone.
    pub(in crate::device) fn device_bytes(&self) -> u64 {
        let buffers = [self.lanes, self.rows * self.columns(), self.rows];
        buffers.iter().map(|lanes| Device::bytes_counted((lanes.max(&1) * 4) as u64)).sum()
    }

    /// Bytes of the host for where rows and examples are, of mini-batches of `rows` rows.
    pub(in crate::device) fn host_bytes(&self, rows: usize) -> u64 {
        ((rows + self.blocks * self.slot_rows) * size_of::<u32>()) as u64
    }
}

/// What each column of the pooled embeddings is.
fn columns_of(columns: &Columns, tables: &[TableSpec]) -> Vec<u32> {
    let mut words = vec![NONE; 3 * columns.count];
    for (number, (fields, table)) in columns.of_fields.iter().zip(tables).enumerate() {
        for (field, at) in fields.iter().enumerate() {
            let of_field = words[3 * at.column..].chunks_exact_mut(3).take(table.dim);
            for (lane, column) in of_field.enumerate() {
                column.copy_from_slice(&[number, field, lane].map(|word| word as u32));
            }
        }
    }
    assert!(!words.contains(&NONE), "each column is a weight of a field");
    words
}
