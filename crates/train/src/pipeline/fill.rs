//! Copies examples from chunks into mini-batches.

use std::ops::Range;

use stepwell_data::{Chunk, Position};

use crate::batch::MiniBatch;
use crate::derived::Derived;
use crate::features::{Gathered, TableInput, append_example};

/// Returns the examples of `chunk` that come from its lines `lines`.
pub(super) fn examples_at(chunk: &Chunk, lines: &Range<usize>) -> Range<usize> {
    let before = |end: usize| chunk.lines.partition_point(|line| (*line as usize) < end);
    before(lines.start)..before(lines.end)
}

/// Returns how many of the ascending `lines` of `chunk` are before `end`.
pub(super) fn lines_within(chunk: &Chunk, lines: &[u32], end: Option<Position>) -> usize {
    let Some(end) = end else { return lines.len() };
    if chunk.file != end.file {
        return if chunk.file < end.file { lines.len() } else { 0 };
    }
    lines.partition_point(|line| chunk.first_line + u64::from(*line) < end.line)
}

/// Appends `examples` of `chunk` to `mini`, and their keys to `gathered`: those of `tables`, with
/// the features that are `derived` from ids.
pub(super) fn append(
    mini: &mut MiniBatch,
    gathered: &mut [Gathered],
    chunk: &Chunk,
    examples: Range<usize>,
    (tables, derived): (&[TableInput], &[Derived]),
) {
    let (dense, cargo) = (chunk.schema.dense, &mut mini.cargo);
    let labels = chunk.schema.labels;
    let lanes = examples.start * labels.count..examples.end * labels.count;
    cargo.count += examples.len();
    cargo.labels.extend_from_slice(&chunk.labels[lanes]);
    if labels.weighted {
        cargo.weights.extend_from_slice(&chunk.weights[examples.clone()]);
    }
    if derived.is_empty() {
        cargo.dense.extend_from_slice(&chunk.dense[examples.start * dense..examples.end * dense]);
    } else {
        for example in examples.clone() {
            cargo.dense.extend_from_slice(chunk.dense_of(example));
            cargo.dense.extend(derived.iter().map(|of| of.of(chunk, example)));
        }
    }
    if !chunk.truth.is_empty() {
        // Earlier examples, from a source without true probabilities, have none.
        cargo.truth.resize(cargo.count - examples.len(), f32::NAN);
        cargo.truth.extend_from_slice(&chunk.truth[examples.clone()]);
    }
    for ((part, gathered), table) in mini.parts.iter_mut().zip(gathered).zip(tables) {
        let ends = &mut part.request.ends;
        if table.has_all_columns(chunk.schema.id_columns) {
            append_all_fields((gathered, ends), chunk, examples.clone());
        } else {
            for example in examples.clone() {
                append_example((gathered, ends), (chunk, example), &table.sources);
            }
        }
    }
}

/// Reduces `mini`, which has all examples or only those of its blocks, to the examples of its
/// blocks, one rank's part.
pub(super) fn keep_own(mini: &mut MiniBatch, gathered: &mut [Gathered]) {
    let cargo = &mut mini.cargo;
    let (place, all) = (cargo.blocks.place(), cargo.blocks.examples_of_all());
    let has = cargo.count;
    if has == place.len() && has < all {
        return;
    }
    assert_eq!(has, all, "the part of a mini-batch is {place:?}");
    cargo.count = place.len();
    let labels = cargo.labels.len() / all.max(1);
    keep(&mut cargo.labels, place.start * labels..place.end * labels);
    keep(&mut cargo.weights, place.clone());
    let dense = cargo.dense.len() / all.max(1);
    keep(&mut cargo.dense, place.start * dense..place.end * dense);
    keep(&mut cargo.truth, place.clone());
    for (part, gathered) in mini.parts.iter_mut().zip(gathered) {
        let ends = &mut part.request.ends;
        let bags = ends.len() / all.max(1);
        let bags = place.start * bags..place.end * bags;
        let before = |bag: usize| if bag == 0 { 0 } else { ends[bag - 1] as usize };
        let ids = before(bags.start)..before(bags.end);
        keep(ends, bags);
        ends.iter_mut().for_each(|end| *end -= ids.start as u32);
        keep(&mut gathered.keys, ids.clone());
        keep(&mut gathered.weights, ids);
    }
}

/// Keeps the values in `range`, as far as they exist.
fn keep<T>(values: &mut Vec<T>, range: Range<usize>) {
    values.truncate(range.end);
    values.drain(..range.start.min(values.len()));
}

fn append_all_fields(
    (gathered, all_ends): (&mut Gathered, &mut Vec<u32>),
    chunk: &Chunk,
    examples: Range<usize>,
) {
    let columns = chunk.schema.id_columns;
    let first = chunk.keys_start(examples.start);
    let last = chunk.keys_start(examples.end);
    let base = gathered.keys.len() as u32;
    let values = chunk.values.get(first..last).unwrap_or_default();
    gathered.append(&chunk.keys[first..last], values, 1.0);
    let ends = &chunk.bag_ends[examples.start * columns..examples.end * columns];
    all_ends.extend(ends.iter().map(|end| end - first as u32 + base));
}
