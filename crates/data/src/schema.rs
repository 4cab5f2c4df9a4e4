//! Shape of an example.

use stepwell_base::Namespace;

use crate::error::DataError;

/// Number of dense features, id columns and labels of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Dense features: numbers, transformed by [`crate::log1p_of_number`].
    pub dense: usize,
    /// Id columns: one id each in plain lines, any number in general.
    pub id_columns: usize,
    /// Labels.
    pub labels: Labels,
}

/// Labels of an example, and whether it has a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Number of labels, at least 1.
    pub count: usize,
    /// Whether labels may be outside 0 to 1.
    pub are_numbers: bool,
    /// Whether every example has a weight.
    pub weighted: bool,
}

impl Labels {
    /// One label from 0 to 1, without weights.
    pub const ONE: Self = Self { count: 1, are_numbers: false, weighted: false };

    /// Whether the label is stored as 0 or 1, if it isn't strictly between.
    pub fn may_be_bits(&self) -> bool {
        self.count == 1 && !self.are_numbers
    }
}

/// Most labels of an example.
pub(crate) const LABELS_MAX: usize = 256;

/// Malformed lines per chunk with a recorded reason; further ones have a position only.
pub const REASONS_MAX: usize = 16;

/// Most bytes of a chunk's reasons: short texts with a quotation of bounded length.
const REASONS_BYTES_MAX: usize = REASONS_MAX * 1024;

/// Most columns of a line.
pub(crate) const COLUMNS_MAX: usize = 65_536;

impl Schema {
    /// The layout of the Criteo click logs: 13 integers, 26 ids.
    pub const CRITEO: Self = Self::new(13, 26);

    /// A schema with one label from 0 to 1.
    pub const fn new(dense: usize, id_columns: usize) -> Self {
        Self { dense, id_columns, labels: Labels::ONE }
    }

    /// Number of columns of a line: label, dense features, ids.
    pub fn columns(&self) -> usize {
        1 + self.dense + self.id_columns
    }

    /// Namespaces of the id columns: `C1`, `C2` and so on.
    pub fn namespaces(&self) -> Vec<Namespace> {
        (1..=self.id_columns).map(Namespace::of_column).collect()
    }

    /// Rejects schemas without features, or beyond the limits.
    ///
    /// # Errors
    /// [`DataError::Options`] with the numbers.
    pub fn check(&self) -> Result<(), DataError> {
        let features = self.dense.saturating_add(self.id_columns);
        let labels = self.labels.count;
        if !(1..=LABELS_MAX).contains(&labels) {
            return Err(DataError::Options(format!(
                "{labels} labels: an example has 1 to {LABELS_MAX}"
            )));
        }
        if (1..COLUMNS_MAX).contains(&features) {
            return Ok(());
        }
        let (dense, id_columns, most) = (self.dense, self.id_columns, COLUMNS_MAX - 1);
        Err(DataError::Options(format!(
            "{dense} dense features and {id_columns} id columns: an example has 1 to \
             {most} features"
        )))
    }

    /// Bytes of the shortest possible example: a label, a separator before every feature, a line
    /// end.
    pub fn line_bytes_min(&self) -> usize {
        self.columns() + 1
    }

    /// Bytes of one parsed example in a [`crate::Chunk`].
    pub fn example_bytes(&self) -> usize {
        let (lane, key, end) = (size_of::<f32>(), size_of::<u64>(), size_of::<u32>());
        let labels = self.labels.count + usize::from(self.labels.weighted);
        // Labels and weight, truth, line offset; dense features; a key and a bag end per id column.
        (labels + 1) * lane + end + self.dense * lane + self.id_columns * (key + end)
    }

    /// Most bytes of a chunk parsed from a block of `block_bytes`.
    ///
    /// The bound covers blocks of many short lines; real blocks take about a tenth. A malformed
    /// line, which can be one byte long, costs 4 bytes, and 8 while the list of them grows.
    pub fn chunk_bytes_max(&self, block_bytes: usize) -> usize {
        // A malformed last line is also parsed into rows.
        let examples = block_bytes / self.line_bytes_min() + 1;
        examples * self.example_bytes() + block_bytes * 2 * size_of::<u32>() + REASONS_BYTES_MAX
    }
}
