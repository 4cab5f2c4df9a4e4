//! Settings of columns of the data.

use stepwell_data::TimePart;
use stepwell_nn::Loss;

use super::{Config, expanded};

/// Columns of the data with the same settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnConfig {
    /// Their names and ranges of names, such as `C5-C9`.
    pub names: Vec<String>,
    /// Their type.
    pub kind: ColumnType,
    /// Source columns in the data; empty for the columns of the same names.
    pub of: Vec<String>,
    /// For a label: the loss to minimize.
    pub loss: Loss,
    /// For a label: texts that count as 1, all others as 0; empty if it is a number.
    pub positive: Vec<String>,
    /// For a label: how often a positive counts in training; `None` for `data.class_weight`.
    pub class_weight: Option<f64>,
    /// For a number: the function that is applied to it.
    pub transform: TransformKind,
    /// For a standardised number: its mean, one for each name.
    pub mean: Vec<f64>,
    /// For a standardised number: its standard deviation, one for each name.
    pub deviation: Vec<f64>,
    /// For a number: least value; smaller ones become this.
    pub low: Option<f64>,
    /// For a number: greatest value; larger ones become this.
    pub high: Option<f64>,
    /// For a number: replacement for a missing one; `None` for a feature of 0.
    pub fill: Option<f64>,
    /// For a number: whether another feature is 1 where it is missing.
    pub indicator: bool,
    /// For an id: namespace of the ids; `None` for the column's own.
    pub namespace: Option<String>,
    /// For an id: bounds of the buckets that turn a number into an id.
    pub buckets: Vec<f64>,
    /// For an id: the part of a date or a time that it is.
    pub part: TimePart,
    /// For a list: separator of ids.
    pub separator: String,
    /// For a list: the mark between an id and its value, or the column that has the values. Unset
    /// if all values are 1 or the format has them.
    pub values: Option<String>,
    /// For a list: most ids to use; further ones are left out.
    pub ids: usize,
    /// For a list: bins that its ids are hashed into.
    pub bins: Option<u64>,
    /// For an id: meaning of a missing one.
    pub missing: MissingKind,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnType {
    /// What the model learns to predict.
    Label,
    /// How much an example counts.
    Weight,
    /// A number.
    Dense,
    /// An id.
    #[default]
    Id,
    /// A list of ids.
    Ids,
    /// Not used.
    Ignored,
}

impl ColumnType {
    /// All types.
    pub const ALL: [Self; 6] =
        [Self::Label, Self::Weight, Self::Dense, Self::Id, Self::Ids, Self::Ignored];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Weight => "weight",
            Self::Dense => "dense",
            Self::Id => "id",
            Self::Ids => "ids",
            Self::Ignored => "ignored",
        }
    }
}

/// A function applied to a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransformKind {
    /// The number itself.
    #[default]
    None,
    /// ln(1 + max(x, 0)).
    Log1p,
    /// (x - mean) / deviation.
    Standardise,
}

impl TransformKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::None, Self::Log1p, Self::Standardise];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Log1p => "log1p",
            Self::Standardise => "standardise",
        }
    }
}

/// Meaning of a missing id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKind {
    /// Its own id.
    #[default]
    Own,
    /// No id.
    None,
}

impl MissingKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Own, Self::None];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::None => "none",
        }
    }
}

impl ColumnConfig {
    /// The whole key of a setting of the columns with this number, counted from 1.
    pub(crate) fn key(number: usize, setting: &str) -> String {
        format!("columns.{number}.{setting}")
    }
}

impl Config {
    /// How often a positive of the label with this name counts in training.
    pub fn class_weight_of(&self, label: &str) -> f64 {
        let is_it = |column: &&ColumnConfig| {
            // Names that can't be expanded are refused by their check.
            let names = || expanded(&column.names).unwrap_or_default();
            column.kind == ColumnType::Label && names().iter().any(|name| name == label)
        };
        let own = self.columns.iter().find(is_it).and_then(|column| column.class_weight);
        own.unwrap_or(self.data.class_weight)
    }

    /// The columns with this number, counted from 1; adds the ones after the last.
    ///
    /// # Errors
    /// If the number is too high; the message names the next one.
    pub fn column_mut(&mut self, number: usize) -> Result<&mut ColumnConfig, String> {
        let count = self.columns.len();
        if !(1..=count + 1).contains(&number) {
            let next = count + 1;
            return Err(format!("columns.{number} skips a number: give columns.{next}"));
        }
        if number > count {
            self.columns.push(ColumnConfig::default());
        }
        Ok(&mut self.columns[number - 1])
    }
}
