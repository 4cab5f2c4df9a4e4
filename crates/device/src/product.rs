//! Batched matrix products on streams.
//!
//! ```text
//! into[b] = left[b] · right[b] (+ into[b])     (rows, columns), (rows, depth), (depth, columns)
//!
//! element (i, j) of matrix b   is at    at + b · batch_stride + i · row_stride + j
//!                              or, transposed, with i and j swapped
//! ```
//!
//! - **Why.** A product is the one operation that device vendors implement better than we do.
//! - **Invariants.** The result overlaps no operand, and its matrices don't overlap each other.
//!   Sums are f32, whatever operands are rounded to.
//! - **Bits.** The device determines the order of a sum: two kinds of device give different bits,
//!   one device the same bits for the same shape. The number of matrices multiplied at once doesn't
//!   affect the bits if [`Product::chosen_for`] is the same.

/// Maximum bytes of device memory that a stream takes for products.
pub const WORKSPACE_BYTES_MAX: u64 = 32 << 20;

/// Rounding of operands before they are multiplied; sums are f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// No rounding: f32.
    #[default]
    F32,
    /// 10 bits after the point.
    Tf32,
    /// 7 bits after the point.
    Bf16,
}

impl Precision {
    /// Rounds an operand to the nearest number, ties to even.
    pub fn round(self, value: f32) -> f32 {
        let dropped = match self {
            Self::F32 => return value,
            Self::Tf32 => 13,
            Self::Bf16 => 16,
        };
        if !value.is_finite() {
            return value;
        }
        let bits = value.to_bits();
        let half = (1 << (dropped - 1)) - 1 + (bits >> dropped & 1);
        f32::from_bits((bits + half) >> dropped << dropped)
    }
}

/// Sizes of the matrices of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Number of products.
    pub batches: usize,
    /// Rows of the left matrix and of the result.
    pub rows: usize,
    /// Columns of the right matrix and of the result.
    pub columns: usize,
    /// Columns of the left matrix, rows of the right one.
    pub depth: usize,
}

/// Layout of a matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Number of elements from one stored row to the next.
    pub row_stride: usize,
    /// Number of elements from one matrix to the next; 0 if all are the same one.
    pub batch_stride: usize,
    /// Whether the matrix is stored transposed.
    pub transposed: bool,
}

impl Layout {
    /// Rows of `columns` elements without gaps; all matrices are the same one.
    pub fn rows(columns: usize) -> Self {
        Self { row_stride: columns, batch_stride: 0, transposed: false }
    }

    /// Index of element (`row`, `column`) of matrix `batch`.
    pub fn at(&self, batch: usize, row: usize, column: usize) -> usize {
        let (row, column) = if self.transposed { (column, row) } else { (row, column) };
        batch * self.batch_stride + row * self.row_stride + column
    }

    /// Number of elements from the first to the last of `batches` matrices; 0 if they are empty.
    fn span(&self, batches: usize, rows: usize, columns: usize) -> usize {
        if batches * rows * columns == 0 {
            return 0;
        }
        self.at(batches - 1, rows - 1, columns - 1) + 1
    }
}

/// A product, without the positions of its matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Sizes of the matrices.
    pub shape: Shape,
    /// Layout of the left matrices. // (batches, rows, depth)
    pub left: Layout,
    /// Layout of the right matrices. // (batches, depth, columns)
    pub right: Layout,
    /// Layout of the result, which is never transposed. // (batches, rows, columns)
    pub into: Layout,
    /// Rounding of operands.
    pub precision: Precision,
    /// Whether the product is added to the previous contents.
    pub adds: bool,
    /// The number of matrices for which the device chooses the algorithm, so that a matrix has the
    /// same bits whether all of them are multiplied at once or only some.
    pub chosen_for: usize,
}

impl Product {
    /// A product of matrices that are stored one after another, without gaps.
    pub fn of(shape: Shape) -> Self {
        let layout = |rows, columns| Layout {
            batch_stride: rows * columns,
            row_stride: columns,
            transposed: false,
        };
        Self {
            shape,
            left: layout(shape.rows, shape.depth),
            right: layout(shape.depth, shape.columns),
            into: layout(shape.rows, shape.columns),
            precision: Precision::F32,
            adds: false,
            chosen_for: shape.batches,
        }
    }

    /// Stores the left matrices transposed, without gaps.
    #[must_use]
    pub fn left_transposed(self) -> Self {
        let left = Layout { row_stride: self.shape.rows, transposed: true, ..self.left };
        Self { left, ..self }
    }

    /// Stores the right matrices transposed, without gaps.
    #[must_use]
    pub fn right_transposed(self) -> Self {
        let right = Layout { row_stride: self.shape.depth, transposed: true, ..self.right };
        Self { right, ..self }
    }

    /// Number of elements that the left, right and resulting matrices span.
    pub fn spans(&self) -> [usize; 3] {
        let Shape { batches, rows, columns, depth } = self.shape;
        [
            self.left.span(batches, rows, depth),
            self.right.span(batches, depth, columns),
            self.into.span(batches, rows, columns),
        ]
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        let Shape { batches, rows, columns, depth } = self.shape;
        batches * rows * columns == 0 || depth == 0 && self.adds
    }

    /// Asserts that rows and results don't overlap.
    pub(crate) fn check(&self) {
        let Shape { batches, rows, columns, depth } = self.shape;
        let fits = |layout: &Layout, rows: usize, columns: usize| {
            let (rows, columns) = if layout.transposed { (columns, rows) } else { (rows, columns) };
            rows <= 1 || columns <= layout.row_stride
        };
        assert!(fits(&self.left, rows, depth), "rows of the left matrix overlap: {self:?}");
        assert!(fits(&self.right, depth, columns), "rows of the right matrix overlap: {self:?}");
        assert!(fits(&self.into, rows, columns), "rows of the result overlap: {self:?}");
        assert!(!self.into.transposed, "a result is never transposed: {self:?}");
        let apart = batches <= 1 || self.into.batch_stride >= self.into.span(1, rows, columns);
        assert!(apart, "matrices of the result overlap: {self:?}");
    }
}

/// Matrix multiplication on the host, for emulated devices.
pub trait Products: std::fmt::Debug + Send + Sync {
    /// Multiplies; each slice begins at the first element of its first matrix.
    fn product(&self, product: &Product, left: &[f32], right: &[f32], into: &mut [f32]);
}

/// Products by a plain loop, with each sum in order of the depth.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainProducts;

impl Products for PlainProducts {
    fn product(&self, product: &Product, left: &[f32], right: &[f32], into: &mut [f32]) {
        let Product { shape, precision, .. } = *product;
        let each = |range: usize| 0..range;
        for batch in each(shape.batches) {
            for row in each(shape.rows) {
                for column in each(shape.columns) {
                    let term = |depth| {
                        let left = left[product.left.at(batch, row, depth)];
                        let right = right[product.right.at(batch, depth, column)];
                        precision.round(left) * precision.round(right)
                    };
                    let sum = each(shape.depth).map(term).fold(0.0, |sum, term| sum + term);
                    let place = &mut into[product.into.at(batch, row, column)];
                    *place = if product.adds { *place + sum } else { sum };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_rounded_to_the_nearest_and_to_even() {
        let near = 1.0 + 2f32.powi(-8);
        for (value, rounded) in [
            (1.0, 1.0),
            (near, 1.0),
            (near + 2f32.powi(-20), 1.0 + 2f32.powi(-7)),
            (1.0 + 3.0 * 2f32.powi(-8), 1.0 + 2f32.powi(-6)),
            (-near, -1.0),
            (256.0, 256.0),
            (257.0, 256.0),
            (f32::INFINITY, f32::INFINITY),
        ] {
            assert_eq!(Precision::Bf16.round(value), rounded, "{value}");
            assert_eq!(Precision::F32.round(value), value);
        }
        assert_eq!(Precision::Tf32.round(257.0), 257.0);
        assert_eq!(Precision::Tf32.round(1.0 + 2f32.powi(-11)), 1.0);
        assert!(Precision::Bf16.round(f32::NAN).is_nan());
    }

    #[test]
    fn spans_end_behind_the_last_element() {
        let shape = Shape { batches: 2, rows: 3, columns: 4, depth: 5 };
        assert_eq!(Product::of(shape).spans(), [30, 40, 24]);
        assert_eq!(Product::of(shape).left_transposed().right_transposed().spans(), [30, 40, 24]);
        let wide = Layout { row_stride: 10, batch_stride: 100, transposed: false };
        let product = Product { into: wide, ..Product::of(shape) };
        assert_eq!(product.spans()[2], 124);
        assert_eq!(Product::of(Shape { batches: 0, ..shape }).spans(), [0, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "matrices of the result overlap")]
    fn results_lie_apart() {
        let shape = Shape { batches: 2, rows: 3, columns: 4, depth: 5 };
        let into = Layout { batch_stride: 11, ..Product::of(shape).into };
        Product { into, ..Product::of(shape) }.check();
    }
}
