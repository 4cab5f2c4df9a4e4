//! Lists of ids in a record, and their values.

use super::fault::{Fault, Why, WhyValues};
use super::fields::{Found, Record, Value};
use crate::layout::{Layout, List, Nested, Values, each_item, split_item, value_of};

/// Calls `id` for each id of `list`, with its value. Skips empty and missing items, unless values
/// are in a separate list.
#[inline]
pub(super) fn each_id(
    layout: &Layout,
    list: &List,
    record: Record<'_>,
    mut id: impl FnMut(Value<'_>, f32),
) -> Result<(), Fault> {
    let is_id = |item: &Value<'_>| item.start < item.end && !layout.is_missing(item.bytes());
    let mark = match list.values {
        Values::OfFormat => {
            return each_item_of(list, list.source, record, |item, value| {
                if is_id(&item) {
                    id(item, value.unwrap_or(1.0));
                }
            });
        }
        Values::Within(mark) => mark,
        Values::Beside(values) => return each_beside(layout, list, values, record, id),
    };
    let mut fault = None;
    each_item_of(list, list.source, record, |item, value| {
        let of_id = |end: usize| Value { end: item.start + end, ..item };
        match value {
            _ if !is_id(&item) => {}
            Some(value) => id(item, value),
            None => match split_item(item.bytes(), mark) {
                Some((end, value)) if is_id(&of_id(end)) => id(of_id(end), value),
                Some(_) => {}
                None => note(&mut fault, list.source, WhyValues::NoValue, item.bytes()),
            },
        }
    })?;
    fault.map_or(Ok(()), Err)
}

/// Like [`each_id`], with values from the list in `values`.
fn each_beside(
    layout: &Layout,
    list: &List,
    values: usize,
    record: Record<'_>,
    mut id: impl FnMut(Value<'_>, f32),
) -> Result<(), Fault> {
    let is_missing = |item: &[u8]| item.is_empty() || layout.is_missing(item);
    let (mut numbers, mut fault) = (Vec::new(), None);
    each_item_of(list, values, record, |item, _| {
        let item = item.bytes();
        match value_of(item) {
            _ if is_missing(item) => note(&mut fault, values, WhyValues::MissingItem, b""),
            Some(value) => numbers.push(value),
            None => note(&mut fault, values, WhyValues::NoNumber, item),
        }
    })?;
    let mut ids = 0;
    each_item_of(list, list.source, record, |item, _| {
        match numbers.get(ids) {
            _ if is_missing(item.bytes()) => {
                note(&mut fault, list.source, WhyValues::MissingItem, b"");
            }
            Some(value) => id(item, *value),
            None => {}
        }
        ids += 1;
    })?;
    if ids != numbers.len() {
        let counts = format!("{ids} ids and {} values", numbers.len());
        note(&mut fault, list.source, WhyValues::Unequal, counts.as_bytes());
    }
    fault.map_or(Ok(()), Err)
}

/// Keeps only the first fault.
#[cold]
fn note(fault: &mut Option<Fault>, source: usize, why: WhyValues, item: &[u8]) {
    let why = Why::Values(why);
    fault.get_or_insert_with(|| Fault::Item { source, why, item: item.to_vec() });
}

/// Calls `item` for each item of `source`, including empty ones, with its value if the format
/// stores one. Splits the text like `list`.
#[inline]
fn each_item_of(
    list: &List,
    source: usize,
    record: Record<'_>,
    mut item: impl FnMut(Value<'_>, Option<f32>),
) -> Result<(), Fault> {
    match record.found(source) {
        Found::Missing => {}
        Found::List => {
            record.listed(source).for_each(|listed| item(listed.item, listed.value));
        }
        Found::One(Value { text, start, end }) => {
            each_item(text, start, end, &list.separator, |text, start, end| {
                item(Value { text, start, end }, None);
            })
            .map_err(|Nested| Fault::value(source, Why::Nested))?;
        }
    }
    Ok(())
}
