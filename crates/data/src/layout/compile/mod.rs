//! Compiles columns into what readers need.

mod ids;

use std::collections::BTreeSet;

use self::ids::{ids_of, no_f32};
use super::column::{Column, ColumnKind, DenseRule, IdRule, LabelRule, Transform};
use super::compiled::{Dense, Ids, Label, LabelSays, Layout, Says};
use super::evaluation_split::{Split, SplitRule};
use super::options::{LayoutOptions, may_separate};
use super::values::{Values, ValuesRule};
use crate::log1p::log1p_of_number;
use crate::schema::{COLUMNS_MAX, LABELS_MAX};

/// Compiles a layout with a label.
pub(super) fn compile(options: LayoutOptions, columns: Vec<Column>) -> Result<Layout, String> {
    let layout = compile_parts(options, columns)?;
    if layout.labels.is_empty() {
        return Err("no column is the label: give one of them the type label".to_owned());
    }
    Ok(layout)
}

/// Compiles a layout; a label is optional.
pub(super) fn compile_parts(
    options: LayoutOptions,
    columns: Vec<Column>,
) -> Result<Layout, String> {
    check_options(&options)?;
    check_names(&columns)?;
    let mut sources = Sources::default();
    let (mut labels, mut weight) = (Vec::new(), None);
    let (mut dense, mut ids) = (Vec::new(), Vec::new());
    for column in &columns {
        let of = sources.of(column, &columns)?;
        let wrong = |why: String| format!("column {}: {why}", column.name);
        match &column.kind {
            ColumnKind::Ignored => {}
            ColumnKind::Label(rule) => labels.push(label_of(&of, rule).map_err(wrong)?),
            ColumnKind::Weight => {
                if weight.is_some() {
                    let why = "is a second weight: an example has at most one";
                    return Err(wrong(why.to_owned()));
                }
                weight = Some(one(&of).map_err(wrong)?);
            }
            ColumnKind::Dense(rule) => {
                dense.extend(dense_of(one(&of).map_err(wrong)?, rule).map_err(wrong)?);
            }
            ColumnKind::Id(rule) => ids.push(sources.ids(column, &of, rule, &columns)?),
        }
    }
    if ids.is_empty() {
        return Err(
            "no column is an id, but a model has rows for ids: give one the type id, with buckets \
             if it is a number"
                .to_owned(),
        );
    }
    if dense.is_empty() {
        let rule = DenseRule::default();
        dense.push(Dense { source: 0, rule, missing: 1.0, says: Says::Constant });
    }
    check_counts(&columns, &sources, &labels, weight)?;
    if labels.len() > LABELS_MAX {
        let count = labels.len();
        return Err(format!("{count} columns are labels: give at most {LABELS_MAX}"));
    }
    let features = dense.len() + ids.len();
    if features >= COLUMNS_MAX {
        let most = COLUMNS_MAX - 1;
        return Err(format!("the columns are {features} features: give at most {most}"));
    }
    let split = options.split.as_ref().map(|rule| split_of(rule, &mut sources, &columns));
    let split = split.transpose()?;
    // Data columns, not derived ones.
    let own = || columns.iter().filter(|column| column.of.is_empty());
    let places = own().map(|column| sources.find(&column.name)).collect();
    let placed_labels = own().map(placed_label).collect();
    let (label_count, sources) = (labels.len(), sources.names);
    Ok(Layout {
        options,
        columns,
        sources,
        places,
        placed_labels,
        labels,
        label_count,
        weight,
        dense,
        ids,
        split,
    })
}

/// The label of a column, if it is one.
fn placed_label(column: &Column) -> Option<Label> {
    let ColumnKind::Label(rule) = &column.kind else { return None };
    // Only its values are examined, so the source doesn't matter.
    label_of(&[0], rule).ok()
}

fn split_of(rule: &SplitRule, sources: &mut Sources, columns: &[Column]) -> Result<Split, String> {
    let name = &rule.column;
    let is_own = |column: &Column| column.name == *name && column.of.is_empty();
    if !columns.iter().any(is_own) {
        return Err(format!(
            "data.eval_column is {name}, which is not a column of the data: add that column, of \
             type ignored if it has no other use"
        ));
    }
    Split::new(rule, sources.number(name))
}

fn check_options(options: &LayoutOptions) -> Result<(), String> {
    match options.separator {
        Some(b' ') if options.trim => Err(
            "data.trim = true drops spaces around fields, but data.separator = space separates \
             them by spaces: give one of them"
                .to_owned(),
        ),
        Some(byte) if !may_separate(byte) => Err(format!(
            "data.separator is {:?}, which may be part of a field: give another, such as , or ;",
            char::from(byte)
        )),
        _ => Ok(()),
    }
}

fn check_names(columns: &[Column]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for Column { name, .. } in columns {
        if name.is_empty() {
            return Err("a column has no name: give it one".to_owned());
        }
        if !names.insert(name) {
            return Err(format!("column {name} is given twice: give it once"));
        }
    }
    if columns.len() >= COLUMNS_MAX {
        let (count, most) = (columns.len(), COLUMNS_MAX - 1);
        return Err(format!("{count} columns are given: give at most {most}"));
    }
    Ok(())
}

/// Data columns in use, numbered by their first use.
#[derive(Default)]
struct Sources {
    names: Vec<String>,
}

impl Sources {
    /// Number of this column, if it is in use.
    fn find(&self, name: &str) -> Option<u16> {
        let found = self.names.iter().position(|known| known == name)?;
        // There are fewer columns than `u16` can count.
        u16::try_from(found).ok()
    }

    /// Sources of `column`, one of `columns`.
    fn of(&mut self, column: &Column, columns: &[Column]) -> Result<Vec<usize>, String> {
        if matches!(column.kind, ColumnKind::Ignored) {
            return Ok(Vec::new());
        }
        if column.of.is_empty() {
            return Ok(vec![self.number(&column.name)]);
        }
        let numbers = column.of.iter().map(|name| self.of_data(name, columns));
        let numbers: Result<_, String> = numbers.collect();
        numbers.map_err(|why| format!("column {}: {why}", column.name))
    }

    /// Number of a data column that another column is derived from.
    fn of_data(&mut self, name: &str, columns: &[Column]) -> Result<usize, String> {
        match columns.iter().find(|other| other.name == *name) {
            Some(other) if other.of.is_empty() => Ok(self.number(name)),
            Some(_) => Err(format!("{name} is made of other columns itself: name those")),
            None => Err(format!(
                "is made of {name}, which is not a column: name one of the data, of type ignored \
                 if it has no other use"
            )),
        }
    }

    /// Compiles the id column `column`, one of `columns`, with sources `of`.
    fn ids(
        &mut self,
        column: &Column,
        of: &[usize],
        rule: &IdRule,
        columns: &[Column],
    ) -> Result<Ids, String> {
        let values = self.values_of(column, rule, columns);
        let ids = values.and_then(|values| ids_of(&column.name, (of, &column.of), rule, values));
        ids.map_err(|why| format!("column {}: {why}", column.name))
    }

    /// Location of the values of `column`'s ids.
    fn values_of(
        &mut self,
        column: &Column,
        rule: &IdRule,
        columns: &[Column],
    ) -> Result<Values, String> {
        match rule.list.as_ref().and_then(|list| list.values.as_ref()) {
            None => Ok(Values::OfFormat),
            // The mark is ASCII.
            Some(ValuesRule::Within(mark)) => Ok(Values::Within(*mark as u8)),
            Some(ValuesRule::Column(name)) if *name == column.name => Err(format!(
                "has its values in itself: give the mark between id and value, such as :, or a \
                 column other than {name}"
            )),
            Some(ValuesRule::Column(name)) if columns.iter().all(|of| of.name != *name) => {
                Err(format!(
                    "has its values in {name}, which is not a column: name one of the data, of \
                     type ignored if it has no other use, or the mark between an id and its value, \
                     such as :"
                ))
            }
            Some(ValuesRule::Column(name)) => self.of_data(name, columns).map(Values::Beside),
        }
    }

    fn number(&mut self, name: &str) -> usize {
        let found = self.names.iter().position(|known| known == name);
        found.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

fn label_of(of: &[usize], rule: &LabelRule) -> Result<Label, String> {
    let LabelRule { positive, is_number } = rule;
    let says = match (of, positive.as_slice(), *is_number) {
        (_, [_, ..], true) => {
            let why =
                "is a number to learn, but also names texts that count as 1: give one of them";
            return Err(why.to_owned());
        }
        ([clicks, of], [], false) if clicks != of => LabelSays::Clicks { of: *of },
        ([_], [], false) => LabelSays::Share,
        ([_], [], true) => LabelSays::Number,
        ([_], positive, false) => {
            LabelSays::Positive(positive.iter().map(|text| text.clone().into_bytes()).collect())
        }
        _ => {
            let why = "is made of several columns: make a label of one, or of the count of clicks \
                       and the count of impressions, with the loss log_loss and without `positive`";
            return Err(why.to_owned());
        }
    };
    // Every column has a source.
    Ok(Label { source: of.first().copied().unwrap_or(0), says })
}

/// Returns an error if an impression count clashes with the weight or with another label's count.
fn check_counts(
    columns: &[Column],
    sources: &Sources,
    labels: &[Label],
    weight: Option<usize>,
) -> Result<(), String> {
    let is_label = |column: &&Column| matches!(column.kind, ColumnKind::Label(_));
    let mut first = None;
    for (column, label) in columns.iter().filter(is_label).zip(labels) {
        let LabelSays::Clicks { of } = label.says else { continue };
        let (name, counts) = (&column.name, &sources.names[of]);
        if weight == Some(of) {
            return Err(format!(
                "column {counts}: is a weight, but column {name} is made of it, and already \
                 weights each example by it: give {counts} the type ignored"
            ));
        }
        let other = *first.get_or_insert(of);
        if other != of {
            return Err(format!(
                "column {name}: is a share of {counts}, but another label is one of {}, and an \
                 example has the same weight for all its labels: train a model for each",
                sources.names[other]
            ));
        }
    }
    Ok(())
}

/// The only source of a column; an error if it has several.
fn one(of: &[usize]) -> Result<usize, String> {
    match of {
        [source] => Ok(*source),
        _ => Err("is made of several columns, which only ids can be: make it of one".to_owned()),
    }
}

/// The number's feature, and its indicator if requested.
fn dense_of(source: usize, rule: &DenseRule) -> Result<Vec<Dense>, String> {
    let numbers = [rule.low, rule.high, rule.fill];
    let fits = |number: &f64| (*number as f32).is_finite();
    if let Some(number) = numbers.iter().flatten().find(|number| !fits(number)) {
        return Err(no_f32("low, high or fill", *number));
    }
    if let (Some(low), Some(high)) = (rule.low, rule.high)
        && low > high
    {
        return Err(format!("low is {low}, above high = {high}: give them the other way round"));
    }
    if let Transform::Standardise { mean, deviation } = rule.transform {
        let is_right = mean.is_finite() && deviation.is_finite() && deviation > 0.0;
        if !is_right {
            return Err(format!(
                "mean {mean} and deviation {deviation} cannot standardise: give finite numbers, \
                 and a deviation above 0"
            ));
        }
    }
    let missing = rule.fill.map_or(0.0, |fill| transformed(rule, fill as f32));
    let number = Dense { source, rule: rule.clone(), missing, says: Says::Number };
    let indicator = Dense { missing: 1.0, says: Says::Missing, ..number.clone() };
    let parts = [Some(number), rule.indicator.then_some(indicator)];
    Ok(parts.into_iter().flatten().collect())
}

/// Dense feature of a number, by `rule`.
#[inline]
pub(crate) fn transformed(rule: &DenseRule, number: f32) -> f32 {
    // `max` isn't used, as it may return either zero.
    let low = rule.low.map_or(number, |low| if number < low as f32 { low as f32 } else { number });
    let number = rule.high.map_or(low, |high| if low > high as f32 { high as f32 } else { low });
    match rule.transform {
        Transform::None => number,
        Transform::Log1p => log1p_of_number(number),
        Transform::Standardise { mean, deviation } => {
            ((f64::from(number) - mean) / deviation) as f32
        }
    }
}
