//! Lists of ids of a record, and the values of these.

use super::fields::{Found, Value};
use super::{Fault, Fields, Why};
use crate::layout::{Layout, List, Nested, Values, each_item, split_item, value_of};

/// Gives `id` each id of `list` and its value. Items that are empty or missing are none, where
/// values do not stand beside them by place.
#[inline]
pub(super) fn each_id(
    layout: &Layout,
    list: &List,
    (fields, text): (&Fields, &[u8]),
    mut id: impl FnMut(Value<'_>, f32),
) -> Result<(), Fault> {
    let is_id = |item: &Value<'_>| item.start < item.end && !layout.is_missing(item.bytes());
    let mark = match list.values {
        Values::OfFormat => {
            return each_item_of(list, list.source, (fields, text), |item, value| {
                if is_id(&item) {
                    id(item, value.unwrap_or(1.0));
                }
            });
        }
        Values::Within(mark) => mark,
        Values::Beside(values) => return each_beside(layout, (list, values), (fields, text), id),
    };
    let mut fault = None;
    each_item_of(list, list.source, (fields, text), |item, value| {
        let of_id = |end: usize| Value { end: item.start + end, ..item };
        match value {
            _ if !is_id(&item) => {}
            Some(value) => id(item, value),
            None => match split_item(item.bytes(), mark) {
                Some((end, value)) if is_id(&of_id(end)) => id(of_id(end), value),
                Some(_) => {}
                None => note(&mut fault, list.source, Why::NoValue, item.bytes()),
            },
        }
    })?;
    fault.map_or(Ok(()), Err)
}

/// As [`each_id`], where values stand in the items of the source `values`.
fn each_beside(
    layout: &Layout,
    (list, values): (&List, usize),
    (fields, text): (&Fields, &[u8]),
    mut id: impl FnMut(Value<'_>, f32),
) -> Result<(), Fault> {
    let is_missing = |item: &[u8]| item.is_empty() || layout.is_missing(item);
    let (mut numbers, mut fault) = (Vec::new(), None);
    each_item_of(list, values, (fields, text), |item, _| {
        let item = item.bytes();
        match value_of(item) {
            _ if is_missing(item) => note(&mut fault, values, Why::MissingItem, b""),
            Some(value) => numbers.push(value),
            None => note(&mut fault, values, Why::NoNumberItem, item),
        }
    })?;
    let mut ids = 0;
    each_item_of(list, list.source, (fields, text), |item, _| {
        match numbers.get(ids) {
            _ if is_missing(item.bytes()) => {
                note(&mut fault, list.source, Why::MissingItem, b"");
            }
            Some(value) => id(item, *value),
            None => {}
        }
        ids += 1;
    })?;
    if ids != numbers.len() {
        let counts = format!("{ids} ids and {} values", numbers.len());
        note(&mut fault, list.source, Why::Unequal, counts.as_bytes());
    }
    fault.map_or(Ok(()), Err)
}

/// Keeps the first fault.
#[cold]
fn note(fault: &mut Option<Fault>, source: usize, why: Why, item: &[u8]) {
    fault.get_or_insert_with(|| Fault::Item { source, why, item: item.to_vec() });
}

/// Gives `item` each item of `source`, which is taken apart as `list` is, empty ones among them,
/// and its value where the format has one.
#[inline]
fn each_item_of(
    list: &List,
    source: usize,
    (fields, text): (&Fields, &[u8]),
    mut item: impl FnMut(Value<'_>, Option<f32>),
) -> Result<(), Fault> {
    match fields.found(source, text) {
        Found::Missing => {}
        Found::List => {
            fields.listed(source, text).for_each(|listed| item(listed.item, listed.value));
        }
        Found::One(Value { text, start, end }) => {
            each_item((text, start, end), &list.separator, |text, start, end| {
                item(Value { text, start, end }, None);
            })
            .map_err(|Nested| Fault::value(source, Why::Nested))?;
        }
    }
    Ok(())
}
