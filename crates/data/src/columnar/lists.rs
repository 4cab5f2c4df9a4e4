//! Lists of ids, and their values.

use super::bags::{Bags, Putting};
use super::data::{Fault, Faults};
use super::emit::Maker;
use super::walk::{Found, Walk};
use crate::layout::{Layout, List, Nested, Values, each_item, split_item};
use crate::record::{Why, WhyValues};
use crate::rows::{Column, Spelled, Value};

impl Maker<'_> {
    /// Computes the keys of a list column. Empty and null items are skipped; if values are in a
    /// separate list, they are faults.
    pub(super) fn lists(mut self, list: &List, faults: &mut Faults) -> Bags {
        let (source, layout) = (list.source, self.data.layout);
        let column = &self.data.rows.columns[source];
        let mut walk = Walk::new(column);
        let mut put = Putting::new(self.data.count, self.ids);
        let mut beside = match list.values {
            Values::Beside(values) => Some(Beside::new(values, &self.data.rows.columns[values])),
            Values::OfFormat | Values::Within(_) => None,
        };
        let mut room = Spelled::default();
        for row in 0..self.data.count {
            let mut fault = beside.as_mut().and_then(|beside| beside.next(row, layout, list));
            let (first, mut count) = (put.bags.keys.len(), 0);
            let found = walk.next().known(layout);
            let nested = each_item_of(found, column, layout, list, &mut self.room, |item| {
                let Some(item) = item else {
                    if beside.is_some() {
                        note(&mut fault, source, Why::Values(WhyValues::MissingItem), b"");
                    }
                    return;
                };
                let text = item.spell(&mut room);
                let (id, value) = match (list.values, &beside) {
                    (Values::Within(mark), _) => match split_item(text, mark) {
                        Some((end, _)) if end == 0 || layout.is_missing(&text[..end]) => return,
                        Some((end, value)) => (&text[..end], value),
                        None => {
                            let why = Why::Values(WhyValues::NoValue);
                            return note(&mut fault, source, why, text);
                        }
                    },
                    (_, Some(beside)) => (text, beside.numbers.get(count).copied().unwrap_or(1.0)),
                    (_, None) => (text, 1.0),
                };
                count += 1;
                if count <= list.most {
                    put.bags.push(self.ids.namespace.key_of(id), value);
                }
            });
            if let Err(Nested) = nested {
                note(&mut fault, source, Why::Nested, b"");
            }
            if let Some(beside) = &beside {
                beside.check(row, source, column, count, &mut fault);
            }
            if let Some(fault) = fault {
                faults.entry(row).or_insert(fault);
                put.bags.truncate(first);
            }
            if count > list.most {
                put.bags.cut.insert(row, count - list.most);
            }
            if let Some(hash) = &list.hash {
                put.bags.hash(hash, &self.ids.namespace, first);
            }
            put.end_row();
        }
        put.bags.complete_values();
        put.bags
    }
}

/// Iterates over the values of ids in a separate column.
struct Beside<'a> {
    source: usize,
    column: &'a Column,
    walk: Walk<'a>,
    room: Spelled,
    /// Values of the current row.
    numbers: Vec<f32>,
}

impl<'a> Beside<'a> {
    fn new(source: usize, column: &'a Column) -> Self {
        let walk = Walk::new(column);
        Self { source, column, walk, room: Spelled::default(), numbers: Vec::new() }
    }

    /// Moves to the next row; returns its fault, if any.
    fn next(&mut self, row: usize, layout: &Layout, list: &List) -> Option<Fault> {
        let Self { source, column, walk, room, numbers } = self;
        numbers.clear();
        let (mut fault, mut spelled) = (None, Spelled::default());
        let found = walk.next().known(layout);
        let nested = each_item_of(found, column, layout, list, room, |item| {
            match item.map(|item| (item.number(), item)) {
                None => note(&mut fault, *source, Why::Values(WhyValues::MissingItem), b""),
                // Turns -0 into 0.
                Some((Some(number), _)) => numbers.push(number + 0.0),
                Some((None, item)) => {
                    let item = item.spell(&mut spelled);
                    note(&mut fault, *source, Why::Values(WhyValues::NoNumber), item);
                }
            }
        });
        if let Err(Nested) = nested {
            note(&mut fault, *source, Why::Nested, b"");
        }
        if column.lacks_item(row) {
            note(&mut fault, *source, Why::Values(WhyValues::MissingItem), b"");
        }
        fault
    }

    /// Notes a fault if a row doesn't have one value for each of its `count` ids.
    fn check(
        &self,
        row: usize,
        source: usize,
        column: &Column,
        count: usize,
        fault: &mut Option<Fault>,
    ) {
        if column.lacks_item(row) {
            note(fault, source, Why::Values(WhyValues::MissingItem), b"");
        }
        if count != self.numbers.len() {
            let counts = format!("{count} ids and {} values", self.numbers.len());
            note(fault, source, Why::Values(WhyValues::Unequal), counts.as_bytes());
        }
    }
}

/// Keeps only the first fault.
fn note(fault: &mut Option<Fault>, source: usize, why: Why, item: &[u8]) {
    fault.get_or_insert_with(|| Fault { source, why, value: item.to_vec() });
}

/// Calls `item` for each item of a row of `column`, with `None` for an empty or missing one.
fn each_item_of(
    found: Found<'_>,
    column: &Column,
    layout: &Layout,
    list: &List,
    room: &mut Spelled,
    mut item: impl FnMut(Option<Value<'_>>),
) -> Result<(), Nested> {
    match found {
        Found::Missing => Ok(()),
        Found::List(range) => {
            for at in range {
                item(match Found::One(column.values.get(at)).known_item(layout) {
                    Found::One(value) => Some(value),
                    Found::Missing | Found::List(_) => None,
                });
            }
            Ok(())
        }
        Found::One(value) => {
            let text = value.spell(room);
            each_item(text, 0, text.len(), &list.separator, |text, start, end| {
                let text = &text[start..end];
                let is_missing = text.is_empty() || layout.is_missing(text);
                item((!is_missing).then_some(Value::Text(text)));
            })
        }
    }
}
