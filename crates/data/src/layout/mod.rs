//! The layout of data: the columns of a record by name, and what they become.
//!
//! For each column, a layout has its kind (a label, a number, an id, a list of ids, or ignored),
//! its transform, and the replacement of missing values. It is independent of the file format: the
//! same layout reads delimited text, JSON lines, LibSVM and Parquet, and the same rows give the
//! same examples.
//!
//! Rules, which are part of a model ([`Layout::rules_name`]):
//! - a value is a text. JSON numbers are the text as written, and Parquet values the text that CSV
//!   would have, so 107 and "107" are the same id;
//! - a value is missing if it is absent, empty, or one of the layout's missing texts. The same
//!   applies to items of a list; missing items aren't ids;
//! - a number is rounded once, to the nearest `f32`;
//! - if no column is a number, examples have one dense feature that is always 1, so that every
//!   model has an intercept;
//! - an id in a list has a value: 1, unless the format stores a value with the id or the layout
//!   names its location. It is a finite number, rounded likewise;
//! - [`Namespace::key_of`] the column's namespace makes an id's key. The namespace has the name of
//!   the column, unless the layout gives another one. A crossed id is the texts of its columns,
//!   joined with byte 0x1F. A bucketed number's id is the number of bounds that are at most as
//!   large.

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
    /// Name of the column.
    pub name: String,
    /// Names of the data columns it is derived from; empty for the data column of its own name.
    pub of: Vec<String>,
    /// Kind of the column.
    pub kind: ColumnKind,
}

/// Kind of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnKind {
    /// Unused.
    Ignored,
    /// A label.
    Label(LabelRule),
    /// Weight of the example: a number, at least 0.
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
    /// column made from two counts, whose label is the first divided by the second.
    pub positive: Vec<String>,
    /// Whether the label is an arbitrary number instead.
    pub is_number: bool,
}

/// How a number becomes a dense feature: clamped, then transformed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DenseRule {
    /// Lower limit.
    pub low: Option<f64>,
    /// Upper limit.
    pub high: Option<f64>,
    /// Transform after clamping.
    pub transform: Transform,
    /// Replacement of a missing number, before transforming; `None` for a feature of 0.
    pub fill: Option<f64>,
    /// Whether to add an indicator feature after it: 1 if the number is missing, else 0.
    pub indicator: bool,
}

/// Transform of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Transform {
    /// Identity.
    #[default]
    None,
    /// ln(1 + max(x, 0)).
    Log1p,
    /// (x - mean) / deviation, computed in 64 bits.
    Standardise {
        /// Mean.
        mean: f64,
        /// Standard deviation, above zero.
        deviation: f64,
    },
}

/// How a value becomes ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdRule {
    /// Namespace of the ids; `None` for the name of the column.
    pub namespace: Option<String>,
    /// Ascending bounds that turn a number into an id, the number of bounds it reaches.
    pub buckets: Vec<f64>,
    /// How to split a list of ids; `None` for a single id.
    pub list: Option<ListRule>,
    /// Part of a date or time that is the id.
    pub part: TimePart,
    /// Whether a missing value has no id; otherwise it has its own. A missing list never has ids.
    pub skip_missing: bool,
}

/// A list of ids in one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRule {
    /// Separator of ids, if the list is a text.
    pub separator: String,
    /// Most ids per list; further ids are dropped and counted.
    pub most: usize,
    /// Location of the ids' values; `None` if they are 1, or part of the format as in LibSVM.
    pub values: Option<ValuesRule>,
}

/// A validated layout, compiled for reading records.
#[derive(Clone, Debug)]
pub struct Layout {
    options: LayoutOptions,
    columns: Vec<Column>,
    /// Names of the data columns in use.
    pub(crate) sources: Vec<String>,
    /// Source of each column of a text without a header.
    pub(crate) places: Vec<Option<u16>>,
    /// Label of each of these columns, to distinguish a record from a header.
    pub(crate) placed_labels: Vec<Option<Label>>,
    /// Labels, in the order of their columns; empty if the data has no label.
    pub(crate) labels: Vec<Label>,
    /// Labels per example, including those that unlabeled data lacks.
    label_count: usize,
    pub(crate) weight: Option<usize>,
    pub(crate) dense: Vec<Dense>,
    pub(crate) ids: Vec<Ids>,
    pub(crate) split: Option<Split>,
}

/// A compiled label.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) source: usize,
    pub(crate) says: LabelSays,
}

/// Interpretation of a label's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LabelSays {
    /// Probability of a click: 0, 1, or a number between.
    Share,
    /// These texts mean a click, all others none.
    Positive(Vec<Vec<u8>>),
    /// An arbitrary number.
    Number,
    /// A count of clicks; the source `of` counts the impressions.
    Clicks { of: usize },
}

/// A compiled dense feature.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    pub(crate) source: usize,
    pub(crate) rule: DenseRule,
    /// Value of the feature if the number is missing.
    pub(crate) missing: f32,
    pub(crate) says: Says,
}

/// Contents of a dense feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// The number.
    Number,
    /// Indicator of a missing number.
    Missing,
    /// Always 1, as an intercept for models without numbers.
    Constant,
}

/// A compiled id column.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    pub(crate) namespace: Namespace,
    pub(crate) made: Made,
    pub(crate) skip_missing: bool,
}

/// What ids are made from.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    /// A text.
    Text(usize),
    /// A part of a date or time.
    Part(usize, TimePart),
    /// A list of ids in one text.
    List(List),
    /// A number: its bounds, and a key per number of reached bounds.
    Buckets { source: usize, bounds: Vec<f32>, keys: Vec<Key> },
    /// A cross of several texts.
    Cross(Vec<usize>),
}

impl Layout {
    /// Compiles a layout with `columns` in this order.
    ///
    /// # Errors
    /// [`DataError::Options`] with the faulty column and a fix.
    pub fn new(options: LayoutOptions, columns: Vec<Column>) -> Result<Self, DataError> {
        compile::compile(options, columns).map_err(DataError::Options)
    }

    /// Like [`Layout::new`], but a label is optional.
    ///
    /// # Errors
    /// The errors of [`Layout::new`], as text.
    pub(crate) fn new_unlabelled(
        options: LayoutOptions,
        columns: Vec<Column>,
    ) -> Result<Self, String> {
        compile::compile_parts(options, columns)
    }

    /// Whether a column selects the examples for evaluation.
    pub fn splits(&self) -> bool {
        self.split.is_some()
    }

    /// How to read files.
    pub fn options(&self) -> &LayoutOptions {
        &self.options
    }

    /// The columns, as given.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Trims spaces around a value, if the layout says so.
    #[inline]
    pub(crate) fn trimmed<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        if !self.options.trim {
            return text;
        }
        let spaces = |text: &mut dyn Iterator<Item = &u8>| text.take_while(|b| **b == b' ').count();
        let text = &text[spaces(&mut text.iter())..];
        &text[..text.len() - spaces(&mut text.iter().rev())]
    }

    /// Filters `of_columns`, which has one item per column of a text without a header, to columns
    /// that are in the file at `path`, not in the path itself.
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

    /// Whether a nonempty text means a missing value.
    #[inline]
    pub(crate) fn is_missing(&self, text: &[u8]) -> bool {
        self.options.missing.iter().any(|missing| missing.as_bytes() == text)
    }

    /// Shape of an example.
    pub fn schema(&self) -> Schema {
        let labels = Labels {
            count: self.label_count.max(1),
            are_numbers: self.labels.iter().any(|label| label.says == LabelSays::Number),
            weighted: self.weight.is_some() || self.counts().is_some(),
        };
        Schema { dense: self.dense.len(), id_columns: self.ids.len(), labels }
    }

    /// Source of the impression count, if a label is a click count. It's also the weight of the
    /// example.
    pub(crate) fn counts(&self) -> Option<usize> {
        self.labels.iter().find_map(|label| match label.says {
            LabelSays::Clicks { of } => Some(of),
            LabelSays::Share | LabelSays::Positive(_) | LabelSays::Number => None,
        })
    }

    /// Names and rules of the labels, in order.
    pub fn labels(&self) -> Vec<(&str, &LabelRule)> {
        let mut labels = Vec::with_capacity(self.labels.len());
        for column in &self.columns {
            if let ColumnKind::Label(rule) = &column.kind {
                labels.push((column.name.as_str(), rule));
            }
        }
        labels
    }

    /// Names of the dense features, in order; `None` for indicators.
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

    /// Names of the id columns, in order, and the most ids in a bag of each.
    pub fn id_names(&self) -> Vec<(&str, usize)> {
        let of = |column: &'_ Column| match &column.kind {
            ColumnKind::Id(rule) => rule.list.as_ref().map_or(Some(1), |list| Some(list.most)),
            _ => None,
        };
        self.columns.iter().filter_map(|column| Some((column.name.as_str(), of(column)?))).collect()
    }

    /// Key of a text in id column number `column`; `None` if its ids are made from numbers or
    /// several texts.
    pub fn key_of(&self, column: usize, text: &[u8]) -> Option<Key> {
        let Ids { namespace, made, .. } = self.ids.get(column)?;
        match made {
            // The key of a part of a time is made from its text, such as 13 for an hour.
            Made::Text(_) | Made::Part(..) | Made::List(_) => {
                Some(namespace.key_of(if self.is_missing(text) { b"" } else { text }))
            }
            Made::Buckets { .. } | Made::Cross(_) => None,
        }
    }

    /// Most records of a block of `block_bytes`, such that its chunk takes no more memory than that
    /// of a block of plain lines.
    pub(crate) fn records_max(&self, block_bytes: usize) -> usize {
        (block_bytes / self.schema().line_bytes_min()).max(1)
    }

    /// Number of list columns: each byte of a block except separators may be an id in each of them.
    pub(crate) fn lists(&self) -> usize {
        self.all_lists().count()
    }

    /// Most bytes of a chunk made from a block of `block_bytes`.
    pub fn chunk_bytes_max(&self, block_bytes: usize) -> usize {
        let ids = self.lists() * (block_bytes / 2 + 1);
        let values = match self.may_have_values() {
            true => ids + (block_bytes / self.schema().line_bytes_min() + 1) * self.ids.len(),
            false => 0,
        };
        let lists = ids * size_of::<Key>()
            + values * size_of::<f32>()
            + cut_lists::bytes_max(self.lists(), block_bytes);
        // Vectors grow by doubling.
        2 * (self.schema().chunk_bytes_max(block_bytes) + lists)
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options && self.columns == other.columns
    }
}
