//! Examples in columns, the unit in which they travel.
//!
//! ```text
//! labels   (n, labels)    truth (n, or empty where nobody knows)
//! weights  (n, or empty where all examples count alike)
//! dense    (n, dense)     row-major, already transformed
//! bag_ends (n, id columns)     bag b = e * id_columns + c is keys[bag_ends[b - 1] .. bag_ends[b]]
//! keys     (sum of bags)  example after example, column after column
//! values   (sum of bags, or empty where all are 1)
//! lines    (n)            where each example stood, so that a run can stop after any of them
//! ```

use std::ops::Range;

use stepwell_base::Key;

use crate::cut_lists::CutList;
use crate::{Block, Schema};

/// A place between two lines: `line` lines of file number `file` lie behind.
///
/// In the built-in stream `file` is 0 and `line` counts examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Index into the list of files.
    pub file: u32,
    /// Lines of that file before this place.
    pub line: u64,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Lines of the block before this one.
    pub offset: u32,
    /// Number of the column, from 1; 0 where it has none.
    pub column: u32,
    /// What is wrong with it.
    pub why: String,
}

/// Malformed lines whose reason a chunk keeps; of further ones only the place is known.
pub const REASONS_MAX: usize = 16;

/// Examples in columns; the vectors are reused from one filling to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The columns.
    pub schema: Schema,
    /// Index of the file that the examples come from.
    pub file: u32,
    /// Lines of the file before the first of this chunk.
    pub first_line: u64,
    /// Lines that it was made of, those that nobody wanted among them.
    pub line_count: u32,
    /// Lines of the file before its first record, which are counted in messages alone.
    pub header_lines: u32,
    /// From 0 to 1, or any numbers where the schema says so. // (n, labels)
    pub labels: Vec<f32>,
    /// How much each example counts; none where all count alike. // (n) or (0)
    pub weights: Vec<f32>,
    /// Transformed dense features. // (n, dense)
    pub dense: Vec<f32>,
    /// Keys of all bags. // (sum of bags)
    pub keys: Vec<Key>,
    /// Factor of each key's row; empty if all are 1. // (sum of bags) or (0)
    pub values: Vec<f32>,
    /// Where each bag ends in `keys`. // (n, id columns)
    pub bag_ends: Vec<u32>,
    /// Lists that are cut, in the order of their examples; packed ones do not know it.
    pub cut_lists: Vec<CutList>,
    /// True click probabilities, where the source knows them. // (n) or (0)
    pub truth: Vec<f32>,
    /// Lines of the chunk before each example. // (n), ascending
    pub lines: Vec<u32>,
    /// Lines of the chunk before each malformed line. // ascending
    pub malformed: Vec<u32>,
    /// What is wrong with the first [`REASONS_MAX`] of them.
    pub reasons: Vec<Malformed>,
}

impl Chunk {
    /// A chunk of no examples.
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

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Forgets the examples and keeps the memory.
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

    /// Takes the place of `block`.
    pub(crate) fn begin(&mut self, block: &Block) {
        (self.file, self.first_line, self.line_count) = (block.file, block.first_line, block.lines);
        self.header_lines = block.head.as_ref().map_or(0, |head| head.header_lines);
    }

    /// Labels of an example. // (labels)
    pub fn labels_of(&self, example: usize) -> &[f32] {
        let count = self.schema.labels.count;
        &self.labels[example * count..(example + 1) * count]
    }

    /// Whether a label of an example lies between 0 and 1, where all are from 0 to 1.
    pub(crate) fn has_share(&self, example: usize) -> bool {
        let is_between = |label: &f32| *label != 0.0 && *label != 1.0;
        !self.schema.labels.are_numbers && self.labels_of(example).iter().any(is_between)
    }

    /// Dense features of an example. // (dense)
    pub fn dense_of(&self, example: usize) -> &[f32] {
        let width = self.schema.dense;
        &self.dense[example * width..(example + 1) * width]
    }

    /// Keys of an example in one id column.
    pub fn bag(&self, example: usize, column: usize) -> &[Key] {
        &self.keys[self.bag_range(example, column)]
    }

    /// Where the keys of an example in one id column lie in `keys`, and their values in `values`.
    pub fn bag_range(&self, example: usize, column: usize) -> Range<usize> {
        assert!(
            column < self.schema.id_columns,
            "id column {column} of {}",
            self.schema.id_columns
        );
        let bag = example * self.schema.id_columns + column;
        self.bag_start(bag)..self.bag_ends[bag] as usize
    }

    /// Where the keys of `example` start in `keys`; of example `len()` it is where they end.
    pub fn keys_start(&self, example: usize) -> usize {
        self.bag_start(example * self.schema.id_columns)
    }

    /// Gives the last key a value. Keys that are given none have 1, once
    /// [`Chunk::complete_values`] is called behind the last example.
    #[inline]
    pub(crate) fn value_last_key(&mut self, value: f32) {
        push_value(&mut self.values, self.keys.len() - 1, value);
    }

    /// Adds the bag that lies at `range` of `keys`, which have `values` or no values.
    pub(crate) fn push_bag(&mut self, keys: &[Key], values: &[f32], range: Range<usize>) {
        let values = values.get(range.clone()).unwrap_or_default();
        if values.iter().any(|value| *value != 1.0) {
            self.values.resize(self.keys.len(), 1.0);
            self.values.extend_from_slice(values);
        }
        self.keys.extend_from_slice(&keys[range]);
    }

    /// Gives the keys that have no value the value 1, where others have one.
    pub(crate) fn complete_values(&mut self) {
        complete_values(&mut self.values, self.keys.len());
    }

    fn bag_start(&self, bag: usize) -> usize {
        if bag == 0 { 0 } else { self.bag_ends[bag - 1] as usize }
    }

    /// The place from which to go on after its line `line`.
    pub fn position_after(&self, line: u32) -> Position {
        let line = self.first_line + u64::from(line) + 1;
        Position { file: self.file, line }
    }

    /// The number of its line `line` in the file, as an editor counts it.
    pub fn line_number(&self, line: u32) -> u64 {
        self.first_line + u64::from(self.header_lines) + u64::from(line) + 1
    }

    /// Malformed lines that stood before its line `line`.
    pub fn malformed_before(&self, line: u32) -> usize {
        self.malformed.partition_point(|offset| *offset < line)
    }

    /// Gives back the memory that nothing is in.
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

    /// Bytes of memory that the vectors hold.
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

/// Adds the value of a key behind `before` others; those without a value get 1.
#[inline]
pub(crate) fn push_value(values: &mut Vec<f32>, before: usize, value: f32) {
    if value != 1.0 {
        values.resize(before, 1.0);
        values.push(value);
    }
}

/// Gives each of `keys` keys a value, if any has one.
pub(crate) fn complete_values(values: &mut Vec<f32>, keys: usize) {
    if !values.is_empty() {
        values.resize(keys, 1.0);
    }
}
