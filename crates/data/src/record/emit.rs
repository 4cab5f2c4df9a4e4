//! Turns values into an example: labels, dense features, keys.

use super::fields::{Found, Record, Value};
use super::labels::{label_of, weight_of};
use super::lists::each_id;
use super::{Fault, Why, shown};
use crate::Chunk;
use crate::layout::{Dense, Ids, Layout, Made, Says, Transform, transformed};
use crate::log1p::Log1p;
use crate::number::{amount, why_no_number};
use crate::path_columns::RENAME;
use crate::scan::{SHORT_DIGITS, short_number, word_at};

/// Separates the texts of crossed columns.
pub(crate) const CROSSED: u8 = 0x1F;

/// Turns values into examples.
pub(crate) struct Emitter<'a> {
    layout: &'a Layout,
    log1p: Log1p,
    /// Id columns that are lists.
    lists: Vec<usize>,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Self {
        let is_list = |column: &usize| matches!(layout.ids[*column].made, Made::List(_));
        let lists = (0..layout.ids.len()).filter(is_list).collect();
        Self { layout, log1p: Log1p::new(), lists }
    }

    /// Adds the example of `record` to `chunk`, unless the split excludes it; returns whether it
    /// did.
    #[inline]
    pub(crate) fn emit(&self, record: Record<'_>, chunk: &mut Chunk) -> Result<bool, Fault> {
        if let Some(split) = &self.layout.split {
            let value = record.bytes(split.source).unwrap_or_default();
            match split.wants(value) {
                Some(true) => {}
                Some(false) => return Ok(false),
                None => return Err(Fault::value(split.source, Why::NoPlace)),
            }
        }
        let (labels, weights) = (chunk.labels.len(), chunk.weights.len());
        let (dense, keys, bags) = (chunk.dense.len(), chunk.keys.len(), chunk.bag_ends.len());
        let values = chunk.values.len();
        let outcome = self.try_emit(record, chunk);
        if outcome.is_ok() && !self.lists.is_empty() {
            self.note_cut_lists(record, chunk);
        }
        if outcome.is_err() {
            chunk.labels.truncate(labels);
            chunk.weights.truncate(weights);
            chunk.dense.truncate(dense);
            chunk.keys.truncate(keys);
            chunk.values.truncate(values);
            chunk.bag_ends.truncate(bags);
        }
        outcome.map(|()| true)
    }

    /// Records how many ids the lists of the last example lost.
    fn note_cut_lists(&self, record: Record<'_>, chunk: &mut Chunk) {
        let example = chunk.len() - 1;
        for column in self.lists.iter().copied() {
            let Made::List(list) = &self.layout.ids[column].made else { continue };
            if chunk.bag(example, column).len() < list.most {
                continue;
            }
            let mut count = 0;
            // The same list was parsed without error before.
            let _ = each_id(self.layout, list, record, |_, _| count += 1);
            if count > list.most {
                chunk.note_cut_list(example, column, count - list.most);
            }
        }
    }

    #[inline]
    fn try_emit(&self, record: Record<'_>, chunk: &mut Chunk) -> Result<(), Fault> {
        for label in &self.layout.labels {
            chunk.labels.push(label_of(label, record)?);
        }
        if self.layout.labels.is_empty() {
            chunk.labels.resize(chunk.labels.len() + chunk.schema.labels.count, 0.0);
        }
        if chunk.schema.labels.weighted {
            chunk.weights.push(weight_of(self.layout, record)?);
        }
        for dense in &self.layout.dense {
            chunk.dense.push(self.dense_of(dense, record.found(dense.source))?);
        }
        for ids in &self.layout.ids {
            push_keys(self.layout, ids, record, chunk)?;
            // A block has fewer than 2^32 bytes, so fewer keys.
            chunk.bag_ends.push(chunk.keys.len() as u32);
        }
        Ok(())
    }

    #[inline]
    fn dense_of(&self, dense: &Dense, found: Found<'_>) -> Result<f32, Fault> {
        let fault = |why| Fault::value(dense.source, why);
        let value = match found {
            _ if dense.says == Says::Constant => return Ok(1.0),
            Found::Missing => return Ok(dense.missing),
            Found::List => return Err(fault(Why::List)),
            Found::One(_) if dense.says == Says::Missing => return Ok(0.0),
            Found::One(value) => value,
        };
        if let Some(short) = short_of(&value) {
            let rule = &dense.rule;
            if rule.transform == Transform::Log1p && rule.low.is_none() && rule.high.is_none() {
                return Ok(self.log1p.of(short));
            }
            return Ok(transformed(rule, short as f32));
        }
        let number = amount(value.bytes()).ok_or_else(|| fault(Why::NoNumber))?;
        Ok(transformed(&dense.rule, number))
    }
}

/// The value, if it is a whole number with few digits.
#[inline]
pub(super) fn short_of(value: &Value<'_>) -> Option<u32> {
    let len = value.end - value.start;
    if len > SHORT_DIGITS {
        return None;
    }
    short_number(word_at(value.text, value.start), len)
}

#[inline]
fn push_keys(
    layout: &Layout,
    ids: &Ids,
    record: Record<'_>,
    chunk: &mut Chunk,
) -> Result<(), Fault> {
    match &ids.made {
        Made::Text(source) => match record.found(*source) {
            Found::One(value) => {
                chunk.keys.push(ids.namespace.key_within(value.text, value.start, value.end));
            }
            Found::Missing => push_missing(ids, chunk),
            Found::List => return Err(Fault::value(*source, Why::List)),
        },
        Made::Part(source, part) => match record.found(*source) {
            Found::One(value) => {
                let part = part.of(value.bytes());
                let part = part.ok_or_else(|| Fault::value(*source, Why::NoTime))?;
                chunk.keys.push(ids.namespace.key_of(part.as_bytes()));
            }
            Found::Missing => push_missing(ids, chunk),
            Found::List => return Err(Fault::value(*source, Why::List)),
        },
        Made::List(list) => {
            let (namespace, mut left) = (&ids.namespace, list.most);
            each_id(layout, list, record, |id, value| {
                if left > 0 {
                    chunk.keys.push(namespace.key_within(id.text, id.start, id.end));
                    chunk.value_last_key(value);
                    left -= 1;
                }
            })?;
        }
        Made::Buckets { source, bounds, keys } => match record.found(*source) {
            Found::One(value) => {
                let number = short_of(&value).map(|short| short as f32);
                let number = number.or_else(|| amount(value.bytes()));
                let number = number.ok_or_else(|| Fault::value(*source, Why::NoNumber))?;
                chunk.keys.push(keys[bounds.partition_point(|bound| *bound <= number)]);
            }
            Found::Missing => push_missing(ids, chunk),
            Found::List => return Err(Fault::value(*source, Why::List)),
        },
        Made::Cross(sources) => push_cross(ids, sources, record, chunk)?,
    }
    Ok(())
}

#[inline]
fn push_missing(ids: &Ids, chunk: &mut Chunk) {
    if !ids.skip_missing {
        chunk.keys.push(ids.namespace.key_of(b""));
    }
}

fn push_cross(
    ids: &Ids,
    sources: &[usize],
    record: Record<'_>,
    chunk: &mut Chunk,
) -> Result<(), Fault> {
    let mut joined = Vec::with_capacity(64);
    let mut missing = 0;
    for (number, source) in sources.iter().enumerate() {
        if number > 0 {
            joined.push(CROSSED);
        }
        match record.found(*source) {
            Found::One(value) => joined.extend_from_slice(value.bytes()),
            Found::Missing => missing += 1,
            Found::List => return Err(Fault::value(*source, Why::List)),
        }
    }
    if missing == 0 || !ids.skip_missing {
        chunk.keys.push(ids.namespace.key_of(&joined));
    }
    Ok(())
}

/// Advice for data without usable labels.
pub const UNLABELLED: &str = "`predict --unlabelled` scores data without labels and weights";

/// Error for an invalid value.
#[cold]
pub(crate) fn explain(layout: &Layout, source: usize, value: &[u8], why: Why) -> String {
    let name = &layout.sources[source];
    let text = shown(value);
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
