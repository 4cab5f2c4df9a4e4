//! The built-in click stream: examples with ids of skewed frequency and a known click model.
//!
//! Why: a trainer needs data of any size, with a known best possible loss, and without a download.
//!
//! How: the stream looks like a Criteo log, with 13 integers and 26 ids. A click is drawn with
//! probability
//!
//! ```text
//! p = sigmoid(intercept + sum of effect(column, id)                     26 uniform numbers
//!                       + sum of weight(j) * ln(1 + x_j)               13 dense features
//!                       + sum of latent(a, id_a) * latent(b, id_b))    some pairs of id columns
//! ```
//!
//! where effects and latents are hashes of ids, so nothing is stored per id, and the intercept is
//! set to reach the requested click rate.
//!
//! Invariants:
//! - DATA-I9: example i is a function of (options, i): any part of the stream can be generated
//!   without the parts before it, by any number of threads, with the same bits;
//! - DATA-I10: the chunk of a range equals the chunk parsed from its text, except for the truth.
//!
//! Cost: about 1.2 us per example; tables of 26 vocabularies, 1.2 MB at most (see `zipf.rs`).

mod model;
mod options;
mod text;
mod zipf;

use std::io::Write;
use std::ops::Range;

use stepwell_base::{Key, Namespace};

pub use options::{INTERACTIONS_MAX, SynthOptions};
pub use zipf::Zipf;

use crate::block::Block;
use crate::chunk::Chunk;
use crate::error::DataError;
use crate::log1p::Log1p;
use crate::schema::Schema;
use model::{Example, MISSING, Model};
use options::ID_COLUMNS;

/// Examples of one block of the stream.
pub const BLOCK_EXAMPLES: u32 = 4096;

/// A built-in stream; threads can use it concurrently.
#[derive(Clone, Debug)]
pub struct Synth {
    options: SynthOptions,
    model: Model,
    namespaces: Vec<Namespace>, // one per column
}

impl Synth {
    /// The stream of `options`.
    ///
    /// # Errors
    /// An option is out of range.
    pub fn new(options: &SynthOptions) -> Result<Self, DataError> {
        options.check()?;
        let namespaces = Schema::CRITEO.namespaces();
        Ok(Self { options: options.clone(), model: Model::new(options), namespaces })
    }

    /// Shape of an example.
    pub fn schema(&self) -> Schema {
        Schema::CRITEO
    }

    /// Options of the stream.
    pub fn options(&self) -> &SynthOptions {
        &self.options
    }

    /// Fills `chunk` with `examples` examples from number `first`, including their true click
    /// probabilities.
    ///
    /// # Panics
    /// If the chunk has a different schema, or its keys would exceed 32 bits.
    pub fn fill(&self, first: u64, examples: usize, chunk: &mut Chunk) {
        assert_eq!(chunk.schema, self.schema(), "the stream has its own schema");
        assert!(examples < u32::MAX as usize / ID_COLUMNS, "{examples} examples in a chunk");
        let lines = examples as u32;
        self.fill_wanted(&Block { first_line: first, lines, ..Block::default() }, chunk);
    }

    /// Fills `chunk` with the wanted examples of `block`.
    pub(crate) fn fill_wanted(&self, block: &Block, chunk: &mut Chunk) {
        chunk.clear();
        chunk.begin(block);
        let all = 0..block.lines;
        let wanted = block.wanted.as_deref().unwrap_or(std::slice::from_ref(&all));
        let examples = wanted.iter().map(|lines| lines.len()).sum();
        reserve(chunk, examples);
        let log1p = Log1p::new();
        for line in wanted.iter().cloned().flatten() {
            let example = self.model.example(block.first_line + u64::from(line));
            push(chunk, &example, &self.namespaces, log1p);
            chunk.lines.push(line);
        }
        chunk.bag_ends.extend(1..=(examples * ID_COLUMNS) as u32);
    }

    /// Appends the examples of `range` to `text`, as lines of a Criteo log.
    pub fn append_text(&self, range: Range<u64>, text: &mut Vec<u8>) {
        range.for_each(|index| text::append(&self.model.example(index), text));
    }

    /// Writes the examples of `range` as lines of a Criteo log.
    ///
    /// # Errors
    /// [`DataError::Write`] if `out` fails.
    pub fn write_tsv(&self, range: Range<u64>, out: &mut dyn Write) -> Result<(), DataError> {
        let (mut text, mut next) = (Vec::new(), range.start);
        while next < range.end {
            let end = range.end.min(next + u64::from(BLOCK_EXAMPLES));
            text.clear();
            self.append_text(next..end, &mut text);
            out.write_all(&text)
                .map_err(|source| DataError::Write { examples: next - range.start, source })?;
            next = end;
        }
        Ok(())
    }

    /// Expected number of distinct (column, id) pairs in the first `examples` examples, including
    /// missing ids.
    pub fn distinct_ids(&self, examples: u64) -> f64 {
        self.model.distinct_ids(examples)
    }

    /// Bytes of the tables.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.model.bytes()
    }
}

/// Writes the whole stream of `options` as lines of a Criteo log.
///
/// # Errors
/// An option is out of range, or `out` fails.
pub fn write_tsv(options: &SynthOptions, out: &mut dyn Write) -> Result<(), DataError> {
    Synth::new(options)?.write_tsv(0..options.examples, out)
}

fn reserve(chunk: &mut Chunk, examples: usize) {
    let Schema { dense, id_columns, .. } = chunk.schema;
    chunk.labels.reserve_exact(examples);
    chunk.truth.reserve_exact(examples);
    chunk.dense.reserve_exact(examples * dense);
    chunk.keys.reserve_exact(examples * id_columns);
    chunk.lines.reserve_exact(examples);
    chunk.bag_ends.reserve_exact(examples * id_columns);
}

#[inline]
fn push(chunk: &mut Chunk, example: &Example, namespaces: &[Namespace], log1p: Log1p) {
    chunk.labels.push(f32::from(u8::from(example.click)));
    chunk.truth.push(example.truth as f32);
    chunk.dense.extend(example.dense.iter().map(|x| log1p.of(x.unwrap_or(0))));
    let ids = namespaces.iter().zip(&example.ids);
    chunk.keys.extend(ids.map(|(namespace, id)| key_of(namespace, *id)));
}

/// Key of an id's text.
#[inline]
fn key_of(namespace: &Namespace, id: u64) -> Key {
    let text = text::of_id(id);
    namespace.key_of(if id == MISSING { b"" } else { &text })
}

#[cfg(test)]
mod tests;
