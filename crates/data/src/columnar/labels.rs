//! Labels and weights of rows.

use super::data::{Data, Fault, Faults, spelled};
use super::walk::{Found, Walk};
use crate::layout::{Label, LabelSays};
use crate::record::{
    Why, count_of_text, label_of_counts, label_of_text, weight_of_count, why_no_label,
};
use crate::rows::{Spelled, Value};

/// Label of each row; 0 if missing.
pub(super) fn labels_of(label: &Label, data: &Data<'_>, faults: &mut Faults) -> Vec<f32> {
    let mut room = Spelled::default();
    match &label.says {
        LabelSays::Clicks { of } => {
            let clicks = counts_of(label.source, data, faults);
            let impressions = counts_of(*of, data, faults);
            let pairs = clicks.into_iter().zip(impressions).enumerate();
            let share = pairs.map(|(row, (clicks, impressions))| {
                label_of_counts([clicks, impressions]).unwrap_or_else(|| {
                    let (source, value) = (label.source, spelled(Value::Double(clicks)));
                    faults.entry(row).or_insert(Fault { source, why: Why::TooManyClicks, value });
                    0.0
                })
            });
            share.collect()
        }
        LabelSays::Positive(texts) => {
            each(label.source, Why::MissingLabel, data, faults, |value| {
                Ok(f32::from(u8::from(value.is_any_of(texts, &mut room))))
            })
        }
        says => each(label.source, Why::MissingLabel, data, faults, |value| {
            label_of_text(says, value.spell(&mut room)).ok_or_else(|| why_no_label(says))
        }),
    }
}

/// Weight of each row.
pub(super) fn weights_of(data: &Data<'_>, faults: &mut Faults) -> Vec<f32> {
    let weights = data.layout.weight.map(|source| {
        each(source, Why::MissingWeight, data, faults, |value| {
            let weight = value.number().filter(|number| *number >= 0.0);
            weight.map(|weight| weight + 0.0).ok_or(Why::NoWeight)
        })
    });
    let weights = weights.unwrap_or_else(|| vec![1.0; data.count]);
    let Some(source) = data.layout.counts() else { return weights };
    let counts = counts_of(source, data, faults);
    let pairs = counts.into_iter().zip(weights).enumerate();
    let weight = pairs.map(|(row, (count, weight))| {
        weight_of_count(count, weight).unwrap_or_else(|| {
            let value = spelled(Value::Double(count));
            faults.entry(row).or_insert(Fault { source, why: Why::TooHeavy, value });
            0.0
        })
    });
    weight.collect()
}

/// Count of each row; 0 if missing.
fn counts_of(source: usize, data: &Data<'_>, faults: &mut Faults) -> Vec<f64> {
    let mut room = Spelled::default();
    each(source, Why::MissingCount, data, faults, |value| {
        count_of_text(value.spell(&mut room)).ok_or(Why::NoCount)
    })
}

/// Applies `of` to the column's value in each row. A missing value is a fault, and so is an error
/// of `of`.
fn each<T: Default>(
    source: usize,
    missing: Why,
    data: &Data<'_>,
    faults: &mut Faults,
    mut of: impl FnMut(Value<'_>) -> Result<T, Why>,
) -> Vec<T> {
    let mut walk = Walk::new(&data.rows.columns[source]);
    let mut of_row = |row: usize| {
        let (why, value) = match walk.next().known(data.layout) {
            Found::Missing => (missing, Vec::new()),
            Found::List(_) => (Why::List, Vec::new()),
            Found::One(value) => match of(value) {
                Ok(made) => return made,
                Err(why) => (why, spelled(value)),
            },
        };
        faults.entry(row).or_insert(Fault { source, why, value });
        T::default()
    };
    (0..data.count).map(&mut of_row).collect()
}
