//! The layout of data: the columns of a record by name, and their use in examples.
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
//! - [`Namespace::key_of`](stepwell_base::Namespace::key_of) the column's namespace makes an id's
//!   key. The namespace has the name of the column, unless the layout gives another one. A crossed
//!   id is the texts of its columns, joined with byte 0x1F. A bucketed number's id is the number of
//!   bounds that are at most as large.

mod column;
mod compile;
mod compiled;
mod derived;
mod evaluation_split;
mod list;
mod names;
mod names_of_rules;
mod options;
mod values;

pub use self::column::{Column, ColumnKind, DenseRule, IdRule, LabelRule, ListRule, Transform};
pub(crate) use self::compile::transformed;
pub use self::compiled::Layout;
pub(crate) use self::compiled::{Dense, Hashed, Ids, Label, LabelSays, Made, Says};
pub(crate) use self::evaluation_split::Split;
pub use self::evaluation_split::{Part, SplitBy, SplitRule};
pub(crate) use self::list::{Nested, each_item};
pub(crate) use self::names::{Named, find_names, is_misspelt, listed, nearest, other_case_note};
pub use self::options::{Format, LayoutOptions, may_separate};
pub use self::values::ValuesRule;
pub(crate) use self::values::{List, Values, split_item, value_of};
use crate::error::DataError;

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
}
