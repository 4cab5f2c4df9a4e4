//! Decodes a block into the columns of a chunk, after validation.

use std::ops::Range;

use stepwell_base::{Key, hash};

use super::encode::Shape;
use super::layout::{BLOCK_HEAD_BYTES, ONE_KEY_A_BAG, SHARES, TRUTH, VALUES, sums_differ, u32_at};
use crate::block::{Block, Seal};
use crate::chunk::Chunk;
use crate::schema::Schema;

/// Fills `chunk` with the wanted examples of `block`, from example `first` of the file, or returns
/// what is wrong with the block; `chunk` is empty then.
///
/// # Panics
/// If `first` isn't within the block that `seal` describes.
pub(crate) fn decode(
    block: &Block,
    seal: &Seal,
    first: u64,
    chunk: &mut Chunk,
) -> Result<(), String> {
    chunk.clear();
    chunk.begin(block);
    if block.wanted.as_ref().is_some_and(Vec::is_empty) {
        return Ok(());
    }
    let last = seal.first + u64::from(seal.examples);
    assert!((seal.first..last).contains(&first), "example {first} of a block up to {last}");
    let columns = Columns::split(&block.bytes, seal, &chunk.schema)?;
    columns.check(seal, &chunk.schema)?;
    let skip = (first - seal.first) as usize;
    let all = 0..seal.examples - skip as u32;
    let wanted = block.wanted.as_deref().unwrap_or(std::slice::from_ref(&all));
    columns.reserve(wanted, skip, chunk);
    wanted.iter().for_each(|lines| columns.append(lines, skip, chunk));
    Ok(())
}

/// Labels in a block.
#[derive(Clone, Copy)]
enum LabelBytes<'a> {
    /// One byte each, 0 or 1.
    Bits(&'a [u8]),
    /// `f32` each.
    Numbers(&'a [u8]),
}

/// The encoded columns of a block.
struct Columns<'a> {
    examples: usize,
    labels: LabelBytes<'a>,
    dense: &'a [u8],
    keys: &'a [u8],
    /// `None` if every bag has exactly one key.
    bag_ends: Option<&'a [u8]>,
    /// Empty if unknown.
    truth: &'a [u8],
    /// Empty if examples have no weights.
    weights: &'a [u8],
    /// Empty if all are 1.
    values: &'a [u8],
}

impl<'a> Columns<'a> {
    /// Checks the checksum of a block, and splits it into columns.
    fn split(bytes: &'a [u8], seal: &Seal, schema: &Schema) -> Result<Self, String> {
        let sum = hash::checksum(bytes);
        if sum != seal.checksum {
            return Err(sums_differ(sum, seal.checksum));
        }
        if bytes.len() < BLOCK_HEAD_BYTES {
            return Err(format!("{} bytes are not a block", bytes.len()));
        }
        let (flags, keys) = (u32_at(bytes, 0), u32_at(bytes, 4));
        let shape = Shape {
            examples: seal.examples.into(),
            keys: keys.into(),
            one_key_a_bag: flags & ONE_KEY_A_BAG != 0,
            truth: flags & TRUTH != 0,
            shares: flags & SHARES != 0,
            values: flags & VALUES != 0,
        };
        let shares = if schema.labels.may_be_bits() { SHARES } else { 0 };
        let values = if seal.values { VALUES } else { 0 };
        let known = flags & !(ONE_KEY_A_BAG | TRUTH | shares | values) == 0;
        if !known || shape.bytes(schema) != Some(bytes.len() as u64) {
            let (examples, found) = (seal.examples, bytes.len());
            return Err(format!(
                "{examples} examples with {keys} keys and flags {flags} do not take {found} bytes"
            ));
        }
        // The lengths were just checked to add up to the block's, so each of them fits.
        let (examples, id_columns) = (seal.examples as usize, schema.id_columns);
        let labels = examples * shape.label_bytes(schema);
        let (labels, rest) = bytes[BLOCK_HEAD_BYTES..].split_at(labels);
        let labels = match shape.has_bits(schema) {
            true => LabelBytes::Bits(labels),
            false => LabelBytes::Numbers(labels),
        };
        let (dense, rest) = rest.split_at(examples * schema.dense * 4);
        let (keys, rest) = rest.split_at(keys as usize * 8);
        let ends = if shape.one_key_a_bag { 0 } else { examples * id_columns * 4 };
        let (ends, rest) = rest.split_at(ends);
        let (truth, rest) = rest.split_at(if shape.truth { examples * 4 } else { 0 });
        let (weights, values) =
            rest.split_at(if schema.labels.weighted { examples * 4 } else { 0 });
        let bag_ends = (!shape.one_key_a_bag).then_some(ends);
        Ok(Self { examples, labels, dense, keys, bag_ends, truth, weights, values })
    }

    /// Validates labels, values and bags.
    fn check(&self, seal: &Seal, schema: &Schema) -> Result<(), String> {
        self.check_labels(schema)?;
        if let Some(value) = floats(self.values).find(|value| !value.is_finite()) {
            return Err(format!("one of its keys has the value {value}"));
        }
        let (keys, most) = (self.keys.len() / 8, seal.example_keys_max as usize);
        let Some(bag_ends) = self.bag_ends else {
            let fits = keys == self.examples * schema.id_columns && schema.id_columns <= most;
            return if fits { Ok(()) } else { Err(format!("{keys} keys, not one per bag")) };
        };
        let mut start = 0;
        for example in 0..self.examples {
            let mut end = start;
            for bag in words(&bag_ends[example * schema.id_columns * 4..][..schema.id_columns * 4])
            {
                let next = bag as usize;
                if next < end {
                    return Err(format!("a bag of example {} ends before it begins", example + 1));
                }
                end = next;
            }
            if end - start > most {
                let found = end - start;
                return Err(format!("{found} keys of example {}, {most} at most", example + 1));
            }
            start = end;
        }
        if start != keys { Err(format!("bags of {start} keys among {keys}")) } else { Ok(()) }
    }

    /// Validates labels and weights.
    fn check_labels(&self, schema: &Schema) -> Result<(), String> {
        let wrong = |what: &str, at: usize, value: f32, is: &str| {
            Err(format!("{what} {value} of its example {}, {is}", at + 1))
        };
        let is_label = |label: f32| match schema.labels.are_numbers {
            true => label.is_finite(),
            false => (0.0..=1.0).contains(&label),
        };
        match self.labels {
            LabelBytes::Bits(bytes) => {
                if let Some(at) = bytes.iter().position(|label| *label > 1) {
                    return wrong("label", at, f32::from(bytes[at]), "not 0 or 1");
                }
            }
            LabelBytes::Numbers(bytes) => {
                let mut labels = floats(bytes).enumerate();
                if let Some((at, label)) = labels.find(|(_, label)| !is_label(*label)) {
                    return wrong("label", at / schema.labels.count, label, "not a label");
                }
            }
        }
        let is_weight = |weight: f32| weight.is_finite() && weight >= 0.0;
        match floats(self.weights).enumerate().find(|(_, weight)| !is_weight(*weight)) {
            Some((at, weight)) => wrong("weight", at, weight, "not a number of 0 or more"),
            None => Ok(()),
        }
    }

    /// Reserves exact capacity in `chunk` for the examples at `wanted`, counted after the first
    /// `skip`.
    fn reserve(&self, wanted: &[Range<u32>], skip: usize, chunk: &mut Chunk) {
        let Schema { dense, id_columns, labels } = chunk.schema;
        let examples: usize = wanted.iter().map(|lines| lines.len()).sum();
        let keys = wanted.iter().map(|lines| self.keys_of(&places(lines, skip), id_columns).len());
        let keys = keys.sum();
        chunk.keys.reserve_exact(keys);
        chunk.values.reserve_exact(if self.values.is_empty() { 0 } else { keys });
        chunk.labels.reserve_exact(examples * labels.count);
        chunk.weights.reserve_exact(if labels.weighted { examples } else { 0 });
        chunk.lines.reserve_exact(examples);
        chunk.dense.reserve_exact(examples * dense);
        chunk.bag_ends.reserve_exact(examples * id_columns);
        chunk.truth.reserve_exact(if self.truth.is_empty() { 0 } else { examples });
    }

    /// Appends the examples at `lines`, counted after the first `skip`, to `chunk`, which has
    /// capacity for them.
    fn append(&self, lines: &Range<u32>, skip: usize, chunk: &mut Chunk) {
        let Schema { dense, id_columns, labels } = chunk.schema;
        let examples = places(lines, skip);
        let of = |column: &'a [u8], lanes: usize| {
            &column[examples.start * lanes * 4..examples.end * lanes * 4]
        };
        match self.labels {
            LabelBytes::Bits(bytes) => {
                let labels = &bytes[examples.clone()];
                chunk.labels.extend(labels.iter().map(|label| f32::from(*label)));
            }
            LabelBytes::Numbers(bytes) => {
                put(&mut chunk.labels, of(bytes, labels.count), f32::from_le_bytes);
            }
        }
        if labels.weighted {
            put(&mut chunk.weights, of(self.weights, 1), f32::from_le_bytes);
        }
        put(&mut chunk.dense, of(self.dense, dense), f32::from_le_bytes);
        let keys = self.keys_of(&examples, id_columns);
        // A block has fewer than 2^32 bytes, so fewer keys.
        let (before, there) = (keys.start as u32, chunk.keys.len() as u32);
        match self.bag_ends {
            None => chunk.bag_ends.extend(there + 1..=there + keys.len() as u32),
            Some(ends) => put(&mut chunk.bag_ends, of(ends, id_columns), |end| {
                u32::from_le_bytes(end) - before + there
            }),
        }
        if !self.values.is_empty() {
            let values = &self.values[keys.start * 4..keys.end * 4];
            put(&mut chunk.values, values, f32::from_le_bytes);
        }
        let keys = &self.keys[keys.start * 8..keys.end * 8];
        put(&mut chunk.keys, keys, |key| Key(u64::from_le_bytes(key)));
        if !self.truth.is_empty() {
            put(&mut chunk.truth, of(self.truth, 1), f32::from_le_bytes);
        }
        chunk.lines.extend(lines.clone());
    }

    /// Range of the keys of `examples`.
    fn keys_of(&self, examples: &Range<usize>, id_columns: usize) -> Range<usize> {
        self.keys_before(examples.start, id_columns)..self.keys_before(examples.end, id_columns)
    }

    /// Number of keys of the examples before number `example`.
    fn keys_before(&self, example: usize, id_columns: usize) -> usize {
        match self.bag_ends {
            None => example * id_columns,
            Some(_) if example * id_columns == 0 => 0,
            Some(ends) => u32_at(ends, (example * id_columns - 1) * 4) as usize,
        }
    }
}

/// Indices of lines in a block whose first `skip` examples are skipped.
fn places(lines: &Range<u32>, skip: usize) -> Range<usize> {
    lines.start as usize + skip..lines.end as usize + skip
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    words(bytes).map(f32::from_bits)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// Appends to a column with enough capacity, so that this compiles to one copy.
fn put<T, const N: usize>(column: &mut Vec<T>, bytes: &[u8], decode: impl Fn([u8; N]) -> T) {
    let (items, _) = bytes.as_chunks::<N>();
    column.extend(items.iter().map(|item| decode(*item)));
}
