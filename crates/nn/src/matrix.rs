//! Row-major matrices in borrowed memory: one row per example, optionally with a gap after each
//! row.

use std::ops::Range;

/// A matrix for reading.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    data: &'a [T], // row i starts at i * stride
    rows: usize,
    columns: usize,
    stride: usize,
}

/// A matrix for writing.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    data: &'a mut [T], // row i starts at i * stride
    rows: usize,
    columns: usize,
    stride: usize,
}

/// How to combine a result with the existing contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Replaces the contents, which are never read.
    Overwrite,
    /// Adds to the contents.
    Accumulate,
}

/// Number of lanes from the first to the last element of a matrix.
fn span(rows: usize, columns: usize, stride: usize) -> usize {
    assert!(columns <= stride || rows <= 1, "rows of {columns} columns overlap at stride {stride}");
    if rows == 0 { 0 } else { (rows - 1) * stride + columns }
}

impl<'a, T> Matrix<'a, T> {
    /// A matrix of `rows` rows that start every `stride` lanes in `data`.
    pub fn new(data: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        let lanes = span(rows, columns, stride);
        assert!(lanes <= data.len(), "{lanes} lanes of a matrix in a buffer of {}", data.len());
        Self { data: &data[..lanes], rows, columns, stride }
    }

    /// A matrix of `rows` rows without gaps.
    pub fn packed(data: &'a [T], rows: usize, columns: usize) -> Self {
        Self::new(data, rows, columns, columns)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Lanes between the starts of rows.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Lanes from the first to the last element.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// One row.
    #[inline(always)]
    pub fn row(&self, index: usize) -> &'a [T] {
        &self.data[index * self.stride..][..self.columns]
    }

    /// The matrix of these columns.
    pub fn select(&self, columns: Range<usize>) -> Self {
        assert!(columns.end <= self.columns, "columns {columns:?} of {}", self.columns);
        let start = if self.rows == 0 { 0 } else { columns.start };
        Self::new(&self.data[start..], self.rows, columns.len(), self.stride)
    }
}

impl<'a, T> MatrixMut<'a, T> {
    /// A matrix of `rows` rows that start every `stride` lanes in `data`.
    pub fn new(data: &'a mut [T], rows: usize, columns: usize, stride: usize) -> Self {
        let (lanes, had) = (span(rows, columns, stride), data.len());
        assert!(lanes <= had, "{lanes} lanes of a matrix in a buffer of {had}");
        Self { data: &mut data[..lanes], rows, columns, stride }
    }

    /// A matrix of `rows` rows without gaps.
    pub fn packed(data: &'a mut [T], rows: usize, columns: usize) -> Self {
        Self::new(data, rows, columns, columns)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Lanes between the starts of rows.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Lanes from the first to the last element.
    pub fn data(&self) -> &[T] {
        self.data
    }

    /// Lanes from the first to the last element.
    pub fn data_mut(&mut self) -> &mut [T] {
        self.data
    }

    /// One row.
    #[inline(always)]
    pub fn row(&mut self, index: usize) -> &mut [T] {
        &mut self.data[index * self.stride..][..self.columns]
    }

    /// Borrows the matrix for reading.
    pub fn as_ref(&self) -> Matrix<'_, T> {
        Matrix::new(self.data, self.rows, self.columns, self.stride)
    }

    /// Borrows the matrix for writing.
    pub fn reborrow(&mut self) -> MatrixMut<'_, T> {
        MatrixMut::new(self.data, self.rows, self.columns, self.stride)
    }

    /// The matrix of these columns.
    pub fn select(self, columns: Range<usize>) -> Self {
        assert!(columns.end <= self.columns, "columns {columns:?} of {}", self.columns);
        let start = if self.rows == 0 { 0 } else { columns.start };
        Self::new(&mut self.data[start..], self.rows, columns.len(), self.stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_where_they_should() {
        let data: Vec<u32> = (0..11).collect();
        let matrix = Matrix::new(&data, 3, 3, 4);
        assert_eq!(matrix.row(2), [8, 9, 10]);
        assert_eq!(matrix.select(1..3).row(1), [5, 6]);
        assert_eq!(matrix.select(3..3).row(0), [0u32; 0]);
        assert_eq!(Matrix::packed(&data[..0], 0, 7).select(2..5).rows(), 0);
        let mut copy = data.clone();
        let mut part = MatrixMut::new(&mut copy, 3, 3, 4).select(2..3);
        part.row(1)[0] = 77;
        assert_eq!(copy[6], 77);
    }

    #[test]
    #[should_panic(expected = "12 lanes of a matrix in a buffer of 11")]
    fn a_matrix_fits_its_buffer() {
        let _ = Matrix::packed(&[0u8; 11], 3, 4);
    }
}
