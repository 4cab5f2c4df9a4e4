//! Splits lines into fields at a separator.
//!
//! Follows RFC 4180: a field may be in double quotes, and a doubled quote inside is a literal one.
//! Unlike there, a line end always ends a record, so that a file can be cut into blocks between any
//! two lines. Quotes inside a field that doesn't start with one are literal.

use memchr::memchr;

use super::fault::Fault;
use super::fields::Fields;
use crate::field_ends::Ends;
use crate::head::{Head, Kind};
use crate::layout::Layout;
use crate::short_fields::Separators;

/// Whether fields of `body` can be used unchanged: no quotes, no trimming, no missing texts. Most
/// texts are like that, and faster to read.
pub(super) fn is_plain(layout: &Layout, body: &[u8]) -> bool {
    let options = layout.options();
    !options.trim && options.missing.is_empty() && memchr(b'"', body).is_none()
}

/// Splits the line at `at` of `body` into `fields`; returns the start of the next line.
#[inline]
pub(super) fn split(
    layout: &Layout,
    head: &Head,
    body: &[u8],
    at: usize,
    fields: &mut Fields,
) -> Result<usize, Fault> {
    match fields.is_plain {
        true => split_as::<true>(layout, head, body, at, fields),
        false => split_as::<false>(layout, head, body, at, fields),
    }
}

/// Like [`split`], for a line of plain fields; `ends` finds their ends lazily.
#[inline]
pub(super) fn split_plain(
    head: &Head,
    body: &[u8],
    at: usize,
    ends: &mut Ends<'_>,
    fields: &mut Fields,
) -> Result<usize, Fault> {
    let Kind::Delimited { separator, .. } = head.kind else { unreachable!("it has fields") };
    fields.clear();
    ends.seek(at);
    let mut start = at;
    let Some((last, others)) = head.places.split_last() else { return Ok(at) };
    for place in others {
        let end = ends.next();
        if body.get(end) != Some(&separator) {
            return Err(wrong_columns(body, at, head));
        }
        if let Some(source) = *place {
            fields.put(usize::from(source), start, end);
        }
        start = end + 1;
    }
    let end = ends.next();
    if body.get(end) != Some(&b'\n') {
        return Err(wrong_columns(body, at, head));
    }
    if let Some(source) = *last {
        fields.put(usize::from(source), start, without_return(body, start, end));
    }
    Ok(end + 1)
}

#[inline]
fn split_as<const PLAIN: bool>(
    layout: &Layout,
    head: &Head,
    body: &[u8],
    at: usize,
    fields: &mut Fields,
) -> Result<usize, Fault> {
    let Kind::Delimited { separator, quotes } = head.kind else { unreachable!("it has fields") };
    let (separators, trim) = (Separators::new(separator), !PLAIN && layout.options().trim);
    let quotes = !PLAIN && quotes;
    fields.clear();
    let mut at = at;
    for (column, place) in head.places.iter().enumerate() {
        let start = if trim { after_spaces(body, at) } else { at };
        let end = if quotes && body.get(start) == Some(&b'"') {
            quoted(layout, body, start, separator, column, *place, fields)?
        } else {
            let end = separators.field_end(body, start.min(body.len()));
            if let Some(source) = *place {
                let stop = if body.get(end) == Some(&b'\n') {
                    without_return(body, start, end)
                } else {
                    end
                };
                let stop = if trim { before_spaces(body, start, stop) } else { stop };
                match PLAIN {
                    true => fields.put(usize::from(source), start, stop),
                    false => put(layout, fields, usize::from(source), body, start, stop),
                }
            }
            end
        };
        let last = column + 1 == head.places.len();
        let wanted = if last { b'\n' } else { separator };
        if body.get(end) != Some(&wanted) {
            return Err(wrong_columns(body, at_line(body, at), head));
        }
        at = end + 1;
    }
    Ok(at)
}

/// Sets `source` to the bytes from `start` to `end`, unless they mean a missing value.
#[inline]
fn put(layout: &Layout, fields: &mut Fields, source: usize, body: &[u8], start: usize, end: usize) {
    if !layout.is_missing(&body[start..end]) {
        fields.put(source, start, end);
    }
}

/// Parses the quoted field at `start`; returns its end, which a separator or a line end follows.
#[cold]
fn quoted(
    layout: &Layout,
    body: &[u8],
    start: usize,
    separator: u8,
    column: usize,
    place: Option<u16>,
    fields: &mut Fields,
) -> Result<usize, Fault> {
    let column = column as u32 + 1;
    let line_end = start + memchr(b'\n', &body[start..]).unwrap_or(body.len() - start);
    let mut text = Vec::new();
    let (mut at, mut escaped) = (start + 1, false);
    let end = loop {
        let Some(quote) = memchr(b'"', &body[at..line_end]).map(|found| at + found) else {
            let why = "a quoted field has no end on its line; fields with line breaks cannot be \
                       read: write the data as JSON lines or Parquet, or without line breaks"
                .to_owned();
            return Err(Fault::Record { column, why });
        };
        if body.get(quote + 1) != Some(&b'"') {
            text.extend_from_slice(&body[at..quote]);
            break quote;
        }
        text.extend_from_slice(&body[at..=quote]);
        (at, escaped) = (quote + 2, true);
    };
    if let Some(source) = place {
        let source = usize::from(source);
        match escaped {
            false => put(layout, fields, source, body, start + 1, end),
            true if layout.is_missing(&text) => {}
            true => fields.put_bytes(source, &text),
        }
    }
    let is_space = |byte: u8| byte == b'\r' || (byte == b' ' && separator != b' ');
    let mut after = end + 1;
    while body.get(after).is_some_and(|byte| is_space(*byte)) {
        after += 1;
    }
    match body.get(after) {
        Some(byte) if *byte == separator || *byte == b'\n' => Ok(after),
        _ => {
            let why = "a quoted field is not followed by the separator".to_owned();
            Err(Fault::Record { column, why })
        }
    }
}

fn after_spaces(body: &[u8], at: usize) -> usize {
    let spaces = body[at.min(body.len())..].iter().take_while(|byte| **byte == b' ').count();
    at + spaces
}

fn before_spaces(body: &[u8], start: usize, end: usize) -> usize {
    let spaces = body[start..end].iter().rev().take_while(|byte| **byte == b' ').count();
    end - spaces
}

#[inline]
fn without_return(body: &[u8], start: usize, end: usize) -> usize {
    end - usize::from(end > start && body[end - 1] == b'\r')
}

/// Start of the line that contains `at`.
fn at_line(body: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', &body[..at.min(body.len())]).map_or(0, |end| end + 1)
}

/// Error for the line at `start`, which has the wrong number of fields.
#[cold]
fn wrong_columns(body: &[u8], start: usize, head: &Head) -> Fault {
    let Kind::Delimited { separator, quotes } = head.kind else { unreachable!("it has fields") };
    let line = body[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let found = match quotes {
        true => names(line, separator).len(),
        false => line.split(|byte| *byte == separator).count(),
    };
    let wanted = head.places.len();
    let (plural, name) = (if found == 1 { "" } else { "s" }, name_of(separator));
    let hint = match head.header_lines {
        _ if !quotes && line.contains(&b'"') => {
            "; tab-separated files have no quotes, so a field cannot have a tab or a line break: \
             write such data as JSON lines or Parquet"
        }
        0 => "; give columns that the settings do not name the type ignored",
        _ => "",
    };
    let why = format!(
        "the line has {found} column{plural} with {name} between them where {wanted} are \
         expected{hint}"
    );
    Fault::Record { column: found.min(wanted) as u32, why }
}

/// Name of a separator.
pub(crate) fn name_of(separator: u8) -> String {
    match separator {
        b'\t' => "tabs".to_owned(),
        b',' => "commas".to_owned(),
        b' ' => "spaces".to_owned(),
        other => format!("{:?}", char::from(other)),
    }
}

/// Unquoted fields of a line: for examining single lines, not for reading many.
pub(crate) fn names(line: &[u8], separator: u8) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    // If spaces separate fields, they can't surround one.
    let trims = separator != b' ';
    loop {
        let start = if trims { after_spaces(line, at) } else { at };
        let (text, end) = if line.get(start) == Some(&b'"') {
            let (text, close) = without_quotes(line, start);
            (text, memchr(separator, &line[close..]).map_or(line.len(), |end| close + end))
        } else {
            let end = memchr(separator, &line[at..]).map_or(line.len(), |end| at + end);
            let stop = if trims { before_spaces(line, start.min(end), end) } else { end };
            let text = &line[start.min(end)..stop];
            (String::from_utf8_lossy(text).into_owned(), end)
        };
        names.push(text);
        if end >= line.len() {
            return names;
        }
        at = end + 1;
    }
}

/// Text in the quotes that start at `start`, and the position of the closing quote.
fn without_quotes(line: &[u8], start: usize) -> (String, usize) {
    let (mut text, mut at) = (Vec::new(), start + 1);
    loop {
        let close = memchr(b'"', &line[at..]).map_or(line.len(), |end| at + end);
        text.extend_from_slice(&line[at..close]);
        if line.get(close + 1) != Some(&b'"') {
            return (String::from_utf8_lossy(&text).into_owned(), close);
        }
        text.push(b'"');
        at = close + 2;
    }
}
