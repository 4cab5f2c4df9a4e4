//! Turns values into an example: labels, dense features, keys.

use super::fault::{Fault, Why};
use super::fields::{Found, Record, Value};
use super::labels::{label_of, weight_of};
use super::lists::each_id;
use crate::chunk::Chunk;
use crate::layout::{Dense, Hashed, Ids, Layout, Made, Says, Transform, transformed};
use crate::log1p::Log1p;
use crate::number::amount;

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
            if list.hash.is_none() && chunk.bag(example, column).len() < list.most {
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
        if let Some(short) = value.short() {
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
            let begin = chunk.keys.len();
            each_id(layout, list, record, |id, value| {
                if left > 0 {
                    chunk.keys.push(namespace.key_within(id.text, id.start, id.end));
                    chunk.value_last_key(value);
                    left -= 1;
                }
            })?;
            if let Some(hash) = &list.hash {
                hash.replace(namespace, begin, &mut chunk.keys, &mut chunk.values);
            }
        }
        Made::Buckets { source, bounds, keys } => match record.found(*source) {
            Found::One(value) => {
                let number = value.short().map(|short| short as f32);
                let number = number.or_else(|| amount(value.bytes()));
                let number = number.ok_or_else(|| Fault::value(*source, Why::NoNumber))?;
                chunk.keys.push(keys[bounds.partition_point(|bound| *bound <= number)]);
            }
            Found::Missing => push_missing(ids, chunk),
            Found::List => return Err(Fault::value(*source, Why::List)),
        },
        Made::Cross(sources) => push_cross(ids, sources, record, chunk)?,
        Made::Hashed(Hashed { sources, hash }) => {
            let begin = chunk.keys.len();
            for (source, namespace) in sources {
                match record.found(*source) {
                    Found::One(Value { text, start, end }) => {
                        chunk.keys.push(namespace.key_within(text, start, end));
                    }
                    Found::Missing => {}
                    Found::List => return Err(Fault::value(*source, Why::ListOfSeveral)),
                }
            }
            hash.replace(&ids.namespace, begin, &mut chunk.keys, &mut chunk.values);
        }
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
            Found::List => return Err(Fault::value(*source, Why::ListOfSeveral)),
        }
    }
    if missing == 0 || !ids.skip_missing {
        chunk.keys.push(ids.namespace.key_of(&joined));
    }
    Ok(())
}
