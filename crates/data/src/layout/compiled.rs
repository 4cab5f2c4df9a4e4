//! A layout, compiled for reading records.

use std::path::Path;

use stepwell_base::{Key, Namespace};

use super::column::{Column, ColumnKind, DenseRule, LabelRule};
use super::evaluation_split::Split;
use super::options::{Format, LayoutOptions};
use super::values::{List, Values};
use crate::cut_list;
use crate::moment::TimePart;
use crate::path_columns::path_columns;
use crate::schema::{Labels, Schema};
use crate::sign_hash::OneSignHash;

/// A validated layout, compiled for reading records.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) options: LayoutOptions,
    pub(super) columns: Vec<Column>,
    /// Names of the data columns in use.
    pub(crate) sources: Vec<String>,
    /// Source of each column of a text without a header.
    pub(crate) places: Vec<Option<u16>>,
    /// Label of each of these columns, to distinguish a record from a header.
    pub(crate) placed_labels: Vec<Option<Label>>,
    /// Labels, in the order of their columns; empty if the data has no label.
    pub(crate) labels: Vec<Label>,
    /// Labels per example, including labels that unlabeled data lacks.
    pub(super) label_count: usize,
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

/// Source of the ids of a key.
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
    /// Several texts, hashed together.
    Hashed(Hashed),
}

/// Ids of several columns that are hashed into fewer.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    /// Sources, with the namespaces of their ids before hashing.
    pub(crate) sources: Vec<(usize, Namespace)>,
    pub(crate) hash: OneSignHash,
}

impl Layout {
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

    /// Selects the items of `of_columns` whose column is in the file at `path` rather than in the
    /// path itself. `of_columns` has one item per column of a text without a header.
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
    /// several texts, or are hashed.
    pub fn key_of(&self, column: usize, text: &[u8]) -> Option<Key> {
        let Ids { namespace, made, .. } = self.ids.get(column)?;
        match made {
            // The key of a part of a time is made from its text, such as 13 for an hour.
            Made::List(list) if list.hash.is_some() => None,
            Made::Text(_) | Made::Part(..) | Made::List(_) => {
                Some(namespace.key_of(if self.is_missing(text) { b"" } else { text }))
            }
            Made::Buckets { .. } | Made::Cross(_) | Made::Hashed(_) => None,
        }
    }

    /// Most records in a block of `block_bytes`. With this many, its chunk takes no more memory
    /// than the chunk of a block of plain lines.
    pub(crate) fn records_max(&self, block_bytes: usize) -> usize {
        (block_bytes / self.schema().line_bytes_min()).max(1)
    }

    /// Number of list columns: each byte of a block except separators may be an id in each of them.
    pub(crate) fn lists(&self) -> usize {
        let is_list = |ids: &&Ids| matches!(ids.made, Made::List(_) | Made::Hashed(_));
        self.ids.iter().filter(is_list).count()
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
            + cut_list::bytes_max(self.lists(), block_bytes);
        // Vectors grow by doubling.
        2 * (self.schema().chunk_bytes_max(block_bytes) + lists)
    }
}

impl Layout {
    fn all_lists(&self) -> impl Iterator<Item = &List> {
        self.ids.iter().filter_map(|ids| match &ids.made {
            Made::List(list) => Some(list),
            _ => None,
        })
    }

    /// Whether ids of text may have values other than 1.
    pub fn may_have_values(&self) -> bool {
        let in_format = matches!(self.options.format, Format::Auto | Format::LibSvm);
        self.all_lists().any(|list| list.values != Values::OfFormat || in_format)
    }

    /// Whether any list has values in its items, after a mark.
    pub(crate) fn has_marks(&self) -> bool {
        self.all_lists().any(|list| matches!(list.values, Values::Within(_)))
    }

    /// Whether a source is one of two lists that are read item by item together: ids and their
    /// values.
    pub(crate) fn is_beside(&self, source: usize) -> bool {
        self.all_lists().any(|list| match list.values {
            Values::Beside(values) => values == source || list.source == source,
            Values::OfFormat | Values::Within(_) => false,
        })
    }

    /// Mark before the value in an item of a source.
    pub(crate) fn mark_of(&self, source: usize) -> char {
        let marks = self.all_lists().filter(|list| list.source == source);
        let mut marks = marks.filter_map(|list| match list.values {
            Values::Within(mark) => Some(char::from(mark)),
            Values::OfFormat | Values::Beside(_) => None,
        });
        marks.next().unwrap_or(':')
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options && self.columns == other.columns
    }
}
