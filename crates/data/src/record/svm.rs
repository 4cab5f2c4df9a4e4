//! Splits lines of LibSVM: `1 3:1 17:0.5`, a label and nonzero values; also the three-part form of
//! LibFFM, `1 user:107:1 item:9:1`.
//!
//! The label is the column `label`. `name:value` sets the column `name` to the value. Names that
//! aren't columns are ids of the column `indices`, if there is one. `field:id:value` adds an id to
//! the column `field`. A word that starts with `#` starts a comment; inside a word, `#` is literal,
//! as in ids that are hashtags.

use std::ops::Range;

use memchr::memchr;

use super::fault::{Fault, Why, WhyValues};
use super::fields::Fields;
use crate::layout::{Label, LabelSays, Layout, value_of};
use crate::parse_lines::quoted;

/// Column of the first value of a line.
pub(crate) const LABEL: &str = "label";
/// Column of all names that aren't columns.
pub(crate) const INDICES: &str = "indices";

/// Splits the line at `line` of `body` into `fields`.
pub(super) fn split(
    layout: &Layout,
    body: &[u8],
    line: Range<usize>,
    fields: &mut Fields,
) -> Result<(), Fault> {
    fields.clear();
    let source = |name: &[u8]| layout.sources.iter().position(|known| known.as_bytes() == name);
    let indices = source(INDICES.as_bytes());
    let mut tokens = tokens(without_comment(&body[line.clone()]), line.start);
    let label = tokens.next();
    // Unlabeled records may start with their first value.
    let is_value = |word: &Range<usize>| memchr(b':', &body[word.clone()]).is_some();
    let first = label.clone().filter(|word| layout.labels.is_empty() && is_value(word));
    if first.is_none() {
        put_label(layout, body, label, source(LABEL.as_bytes()), fields)?;
    }
    let number = if first.is_some() { 1 } else { 2 };
    for (number, token) in (number..).zip(first.into_iter().chain(tokens)) {
        let fault = |why: &str| {
            let token = quoted(&body[token.clone()]);
            Fault::Record { column: number, why: format!("{token} {why}") }
        };
        let Some(colon) = memchr(b':', &body[token.clone()]).map(|at| token.start + at) else {
            return Err(fault("is not `index:value`"));
        };
        let (name, rest) = (token.start..colon, colon + 1..token.end);
        if name.is_empty() || rest.is_empty() {
            return Err(fault("is not `index:value`"));
        }
        match memchr(b':', &body[rest.clone()]).map(|at| rest.start + at) {
            None => match (source(&body[name.clone()]), indices) {
                (Some(source), _) if fields.has(source) => {
                    return Err(Fault::value(source, Why::Twice));
                }
                (Some(source), _) if layout.is_missing(&body[rest.clone()]) => {
                    fields.put(source, rest.start, rest.start);
                }
                (Some(source), _) => fields.put(source, rest.start, rest.end),
                // Some files have a query id.
                (None, _) if body[name.clone()] == *b"qid" => {}
                (None, Some(indices)) => push(fields, indices, body, name, rest)?,
                (None, None) => {}
            },
            Some(second) => {
                if second == rest.start || memchr(b':', &body[second + 1..rest.end]).is_some() {
                    return Err(fault("is not `field:id:value`"));
                }
                if let Some(source) = source(&body[name]) {
                    push(fields, source, body, rest.start..second, second + 1..rest.end)?;
                }
            }
        }
    }
    Ok(())
}

/// Names in a line.
pub(super) fn keys_of(line: &[u8]) -> Vec<String> {
    let line = without_comment(line.trim_ascii_end());
    let words = tokens(line, 0).map(|word| &line[word]);
    let name = |word: &[u8]| {
        let colon = memchr(b':', word)?;
        Some(String::from_utf8_lossy(&word[..colon]).into_owned())
    };
    words.filter_map(name).collect()
}

/// Sets `source` to the label, the word at `label`.
fn put_label(
    layout: &Layout,
    body: &[u8],
    label: Option<Range<usize>>,
    source: Option<usize>,
    fields: &mut Fields,
) -> Result<(), Fault> {
    let fault = |why: &str| Err(Fault::Record { column: 1, why: why.to_owned() });
    let Some(label) = label else { return fault("the line has no label") };
    let Some(source) = source else {
        // Layouts with counts name their columns.
        let is_count = |label: &Label| matches!(label.says, LabelSays::Clicks { .. });
        return match layout.labels.iter().all(is_count) {
            true => Ok(()),
            false => fault(
                "the first value of a LibSVM line is the column label: give the column of type \
                 label that name",
            ),
        };
    };
    let text = &body[label.clone()];
    let mut rules = layout.labels.iter().filter(|of| of.source == source);
    let as_it_is = rules.any(|of| match &of.says {
        LabelSays::Share => false,
        LabelSays::Positive(texts) => texts.iter().any(|known| known == text),
        LabelSays::Number | LabelSays::Clicks { .. } => true,
    });
    // The format spells labels as -1 and +1.
    match text {
        b"-1" if !as_it_is => fields.put_bytes(source, b"0"),
        b"+1" if !as_it_is => fields.put_bytes(source, b"1"),
        text if layout.is_missing(text) => fields.put(source, label.start, label.start),
        _ => fields.put(source, label.start, label.end),
    }
    Ok(())
}

/// Adds an id and its value to `source`.
fn push(
    fields: &mut Fields,
    source: usize,
    body: &[u8],
    id: Range<usize>,
    value: Range<usize>,
) -> Result<(), Fault> {
    let number = match &body[value.clone()] {
        b"1" => 1.0,
        text => value_of(text).ok_or_else(|| {
            let item = body[id.start..value.end].to_vec();
            Fault::Item { source, why: Why::Values(WhyValues::NoValue), item }
        })?,
    };
    match (fields.is_list(source), fields.has(source)) {
        (true, _) => {}
        // The source already has a plain value, which a list would hide.
        (false, true) => return Err(Fault::value(source, Why::Twice)),
        (false, false) => fields.begin_list(source),
    }
    fields.push(source, id.start, id.end);
    fields.value_last_item(number);
    Ok(())
}

/// The line without a comment at its end.
pub(crate) fn without_comment(line: &[u8]) -> &[u8] {
    let begins = |at: &usize| *at == 0 || is_space(line[at - 1]);
    let comment = memchr::memchr_iter(b'#', line).find(begins);
    &line[..comment.unwrap_or(line.len())]
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Words of `text`, as ranges shifted by `start`.
fn tokens(text: &[u8], start: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while text.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        let from = at;
        while text.get(at).is_some_and(|byte| !is_space(*byte)) {
            at += 1;
        }
        (from < at).then_some(start + from..start + at)
    })
}

/// Whether a line looks like LibSVM.
pub(super) fn looks_like(line: &[u8]) -> bool {
    let line = without_comment(line);
    let mut words = tokens(line, 0).map(|word| &line[word]);
    let label = words.next().is_some_and(|label| crate::number::number(label).is_some());
    let mut some = false;
    let all = words.all(|word| {
        some = true;
        let mut parts = word.split(|byte| *byte == b':');
        let named = parts.next().is_some_and(|name| !name.is_empty());
        named && parts.next_back().is_some_and(|value| crate::number::number(value).is_some())
    });
    label && some && all
}
