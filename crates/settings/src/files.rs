//! The settings of data files.

use stepwell_data::Format;

use crate::config::{Config, PresetKind};
use crate::no_effect;
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;

/// Columns of a well-known data set.
pub(crate) const PRESET: Setting = setting!(
    "data.preset",
    data.preset = PresetKind::Criteo,
    BeyondDefault,
    "criteo, adult, avazu or movielens: columns of a well-known data set"
)
.idle(no_effect::with_columns);

/// Format of the files.
pub(crate) const FORMAT: Setting = setting!(
    "data.format",
    data.format = Format::Auto,
    Resumed,
    "auto (guessed from each file), csv, tsv, libsvm, jsonl or parquet"
)
.idle(no_effect::in_plain_columns);

/// Whether the first line names the columns.
pub(crate) const HEADER: Setting = setting!(
    "data.header",
    data.header = None,
    Resumed,
    "whether the first line of delimited text names the columns: true or false (empty: true if it \
     has their names)"
)
.idle(no_effect::in_plain_columns);

/// Separator of fields.
pub(crate) const SEPARATOR: Setting = setting!(
    "data.separator",
    data.separator = None,
    Resumed,
    "separator of fields in delimited text, such as ; or tab (empty: guessed from the file)"
)
.idle(no_effect::in_plain_columns);

/// Whether spaces around fields are removed.
pub(crate) const TRIM: Setting = setting!(
    "data.trim",
    data.trim = false,
    BeyondDefault,
    "true: spaces around values are removed, in every format"
);

/// Texts that mean a missing value.
pub(crate) const MISSING: Setting = setting!(
    "data.missing",
    data.missing = Vec::new(),
    BeyondDefault,
    "texts that mean a missing value, such as NA; empty text always does"
);

/// Whether the data has labels.
pub(crate) const LABELS: Setting = setting!(
    "data.labels",
    data.labels = true,
    Never,
    "false: the data has no label column, so it can only be scored"
);

/// Column that splits the data.
pub(crate) const EVAL_COLUMN: Setting = setting!(
    "data.eval_column",
    data.eval_column = None,
    BeyondDefault,
    "column that selects the examples for evaluation, instead of the tail: those with \
     data.eval_values, or the share data.eval_fraction of its values by their hash (empty: none)"
)
.idle(no_effect::with_eval_paths);

/// Values of the column that are for evaluation.
pub(crate) const EVAL_VALUES: Setting = setting!(
    "data.eval_values",
    data.eval_values = Vec::new(),
    BeyondDefault,
    "values of data.eval_column for evaluation (empty: a share of all)"
)
.idle(no_effect::without_eval_column);

/// Least value of the column that is for evaluation.
pub(crate) const EVAL_FROM: Setting = setting!(
    "data.eval_from",
    data.eval_from = None,
    BeyondDefault,
    "a date, a time or a number: values of data.eval_column from it on are for evaluation (empty: \
     data.eval_values, or a share of all)"
)
.idle(no_effect::without_eval_column);
