//! Whether texts are lists of ids, and how they are taken apart.

use super::look::Guessed;
use super::seen::MISSING;
use crate::layout::each_item;
use crate::number::number;

/// Ids that a list may have, of which so many were seen: longer ones may follow.
pub(super) fn room(longest: usize) -> usize {
    (2 * longest).next_power_of_two().clamp(4, longest.max(1024))
}

/// The list that the values of a column are, if they look like lists.
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

/// What is between an id and its value.
const MARK: &str = ":";

/// Whether each of the items of lists is an id and its value.
pub(super) fn are_valued<'a>(items: impl Iterator<Item = &'a str>) -> bool {
    let is_valued = |item: &str| {
        let parts = item.split_once(MARK);
        parts.is_some_and(|(id, value)| !id.is_empty() && number(value.as_bytes()).is_some())
    };
    let mut items = items.filter(|item| !item.is_empty()).peekable();
    items.peek().is_some() && items.all(is_valued)
}

/// What is between the items of lists whose ids have values, such as `7:0.5 9:1.2`.
fn separator_of_valued(values: &[String]) -> Option<&'static str> {
    let looked = values.iter().take(1000).map(|value| value.trim());
    let looked = || looked.clone().filter(|value| !MISSING.contains(value));
    let is_it = |separator: &&str| {
        // Of a single item nobody can tell a list, or a time.
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

/// Items of a list.
fn items_of(value: &str, separator: &str) -> usize {
    let (value, mut items) = (value.as_bytes(), 0);
    let each = |_: &[u8], _, _| items += 1;
    // One within another is one item here, and refused where it is read.
    let Ok(()) = each_item((value, 0, value.len()), separator.as_bytes(), each) else { return 1 };
    items
}

/// What is between the ids of a list, where the values look like lists.
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

/// What to say of texts that may be lists by a separator that names have, too.
pub(super) fn list_hint(values: &[String]) -> Option<String> {
    let looked = || values.iter().take(1000).filter(|value| !value.is_empty());
    let found = [",", "^"].into_iter().find(|separator| {
        looked().filter(|value| value.contains(separator)).count() * 4 > looked().count()
    })?;
    Some(format!("; if its texts are lists, type = \"ids\" and separator = \"{found}\""))
}
