//! Examples in columns, the unit in which the crate returns them.
//!
//! ```text
//! labels   (n, labels)    truth (n, or empty if unknown)
//! weights  (n, or empty if all are 1)
//! dense    (n, dense)     row-major, already transformed
//! bag_ends (n, id columns)     bag b = e * id_columns + c is keys[bag_ends[b - 1] .. bag_ends[b]]
//! keys     (sum of bags)  example after example, column after column
//! values   (sum of bags, or empty where all are 1)
//! lines    (n)            position of each example, so that a run can stop after any of them
//! ```

use std::ops::Range;

use stepwell_base::Key;

use crate::block::Block;
use crate::cut_list::{CutList, ENTRIES_MAX};
use crate::read_options::Position;
use crate::schema::Schema;

/// A malformed line and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Lines of the block before this one.
    pub offset: u32,
    /// Number of the column, from 1; 0 if no column is at fault.
    pub column: u32,
    /// Reason.
    pub why: String,
}

/// Examples in columns. The vectors are reused when the chunk is filled again.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Shape of an example.
    pub schema: Schema,
    /// Index of the file that contains the examples.
    pub file: u32,
    /// Lines of the file before this chunk.
    pub first_line: u64,
    /// Lines from which the chunk was made, including lines that were filtered out.
    pub line_count: u32,
    /// Lines of the file before its first record; used only to number lines in messages.
    pub header_lines: u32,
    /// Labels: 0 to 1, or any numbers if the schema says so. // (n, labels)
    pub labels: Vec<f32>,
    /// Weight of each example; empty if all are 1. // (n) or (0)
    pub weights: Vec<f32>,
    /// Transformed dense features. // (n, dense)
    pub dense: Vec<f32>,
    /// Keys of all bags. // (sum of bags)
    pub keys: Vec<Key>,
    /// Value of each key; empty if all are 1. // (sum of bags) or (0)
    pub values: Vec<f32>,
    /// End of each bag in `keys`. // (n, id columns)
    pub bag_ends: Vec<u32>,
    /// Truncated lists, in order of their examples. Packed files don't record them.
    pub cut_lists: Vec<CutList>,
    /// True click probabilities, if the source knows them. // (n) or (0)
    pub truth: Vec<f32>,
    /// Lines of the chunk before each example. // (n), ascending
    pub lines: Vec<u32>,
    /// Lines of the chunk before each malformed line. // ascending
    pub malformed: Vec<u32>,
    /// Reasons for the first [`crate::REASONS_MAX`] malformed lines.
    pub reasons: Vec<Malformed>,
}

impl Chunk {
    /// An empty chunk.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            file: 0,
            first_line: 0,
            line_count: 0,
            header_lines: 0,
            labels: Vec::new(),
            weights: Vec::new(),
            dense: Vec::new(),
            keys: Vec::new(),
            values: Vec::new(),
            bag_ends: Vec::new(),
            cut_lists: Vec::new(),
            truth: Vec::new(),
            lines: Vec::new(),
            malformed: Vec::new(),
            reasons: Vec::new(),
        }
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.labels.len() / self.schema.labels.count
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Removes all examples and keeps the allocations.
    pub fn clear(&mut self) {
        self.labels.clear();
        self.weights.clear();
        self.dense.clear();
        self.keys.clear();
        self.values.clear();
        self.bag_ends.clear();
        self.cut_lists.clear();
        self.truth.clear();
        self.lines.clear();
        self.malformed.clear();
        self.reasons.clear();
    }

    /// Sets the position of this chunk to the position of `block`.
    pub(crate) fn begin(&mut self, block: &Block) {
        (self.file, self.first_line, self.line_count) = (block.file, block.first_line, block.lines);
        self.header_lines = block.head.as_ref().map_or(0, |head| head.header_lines);
    }

    /// Labels of an example. // (labels)
    pub fn labels_of(&self, example: usize) -> &[f32] {
        let count = self.schema.labels.count;
        &self.labels[example * count..(example + 1) * count]
    }

    /// Whether an example has a label strictly between 0 and 1, if labels are from 0 to 1.
    pub(crate) fn has_share(&self, example: usize) -> bool {
        let is_between = |label: &f32| *label != 0.0 && *label != 1.0;
        !self.schema.labels.are_numbers && self.labels_of(example).iter().any(is_between)
    }

    /// Dense features of an example. // (dense)
    pub fn dense_of(&self, example: usize) -> &[f32] {
        let width = self.schema.dense;
        &self.dense[example * width..(example + 1) * width]
    }

    /// Keys of an example in an id column.
    pub fn bag(&self, example: usize, column: usize) -> &[Key] {
        &self.keys[self.bag_range(example, column)]
    }

    /// Range in `keys`, and in `values`, of an example's keys in an id column.
    pub fn bag_range(&self, example: usize, column: usize) -> Range<usize> {
        assert!(
            column < self.schema.id_columns,
            "id column {column} of {}",
            self.schema.id_columns
        );
        let bag = example * self.schema.id_columns + column;
        self.bag_start(bag)..self.bag_ends[bag] as usize
    }

    /// Start of the keys of `example` in `keys`; for example `len()`, their end.
    pub fn keys_start(&self, example: usize) -> usize {
        self.bag_start(example * self.schema.id_columns)
    }

    /// Sets the value of the last key. Keys without a value get 1, once [`Chunk::complete_values`]
    /// is called after the last example.
    #[inline]
    pub(crate) fn value_last_key(&mut self, value: f32) {
        push_value(&mut self.values, self.keys.len() - 1, value);
    }

    /// Appends `range` of `keys` with their `values`; empty `values` means that all are 1.
    pub(crate) fn push_bag(&mut self, keys: &[Key], values: &[f32], range: Range<usize>) {
        let values = values.get(range.clone()).unwrap_or_default();
        if values.iter().any(|value| *value != 1.0) {
            self.values.resize(self.keys.len(), 1.0);
            self.values.extend_from_slice(values);
        }
        self.keys.extend_from_slice(&keys[range]);
    }

    /// Sets the value of remaining keys to 1, if any key has a value.
    pub(crate) fn complete_values(&mut self) {
        complete_values(&mut self.values, self.keys.len());
    }

    /// Records that `ids` ids of id column `column` were dropped from `example`, the last one.
    pub(crate) fn note_cut_list(&mut self, example: usize, column: usize, ids: usize) {
        // Columns and examples per chunk fit 32 bits.
        let (example, column) = (example as u32, column as u32);
        let entries = &mut self.cut_lists;
        if entries.len() >= ENTRIES_MAX
            && let Some(last) = entries.iter_mut().rfind(|entry| entry.column == column)
        {
            last.example = example;
            last.examples += 1;
            last.ids += ids as u64;
            return;
        }
        if entries.capacity() == 0 {
            entries.reserve_exact(1);
        }
        entries.push(CutList { example, column, examples: 1, ids: ids as u64 });
    }

    fn bag_start(&self, bag: usize) -> usize {
        if bag == 0 { 0 } else { self.bag_ends[bag - 1] as usize }
    }

    /// Position after line `line` of this chunk.
    pub fn position_after(&self, line: u32) -> Position {
        let line = self.first_line + u64::from(line) + 1;
        Position { file: self.file, line }
    }

    /// Number of line `line` in the file, as an editor counts it.
    pub fn line_number(&self, line: u32) -> u64 {
        self.first_line + u64::from(self.header_lines) + u64::from(line) + 1
    }

    /// Malformed lines before line `line` of this chunk.
    pub fn malformed_before(&self, line: u32) -> usize {
        self.malformed.partition_point(|offset| *offset < line)
    }

    /// Frees unused capacity.
    pub fn shrink(&mut self) {
        self.labels.shrink_to_fit();
        self.weights.shrink_to_fit();
        self.dense.shrink_to_fit();
        self.keys.shrink_to_fit();
        self.values.shrink_to_fit();
        self.bag_ends.shrink_to_fit();
        self.cut_lists.shrink_to_fit();
        self.truth.shrink_to_fit();
        self.lines.shrink_to_fit();
        self.malformed.shrink_to_fit();
        self.reasons.shrink_to_fit();
    }

    /// Keeps only the examples whose number is in `kept`, which ascends. Truncated lists are no
    /// longer known then.
    pub fn keep(&mut self, kept: &[usize]) {
        if kept.len() == self.len() {
            return;
        }
        let Schema { dense, labels, id_columns, .. } = self.schema;
        let mut keys = 0;
        for (to, from) in kept.iter().enumerate() {
            // Its bags' ends are not overwritten yet; the one before them only by itself.
            let (first, last) = (self.keys_start(*from), self.keys_start(from + 1));
            for column in 0..id_columns {
                let end = self.bag_ends[from * id_columns + column] as usize - first + keys;
                // At most the end that it replaces.
                self.bag_ends[to * id_columns + column] = end as u32;
            }
            self.keys.copy_within(first..last, keys);
            if !self.values.is_empty() {
                self.values.copy_within(first..last, keys);
            }
            keys += last - first;
        }
        self.keys.truncate(keys);
        self.values.truncate(keys);
        self.bag_ends.truncate(kept.len() * id_columns);
        keep_lanes(&mut self.labels, kept, labels.count);
        keep_lanes(&mut self.weights, kept, 1);
        keep_lanes(&mut self.dense, kept, dense);
        keep_lanes(&mut self.truth, kept, 1);
        keep_lanes(&mut self.lines, kept, 1);
        self.cut_lists.clear();
    }

    /// Memory allocated by the vectors, in bytes.
    pub fn bytes(&self) -> usize {
        fn held<T>(of: &Vec<T>) -> usize {
            of.capacity() * size_of::<T>()
        }
        let labels = held(&self.labels) + held(&self.weights);
        let lanes = labels + held(&self.dense) + held(&self.truth);
        let places = held(&self.bag_ends) + held(&self.lines) + held(&self.malformed);
        let reasons: usize = self.reasons.iter().map(|reason| reason.why.capacity()).sum();
        let places = places + held(&self.cut_lists);
        lanes + places + held(&self.keys) + held(&self.values) + held(&self.reasons) + reasons
    }
}

/// Keeps `lanes` lanes of each of the examples `kept`, if there are any.
fn keep_lanes<T: Copy>(values: &mut Vec<T>, kept: &[usize], lanes: usize) {
    if values.is_empty() {
        return;
    }
    for (to, from) in kept.iter().enumerate() {
        values.copy_within(from * lanes..(from + 1) * lanes, to * lanes);
    }
    values.truncate(kept.len() * lanes);
}

/// Appends the value of the key that follows `before` others; keys without a value get 1.
#[inline]
pub(crate) fn push_value(values: &mut Vec<f32>, before: usize, value: f32) {
    if value != 1.0 {
        values.resize(before, 1.0);
        values.push(value);
    }
}

/// Extends `values` to all `keys` keys, if any key has a value.
pub(crate) fn complete_values(values: &mut Vec<f32>, keys: usize) {
    if !values.is_empty() {
        values.resize(keys, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Labels;

    /// Examples with bags of 0 to 2 keys with values, and all other lanes.
    fn examples(numbers: impl Iterator<Item = usize>) -> Chunk {
        let labels = Labels { count: 2, weighted: true, are_numbers: false };
        let mut chunk = Chunk::new(Schema { dense: 3, id_columns: 2, labels });
        for number in numbers {
            let lane = number as f32;
            chunk.labels.extend([lane, lane + 0.5]);
            chunk.weights.push(lane + 0.25);
            chunk.dense.extend([lane, -lane, 2.0 * lane]);
            chunk.truth.push(lane / 100.0);
            chunk.lines.push(2 * number as u32);
            for column in 0..2 {
                for key in 0..(number * 7 + column) % 3 {
                    chunk.keys.push(Key((10 * number + 3 * column + key) as u64));
                    chunk.values.push(lane + key as f32);
                }
                chunk.bag_ends.push(chunk.keys.len() as u32);
            }
        }
        chunk
    }

    #[test]
    fn what_is_kept_is_as_if_the_rest_was_never_there() {
        for divisor in [1, 2, 3, 7, 50] {
            for rest in 0..divisor.min(3) {
                let kept: Vec<usize> = (0..40).filter(|number| number % divisor == rest).collect();
                let mut chunk = examples(0..40);
                chunk.keep(&kept);
                assert_eq!(chunk, examples(kept.into_iter()), "{divisor} {rest}");
            }
        }
        let mut none = examples(0..40);
        none.keep(&[]);
        assert_eq!(none, examples(0..0));
    }
}
