//! Recognizes lists of ids in text, and how to split them.

use super::guessed::Guessed;
use super::value_statistics::MISSING;
use crate::layout::each_item;
use crate::number::number;

/// Bound on the ids of a list, given the longest list seen: longer ones may follow.
pub(super) fn room(longest: usize) -> usize {
    (2 * longest).next_power_of_two().clamp(4, longest.max(1024))
}

/// Kind of list in a column's values, if they look like lists.
pub(super) fn list_of(values: &[String]) -> Option<Guessed> {
    let of = |separator: &str| values.iter().map(|value| items_of(value, separator)).max();
    if let Some(separator) = separator_of_valued(values) {
        let ids = room(of(separator).unwrap_or(1));
        let separator = separator.to_owned();
        return Some(Guessed::Valued { separator, ids, mark: MARK.to_owned() });
    }
    let brackets = are_in_brackets(values);
    let separator = if brackets { Some("|".to_owned()) } else { separator_of(values) }?;
    let ids = room(of(&separator).unwrap_or(1));
    Some(Guessed::Ids(separator, ids))
}

/// Separates an id from its value.
pub(super) const MARK: &str = ":";

/// Whether every item is an id with a value.
pub(super) fn are_valued<'a>(items: impl Iterator<Item = &'a str>) -> bool {
    let is_valued = |item: &str| {
        let parts = item.split_once(MARK);
        parts.is_some_and(|(id, value)| !id.is_empty() && number(value.as_bytes()).is_some())
    };
    let mut items = items.filter(|item| !item.is_empty()).peekable();
    items.peek().is_some() && items.all(is_valued)
}

/// Separator of lists whose ids have values, such as `7:0.5 9:1.2`.
fn separator_of_valued(values: &[String]) -> Option<&'static str> {
    let looked = values.iter().take(1000).map(|value| value.trim());
    let looked = || looked.clone().filter(|value| !MISSING.contains(value));
    let is_it = |separator: &&str| {
        // A single item could also be a time.
        looked().any(|value| value.contains(*separator))
            && are_valued(looked().flat_map(|value| value.split(*separator)))
    };
    [" ", "|", ";", ","].into_iter().find(is_it)
}

/// Whether most values are lists in brackets, as Python writes them.
fn are_in_brackets(values: &[String]) -> bool {
    let looked = || values.iter().take(1000).map(|value| value.trim());
    let lists = looked().filter(|value| value.starts_with('[') && value.ends_with(']')).count();
    lists * 2 > looked().filter(|value| !value.is_empty()).count()
}

/// Number of items of a list.
fn items_of(value: &str, separator: &str) -> usize {
    let (value, mut items) = (value.as_bytes(), 0);
    let each = |_: &[u8], _, _| items += 1;
    // A nested list counts as one item here; reading it is an error.
    let Ok(()) = each_item(value, 0, value.len(), separator.as_bytes(), each) else { return 1 };
    items
}

/// Separator of ids, if the values look like lists.
fn separator_of(values: &[String]) -> Option<String> {
    let looked: Vec<&str> = values
        .iter()
        .take(1000)
        .map(|value| value.trim())
        .filter(|value| !value.is_empty())
        .collect();
    ["|", ";"].into_iter().find_map(|separator| {
        let lists = looked.iter().filter(|value| value.contains(separator));
        (lists.count() * 4 > looked.len()).then(|| separator.to_owned())
    })
}

/// Hint for texts that may be lists, with a separator that also occurs in names.
pub(super) fn list_hint(values: &[String]) -> Option<String> {
    let looked = || values.iter().take(1000).filter(|value| !value.is_empty());
    let found = [",", "^"].into_iter().find(|separator| {
        looked().filter(|value| value.contains(separator)).count() * 4 > looked().count()
    })?;
    Some(format!("; if its texts are lists, type = \"ids\" and separator = \"{found}\""))
}
