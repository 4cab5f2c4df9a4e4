//! Memory that pooling takes on each device.

use stepwell_device::Device;
use stepwell_kernels::{FREQUENT_BAGS, NONE, PoolTable};

use crate::blocks::Blocks;
use crate::request::Columns;
use crate::table_spec::TableSpec;

/// Layout of examples in a dense part on devices, and the columns that rows are pooled into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape<'a> {
    /// Columns of the pooled embeddings.
    pub columns: &'a Columns,
    /// Number of blocks of a mini-batch.
    pub blocks: usize,
    /// Number of devices that have blocks.
    pub devices: usize,
    /// Maximum number of blocks of a device.
    pub slots: usize,
    /// Number of rows from the first example of a block to that of the next.
    pub slot_rows: usize,
}

/// Sizes of each device's buffers for pooling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolSizes {
    /// Number of devices that have blocks.
    pub(crate) devices: usize,
    pub(crate) slot_rows: usize,
    pub(crate) blocks: usize,
    /// For each column its table, field and weight of rows. // (columns, 3)
    pub(crate) columns_of: Vec<u32>,
    tables: usize,
    /// Number of words of lists besides slots of rows and words for rounding.
    pub(crate) words: usize,
    /// Lanes of weights of all devices; 0 for a single device.
    pub(crate) lanes: usize,
    /// Rows of gradients of all devices; 0 for a single device.
    pub(crate) rows: usize,
}

impl PoolSizes {
    /// Sizes for `tables` on `devices` devices, with at most `rows` distinct rows and `ids` ids of
    /// each table in a mini-batch, and `lanes` lanes of all these rows.
    pub(crate) fn new(
        shape: PoolShape<'_>,
        tables: &[TableSpec],
        devices: usize,
        rows: &[usize],
        lanes: usize,
        ids: &[usize],
    ) -> Self {
        let several = usize::from(devices > 1);
        let own_rows = shape.slots * shape.slot_rows;
        let of_table = |((fields, rows), ids): ((usize, &usize), &usize)| {
            // Ends of bags, rows and factors of occurrences, and positions of rows;
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
            // Align each device's weights to 16 bytes.
            lanes: several * (lanes + 4 * devices),
            rows: several * shape.blocks * shape.slot_rows,
        }
    }

    /// Number of columns of the pooled embeddings.
    pub(crate) fn columns(&self) -> usize {
        self.columns_of.len() / 3
    }

    /// The blocks of a mini-batch, without its examples.
    pub(crate) fn all_blocks(&self) -> Blocks {
        Blocks::new(0, self.blocks)
    }

    /// Bytes of a device, and as many on the host, for descriptions of tables and columns.
    pub(crate) fn moving_bytes(&self) -> u64 {
        let bytes = [self.tables * size_of::<PoolTable>(), size_of_val(&*self.columns_of)];
        bytes.iter().map(|bytes| Device::bytes_counted(*bytes as u64)).sum()
    }

    /// Bytes of a device alone.
    pub(crate) fn device_bytes(&self) -> u64 {
        let buffers = [self.lanes, self.rows * self.columns(), self.rows];
        buffers.iter().map(|lanes| Device::bytes_counted((lanes.max(&1) * 4) as u64)).sum()
    }

    /// Bytes of the host for positions of rows and examples, for mini-batches of `rows` rows.
    pub(crate) fn host_bytes(&self, rows: usize) -> u64 {
        ((rows + self.blocks * self.slot_rows) * size_of::<u32>()) as u64
    }
}

/// For each column of the pooled embeddings its table, field and weight.
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
