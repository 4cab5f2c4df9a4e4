//! Names of the rules by which a layout turns records into examples: equal names mean equal
//! examples.

use stepwell_base::hash::Digest128;

use super::column::{Column, ColumnKind, IdRule, Transform};
use super::compiled::Layout;
use super::options::LayoutOptions;
use crate::moment::TimePart;
use crate::sign_hash::SIGN_HASH_NAME;

/// Version of how a value is parsed as text or number, or is missing, independent of columns. A
/// change needs a new name, so that packed files made before are rejected.
const VALUES: &str = "values 2";
/// Version of how columns are found in files, so that caches made before are rejected.
const READING: &str = "names in any case, labels from 0 to 1";
/// Marks caches made since LibSVM values have an effect; before, lines with values were malformed.
const VALUES_OF_IDS: &str = ", values of ids";

impl Layout {
    /// Name of the rules that turn records into examples: a digest of [`Layout::rules`], 40 bytes.
    pub fn rules_name(&self) -> String {
        let mut digest = Digest128::new();
        digest.update(self.rules().as_bytes());
        format!("columns {:032x}", digest.value())
    }

    /// Name of the rules that turn text into examples: also covers the file format.
    pub(crate) fn reading_name(&self) -> String {
        let LayoutOptions { format, separator, header, .. } = &self.options;
        let reading = format!("format {} separator {separator:?} header {header:?}", format.name());
        let values = if self.may_have_values() { VALUES_OF_IDS } else { "" };
        let reading = format!("{reading} {READING}{values}");
        let mut digest = Digest128::new();
        digest.update(reading.as_bytes());
        digest.update(self.rules().as_bytes());
        if let Some(split) = &self.options().split {
            digest.update(format!("split {split:?}").as_bytes());
        }
        format!("records {:032x}", digest.value())
    }

    /// The rules, one per line. The text must never change for unchanged rules, as packed files are
    /// identified by it.
    pub fn rules(&self) -> String {
        let LayoutOptions { trim, missing, .. } = &self.options;
        let mut text = format!("{VALUES} trim {trim} missing {missing:?}\n");
        for column in &self.columns {
            text += &rules_of(column);
            text.push('\n');
        }
        text
    }
}

fn rules_of(column: &Column) -> String {
    let Column { name, of, kind } = column;
    let of = if of.is_empty() { String::new() } else { format!(" of {of:?}") };
    let what = match kind {
        ColumnKind::Ignored => "ignored".to_owned(),
        ColumnKind::Label(rule) if rule.is_number => "label number".to_owned(),
        ColumnKind::Label(rule) => format!("label positive {:?}", rule.positive),
        ColumnKind::Weight => "weight".to_owned(),
        ColumnKind::Dense(rule) => {
            let transform = match rule.transform {
                Transform::None => "none".to_owned(),
                Transform::Log1p => "log1p, libm log1pf".to_owned(),
                Transform::Standardise { mean, deviation } => {
                    format!("standardise mean {mean:?} deviation {deviation:?}")
                }
            };
            format!(
                "dense low {:?} high {:?} {transform} fill {:?} indicator {}",
                rule.low, rule.high, rule.fill, rule.indicator
            )
        }
        ColumnKind::Id(IdRule { namespace, buckets, list, part, skip_missing, bins }) => {
            let values = match list.as_ref().and_then(|list| list.values.as_ref()) {
                None => String::new(),
                Some(values) => format!(" values {values:?}"),
            };
            let list = list.as_ref().map(|list| (&list.separator, list.most));
            let part = match part {
                TimePart::Whole => String::new(),
                part => format!(" part {}", part.name()),
            };
            let bins = match bins {
                None => String::new(),
                Some(bins) => format!(" bins {bins} by {SIGN_HASH_NAME}"),
            };
            let namespace = namespace.as_deref().unwrap_or(name);
            format!(
                "id namespace {namespace:?} buckets {buckets:?} list {list:?} skip \
                 {skip_missing}{part}{values}{bins}"
            )
        }
    };
    format!("{name:?}{of} {what}")
}
