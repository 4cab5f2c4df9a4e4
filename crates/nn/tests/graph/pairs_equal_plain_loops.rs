//! The in-batch softmax equals plain loops over the pairs of a block, whatever its size.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use crate::common::numbers;
use stepwell_nn::{
    BINS, Block, BlockGradients, Graph, GraphBuilder, InBatchSoftmax, InputShape, Layer, Matrix,
    Purpose, Scalar, Source, Training, UnitLength, Workspace,
};

const DIM: usize = 5;
const LAYER: InBatchSoftmax = InBatchSoftmax { dim: DIM, temperature: 0.3, counts_items: true };
/// Columns of a user, an item and its bin.
const COLUMNS: usize = 2 * DIM + 1;

fn graph<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: COLUMNS, dense: 0 });
    let parts = [0..DIM, DIM..2 * DIM, 2 * DIM..COLUMNS].map(Source::Columns);
    builder.add("pairs", LAYER, &parts).unwrap();
    builder.build().unwrap()
}

/// Examples, of which each third has the item of an earlier one. Items have one of four bins, or
/// none.
fn examples(rows: usize) -> Vec<f64> {
    let mut x = numbers::<f64>("pairs", rows * COLUMNS);
    for row in (0..rows).filter(|row| row % 3 == 2) {
        let from = row / 2 * COLUMNS;
        x.copy_within(from + DIM..from + 2 * DIM, row * COLUMNS + DIM);
    }
    for row in 0..rows {
        x[row * COLUMNS + 2 * DIM] = [0.0, 7.0, 65_535.0, -1.0, 9.0][row * 7 % 5];
    }
    x
}

/// Counts in the state of the layer.
fn counts() -> Vec<f64> {
    (0..BINS).map(count).collect()
}

/// Count of a bin.
fn count(bin: usize) -> f64 {
    match bin {
        7 => 3.0,
        9 => 1000.0,
        65_535 => 40.0,
        _ => 0.0,
    }
}

/// Logarithm of one more than the count of a row's item.
fn correction(x: &[f64], row: usize) -> f64 {
    match x[row * COLUMNS + 2 * DIM] {
        -1.0 => 0.0,
        bin => (1.0 + count(bin as usize)).ln(),
    }
}

fn item(x: &[f64], row: usize) -> &[f64] {
    &x[row * COLUMNS + DIM..][..DIM]
}

fn score(x: &[f64], user: usize, other: usize) -> f64 {
    let lanes = x[user * COLUMNS..][..DIM].iter().zip(item(x, other));
    lanes.map(|(u, v)| u * v).sum::<f64>() / LAYER.temperature
}

/// Score in training, by the definition.
fn trained(x: &[f64], rows: usize, row: usize) -> Option<f64> {
    let corrected = |other: usize| score(x, row, other) - correction(x, other);
    let others = (0..rows).filter(|other| item(x, *other) != item(x, row));
    let sum: f64 = others.map(|other| corrected(other).exp()).sum();
    (sum > 0.0).then(|| corrected(row) - sum.ln())
}

struct Passed<T> {
    training: Vec<T>,
    evaluation: Vec<T>,
    d_x: Vec<T>,
    /// Increments of the counts by the block.
    counted: Vec<f64>,
}

/// Both passes; each output's gradient is another number.
fn run<T: Scalar>(x: &[f64], rows: usize) -> Passed<T> {
    let (graph, x) = (graph::<T>(), x.iter().map(|x| T::from_f64(*x)).collect::<Vec<_>>());
    let block = Block { x: Matrix::packed(&x, rows, COLUMNS), first_order: &[] };
    let mut workspace = Workspace::new(&graph, rows + 3);
    let mut outputs = |purpose: Purpose<'_, T>| {
        let mut outputs = vec![T::from_f64(f64::NAN); rows];
        let mut nobody = ();
        let passes = graph.watched(&mut nobody).with_purpose(purpose);
        passes.forward(&[], &block, &mut workspace, &mut outputs);
        outputs
    };
    let state: Vec<T> = counts().into_iter().map(T::from_f64).collect();
    let mut statistics = vec![T::from_f64(f64::NAN); BINS];
    let evaluation = outputs(Purpose::Evaluation { state: &state });
    let of_block = Some(&mut statistics[..]);
    let training = Training { state: &state, statistics: of_block, ..Training::default() };
    let training = outputs(Purpose::Training(training));
    let mut d_x = vec![T::from_f64(f64::NAN); x.len()];
    let d_logits: Vec<T> = numbers("d", rows);
    let gradients = BlockGradients { x: &mut d_x, first_order: &mut [], parameters: &mut [] };
    graph.backward(&[], &block, &d_logits, &mut workspace, gradients);
    let mut advanced = state.clone();
    Layer::advance(&LAYER, &mut advanced, &statistics);
    let more = advanced.iter().zip(&state).map(|(is, was)| is.to_f64() - was.to_f64());
    Passed { training, evaluation, d_x, counted: more.collect() }
}

#[test]
fn of_blocks_of_all_sizes() {
    for rows in [0, 1, 2, 3, 63, 64, 65, 150] {
        let x = examples(rows);
        let (exact, found) = (run::<f64>(&x, rows), run::<f32>(&x, rows));
        for row in 0..rows {
            let wanted = trained(&x, rows, row).unwrap_or(104.0);
            let at = format!("{rows} {row} {wanted}");
            assert!((exact.training[row] - wanted).abs() < 1e-12 * wanted.abs().max(1.0), "{at}");
            assert!((f64::from(found.training[row]) - wanted).abs() < 2e-5, "{at}");
            let wanted = score(&x, row, row);
            assert!((exact.evaluation[row] - wanted).abs() < 1e-13, "{at}");
            assert!((f64::from(found.evaluation[row]) - wanted).abs() < 1e-5, "{at}");
        }
        let binned = |bin: f64| (0..rows).filter(|row| x[row * COLUMNS + 2 * DIM] == bin).count();
        for bin in [0, 7, 8, 9, BINS - 1] {
            assert_eq!(exact.counted[bin], binned(bin as f64) as f64, "{rows} {bin}");
        }
        assert_eq!(exact.counted, found.counted);
        for (at, (exact, found)) in exact.d_x.iter().zip(&found.d_x).enumerate() {
            assert!((exact - f64::from(*found)).abs() < 1e-4, "{rows} {at}: {exact} {found}");
        }
    }
}

#[test]
fn gradients_are_differences_across_tiles() {
    let rows = 70;
    let (x, d) = (examples(rows), numbers::<f64>("d", rows));
    let loss = |x: &[f64]| -> f64 {
        (0..rows).map(|row| d[row] * trained(x, rows, row).unwrap_or(0.0)).sum()
    };
    let found = run::<f64>(&x, rows).d_x;
    // Rows whose item isn't another's, so that a small change doesn't make it one of its negatives.
    let alone = |row: &usize| (0..rows).filter(|of| item(&x, *of) == item(&x, *row)).count() == 1;
    for row in (0..rows).filter(alone) {
        for at in row * COLUMNS..row * COLUMNS + 2 * DIM {
            let moved = |by: f64| {
                let mut x = x.clone();
                x[at] += by;
                loss(&x)
            };
            let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((slope - found[at]).abs() < 1e-6, "{row} {at}: {slope} {}", found[at]);
        }
    }
}

#[test]
fn examples_of_one_item_have_no_negatives() {
    let mut x = examples(4);
    for row in 1..4 {
        x.copy_within(DIM..2 * DIM, row * COLUMNS + DIM);
    }
    let found = run::<f32>(&x, 4);
    assert_eq!(found.training, [104.0; 4]);
    assert_eq!(found.d_x, [0.0; 4 * COLUMNS]);
}

#[test]
fn vectors_have_length_one_and_zeros_stay() {
    let mut builder = GraphBuilder::<f32>::new(InputShape { embedding: 3, dense: 0 });
    builder.add("unit", UnitLength { columns: 3 }, &[Source::Columns(0..3)]).unwrap();
    let graph = builder.build().unwrap();
    let x = [3.0, 0.0, 4.0, 0.0, 0.0, 0.0, -2e-3, 0.0, 0.0];
    let block = Block { x: Matrix::packed(&x, 3, 3), first_order: &[] };
    let mut outputs = [f32::NAN; 9];
    graph.forward(&[], &block, &mut Workspace::new(&graph, 3), &mut outputs);
    assert_eq!(outputs[..6], [0.6, 0.0, 0.8, 0.0, 0.0, 0.0]);
    assert!((outputs[6] + 1.0).abs() < 1e-6 && outputs[7..] == [0.0; 2]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refusal = |layer: InBatchSoftmax, inputs: &[usize]| {
        Layer::<f32>::output_columns(&layer, inputs).unwrap_err()
    };
    let shape = "it takes two inputs of 5 columns, and optionally one of 1, not ";
    let plain = InBatchSoftmax { counts_items: false, ..LAYER };
    assert_eq!(refusal(plain, &[5]), format!("{shape}[5]"));
    assert_eq!(refusal(plain, &[5, 4]), format!("{shape}[5, 4]"));
    assert_eq!(refusal(LAYER, &[5, 5]), format!("{shape}[5, 5]"));
    assert_eq!(refusal(LAYER, &[5, 5, 2]), format!("{shape}[5, 5, 2]"));
    assert_eq!(refusal(InBatchSoftmax { dim: 0, ..LAYER }, &[0, 0]), {
        "a vector has at least one column"
    });
    for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = refusal(InBatchSoftmax { temperature, ..LAYER }, &[5, 5]);
        assert_eq!(refused, format!("a temperature of {temperature}: give a number above 0"));
    }
    let refused = Layer::<f32>::output_columns(&UnitLength { columns: 2 }, &[3]).unwrap_err();
    assert_eq!(refused, "it takes one input of 2 columns, not [3]");
}
