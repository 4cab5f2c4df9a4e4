//! Why a line isn't an example, and the messages.

use crate::layout::Layout;
use crate::number::why_no_number;
use crate::parse_lines::quoted;
use crate::path_columns::RENAME;

/// Why a line isn't an example.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The line isn't a valid record of its format.
    Record {
        /// Number of the column, from 1; 0 if unknown.
        column: u32,
        why: String,
    },
    /// The value of this source is invalid.
    Value { source: usize, why: Why },
    /// An item of a list in this source is invalid.
    Item { source: usize, why: Why, item: Vec<u8> },
}

/// The reason why a value is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    NoLabel,
    MissingLabel,
    NoWeight,
    MissingWeight,
    /// Not a count.
    NoCount,
    MissingCount,
    /// More clicks than impressions.
    TooManyClicks,
    /// A count times its weight overflows.
    TooHeavy,
    NoNumber,
    NoNumberLabel,
    /// The value lacks the part of a time that ids are made from.
    NoTime,
    /// The value can't be compared with the value that splits the data.
    NoPlace,
    List,
    /// A list, in a column that is made of several values.
    ListOfSeveral,
    Object,
    /// A list contains a list.
    Nested,
    /// Invalid escapes.
    NoText,
    Twice,
    /// In both the record and the path of the file.
    InPath,
    /// Malformed values of ids.
    Values(WhyValues),
}

impl Fault {
    pub(crate) fn value(source: usize, why: Why) -> Self {
        Self::Value { source, why }
    }
}

/// A fault in the values of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyValues {
    /// An item lacks a value, or its value isn't a finite number.
    NoValue,
    /// An item of a list of values isn't a finite number.
    NoNumber,
    /// An item is missing in one of two lists that are paired by position.
    MissingItem,
    /// The numbers of values and ids differ.
    Unequal,
}

impl WhyValues {
    /// Message for `value`: an item of `source`, or the number of items.
    fn explain(self, layout: &Layout, source: usize, value: &[u8]) -> String {
        let (name, text) = (&layout.sources[source], quoted(value));
        match self {
            Self::NoValue => {
                let mark = layout.mark_of(source);
                format!(
                    "{name} has the item {text}, but an id with its value is written as \
                     id{mark}value, such as 7{mark}0.5: a single {mark}, and a finite 32-bit \
                     number after it"
                )
            }
            Self::NoNumber => format!(
                "{name} has the item {text}, but values of ids are finite 32-bit numbers, such as \
                 0.5"
            ),
            Self::MissingItem => format!(
                "{name} has a missing item, but ids and their values are matched by position: \
                 leave out both of them"
            ),
            Self::Unequal => {
                let counts = String::from_utf8_lossy(value);
                format!("{name} has {counts}: give each id one value, in a list of the same length")
            }
        }
    }
}

/// Advice for data without usable labels.
pub const UNLABELLED: &str = "`predict --unlabelled` scores data without labels and weights";

/// Error for an invalid value.
#[cold]
pub(crate) fn explain(layout: &Layout, source: usize, value: &[u8], why: Why) -> String {
    let name = &layout.sources[source];
    let text = quoted(value);
    match why {
        Why::NoLabel => format!(
            "{name} is {text}, but a label is a number from 0 to 1; if it is a text, give the \
             texts that count as 1 in `positive`; for any other number, use the loss \
             squared_error; {UNLABELLED}"
        ),
        Why::MissingLabel if layout.options().missing.is_empty() => {
            format!("{name} is missing, and it is the label: give each record one; {UNLABELLED}")
        }
        Why::MissingLabel => format!(
            "{name} is missing, and it is the label: give each record one; it may be a text of \
             data.missing; {UNLABELLED}"
        ),
        Why::MissingWeight => {
            format!(
                "{name} is missing, and it is the weight: give each example one, such as 1; \
                 {UNLABELLED}"
            )
        }
        Why::MissingCount => format!(
            "{name} is missing, and a label is made of it: give each line its counts; {UNLABELLED}"
        ),
        Why::NoCount => {
            format!("{name} is {text}, and a count is a number of 0 or more; {UNLABELLED}")
        }
        Why::TooManyClicks => format!(
            "{name} is {text}, more than {} has: there are at most as many clicks as impressions; \
             {UNLABELLED}",
            layout.counts().map_or("the other count", |of| &layout.sources[of])
        ),
        Why::TooHeavy => {
            format!("{name} is {text}, which times the weight is beyond 32-bit numbers")
        }
        Why::NoWeight => format!("{name} is {text}, and a weight is a number of 0 or more"),
        Why::NoNumberLabel => {
            format!("{name} is {text}, and the label is a finite number; {UNLABELLED}")
        }
        Why::NoNumber => format!("{name} is {text}, {}", why_no_number(value)),
        Why::NoTime => format!(
            "{name} is {text}, not a date or time that has such a part: write it as 2024-01-02 or \
             2024-01-02 05:00:00"
        ),
        Why::NoPlace => format!(
            "{name} is {text}, which data.eval_from cannot be compared with: each record needs a \
             value of the same kind (a date, a time or a number)"
        ),
        Why::List => format!("{name} is a list: give its column the type ids"),
        Why::ListOfSeveral => format!(
            "{name} is a list, but a column that is made of several takes one value of each: leave \
             {name} out of its `of`"
        ),
        Why::Object => format!("{name} is an object: a column is a text, a number or a list"),
        Why::Nested => format!("{name} has a list within its list: write one list of ids"),
        Why::NoText => {
            format!("{name} has an invalid escape, such as half a surrogate pair")
        }
        Why::Twice => format!("{name} appears twice: give it once"),
        Why::InPath => {
            format!("{name} is {text}, but the path of the file has it, too: {RENAME}")
        }
        Why::Values(why) => why.explain(layout, source, value),
    }
}
