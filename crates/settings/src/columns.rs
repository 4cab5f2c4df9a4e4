//! The settings of columns. Their keys are `columns.N.` followed by the entry's key.

use stepwell_data::{OneSignHash, TimePart};
use stepwell_nn::Loss;

use crate::check::{self, Outcome};
use crate::config::{ColumnConfig, ColumnType, MissingKind, TransformKind, expanded};
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;

/// All settings of columns, in the order of the documentation and of digests of jobs.
pub const COLUMN_SETTINGS: &[Setting<ColumnConfig>] = &[
    setting!(
        ColumnConfig: "names",
        names = Vec::new(),
        Always,
        "names of columns, such as age, or C1-C26; all get these settings"
    )
    .check(|column| expanded(&column.names).map(|_| ())),
    setting!(
        ColumnConfig: "type",
        kind = ColumnType::Id,
        Always,
        "label, weight (how much an example counts), dense, id, ids or ignored"
    ),
    setting!(
        ColumnConfig: "of",
        of = Vec::new(),
        Always,
        "columns of the data that it is made from; several ids are crossed, and a label is made \
         from clicks and impressions (empty: its own name)"
    ),
    setting!(
        ColumnConfig: "loss",
        loss = Loss::LogLoss,
        BeyondDefault,
        "of a label: log_loss (a number from 0 to 1) or squared_error (any number)"
    )
    .idle(|column| others(column, &[ColumnType::Label], "only labels have it")),
    setting!(
        ColumnConfig: "positive",
        positive = Vec::new(),
        Always,
        "of a label: texts that count as 1, all others as 0 (empty: the label is a number)"
    )
    .idle(|column| others(column, &[ColumnType::Label], "only labels have it")),
    setting!(
        ColumnConfig: "class_weight",
        class_weight = None,
        BeyondDefault,
        "of a label: how often a positive counts in training (empty: data.class_weight)"
    )
    .check(|column| check::given(column.class_weight, check::class_weight))
    .idle(|column| others(column, &[ColumnType::Label], "only labels have it")),
    setting!(
        ColumnConfig: "transform",
        transform = TransformKind::None,
        Always,
        "of a number: none, log1p (ln(1 + max(x, 0))) or standardise ((x - mean) / deviation)"
    )
    .idle(no_number),
    setting!(
        ColumnConfig: "mean",
        mean = Vec::new(),
        Always,
        "of a standardised number: its mean, one for each name (empty: computed from the data)"
    )
    .check(|column| finite(&column.mean))
    .idle(not_standardised),
    setting!(
        ColumnConfig: "deviation",
        deviation = Vec::new(),
        Always,
        "of a standardised number: its standard deviation, one for each name (empty: computed from \
         the data)"
    )
    .check(|column| finite(&column.deviation))
    .idle(not_standardised),
    setting!(
        ColumnConfig: "low",
        low = None,
        Always,
        "of a number: least value; smaller ones become this"
    )
    .check(|column| finite(&column.low))
    .idle(no_number),
    setting!(
        ColumnConfig: "high",
        high = None,
        Always,
        "of a number: greatest value; larger ones become this"
    )
    .check(|column| finite(&column.high))
    .idle(no_number),
    setting!(
        ColumnConfig: "fill",
        fill = None,
        Always,
        "of a number: replacement for a missing one (empty: the feature is 0)"
    )
    .check(|column| finite(&column.fill))
    .idle(no_number),
    setting!(
        ColumnConfig: "indicator",
        indicator = false,
        Always,
        "of a number: true adds a dense feature that is 1 where the number is missing"
    )
    .idle(no_number),
    setting!(
        ColumnConfig: "namespace",
        namespace = None,
        Always,
        "of ids: their vocabulary; columns with the same namespace share rows (empty: the column's \
         name)"
    )
    .idle(no_id),
    setting!(
        ColumnConfig: "buckets",
        buckets = Vec::new(),
        Always,
        "of an id: bounds in ascending order; a number's id is how many of them it reaches"
    )
    .check(|column| finite(&column.buckets))
    .idle(no_id),
    setting!(
        ColumnConfig: "part",
        part = TimePart::Whole,
        BeyondDefault,
        "of an id that is a date or a time: whole, or its year, month, day, weekday (1, Monday, to \
         7) or hour, in UTC if it has an offset"
    )
    .idle(|column| others(column, &[ColumnType::Id], "only columns of type id have it")),
    setting!(
        ColumnConfig: "separator",
        separator = "|".to_owned(),
        Always,
        "of a list: separator of ids (space and tab by name)"
    )
    .idle(no_list),
    setting!(
        ColumnConfig: "values",
        values = None,
        BeyondDefault,
        "of a list: separator of an id and its value, such as :, or the column with the values \
         (empty: 1, or LibSVM's values)"
    )
    .idle(no_list),
    setting!(
        ColumnConfig: "ids",
        ids = 64,
        Always,
        "of a list: most ids to use; further ones are left out"
    )
    .check(|column| -> Outcome { check::within(column.ids, 1..=check::IDS_MAX) })
    .idle(no_list),
    setting!(
        ColumnConfig: "bins",
        bins = None,
        BeyondDefault,
        "of a list: its ids are hashed into twice as many as this, by one permutation and one sign \
         random projection; the list may then be made of several columns (empty: they are not)"
    )
    .check(|column| check::given(column.bins, bins))
    .idle(no_list),
    setting!(
        ColumnConfig: "missing",
        missing = MissingKind::Own,
        Always,
        "of an id: own (a missing value gets its own id) or none"
    )
    .idle(no_id),
];

fn bins(count: u64) -> Outcome {
    let most = OneSignHash::BINS_MAX;
    let give = format_args!("1 to {most}");
    check::right((1..=most).contains(&count), count, give)
}

/// Refuses infinities and NaN.
fn finite<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> Outcome {
    match numbers.into_iter().find(|number| !number.is_finite()) {
        Some(number) => Err(format!("has {number}: give finite numbers")),
        None => Ok(()),
    }
}

/// Returns `why` unless the column has one of these types.
fn others(column: &ColumnConfig, has: &[ColumnType], why: &'static str) -> Option<&'static str> {
    (!has.contains(&column.kind)).then_some(why)
}

fn no_number(column: &ColumnConfig) -> Option<&'static str> {
    others(column, &[ColumnType::Dense], "only columns of type dense have it")
}

fn not_standardised(column: &ColumnConfig) -> Option<&'static str> {
    let is_standardised = column.transform == TransformKind::Standardise;
    no_number(column).or_else(|| (!is_standardised).then_some("transform is not standardise"))
}

fn no_id(column: &ColumnConfig) -> Option<&'static str> {
    others(column, &[ColumnType::Id, ColumnType::Ids], "only columns of type id or ids have it")
}

fn no_list(column: &ColumnConfig) -> Option<&'static str> {
    others(column, &[ColumnType::Ids], "only columns of type ids have it")
}
