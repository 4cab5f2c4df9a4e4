//! Lists of ids in one text: with a separator between ids, or in square brackets, as in JSON,
//! Python and NumPy.

use std::borrow::Cow;

use memchr::memmem;

use crate::number::number;

/// A list contains a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nested;

/// Calls `item` for each item, including empty ones, of the list in `text` from `start` to `end`.
/// `item` receives a text, and the start and end of the item in it.
#[inline]
pub(crate) fn each_item(
    text: &[u8],
    start: usize,
    end: usize,
    separator: &[u8],
    mut item: impl FnMut(&[u8], usize, usize),
) -> Result<(), Nested> {
    if matches!(text.get(start), Some(b'[' | b' '))
        && let Some(items) = in_brackets(&text[start..end], separator)?
    {
        items.iter().for_each(|of| item(of, 0, of.len()));
        return Ok(());
    }
    let mut from = start;
    for at in memmem::find_iter(&text[start..end], separator) {
        item(text, from, start + at);
        from = start + at + separator.len();
    }
    item(text, from.min(end), end);
    Ok(())
}

/// Items of a list in brackets, separated by commas or `separator`; spaces suffice between numbers
/// and between quoted texts. `None` if the text isn't such a list, so that brackets are part of its
/// ids.
#[cold]
fn in_brackets<'a>(text: &'a [u8], separator: &[u8]) -> Result<Option<Vec<Cow<'a, [u8]>>>, Nested> {
    let text = text.trim_ascii();
    let inner = text.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let Some(inner) = inner else { return Ok(None) };
    if inner.trim_ascii_start().starts_with(b"[") {
        return Err(Nested);
    }
    let separates = |at: usize| match inner[at..].starts_with(separator) {
        true => Some(separator.len()),
        false => (inner[at] == b',').then_some(1),
    };
    let mut items = Vec::new();
    let mut at = 0;
    while at < inner.len() {
        if let Some(bytes) = separates(at) {
            at += bytes;
        } else if inner[at].is_ascii_whitespace() {
            at += 1;
        } else if matches!(inner[at], b'"' | b'\'') {
            let Some((item, end)) = quoted(inner, at) else { return Ok(None) };
            let next = inner[end..].trim_ascii_start();
            let follows = inner.len() - next.len();
            let is_over = next.is_empty() || separates(follows).is_some();
            if !is_over && !matches!(next[0], b'"' | b'\'') {
                return Ok(None);
            }
            items.push(Cow::Owned(item));
            at = end;
        } else {
            let end = (at..inner.len()).find(|at| separates(*at).is_some());
            let end = end.unwrap_or(inner.len());
            let word = inner[at..end].trim_ascii();
            // Inner brackets belong to ids.
            if word.contains(&b'[') || word.contains(&b']') {
                return Ok(None);
            }
            push_bare(word, &mut items);
            at = end;
        }
    }
    Ok(Some(items))
}

/// Adds an unquoted word, or several numbers.
fn push_bare<'a>(word: &'a [u8], items: &mut Vec<Cow<'a, [u8]>>) {
    let words = || word.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    if words().all(|word| number(word).is_some()) {
        return items.extend(words().map(Cow::Borrowed));
    }
    items.push(Cow::Borrowed(match word {
        // Python's spellings of a missing value and of booleans, as in JSON.
        b"None" | b"null" => b"",
        b"True" => b"true",
        b"False" => b"false",
        other => other,
    }));
}

/// Unescaped text in the quotes at `start`, and the position after it; `None` if the quotes don't
/// end.
fn quoted(text: &[u8], start: usize) -> Option<(Vec<u8>, usize)> {
    let quote = text[start];
    let mut end = start + 1;
    while *text.get(end)? != quote {
        end += 1 + usize::from(text[end] == b'\\');
    }
    let inner = &text[start + 1..end];
    if !inner.contains(&b'\\') {
        return Some((inner.to_vec(), end + 1));
    }
    // Python escapes like JSON, except for its own quote and `\xHH`.
    let mut json = vec![b'"'];
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.as_slice()) {
            (b'\\', [b'\'', ..]) => json.extend(bytes.next()),
            (b'\\', [b'x', ..]) => {
                bytes.next();
                json.extend(b"\\u00");
            }
            (b'\\', _) => {
                json.push(b'\\');
                json.extend(bytes.next());
            }
            (b'"', _) => json.extend(b"\\\""),
            (byte, _) => json.push(*byte),
        }
    }
    json.push(b'"');
    let item: String = serde_json::from_slice(&json).ok()?;
    Some((item.into_bytes(), end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str, separator: &str) -> Result<Vec<String>, Nested> {
        let padded = format!("..{text}..");
        let (padded, end) = (padded.as_bytes(), 2 + text.len());
        let mut found = Vec::new();
        each_item(padded, 2, end, separator.as_bytes(), |text, start, end| {
            let item = String::from_utf8_lossy(&text[start..end]).into_owned();
            if !item.is_empty() {
                found.push(item);
            }
        })?;
        Ok(found)
    }

    #[test]
    fn lists_as_programs_write_them_are_their_items() {
        for (text, separator, expected) in [
            ("a|b||c", "|", &["a", "b", "c"][..]),
            ("a, b", ", ", &["a", "b"]),
            (" a| b", "|", &[" a", " b"]),
            ("[7, 6]", "|", &["7", "6"]),
            ("[7, 6]", ",", &["7", "6"]),
            ("[7, 6]", " ", &["7", "6"]),
            (" [7,6] ", "|", &["7", "6"]),
            ("[7 6\t5]", "|", &["7", "6", "5"]),
            ("[]", "|", &[]),
            ("[ ]", "|", &[]),
            ("['a', \"b\"]", "|", &["a", "b"]),
            ("['a' 'b c']", "|", &["a", "b c"]),
            ("[\"x,y\", 'it\\'s', \"it's\"]", ",", &["x,y", "it's", "it's"]),
            (r#"["\u00e9\"", 'a"\xe9']"#, "|", &["é\"", "a\"é"]),
            ("[a, New York]", "|", &["a", "New York"]),
            ("[a|b]", "|", &["a", "b"]),
            ("[None, null, '', True, False]", ";", &["true", "false"]),
            ("[-1.5, 2e3, 07]", "|", &["-1.5", "2e3", "07"]),
            ("['[a]', 'b']", "|", &["[a]", "b"]),
            // Texts that aren't lists in brackets are split as usual.
            ("[a]|b", "|", &["[a]", "b"]),
            ("[a]|[b]", "|", &["[a]", "[b]"]),
            ("[7, 6", "|", &["[7, 6"]),
            ("['a, b]", "|", &["['a, b]"]),
            ("['a'b]", "|", &["['a'b]"]),
            ("['\\q']", "|", &["['\\q']"]),
            ("(7, 6)", "|", &["(7, 6)"]),
            ("[", "|", &["["]),
            ("]", "|", &["]"]),
            ("", "|", &[]),
        ] {
            let expected: Vec<String> = expected.iter().map(|item| (*item).to_owned()).collect();
            assert_eq!(items(text, separator), Ok(expected), "{text} by {separator:?}");
        }
        assert_eq!(items("[[1, 2], [3]]", "|"), Err(Nested));
    }
}
