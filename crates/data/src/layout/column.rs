//! Columns of examples, as given.

use super::values::ValuesRule;
use crate::moment::TimePart;

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
    /// For a list: bins that its ids are hashed into ([`OneSignHash`](crate::OneSignHash)). The
    /// list may then be made of several columns.
    pub bins: Option<u64>,
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
