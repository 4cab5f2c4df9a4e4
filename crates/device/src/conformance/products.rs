//! Products compared to a plain loop. Operands are whole numbers small enough that every precision
//! is exact and the order of sums doesn't matter.

use super::support::{contents, filled};
use crate::device::Device;
use crate::product::{Layout, PlainProducts, Precision, Product, Products, Shape};
use crate::stream::Stream;

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Tf32, Precision::Bf16];

fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 7919 + seed * 104_729) % 17) as f32 - 8.0).collect()
}

fn shape(batches: usize, rows: usize, columns: usize, depth: usize) -> Shape {
    Shape { batches, rows, columns, depth }
}

/// Compares a product on the device to the host's, with `before` elements before each matrix.
fn compare(device: &Device, stream: &Stream, product: &Product, before: usize) {
    let [left, right, into] = product.spans();
    let [left, right] = [(left, 1), (right, 2)].map(|(len, seed)| numbers(len + before, seed));
    let mut wanted = numbers(into + before + 1, 3);
    let [left_there, right_there, into_there] =
        [&left, &right, &wanted].map(|values| filled(device, stream, values));
    let (left_at, right_at) = ((&left_there, before), (&right_there, before));
    let give = || stream.product(product, left_at, right_at, (&into_there, before));
    match before {
        0 => give().unwrap(),
        // Captured, the result is the same.
        _ => stream.run(&stream.capture(give).unwrap()).unwrap(),
    }
    let [left, right] = [&left[before..], &right[before..]];
    PlainProducts.product(product, left, right, &mut wanted[before..]);
    let came = contents(device, stream, &into_there);
    let wrong = came.iter().zip(&wanted).position(|(came, wanted)| came != wanted);
    assert!(wrong.is_none(), "{product:?}: element {wrong:?} of the result");
}

pub(super) fn all(device: &Device) {
    shapes_and_layouts(device);
    repeated(device);
    as_many_at_once_as_one_likes(device);
}

fn shapes_and_layouts(device: &Device) {
    let stream = device.stream("products").unwrap();
    let shapes = [
        shape(1, 1, 1, 1),
        shape(1, 3, 5, 7),
        shape(1, 64, 16, 32),
        shape(3, 27, 27, 16),
        shape(2, 100, 1, 33),
        shape(1, 1, 130, 65),
        shape(0, 2, 2, 2),
        shape(1, 4, 0, 4),
        shape(2, 3, 5, 0),
    ];
    for shape in shapes {
        let plain = Product::of(shape);
        let (left, right) = (plain.left_transposed(), plain.right_transposed());
        for product in [plain, left, right, left.right_transposed()] {
            for precision in PRECISIONS {
                compare(device, &stream, &Product { precision, ..product }, 0);
                compare(device, &stream, &Product { precision, adds: true, ..product }, 0);
            }
            compare(device, &stream, &product, 5);
        }
    }
    let within = |row_stride, batch_stride| Layout { row_stride, batch_stride, transposed: false };
    let gaps = Product {
        left: within(20, 200),
        right: within(13, 0),
        into: within(9, 100),
        ..Product::of(shape(2, 8, 6, 10))
    };
    compare(device, &stream, &gaps, 0);
    compare(device, &stream, &Product { adds: true, ..gaps }, 3);
    let turned = Product { left: Layout { transposed: true, ..gaps.left }, ..gaps };
    compare(device, &stream, &turned, 0);
}

/// The same product always gives the same bits, whatever its numbers are.
fn repeated(device: &Device) {
    let stream = device.stream("repeated").unwrap();
    let shape = shape(2, 70, 40, 300);
    // A device may round operands less than requested; these are bounds for 300 terms.
    for (precision, apart) in PRECISIONS.into_iter().zip([1e-3, 0.2, 1.5]) {
        let product = Product { precision, ..Product::of(shape) };
        let [left, right, into] = product.spans();
        let odd = |len, seed| numbers(len, seed).iter().map(|x| x / 7.3).collect::<Vec<f32>>();
        let (left, right) = (odd(left, 4), odd(right, 5));
        let there = [&left, &right].map(|values| filled(device, &stream, values));
        let result = || {
            let target = device.buffer::<f32>(into, "result").unwrap();
            stream.product(&product, (&there[0], 0), (&there[1], 0), (&target, 0)).unwrap();
            contents(device, &stream, &target)
        };
        let first = result();
        let mut plain = vec![0.0; into];
        PlainProducts.product(&product, &left, &right, &mut plain);
        for (came, wanted) in first.iter().zip(&plain) {
            assert!((came - wanted).abs() < apart, "{product:?}: {came} for {wanted}");
        }
        for _ in 0..3 {
            assert!(result() == first, "{product:?} has other bits the second time");
        }
    }
}

/// Each of several matrices has the same bits as alone, in typical shapes of layers.
fn as_many_at_once_as_one_likes(device: &Device) {
    let stream = device.stream("at once").unwrap();
    const MATRICES: usize = 8;
    // The last has few tiles of great depth, which a library may split.
    let shapes = [(128, 64, 96), (37, 129, 61), (64, 1, 128), (50, 30, 2), (8, 16, 1024)];
    for (rows, columns, depth) in shapes {
        for (precision, adds) in PRECISIONS.into_iter().flat_map(|of| [(of, false), (of, true)]) {
            let plain = Product::of(shape(MATRICES, rows, columns, depth));
            let all = Product { precision, adds, ..plain };
            // One right matrix for all, as for weights.
            let right = Layout { batch_stride: 0, ..all.right };
            for product in [all, all.left_transposed(), Product { right, ..all }] {
                let [left, right, into] = product.spans();
                let odd =
                    |len, seed| numbers(len, seed).iter().map(|x| x / 7.3).collect::<Vec<_>>();
                let [left, right] = [odd(left, 6), odd(right, 7)]
                    .map(|values: Vec<f32>| filled(device, &stream, &values));
                let result = |at_once: usize| {
                    let target = filled(device, &stream, &odd(into, 8));
                    for first in (0..MATRICES).step_by(at_once) {
                        let batches = at_once.min(MATRICES - first);
                        let some = Product { shape: Shape { batches, ..product.shape }, ..product };
                        let [of_left, of_right, of_into] = [some.left, some.right, some.into]
                            .map(|layout| first * layout.batch_stride);
                        let (left, right) = ((&left, of_left), (&right, of_right));
                        stream.product(&some, left, right, (&target, of_into)).unwrap();
                    }
                    contents(device, &stream, &target)
                };
                let whole = result(MATRICES);
                for at_once in [1, 3, 4] {
                    assert!(result(at_once) == whole, "{product:?}: {at_once} at once");
                }
            }
        }
    }
}
