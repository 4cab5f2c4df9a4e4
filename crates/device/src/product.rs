//! Products of matrices, in batches, as streams are given them.
//!
//! ```text
//! into[b] = left[b] · right[b] (+ into[b])     (rows, columns), (rows, depth), (depth, columns)
//!
//! element (i, j) of matrix b   lies at   at + b · batch_stride + i · row_stride + j
//!                              or, transposed, with i and j the other way round
//! ```
//!
//! - **Why.** A product is the one operation that makers of devices know better than we do.
//! - **Invariants.** what a product writes overlaps with nothing that it reads, and with itself
//!   nowhere: matrices of the result lie apart. Sums are f32, whatever operands are rounded to.
//! - **Bits.** The order of a sum is the device's own: two kinds of device give different bits, one
//!   device the same bits for the same shape. How many matrices are multiplied at once does not
//!   show, as long as [`Product::chosen_for`] is the same.

use std::ops::Range;

use crate::Buffer;

/// Most bytes of a device's memory that a stream takes as soon as it multiplies.
pub const WORKSPACE_BYTES_MAX: u64 = 32 << 20;

/// What operands are rounded to before they are multiplied; sums are f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Nothing: f32.
    #[default]
    F32,
    /// 10 bits behind the point.
    Tf32,
    /// 7 bits behind the point.
    Bf16,
}

impl Precision {
    /// A number as an operand has it: the nearest that there is, to even where two are.
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

/// How large the matrices of a product are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// How many products.
    pub batches: usize,
    /// Rows of the left matrix and of the result.
    pub rows: usize,
    /// Columns of the right matrix and of the result.
    pub columns: usize,
    /// Columns of the left matrix, rows of the right one.
    pub depth: usize,
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Elements from one row, as it is stored, to the next.
    pub row_stride: usize,
    /// Elements from one matrix to the next; 0 where all are the same one.
    pub batch_stride: usize,
    /// Whether rows and columns are stored the other way round.
    pub transposed: bool,
}

impl Layout {
    /// Rows of `columns` elements without gaps, of matrices that are all the same one.
    pub fn rows(columns: usize) -> Self {
        Self { row_stride: columns, batch_stride: 0, transposed: false }
    }

    /// Where element (`row`, `column`) of matrix `batch` lies.
    pub fn at(&self, batch: usize, row: usize, column: usize) -> usize {
        let (row, column) = if self.transposed { (column, row) } else { (row, column) };
        batch * self.batch_stride + row * self.row_stride + column
    }

    /// Elements from the first to behind the last of `batches` matrices that are not empty.
    fn span(&self, batches: usize, rows: usize, columns: usize) -> usize {
        if batches * rows * columns == 0 {
            return 0;
        }
        self.at(batches - 1, rows - 1, columns - 1) + 1
    }
}

/// A product: all of it but where its matrices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// How large.
    pub shape: Shape,
    /// How the left matrices lie. // (batches, rows, depth)
    pub left: Layout,
    /// How the right ones lie. // (batches, depth, columns)
    pub right: Layout,
    /// How the result lies, which is never transposed. // (batches, rows, columns)
    pub into: Layout,
    /// What operands are rounded to.
    pub precision: Precision,
    /// Whether the product is added to what is there.
    pub adds: bool,
    /// The number of matrices for which the device chooses how to multiply, so that these have the
    /// same bits, whether all of them are multiplied at once or some.
    pub chosen_for: usize,
}

impl Product {
    /// A product of matrices without gaps, one after another.
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

    /// The same with the left matrices stored the other way round, without gaps.
    #[must_use]
    pub fn left_transposed(self) -> Self {
        let left = Layout { row_stride: self.shape.rows, transposed: true, ..self.left };
        Self { left, ..self }
    }

    /// The same with the right matrices stored the other way round, without gaps.
    #[must_use]
    pub fn right_transposed(self) -> Self {
        let right = Layout { row_stride: self.shape.depth, transposed: true, ..self.right };
        Self { right, ..self }
    }

    /// Elements that the left, the right and the resulting matrices reach over.
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

    /// Asserts that rows do not overlap, and that results lie apart.
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

/// Where the matrices of a product begin: an element of a buffer.
pub type Matrices<'a> = (&'a Buffer<f32>, usize);

/// Multiplies on the host, for devices that are emulated.
pub trait Products: std::fmt::Debug + Send + Sync {
    /// Multiplies; each slice begins at the first element of its first matrix.
    fn product(&self, product: &Product, left: &[f32], right: &[f32], into: &mut [f32]);
}

/// Products by a plain loop: each sum in the order of the depth.
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

/// The part of a buffer that matrices reach over, checked.
pub(crate) fn part((buffer, at): Matrices<'_>, span: usize) -> Range<usize> {
    buffer.bytes(at..at + span)
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
