//! The model's input: its parts, and the names by which layers read them.
//!
//! ```text
//! [ embedding of each feature in order | dense features | lengths of sequences | bins ]
//! ```
//!
//! Names of parts: `input` (all but lengths and bins), `embeddings`, `dense`, `column:NAME` (a
//! feature, or a dense column), `column:NAME#K` (K-th id of a feature that isn't pooled),
//! `column:NAME/K` (K-th feature of a column that has several), `column:A-B` (columns A to B as
//! they are in the input), `input[4..8]` (lanes, for whatever has no name), `bin:NAME` (bin of a
//! feature's id).

use std::ops::Range;

use stepwell_nn::InputShape;

use crate::features::{FeaturePart, Features};

/// Prefix of names of columns.
const COLUMN: &str = "column:";
/// Prefix of names of bins.
const BIN: &str = "bin:";
/// Prefix of names of lanes.
const LANES: &str = "input[";

/// The model's input: its parts, and their names.
#[derive(Clone, Debug)]
pub(super) struct ModelInput<'a> {
    /// Features in order, then named dense columns.
    parts: Vec<Part<'a>>,
    embedding: usize,
    dense: usize,
    /// Embeddings of each sequence, in the order of their lengths.
    sequences: Vec<Range<usize>>,
    /// Embeddings of each feature whose bins are read, in the order of the bins.
    counted: Vec<Range<usize>>,
}

/// A sequence among the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    /// Column with its length.
    pub(super) length: usize,
    /// Lanes of an embedding.
    pub(super) dim: usize,
}

/// A part that has a name.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    /// Name of the column.
    pub(super) column: &'a str,
    /// Lanes of an embedding; 1 for a dense column.
    pub(super) dim: usize,
    /// Whether all ids have one embedding together.
    pub(super) is_pooled: bool,
    /// Its columns in the input.
    pub(super) columns: Range<usize>,
}

impl<'a> ModelInput<'a> {
    /// The input of a model of `features` whose tables have `dims` lanes.
    pub(super) fn new(features: &'a Features, dims: &[usize]) -> Self {
        let mut parts = Vec::new();
        let mut start = 0;
        for FeaturePart { column, dim, fields, is_pooled } in features.parts(dims) {
            let columns = start..start + dim * fields;
            start = columns.end;
            parts.push(Part { column, dim, is_pooled, columns });
        }
        let columns = |of: &usize| parts[*of].columns.clone();
        let sequences = features.sequences().iter().map(columns).collect();
        let counted = features.counted().iter().map(columns).collect();
        for (number, column) in features.dense_names().enumerate() {
            let columns = start + number..start + number + 1;
            parts.extend(column.map(|column| Part { column, dim: 1, is_pooled: true, columns }));
        }
        Self { parts, embedding: start, dense: features.dense(), sequences, counted }
    }

    /// Its shape, with lengths and bins after the dense features.
    pub(super) fn shape(&self) -> InputShape {
        let derived = self.sequences.len() + self.counted.len();
        InputShape { embedding: self.embedding, dense: self.dense + derived }
    }

    /// All columns but lengths and bins.
    pub(super) fn whole(&self) -> Range<usize> {
        0..self.embedding + self.dense
    }

    /// All columns of embeddings.
    pub(super) fn embeddings(&self) -> Range<usize> {
        0..self.embedding
    }

    fn dense(&self) -> Range<usize> {
        self.embedding..self.embedding + self.dense
    }

    /// Embeddings of each sequence.
    pub(super) fn sequences(&self) -> &[Range<usize>] {
        &self.sequences
    }

    /// Features and named dense columns, in order.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part<'a>> {
        self.parts.iter()
    }

    /// Features in order.
    pub(super) fn features(&self) -> impl Iterator<Item = &Part<'a>> {
        self.parts.iter().filter(|part| part.columns.end <= self.embedding)
    }

    /// Columns of each embedding, in order. An id of a feature that isn't pooled has its own.
    pub(super) fn fields(&self) -> Vec<Range<usize>> {
        let mut fields = Vec::new();
        for Part { dim, columns, .. } in self.features() {
            if *dim == 0 {
                fields.push(columns.clone());
            }
            fields.extend(columns.clone().step_by((*dim).max(1)).map(|start| start..start + dim));
        }
        fields
    }

    /// The sequence whose embeddings are `columns`.
    pub(super) fn sequence_of(&self, columns: &Range<usize>) -> Option<Sequence> {
        let number = self.sequences.iter().position(|of| of == columns)?;
        let part = self.features().find(|part| part.columns == *columns)?;
        Some(Sequence { length: self.embedding + self.dense + number, dim: part.dim })
    }

    /// Name of the first bin, if there is one.
    pub(super) fn bin(&self) -> Option<String> {
        let (number, _) = self.parts.iter().enumerate().find(|(_, part)| {
            self.counted.first().is_some_and(|columns| *columns == part.columns)
        })?;
        Some(format!("{BIN}{}", self.name_of(number)))
    }

    /// The column with the bin of the feature called `name`.
    fn bin_of(&self, name: &str) -> Option<Range<usize>> {
        let columns = self.part(name)?;
        let number = self.counted.iter().position(|of| *of == columns)?;
        let start = self.embedding + self.dense + self.sequences.len() + number;
        Some(start..start + 1)
    }

    /// The columns of the part called `name`.
    pub(super) fn columns(&self, name: &str) -> Option<Range<usize>> {
        match name {
            "input" => return Some(self.whole()),
            "embeddings" => return Some(self.embeddings()),
            "dense" => return Some(self.dense()),
            _ => {}
        }
        if let Some(lanes) = name.strip_prefix(LANES).and_then(|rest| rest.strip_suffix(']')) {
            let (start, end) = lanes.split_once("..")?;
            let range = start.parse().ok()?..end.parse().ok()?;
            return (range.start < range.end && range.end <= self.whole().end).then_some(range);
        }
        if let Some(column) = name.strip_prefix(BIN) {
            return self.bin_of(column);
        }
        let column = name.strip_prefix(COLUMN)?;
        self.part(column).or_else(|| {
            let mut ends = self.ends(column).filter(|[first, last]| first.start <= last.start);
            ends.next().map(|[first, last]| first.start..last.end)
        })
    }

    /// The parts `A` and `B` of each way to read `name` as `A-B`.
    fn ends(&self, name: &str) -> impl Iterator<Item = [Range<usize>; 2]> {
        name.match_indices('-')
            .filter_map(|(at, _)| Some([self.part(&name[..at])?, self.part(&name[at + 1..])?]))
    }

    /// Why no part is called `name`, and the fix.
    pub(super) fn why_not(&self, name: &str) -> String {
        if name.starts_with(LANES) {
            let count = self.whole().end;
            return format!(
                "but the input has {count} columns: give {LANES}A..B] with A < B, and B at most \
                 {count}"
            );
        }
        let Some(column) = name.strip_prefix(COLUMN) else {
            return "which is neither a layer nor a part of the input: input, embeddings, dense, \
                    first_order, column:NAME, bin:NAME of a column of ids"
                .to_owned();
        };
        match self.ends(column).next() {
            Some(_) => "but the input has these columns in the reverse order: swap them".to_owned(),
            None => "but the model reads no such column, or several features of it \
                     (column:NAME/1 is the first)"
                .to_owned(),
        }
    }

    /// The columns of a feature, of one of its ids, or of a dense column.
    fn part(&self, name: &str) -> Option<Range<usize>> {
        let of_column = |name: &str| {
            let mut found = self.parts.iter().filter(move |part| part.column == name);
            found.next().filter(|_| found.next().is_none())
        };
        let numbered = |name: &str| {
            let (name, number) = name.rsplit_once('/')?;
            let before = number.parse::<usize>().ok()?.checked_sub(1)?;
            self.parts.iter().filter(|part| part.column == name).nth(before)
        };
        let feature = |name: &str| of_column(name).or_else(|| numbered(name));
        if let Some(part) = feature(name) {
            return Some(part.columns.clone());
        }
        let (name, id) = name.rsplit_once('#')?;
        let part = feature(name)?;
        let start = part.columns.start + id.parse::<usize>().ok()?.checked_sub(1)? * part.dim;
        let columns = start..start + part.dim;
        (columns.end <= part.columns.end).then_some(columns)
    }

    /// A name of `columns`.
    pub(super) fn name(&self, columns: &Range<usize>) -> String {
        let wholes =
            [(self.whole(), "input"), (self.embeddings(), "embeddings"), (self.dense(), "dense")];
        if let Some((_, name)) = wholes.iter().find(|(of, _)| of == columns) {
            return (*name).to_owned();
        }
        // A column's name may look like another's with a number.
        let named = self.name_of_parts(columns).map(|name| format!("{COLUMN}{name}"));
        let named = named.filter(|name| self.columns(name).as_ref() == Some(columns));
        named.unwrap_or_else(|| format!("input[{}..{}]", columns.start, columns.end))
    }

    fn name_of_parts(&self, columns: &Range<usize>) -> Option<String> {
        let mut parts = self.parts.iter().enumerate().filter(|(_, part)| !part.columns.is_empty());
        let (first, part) = parts.find(|(_, part)| part.columns.contains(&columns.start))?;
        if part.columns == *columns {
            return Some(self.name_of(first));
        }
        if part.columns.end >= columns.end {
            let id = (columns.start - part.columns.start) / part.dim + 1;
            return Some(format!("{}#{id}", self.name_of(first)));
        }
        let (last, _) = parts.find(|(_, part)| part.columns.end == columns.end)?;
        Some(format!("{}-{}", self.name_of(first), self.name_of(last)))
    }

    /// Name of the part with this number.
    fn name_of(&self, number: usize) -> String {
        let column = self.parts[number].column;
        let same = |parts: &[Part<'_>]| parts.iter().filter(|part| part.column == column).count();
        match same(&self.parts) {
            1 => column.to_owned(),
            _ => format!("{column}/{}", same(&self.parts[..=number])),
        }
    }
}
