//! Sequences of different lengths with a planted rule: the class is the symbol of the last marked
//! step.
//!
//! ```text
//! row   [ symbol, one of ten | mark ] of each step, then zeros, then [ length ]
//! ```
//!
//! Lengths are log-normal with a median of 8 and a deviation of 0.6 in their logarithm, clamped to
//! 2 to 32 steps, similar to the variation of the thesis's videos. As usual, a mini-batch has
//! sequences of similar lengths, so that little is computed in vain; the longest one determines its
//! cost.

use std::sync::Arc;

use stepwell_base::random::Stream;

use crate::images::{CLASSES, Images as Examples};

/// Examples of a rank's mini-batch.
pub(super) const MINI_BATCH: usize = 8;
/// Most steps of a sequence.
pub(super) const STEPS_MAX: usize = 32;
/// Values per step: a symbol, and whether it is marked.
pub(super) const INPUTS: usize = CLASSES + 1;
/// Columns of a sequence: its steps and its length.
const COLUMNS: usize = STEPS_MAX * INPUTS + 1;
/// One in this many steps is marked, in addition to the first.
const MARKED: f64 = 4.0;

/// Draws `count` sequences, in mini-batches in random order, and the cost of each mini-batch, 1 on
/// average.
pub(super) fn drawn(count: usize, name: &[u8], seed: u64) -> (Examples, Arc<[f64]>) {
    let mut stream = Stream::named(seed, name);
    let mut lengths: Vec<usize> = (0..count).map(|_| length(&mut stream)).collect();
    lengths.sort_unstable();
    let mut batches: Vec<&[usize]> = lengths.chunks(MINI_BATCH).collect();
    for place in (1..batches.len()).rev() {
        batches.swap(place, (stream.next_u64() % (place as u64 + 1)) as usize);
    }
    let mut features = vec![0.0; count * COLUMNS];
    let rows = features.chunks_exact_mut(COLUMNS).zip(batches.concat());
    let labels = rows.map(|(row, length)| fill(row, length, &mut stream)).collect();
    let longest = batches.iter().filter_map(|batch| batch.last()).map(|steps| *steps as f64);
    let mean = longest.clone().sum::<f64>() / batches.len() as f64;
    let costs = longest.map(|steps| steps / mean).collect();
    (Examples { columns: COLUMNS, features, labels }, costs)
}

/// Draws a length with the Box-Muller method.
fn length(stream: &mut Stream) -> usize {
    let [u, v] = [stream.next_f64(), stream.next_f64()];
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - u));
    let normal = radius * libm::cos(2.0 * std::f64::consts::PI * v);
    (8.0 * libm::exp(0.6 * normal)).round().clamp(2.0, STEPS_MAX as f64) as usize
}

/// Draws the steps of a sequence; returns its class.
fn fill(row: &mut [f32], length: usize, stream: &mut Stream) -> u8 {
    let mut class = 0;
    for (step, values) in row.chunks_exact_mut(INPUTS).take(length).enumerate() {
        let symbol = (stream.next_u64() % CLASSES as u64) as usize;
        values[symbol] = 1.0;
        if step == 0 || stream.next_f64() * MARKED < 1.0 {
            values[CLASSES] = 1.0;
            class = symbol as u8;
        }
    }
    row[COLUMNS - 1] = length as f32;
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_marked_symbol_is_the_class_and_the_longest_is_the_cost() {
        let (examples, costs) = drawn(40 * MINI_BATCH, b"test", 5);
        let longest = |batch: usize| {
            let rows = batch * MINI_BATCH..(batch + 1) * MINI_BATCH;
            rows.map(|row| examples.row(row)[COLUMNS - 1]).fold(0.0, f32::max)
        };
        assert!((costs.iter().sum::<f64>() - 40.0).abs() < 1e-9);
        for batch in 1..40 {
            let wanted = f64::from(longest(batch)) / f64::from(longest(0));
            assert!((costs[batch] / costs[0] - wanted).abs() < 1e-9);
        }
        for row in 0..examples.count() {
            let (values, class) = (examples.row(row), usize::from(examples.labels[row]));
            let mut steps = values[..COLUMNS - 1].chunks(INPUTS);
            let last = steps.rfind(|step| step[CLASSES] == 1.0).unwrap();
            assert!(last[class] == 1.0 && last.iter().sum::<f32>() == 2.0);
            let length = values[COLUMNS - 1] as usize;
            assert!(values[length * INPUTS..COLUMNS - 1].iter().all(|value| *value == 0.0));
        }
    }
}
