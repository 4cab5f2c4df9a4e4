//! Matrix products of emulated devices, computed by the processor.

use std::sync::{Mutex, PoisonError};

use stepwell_device::{Layout, Precision, Product, Products};
use stepwell_nn::{Matrix, MatrixMut, Multiplier, Precision as OfLayers, Side, Write};

/// Multiplies as layers on the processor do, with the same bits.
#[derive(Debug, Default)]
pub struct HostProducts {
    /// Idle multipliers; at most as many as products ever ran concurrently.
    multipliers: Mutex<Vec<Multiplier>>,
}

impl HostProducts {
    fn at_rest(&self) -> std::sync::MutexGuard<'_, Vec<Multiplier>> {
        self.multipliers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Products for HostProducts {
    fn product(&self, product: &Product, left: &[f32], right: &[f32], into: &mut [f32]) {
        let Product { shape, adds, .. } = *product;
        let precision = match product.precision {
            Precision::Bf16 => OfLayers::Bf16,
            Precision::F32 | Precision::Tf32 => OfLayers::F32,
        };
        let write = if adds { Write::Accumulate } else { Write::Overwrite };
        let multiplier = self.at_rest().pop();
        let mut multiplier = multiplier.unwrap_or_default();
        for batch in 0..shape.batches {
            let left = side(left, &product.left, batch, (shape.rows, shape.depth));
            let right = side(right, &product.right, batch, (shape.depth, shape.columns));
            let target = &mut into[product.into.at(batch, 0, 0)..];
            let stride = product.into.row_stride;
            let target = MatrixMut::new(target, shape.rows, shape.columns, stride);
            multiplier.multiply(precision, target, write, left, right);
        }
        self.at_rest().push(multiplier);
    }
}

/// Returns matrix number `batch` in `lanes`.
fn side<'a>(
    lanes: &'a [f32],
    layout: &Layout,
    batch: usize,
    (rows, columns): (usize, usize),
) -> Side<'a> {
    let lanes = &lanes[layout.at(batch, 0, 0)..];
    if layout.transposed {
        Side::Transposed(Matrix::new(lanes, columns, rows, layout.row_stride))
    } else {
        Side::Plain(Matrix::new(lanes, rows, columns, layout.row_stride))
    }
}

#[cfg(test)]
mod tests {
    use stepwell_device::{PlainProducts, Shape};

    use super::*;

    #[test]
    fn products_are_those_of_a_plain_loop() {
        let numbers = |count: usize, by: usize| -> Vec<f32> {
            (0..count).map(|number| (number * by % 17) as f32 - 8.0).collect()
        };
        let shape = Shape { batches: 3, rows: 5, columns: 7, depth: 4 };
        let plain = Product::of(shape);
        let turned = plain.left_transposed().right_transposed();
        for of in [plain, plain.left_transposed(), plain.right_transposed(), turned] {
            for precision in [Precision::F32, Precision::Bf16] {
                for adds in [false, true] {
                    let product = Product { precision, adds, ..of };
                    let (left, right) = (numbers(60, 5), numbers(84, 3));
                    let mut expected = numbers(105, 7);
                    let mut found = expected.clone();
                    PlainProducts.product(&product, &left, &right, &mut expected);
                    HostProducts::default().product(&product, &left, &right, &mut found);
                    // Small whole numbers: exact in any order.
                    assert_eq!(found, expected, "{product:?}");
                }
            }
        }
    }
}
