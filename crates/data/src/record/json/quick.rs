//! Parses typical JSON objects: names without escapes; values that are short texts, numbers,
//! `true`, `false` or `null`; at most one space between parts.
//!
//! The library handles all other lines, and reports errors: this parser takes a whole line or
//! nothing.

use std::ops::Range;

use crate::layout::Layout;
use crate::record::fields::Fields;
use crate::short_fields::{text_end, word_at};

/// Names of a layout's sources, none of which needs escapes in JSON.
pub(crate) struct Names {
    /// The first eight bytes of each name with its closing quote, and a mask of the bytes in use.
    starts: Vec<(u64, u64)>,
}

impl Names {
    /// Names in `layout`; `None` if any needs escapes.
    pub(crate) fn of(layout: &Layout) -> Option<Self> {
        let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        let start = |name: &String| {
            let word = word_at(&[name.as_bytes(), b"\""].concat(), 0);
            let unused = 8 * 7usize.saturating_sub(name.len()) as u32;
            name.bytes().all(is_plain).then_some((word, u64::MAX >> unused))
        };
        let starts = layout.sources.iter().map(start).collect::<Option<_>>()?;
        Some(Self { starts })
    }

    /// Whether `text`, which starts with the bytes of `word`, starts with `name`, the name of
    /// `source`, and a quote.
    #[inline]
    fn is_at(&self, source: usize, name: &str, word: u64, text: &[u8]) -> bool {
        let (start, mask) = self.starts[source];
        if word & mask != start {
            return false;
        }
        name.len() < 8 || (text.starts_with(name.as_bytes()) && text.get(name.len()) == Some(&b'"'))
    }
}

/// Parses the object at `line` of `body`, which is UTF-8. Returns false if the library must parse
/// it.
pub(super) fn split(
    layout: &Layout,
    names: &Names,
    body: &[u8],
    line: Range<usize>,
    fields: &mut Fields,
) -> bool {
    let body = &body[..line.end];
    let mut at = line.start;
    if !take(body, &mut at, b'{') {
        return false;
    }
    let mut next = 0;
    loop {
        let Some((source, value)) = name_at(layout, names, body, at, next) else { return false };
        at = value;
        let outcome = match source {
            // An unused value.
            None => value_at(body, at).map(|(_, end)| end),
            Some(source) => {
                next = source + 1;
                put_value(layout, body, at, source, fields)
            }
        };
        let Some(end) = outcome else { return false };
        at = end;
        if take(body, &mut at, b',') {
            space(body, &mut at);
            continue;
        }
        return take(body, &mut at, b'}') && at == body.len();
    }
}

/// Skips the byte at `at`, if it is `wanted`.
#[inline]
fn take(body: &[u8], at: &mut usize, wanted: u8) -> bool {
    let is_there = body.get(*at) == Some(&wanted);
    *at += usize::from(is_there);
    is_there
}

#[inline]
fn space(body: &[u8], at: &mut usize) {
    take(body, at, b' ');
}

/// Parses the name at `at`; returns its source, if any, and the start of its value. Tries number
/// `next` first, as objects of a file are similar.
#[inline]
fn name_at(
    layout: &Layout,
    names: &Names,
    body: &[u8],
    mut at: usize,
    next: usize,
) -> Option<(Option<usize>, usize)> {
    if !take(body, &mut at, b'"') {
        return None;
    }
    let (sources, word, text) = (&layout.sources, word_at(body, at), body.get(at..)?);
    let is_it = |source: &usize| names.is_at(*source, &sources[*source], word, text);
    let expected = Some(next).filter(|next| *next < sources.len() && is_it(next));
    let source = expected.or_else(|| (0..sources.len()).find(is_it));
    let end = match source {
        Some(source) => at + sources[source].len(),
        None => text_end(body, at),
    };
    let mut value = end;
    if !(take(body, &mut value, b'"') && take(body, &mut value, b':')) {
        return None;
    }
    space(body, &mut value);
    Some((source, value))
}

/// Sets the source to the value at `at`; returns the end of the value.
#[inline]
fn put_value(
    layout: &Layout,
    body: &[u8],
    at: usize,
    source: usize,
    fields: &mut Fields,
) -> Option<usize> {
    // A duplicate, which is an error.
    if fields.has(source) {
        return None;
    }
    let (value, end) = value_at(body, at)?;
    let trimmed = |value: Range<usize>| {
        let text = layout.trimmed(&body[value.clone()]);
        let start = text.as_ptr() as usize - body.as_ptr() as usize;
        start..start + text.len()
    };
    match value.map(trimmed) {
        Some(value) if !layout.is_missing(&body[value.clone()]) => {
            fields.put(source, value.start, value.end);
        }
        // Present without a value.
        _ => fields.put(source, 0, 0),
    }
    Some(end)
}

/// Range of the text of the value at `at` (`None` for `null`), and the end of the value.
#[inline]
fn value_at(body: &[u8], at: usize) -> Option<(Option<Range<usize>>, usize)> {
    let word = |word: &[u8]| body[at..].starts_with(word).then_some(at + word.len());
    match body.get(at)? {
        b'"' => {
            let end = text_end(body, at + 1);
            (body.get(end) == Some(&b'"')).then_some((Some(at + 1..end), end + 1))
        }
        b'-' | b'0'..=b'9' => number_end(body, at).map(|end| (Some(at..end), end)),
        b'n' => word(b"null").map(|end| (None, end)),
        b't' => word(b"true").map(|end| (Some(at..end), end)),
        b'f' => word(b"false").map(|end| (Some(at..end), end)),
        _ => None,
    }
}

/// End of the number at `at`, if it is a valid JSON number.
#[inline]
fn number_end(body: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    take(body, &mut end, b'-');
    let whole = end;
    end = digits_end(body, end);
    let is_whole = end > whole && (body[whole] != b'0' || end == whole + 1);
    if !is_whole {
        return None;
    }
    if take(body, &mut end, b'.') {
        let fraction = end;
        end = digits_end(body, fraction);
        if end == fraction {
            return None;
        }
    }
    if take(body, &mut end, b'e') || take(body, &mut end, b'E') {
        let _sign = take(body, &mut end, b'-') || take(body, &mut end, b'+');
        let exponent = end;
        end = digits_end(body, exponent);
        if end == exponent {
            return None;
        }
    }
    Some(end)
}

#[inline]
fn digits_end(body: &[u8], at: usize) -> usize {
    let mut end = at;
    loop {
        // Eight digits may be followed by more.
        let word = word_at(body, end);
        let digits = crate::short_fields::digits_before(word);
        end += digits;
        if digits < 8 {
            return end;
        }
    }
}
