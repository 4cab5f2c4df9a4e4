//! What a record of a data file is made of, and what becomes of it: its columns, by name.
//!
//! A layout says of each column what it is (the label, a number, an id, a list of ids, or nothing
//! that matters), how it is transformed, and what stands for a missing one. It says nothing of how
//! values lie in a file: the same layout reads delimited text, JSON lines, LibSVM and Parquet, and
//! the same rows give the same examples.
//!
//! Rules, which are part of a model ([`Layout::rules_name`]):
//! - a value is a text. Numbers of JSON are the text that they are written as, and values of
//!   Parquet the text that CSV has of them, so that 107 and "107" are one id;
//! - a value is missing where there is none, where it is empty, and where it is one of the texts
//!   that the layout calls missing; so is an item of a list, which is no id then;
//! - a number is rounded once, to the nearest of 32 bits;
//! - where no column is a number, examples have one dense feature all the same, which is 1, so that
//!   every model has an intercept;
//! - an id of a list has a value, which is 1 unless the format has another one with it, or the
//!   layout says where it stands; it is a finite number, rounded likewise;
//! - an id's key is [`Namespace::key_of`] it, in the namespace that is named like its column unless
//!   another is given. Of several columns crossed it is that of their texts with the byte 0x1F
//!   between them; of a number in buckets, that of the number of bounds which are at most as large.

mod compile;
mod list;
mod names;
mod options;
mod others;
mod rules;
mod split;
mod values;

use std::path::Path;

use stepwell_base::{Key, Namespace};

pub use self::compile::may_separate;
pub(crate) use self::compile::transformed;
pub(crate) use self::list::{Nested, each_item};
pub(crate) use self::names::{Named, find_names, is_misspelt, listed, nearest, other_case_note};
pub use self::options::{Format, LayoutOptions};
pub(crate) use self::split::Split;
pub use self::split::{Part, SplitBy, SplitRule};
pub use self::values::ValuesRule;
pub(crate) use self::values::{List, Values, split_item, value_of};
use crate::moment::TimePart;
use crate::path_columns::path_columns;
use crate::{DataError, Labels, Schema, cut_lists};

/// A column of examples.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Names of the columns of the data that it is made of; none for the one of its own name.
    pub of: Vec<String>,
    /// What it is.
    pub kind: ColumnKind,
}

/// What a column is.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnKind {
    /// Nothing that matters.
    Ignored,
    /// What is to be learned.
    Label(LabelRule),
    /// A number of 0 or more: how much an example counts.
    Weight,
    /// A number.
    Dense(DenseRule),
    /// An id, or a list of ids.
    Id(IdRule),
}

/// How a value becomes a label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelRule {
    /// Texts that mean a click; all others mean none. Empty for a number from 0 to 1, and for a
    /// column made of two counts, whose label is the first over the second.
    pub positive: Vec<String>,
    /// Whether it is any number instead.
    pub is_number: bool,
}

/// How a number becomes a dense feature: cut to its limits, then transformed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DenseRule {
    /// Smaller ones are this.
    pub low: Option<f64>,
    /// Larger ones are this.
    pub high: Option<f64>,
    /// What the model gets of it.
    pub transform: Transform,
    /// The number that stands for a missing one; none for a feature of 0.
    pub fill: Option<f64>,
    /// Whether one more feature, behind it, is 1 where it is missing and 0 elsewhere.
    pub indicator: bool,
}

/// A function of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Transform {
    /// The number itself.
    #[default]
    None,
    /// ln(1 + max(x, 0)).
    Log1p,
    /// (x - mean) / deviation, computed in 64 bits.
    Standardise {
        /// The mean.
        mean: f64,
        /// The standard deviation, above zero.
        deviation: f64,
    },
}

/// How a value becomes ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdRule {
    /// Whose ids they are; none for the column's.
    pub namespace: Option<String>,
    /// Bounds, in ascending order, that make a number an id: which of them it reaches.
    pub buckets: Vec<f64>,
    /// How a list of ids is taken apart; none for one id.
    pub list: Option<ListRule>,
    /// What of a date or a time the id is.
    pub part: TimePart,
    /// Whether a missing value has no id; otherwise it has one of its own. A missing list has none.
    pub skip_missing: bool,
}

/// A list of ids in one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRule {
    /// What is between two ids, where the list is a text.
    pub separator: String,
    /// Ids that are taken; those behind them are left out, and counted.
    pub most: usize,
    /// Where the values of its ids stand; none where they are 1, or part of the format as in
    /// LibSVM.
    pub values: Option<ValuesRule>,
}

/// The columns of data, ready to make examples of records.
#[derive(Clone, Debug)]
pub struct Layout {
    options: LayoutOptions,
    columns: Vec<Column>,
    /// Names of the columns of the data that something is made of.
    pub(crate) sources: Vec<String>,
    /// Of each column of a text without names, its source.
    pub(crate) places: Vec<Option<u16>>,
    /// Of each of these columns the label that it is, which tells a record from names.
    pub(crate) placed_labels: Vec<Option<Label>>,
    /// In the order of their columns; none where the data has no label.
    pub(crate) labels: Vec<Label>,
    /// Labels of an example, those of data without them among them.
    label_count: usize,
    pub(crate) weight: Option<usize>,
    pub(crate) dense: Vec<Dense>,
    pub(crate) ids: Vec<Ids>,
    pub(crate) split: Option<Split>,
}

/// A label, ready to be read.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) source: usize,
    pub(crate) says: LabelSays,
}

/// What the value of a label says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LabelSays {
    /// How likely a click was: 0, 1, or a number between.
    Share,
    /// These texts mean a click, all others none.
    Positive(Vec<Vec<u8>>),
    /// The number to be learned.
    Number,
    /// A count of clicks; the source `of` counts the impressions.
    Clicks { of: usize },
}

/// A dense feature, ready to be computed.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    pub(crate) source: usize,
    pub(crate) rule: DenseRule,
    /// What it is where the number is missing.
    pub(crate) missing: f32,
    pub(crate) says: Says,
}

/// What a dense feature says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// The number.
    Number,
    /// Whether it is missing.
    Missing,
    /// Nothing: it is 1, so that models without numbers have an intercept.
    Constant,
}

/// An id column, ready to be hashed.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    pub(crate) namespace: Namespace,
    pub(crate) made: Made,
    pub(crate) skip_missing: bool,
}

/// What ids are made of.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    /// A text.
    Text(usize),
    /// A part of a text that is a date or a time.
    Part(usize, TimePart),
    /// A text with several.
    List(List),
    /// A number; bounds, and the key of each number of them.
    Buckets { source: usize, bounds: Vec<f32>, keys: Vec<Key> },
    /// Several texts.
    Cross(Vec<usize>),
}

impl Layout {
    /// Columns in their order.
    ///
    /// # Errors
    /// [`DataError::Options`]: what is wrong with a column, by its name, and the mend.
    pub fn new(options: LayoutOptions, columns: Vec<Column>) -> Result<Self, DataError> {
        compile::compile(options, columns).map_err(DataError::Options)
    }

    /// The same, which may have no label.
    ///
    /// # Errors
    /// As [`Layout::new`], in words.
    pub(crate) fn new_unlabelled(
        options: LayoutOptions,
        columns: Vec<Column>,
    ) -> Result<Self, String> {
        compile::compile_parts(options, columns)
    }

    /// Whether a column says which examples are evaluated on.
    pub fn splits(&self) -> bool {
        self.split.is_some()
    }

    /// How files are read.
    pub fn options(&self) -> &LayoutOptions {
        &self.options
    }

    /// The columns as they were given.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// A value without the spaces around it, where they are no part of it.
    #[inline]
    pub(crate) fn trimmed<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        if !self.options.trim {
            return text;
        }
        let spaces = |text: &mut dyn Iterator<Item = &u8>| text.take_while(|b| **b == b' ').count();
        let text = &text[spaces(&mut text.iter())..];
        &text[..text.len() - spaces(&mut text.iter().rev())]
    }

    /// Items of `of_columns`, which has one for each column of a text without names, whose column
    /// is in the file at `path` and not in the path itself.
    pub(crate) fn in_file<'a, T>(
        &'a self,
        path: &Path,
        of_columns: &'a [T],
    ) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let in_path = path_columns(path);
        let own = self.columns.iter().filter(|column| column.of.is_empty()).zip(of_columns);
        let is_there = move |(column, _): &(&Column, &T)| {
            !in_path.iter().any(|of_path| of_path.name == column.name)
        };
        own.filter(is_there).map(|(_, of)| of)
    }

    /// Whether a text stands for a missing value, as the empty one does.
    #[inline]
    pub(crate) fn is_missing(&self, text: &[u8]) -> bool {
        self.options.missing.iter().any(|missing| missing.as_bytes() == text)
    }

    /// Numbers of dense features and id columns of an example.
    pub fn schema(&self) -> Schema {
        let labels = Labels {
            count: self.label_count.max(1),
            are_numbers: self.labels.iter().any(|label| label.says == LabelSays::Number),
            weighted: self.weight.is_some() || self.counts().is_some(),
        };
        Schema { dense: self.dense.len(), id_columns: self.ids.len(), labels }
    }

    /// Source of the count of impressions, where a label is a count of clicks. The example counts
    /// as often as that.
    pub(crate) fn counts(&self) -> Option<usize> {
        self.labels.iter().find_map(|label| match label.says {
            LabelSays::Clicks { of } => Some(of),
            LabelSays::Share | LabelSays::Positive(_) | LabelSays::Number => None,
        })
    }

    /// Names of the labels, in order, and the rule of each.
    pub fn labels(&self) -> Vec<(&str, &LabelRule)> {
        let mut labels = Vec::with_capacity(self.labels.len());
        for column in &self.columns {
            if let ColumnKind::Label(rule) = &column.kind {
                labels.push((column.name.as_str(), rule));
            }
        }
        labels
    }

    /// Names of the dense features, in order; an indicator has none of its own.
    pub fn dense_names(&self) -> Vec<Option<&str>> {
        let mut names = Vec::with_capacity(self.dense.len());
        for column in &self.columns {
            if let ColumnKind::Dense(rule) = &column.kind {
                names.push(Some(column.name.as_str()));
                names.extend(rule.indicator.then_some(None));
            }
        }
        names
    }

    /// Names of the id columns, in order, and how many ids a bag of each has at most.
    pub fn id_names(&self) -> Vec<(&str, usize)> {
        let of = |column: &'_ Column| match &column.kind {
            ColumnKind::Id(rule) => rule.list.as_ref().map_or(Some(1), |list| Some(list.most)),
            _ => None,
        };
        self.columns.iter().filter_map(|column| Some((column.name.as_str(), of(column)?))).collect()
    }

    /// The key of an id of id column number `column`, as a text of the data makes it; none where it
    /// is made of a number or of several texts.
    pub fn key_of(&self, column: usize, text: &[u8]) -> Option<Key> {
        let Ids { namespace, made, .. } = self.ids.get(column)?;
        match made {
            // A part of a time is named as it is, such as 13 for an hour.
            Made::Text(_) | Made::Part(..) | Made::List(_) => {
                Some(namespace.key_of(if self.is_missing(text) { b"" } else { text }))
            }
            Made::Buckets { .. } | Made::Cross(_) => None,
        }
    }

    /// Records that a block of `block_bytes` may have, so that its chunk takes no more memory than
    /// that of a block of plain lines.
    pub(crate) fn records_max(&self, block_bytes: usize) -> usize {
        (block_bytes / self.schema().line_bytes_min()).max(1)
    }

    /// Columns that are lists: each byte of a block but separators may be an id in each of them.
    pub(crate) fn lists(&self) -> usize {
        self.all_lists().count()
    }

    /// The most bytes that a chunk made of a block of `block_bytes` takes.
    pub fn chunk_bytes_max(&self, block_bytes: usize) -> usize {
        let ids = self.lists() * (block_bytes / 2 + 1);
        let values = match self.may_have_values() {
            true => ids + (block_bytes / self.schema().line_bytes_min() + 1) * self.ids.len(),
            false => 0,
        };
        let lists = ids * size_of::<Key>()
            + values * size_of::<f32>()
            + cut_lists::bytes_max(self.lists(), block_bytes);
        // Keys of lists are pushed one by one, which may double their room; so may all others.
        2 * (self.schema().chunk_bytes_max(block_bytes) + lists)
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options && self.columns == other.columns
    }
}
