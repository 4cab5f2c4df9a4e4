//! Turns rows into examples: first each column by itself, then row by row.

use std::collections::BTreeMap;

use stepwell_base::Key;

use super::bags::{Bags, Putting};
use super::data::{Data, Fault, Faults, spelled};
use super::labels::{labels_of, weights_of};
use super::walk::{Found, Walk};
use crate::block::Block;
use crate::chunk::Chunk;
use crate::layout::{Dense, Hashed, Ids, Layout, Made, Says, Split, Transform, transformed};
use crate::log1p::Log1p;
use crate::moment::TimePart;
use crate::parse_lines::refuse;
use crate::record::{CROSSED, Why, explain};
use crate::rows::{Column, OfRows, Rows, Spelled, Value, Values};

/// Turns the wanted rows of `block`, with values `rows`, into examples of `layout`.
pub(crate) fn emit(layout: &Layout, block: &Block, rows: &Rows, chunk: &mut Chunk) {
    chunk.clear();
    chunk.begin(block);
    let count = block.lines as usize;
    let data = &Data { rows, layout, count };
    let mut faults = Faults::new();
    let others = layout.split.as_ref().map(|split| unwanted(split, data, &mut faults));
    let labels: Vec<Vec<f32>> =
        layout.labels.iter().map(|label| labels_of(label, data, &mut faults)).collect();
    let weights = chunk.schema.labels.weighted.then(|| weights_of(data, &mut faults));
    let dense: Vec<Vec<f32>> =
        layout.dense.iter().map(|dense| numbers(dense, data, &mut faults)).collect();
    let ids: Vec<Bags> = layout.ids.iter().map(|ids| bags(ids, data, &mut faults)).collect();
    let examples = count - faults.len();
    chunk.labels.reserve_exact(examples * chunk.schema.labels.count);
    chunk.weights.reserve_exact(if weights.is_some() { examples } else { 0 });
    chunk.lines.reserve_exact(examples);
    chunk.dense.reserve_exact(examples * dense.len());
    chunk.bag_ends.reserve_exact(examples * ids.len());
    chunk.keys.reserve_exact(ids.iter().map(|bags| bags.keys.len()).sum());
    let all = 0..block.lines;
    for wanted in block.wanted.as_deref().unwrap_or(std::slice::from_ref(&all)) {
        for line in wanted.clone() {
            let row = line as usize;
            if others.as_ref().is_some_and(|others| others[row]) {
                continue;
            }
            if let Some(Fault { source, why, value }) = faults.get(&row) {
                refuse(chunk, line, || (0, explain(layout, *source, value, *why)));
                continue;
            }
            chunk.labels.extend(labels.iter().map(|column| column[row]));
            chunk.weights.extend(weights.iter().map(|column| column[row]));
            chunk.lines.push(line);
            chunk.dense.extend(dense.iter().map(|column| column[row]));
            for (column, bags) in ids.iter().enumerate() {
                if let Some(left_out) = bags.cut.get(&row) {
                    chunk.note_cut_list(chunk.lines.len() - 1, column, *left_out);
                }
                match &bags.ends {
                    // Pushing one key is faster than copying a slice of one.
                    None => chunk.keys.push(bags.keys[row]),
                    Some(ends) => chunk.push_bag(&bags.keys, &bags.values, Bags::range(ends, row)),
                }
                // Rows of a block have fewer than 2^32 keys.
                chunk.bag_ends.push(chunk.keys.len() as u32);
            }
        }
    }
    put_no_labels(chunk);
    chunk.complete_values();
}

/// Sets labels of unlabeled data to 0.
fn put_no_labels(chunk: &mut Chunk) {
    if chunk.labels.is_empty() {
        chunk.labels.resize(chunk.lines.len() * chunk.schema.labels.count, 0.0);
    }
}

/// Whether each row belongs to the other part of the split.
fn unwanted(split: &Split, data: &Data<'_>, faults: &mut Faults) -> Vec<bool> {
    let mut walk = Walk::new(&data.rows.columns[split.source]);
    let mut room = Spelled::default();
    let mut of = |row: usize| {
        let found = walk.next().known(data.layout);
        let text = match &found {
            Found::One(value) => value.spell(&mut room),
            Found::Missing | Found::List(_) => b"",
        };
        let wants = split.wants(text);
        if wants.is_none() {
            let (source, value) = (split.source, text.to_vec());
            faults.entry(row).or_insert(Fault { source, why: Why::NoPlace, value });
        }
        wants == Some(false)
    };
    (0..data.count).map(&mut of).collect()
}

fn numbers(dense: &Dense, data: &Data<'_>, faults: &mut Faults) -> Vec<f32> {
    if dense.says == Says::Constant {
        return vec![1.0; data.count];
    }
    let column = &data.rows.columns[dense.source];
    if dense.says == Says::Number
        && data.layout.options().missing.is_empty()
        && let Some(numbers) = whole_numbers(dense, column)
    {
        return numbers;
    }
    let mut walk = Walk::new(&data.rows.columns[dense.source]);
    let mut of = |row: usize| {
        let (why, value) = match walk.next().known(data.layout) {
            Found::Missing => return dense.missing,
            Found::One(_) if dense.says == Says::Missing => return 0.0,
            Found::List(_) => (Why::List, Vec::new()),
            Found::One(value) => match value.amount() {
                Some(number) => return transformed(&dense.rule, number),
                None => (Why::NoNumber, spelled(value)),
            },
        };
        faults.entry(row).or_insert(Fault { source: dense.source, why, value });
        0.0
    };
    (0..data.count).map(&mut of).collect()
}

/// Features of an integer column, which can't be malformed.
fn whole_numbers(dense: &Dense, column: &Column) -> Option<Vec<f32>> {
    let Values::Int(values) = &column.values else { return None };
    let (rule, log1p) = (&dense.rule, Log1p::new());
    let is_plain_log =
        rule.transform == Transform::Log1p && rule.low.is_none() && rule.high.is_none();
    let of = |value: i64| match u32::try_from(value) {
        Ok(small) if is_plain_log => log1p.of(small),
        _ => transformed(rule, value as f32),
    };
    match &column.of_rows {
        OfRows::Each => Some(values.iter().map(|value| of(*value)).collect()),
        OfRows::Some(there) => {
            let mut values = values.iter();
            let next = |there: &bool| match there {
                true => values.next().map_or(dense.missing, |value| of(*value)),
                false => dense.missing,
            };
            Some(there.iter().map(next).collect())
        }
        OfRows::Lists(_) => None,
    }
}

fn bags(ids: &Ids, data: &Data<'_>, faults: &mut Faults) -> Bags {
    let maker = Maker { ids, data, room: Spelled::default() };
    match &ids.made {
        Made::Text(source) => maker.texts(*source, faults),
        Made::Buckets { source, bounds, keys } => maker.buckets(*source, bounds, keys, faults),
        Made::Part(source, part) => maker.parts(*source, *part, faults),
        Made::List(list) => maker.lists(list, faults),
        Made::Cross(sources) => maker.crosses(sources, faults),
        Made::Hashed(hashed) => maker.hashed(hashed, faults),
    }
}

/// Computes keys of an id column.
pub(super) struct Maker<'a> {
    pub(super) ids: &'a Ids,
    pub(super) data: &'a Data<'a>,
    pub(super) room: Spelled,
}

impl Maker<'_> {
    /// Keys of a text column that was read page by page; computes a key once per dictionary entry.
    fn segments(&self, column: &Column) -> Option<Bags> {
        let Values::Segments(segments) = &column.values else { return None };
        let layout = self.data.layout;
        if self.ids.skip_missing || layout.options().trim {
            return None;
        }
        let namespace = &self.ids.namespace;
        let is_missing = |text: &[u8]| layout.is_missing(text);
        let mut keys = Vec::with_capacity(self.data.count);
        for segment in segments {
            segment.append_keys(namespace, is_missing, &mut keys);
        }
        let keys = match &column.of_rows {
            OfRows::Each => keys,
            OfRows::Some(there) => {
                let missing = namespace.key_of(b"");
                let mut keys = keys.into_iter();
                let mut next = |there: &bool| if *there { keys.next() } else { None };
                there.iter().map(|there| next(there).unwrap_or(missing)).collect()
            }
            OfRows::Lists(_) => return None,
        };
        Some(Bags { keys, values: Vec::new(), ends: None, cut: BTreeMap::new() })
    }

    fn texts(self, source: usize, faults: &mut Faults) -> Bags {
        if let Some(bags) = self.segments(&self.data.rows.columns[source]) {
            return bags;
        }
        let namespace = &self.ids.namespace;
        self.ones(source, faults, |value, room| Ok(namespace.key_of(value.spell(room))))
    }

    fn parts(self, source: usize, part: TimePart, faults: &mut Faults) -> Bags {
        let namespace = &self.ids.namespace;
        self.ones(source, faults, |value, room| {
            let part = part.of(value.spell(room)).ok_or(Why::NoTime)?;
            Ok(namespace.key_of(part.as_bytes()))
        })
    }

    fn buckets(self, source: usize, bounds: &[f32], keys: &[Key], faults: &mut Faults) -> Bags {
        self.ones(source, faults, |value, _| {
            let number = value.amount().ok_or(Why::NoNumber)?;
            Ok(keys[bounds.partition_point(|bound| *bound <= number)])
        })
    }

    /// Keys of a column with one value per row, computed by `key`.
    fn ones(
        mut self,
        source: usize,
        faults: &mut Faults,
        key: impl Fn(&Value<'_>, &mut Spelled) -> Result<Key, Why>,
    ) -> Bags {
        let mut walk = Walk::new(&self.data.rows.columns[source]);
        let mut put = Putting::new(self.data.count, self.ids);
        for row in 0..self.data.count {
            let made = match walk.next().known(self.data.layout) {
                Found::Missing => None,
                Found::List(_) => Some(Err((Why::List, Vec::new()))),
                Found::One(value) => {
                    Some(key(&value, &mut self.room).map_err(|why| (why, spelled(value))))
                }
            };
            match made {
                Some(Ok(key)) => put.bags.keys.push(key),
                None => put.missing(self.ids),
                Some(Err((why, value))) => {
                    faults.entry(row).or_insert(Fault { source, why, value });
                    put.missing(self.ids);
                }
            }
            put.end_row();
        }
        put.bags
    }

    fn crosses(mut self, sources: &[usize], faults: &mut Faults) -> Bags {
        let mut walks: Vec<Walk<'_>> =
            sources.iter().map(|source| Walk::new(&self.data.rows.columns[*source])).collect();
        let mut put = Putting::new(self.data.count, self.ids);
        let mut joined = Vec::with_capacity(64);
        for row in 0..self.data.count {
            joined.clear();
            let mut missing = false;
            for (number, walk) in walks.iter_mut().enumerate() {
                if number > 0 {
                    joined.push(CROSSED);
                }
                match walk.next().known(self.data.layout) {
                    Found::Missing => missing = true,
                    Found::One(value) => joined.extend_from_slice(value.spell(&mut self.room)),
                    Found::List(_) => {
                        let (source, value) = (sources[number], Vec::new());
                        let why = Why::ListOfSeveral;
                        faults.entry(row).or_insert(Fault { source, why, value });
                    }
                }
            }
            if !(missing && self.ids.skip_missing) {
                put.bags.keys.push(self.ids.namespace.key_of(&joined));
            }
            put.end_row();
        }
        put.bags
    }

    fn hashed(mut self, Hashed { sources, hash }: &Hashed, faults: &mut Faults) -> Bags {
        let walk = |(source, _): &(usize, _)| Walk::new(&self.data.rows.columns[*source]);
        let mut walks: Vec<Walk<'_>> = sources.iter().map(walk).collect();
        let mut put = Putting::new(self.data.count, self.ids);
        for row in 0..self.data.count {
            let begin = put.bags.keys.len();
            for (walk, (source, namespace)) in walks.iter_mut().zip(sources) {
                match walk.next().known(self.data.layout) {
                    Found::Missing => {}
                    Found::One(value) => {
                        put.bags.keys.push(namespace.key_of(value.spell(&mut self.room)));
                    }
                    Found::List(_) => {
                        let (source, why, value) = (*source, Why::ListOfSeveral, Vec::new());
                        faults.entry(row).or_insert(Fault { source, why, value });
                    }
                }
            }
            put.bags.hash(hash, &self.ids.namespace, begin);
            put.end_row();
        }
        put.bags
    }
}
