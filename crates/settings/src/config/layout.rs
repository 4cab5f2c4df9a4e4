//! The layout of the data: how examples are made from its columns.

use std::sync::Arc;

use stepwell_data::{
    Column, ColumnKind, DenseRule, Format, IdRule, LabelRule, Layout, LayoutOptions, ListRule,
    SplitBy, SplitRule, Transform, ValuesRule, may_separate,
};
use stepwell_nn::Loss;

use super::Config;
use super::columns::{ColumnConfig, ColumnType, MissingKind, TransformKind};
use super::names::expanded;
use super::presets::{self, PresetKind};

impl ColumnConfig {
    /// The columns, one for each name.
    fn columns(&self) -> Result<Vec<Column>, String> {
        let names = expanded(&self.names).map_err(|why| format!("names {why}"))?;
        if !self.of.is_empty() && names.len() > 1 {
            return Err("names are several, and `of` makes one column: give it one name".to_owned());
        }
        let of = match self.of.as_slice() {
            [] => Vec::new(),
            of => expanded(of).map_err(|why| format!("of {why}"))?,
        };
        let column = |(at, name): (usize, &String)| {
            let kind = self.kind_of(at, names.len())?;
            Ok(Column { name: name.clone(), of: of.clone(), kind })
        };
        names.iter().enumerate().map(column).collect()
    }

    /// The kind of the column with name number `at` of `count`.
    fn kind_of(&self, at: usize, count: usize) -> Result<ColumnKind, String> {
        Ok(match self.kind {
            ColumnType::Ignored => ColumnKind::Ignored,
            ColumnType::Label => ColumnKind::Label(LabelRule {
                positive: self.positive.clone(),
                is_number: self.loss == Loss::SquaredError,
            }),
            ColumnType::Weight => ColumnKind::Weight,
            ColumnType::Dense => ColumnKind::Dense(DenseRule {
                low: self.low,
                high: self.high,
                transform: self.transform_of(at, count)?,
                fill: self.fill,
                indicator: self.indicator,
            }),
            ColumnType::Id | ColumnType::Ids => ColumnKind::Id(IdRule {
                namespace: self.namespace.clone(),
                buckets: self.buckets.clone(),
                part: self.part,
                list: (self.kind == ColumnType::Ids).then(|| ListRule {
                    separator: separator_of(&self.separator),
                    most: self.ids,
                    values: self.values.as_deref().map(ValuesRule::of),
                }),
                skip_missing: self.missing == MissingKind::None,
                bins: self.bins,
            }),
        })
    }

    fn transform_of(&self, at: usize, count: usize) -> Result<Transform, String> {
        Ok(match self.transform {
            TransformKind::None => Transform::None,
            TransformKind::Log1p => Transform::Log1p,
            TransformKind::Standardise => {
                let (means, deviations) = (self.mean.len(), self.deviation.len());
                if (means, deviations) != (count, count) {
                    return Err(format!(
                        "transform is standardise, with {means} numbers in mean and {deviations} \
                         in deviation for {count} names: give one of each per name, or none and \
                         let training compute them"
                    ));
                }
                Transform::Standardise { mean: self.mean[at], deviation: self.deviation[at] }
            }
        })
    }
}

/// The separator with this text or name.
fn separator_of(text: &str) -> String {
    match text {
        "space" => " ",
        "tab" => "\t",
        other => other,
    }
    .to_owned()
}

impl Config {
    /// The columns of the data; `None` if they are the plain ones of Criteo's click logs.
    ///
    /// # Errors
    /// One line with the wrong key and the fix.
    pub fn layout(&self) -> Result<Option<Arc<Layout>>, String> {
        let data = &self.data;
        let is_plain = matches!(data.format, Format::Auto | Format::Tsv)
            && (data.header, &data.separator) == (None, &None);
        let is_default =
            data.preset == PresetKind::Criteo && is_plain && data.missing.is_empty() && !data.trim;
        match self.columns.is_empty() && is_default && data.labels && data.eval_column.is_none() {
            true => Ok(None),
            false => self.named_layout().map(|layout| Some(Arc::new(layout))),
        }
    }

    /// Entries of `columns`, counted from 1, that are standardised without given statistics, and
    /// the names of their columns.
    ///
    /// # Errors
    /// If names are wrong.
    pub fn without_statistics(&self) -> Result<Vec<(usize, Vec<String>)>, String> {
        let lacks = |of: &ColumnConfig| {
            let is_standardised =
                of.kind == ColumnType::Dense && of.transform == TransformKind::Standardise;
            is_standardised && of.mean.is_empty() && of.deviation.is_empty()
        };
        let lacking = self.columns.iter().zip(1..).filter(|(of, _)| lacks(of));
        let names = |(of, number): (&ColumnConfig, usize)| match expanded(&of.names) {
            Ok(names) => Ok((number, names)),
            Err(why) => Err(format!("columns.{number}.names {why}")),
        };
        lacking.map(names).collect()
    }

    /// The same settings with placeholders for missing statistics, as the columns do not depend on
    /// their values.
    ///
    /// # Errors
    /// As [`Config::without_statistics`].
    pub fn drafted(&self) -> Result<Self, String> {
        let mut drafted = self.clone();
        for (number, names) in self.without_statistics()? {
            let column = &mut drafted.columns[number - 1];
            (column.mean, column.deviation) = (vec![0.0; names.len()], vec![1.0; names.len()]);
        }
        Ok(drafted)
    }

    /// The layout with labels, even if the data is scored without them.
    ///
    /// # Errors
    /// As [`Config::layout`].
    pub fn labelled_layout(&self) -> Result<Option<Arc<Layout>>, String> {
        if self.data.labels {
            return self.layout();
        }
        let mut labelled = self.clone();
        labelled.data.labels = true;
        labelled.layout()
    }

    /// The columns of the data by name, including plain ones.
    ///
    /// # Errors
    /// One line with the wrong key and the fix.
    pub fn named_layout(&self) -> Result<Layout, String> {
        let preset = presets::of(self.data.preset);
        let own = !self.columns.is_empty();
        let columns = if own { &self.columns } else { &preset.columns };
        let mut all = Vec::new();
        for (of, number) in columns.iter().zip(1..) {
            let of = of.columns().map_err(|why| format!("columns.{number}.{why}"))?;
            all.extend(of);
        }
        let mut missing = self.data.missing.clone();
        let mut trim = self.data.trim;
        if !own {
            trim |= preset.trim;
            missing.extend(preset.missing.iter().map(|text| (*text).to_owned()));
        }
        let separator = match &self.data.separator {
            None => None,
            Some(text) => Some(one_byte(&separator_of(text))?),
        };
        let (format, header) = (self.data.format, self.data.header);
        let options =
            LayoutOptions { format, separator, header, trim, missing, split: self.split() };
        let layout = Layout::new(options, all);
        let layout =
            if self.data.labels { layout } else { layout.and_then(|of| of.without_label()) };
        layout.map_err(|error| error.to_string())
    }

    /// The rule that splits the data by a column; `None` if there are files for evaluation.
    fn split(&self) -> Option<SplitRule> {
        let data = &self.data;
        let column = data.eval_column.clone().filter(|_| data.eval_paths.is_empty())?;
        let by = match (data.eval_values.as_slice(), &data.eval_from) {
            (_, Some(from)) => SplitBy::From(from.clone()),
            ([], None) => SplitBy::Share(data.eval_fraction),
            (values, None) => SplitBy::Values(values.to_vec()),
        };
        Some(SplitRule { column, by })
    }
}

/// A separator of fields as a byte.
fn one_byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if !may_separate(*byte) => Err(format!(
            "data.separator is '{text}', which may be part of a field: give another one, such as , \
             or ;"
        )),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err(format!("data.separator is {text:?}: give one ASCII character, or tab, or space")),
    }
}
