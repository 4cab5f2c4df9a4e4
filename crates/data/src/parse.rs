//! Lines into columns: the part of reading that many threads share.
//!
//! A line is `label TAB numbers TAB ids`, as in the Criteo click logs:
//! - the label is a number from 0 to 1;
//! - a dense feature is a finite decimal number (`7`, `-1.5`, `+.5`, `2e3`; no space, no `nan`), or
//!   empty where it is missing. It is rounded once, to the nearest number of 32 bits (ties to
//!   even); the model sees [`crate::log1p_of_number`] it, and 0 for a missing one. So `5`, `+5` and
//!   `5.0` are the same bits;
//! - an id is any text; its key is [`Namespace::key_of`] it, in the namespace of its id column. The
//!   empty text is an id like any other, so the missing value of an id column has a row of its own;
//! - the line ends with LF or CR LF.
//!
//! How: one pass. A line goes straight into the rows where its example will be; a malformed one
//! is found out on the way, its reason worked out again by a slow careful path, and the next line
//! takes the same rows.
//!
//! Failure  Malformed lines never end the parsing: the chunk says where they are, and whoever
//! takes the chunks in order counts them (see [`crate::Skips`]). Bytes of any kind are safe.
//!
//! Cost: 0.35 to 0.5 us for a line of 13 integers and 26 ids of ten digits. Integers below ten
//! million are read eight bytes at a time; other numbers take 30 to 50 ns each.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};
use stepwell_base::{Key, Namespace};

use crate::block::Block;
use crate::chunk::{Malformed, REASONS_MAX};
use crate::log1p::{Log1p, log1p_of_number};
use crate::number::{number, why_no_number};
use crate::record::share_of_number;
use crate::scan::{SHORT_DIGITS, bytes_before_separator, field_end, short_number, word_at};
use crate::{Chunk, Schema};

/// Name of the rules by which a line is an example, and which; another rule is another name.
pub(crate) const RULES_NAME: &str = "label from 0 to 1, numbers of 32 bits, ids, between tabs";

/// Characters of a field that an error message quotes.
const QUOTED_BYTES: usize = 24;

/// Where a line stopped being an example; the reason is worked out from the line again.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// From 0.
    column: usize,
}

/// Parses the wanted lines of `block` into `chunk`, whose former content goes; the chunk's schema
/// says the columns.
pub fn parse_block(block: &Block, chunk: &mut Chunk) {
    chunk.clear();
    chunk.begin(block);
    let schema = chunk.schema;
    assert!(schema.columns() > 1, "an example has a feature");
    make_room(chunk, examples_max(&schema, block));
    let body = &block.bytes[..memrchr(b'\n', &block.bytes).map_or(0, |end| end + 1)];
    let text = Text { body, namespaces: &schema.namespaces(), log1p: Log1p::new() };
    let all = 0..block.lines;
    let (mut at, mut line) = (0, 0);
    for wanted in block.wanted.as_deref().unwrap_or(std::slice::from_ref(&all)) {
        at = line_at(body, at, wanted.start - line);
        (at, line) = text.parse(at, wanted, chunk);
        // A line without an end is the last of its block.
        if line < wanted.end && body.len() < block.bytes.len() {
            let columns = block.bytes[body.len()..].split(|byte| *byte == b'\t').count();
            refuse(chunk, line, || (columns as u32, UNENDED.to_owned()));
        }
        line = wanted.end;
    }
    cut_to_length(chunk);
}

/// Where the line begins that follows `lines` others from `at` on.
pub(crate) fn line_at(body: &[u8], at: usize, lines: u32) -> usize {
    match lines.checked_sub(1) {
        None => at,
        Some(last) => memchr_iter(b'\n', &body[at..])
            .nth(last as usize)
            .map_or(body.len(), |end| at + end + 1),
    }
}

/// The lines of a block that have ends, and what it takes to parse them.
struct Text<'a> {
    body: &'a [u8],
    namespaces: &'a [Namespace], // of each id column
    log1p: Log1p,
}

impl Text<'_> {
    /// Parses `lines`, the first of which is at `at`, as far as there are any; says where what
    /// follows is, and its number.
    fn parse(&self, at: usize, lines: &Range<u32>, chunk: &mut Chunk) -> (usize, u32) {
        let (schema, body) = (chunk.schema, self.body);
        let (mut at, mut line) = (at, lines.start);
        while at < body.len() && line < lines.end {
            let example = chunk.labels.len();
            let rows = Rows {
                dense: &mut chunk.dense[example * schema.dense..][..schema.dense],
                keys: &mut chunk.keys[example * schema.id_columns..][..schema.id_columns],
                namespaces: self.namespaces,
            };
            match parse_line(body, at, rows, self.log1p) {
                Ok((label, next)) => {
                    chunk.labels.push(label);
                    chunk.lines.push(line);
                    at = next;
                }
                Err(fault) => {
                    let end = at + memchr(b'\n', &body[at..]).unwrap_or(body.len() - at);
                    refuse(chunk, line, || why_not(&schema, &body[at..end], fault));
                    at = end + 1;
                }
            }
            line += 1;
        }
        (at, line)
    }
}

pub(crate) const UNENDED: &str =
    "the last line has no line end; the file may be cut short, or else add a newline";

/// Examples that a block may hold: a line is one at most, and has at least its separators.
fn examples_max(schema: &Schema, block: &Block) -> usize {
    let wanted = |wanted: &Vec<Range<u32>>| wanted.iter().map(|lines| lines.len()).sum();
    let lines = block.wanted.as_ref().map_or(block.lines as usize, wanted);
    // One more, since a malformed line also needs rows to be tried in.
    lines.min(block.bytes.len() / schema.line_bytes_min()) + 1
}

fn make_room(chunk: &mut Chunk, examples: usize) {
    let Schema { dense, id_columns, .. } = chunk.schema;
    chunk.labels.reserve_exact(examples);
    chunk.lines.reserve_exact(examples);
    chunk.dense.reserve_exact(examples * dense);
    chunk.dense.resize(examples * dense, 0.0);
    chunk.keys.reserve_exact(examples * id_columns);
    chunk.keys.resize(examples * id_columns, Key(0));
}

fn cut_to_length(chunk: &mut Chunk) {
    let examples = chunk.labels.len();
    chunk.dense.truncate(examples * chunk.schema.dense);
    chunk.keys.truncate(examples * chunk.schema.id_columns);
    let bags = chunk.keys.len() as u32;
    chunk.bag_ends.reserve_exact(bags as usize);
    chunk.bag_ends.extend(1..=bags);
}

/// Where the features of an example go.
struct Rows<'a> {
    dense: &'a mut [f32],
    keys: &'a mut [Key],
    namespaces: &'a [Namespace], // of each key
}

/// The label of the line at `at`, and where the next line starts. `body` ends with a line end.
#[inline]
fn parse_line(body: &[u8], at: usize, rows: Rows<'_>, log1p: Log1p) -> Result<(f32, usize), Fault> {
    let Rows { dense, keys, namespaces } = rows;
    let (label, mut at) = match body.get(at..at + 2) {
        Some([b'0', b'\t']) => (0.0, at + 2),
        Some([b'1', b'\t']) => (1.0, at + 2),
        _ => share_at(body, at).ok_or(Fault { column: 0 })?,
    };
    let columns = dense.len() + keys.len();
    let mut column = 0;
    for value in dense {
        column += 1;
        let last = column == columns;
        *value = dense_at(body, &mut at, last, log1p).ok_or(Fault { column })?;
        at = next_field(body, at, last).ok_or(Fault { column })?;
    }
    for (key, namespace) in keys.iter_mut().zip(namespaces) {
        column += 1;
        let end = field_end(body, at);
        let last = column == columns;
        let value_end = if last { at + without_return(&body[at..end]).len() } else { end };
        *key = namespace.key_within(body, at, value_end);
        at = next_field(body, end, last).ok_or(Fault { column })?;
    }
    Ok((label, at))
}

/// The label at `at`, which is neither of the digits 0 and 1, and where the next field starts.
#[cold]
fn share_at(body: &[u8], at: usize) -> Option<(f32, usize)> {
    let end = field_end(body, at);
    Some((share_of_number(&body[at..end])?, next_field(body, end, false)?))
}

/// Where the next field starts, if the separator at `end` is the right one.
#[inline]
fn next_field(body: &[u8], end: usize, last: bool) -> Option<usize> {
    let wanted = if last { b'\n' } else { b'\t' };
    (body.get(end) == Some(&wanted)).then_some(end + 1)
}

/// The transformed number at `at`, which moves to its end.
#[inline]
fn dense_at(body: &[u8], at: &mut usize, last: bool, log1p: Log1p) -> Option<f32> {
    let word = word_at(body, *at);
    let len = bytes_before_separator(word);
    if len <= SHORT_DIGITS
        && let Some(number) = short_number(word, len)
    {
        *at += len;
        return Some(log1p.of(number));
    }
    let start = std::mem::replace(at, field_end(body, *at));
    let field = &body[start..*at];
    slow_number(if last { without_return(field) } else { field }).map(log1p_of_number)
}

/// Numbers of many digits, signs, points and exponents.
#[inline(never)]
fn slow_number(text: &[u8]) -> Option<f32> {
    if text.is_empty() { Some(0.0) } else { number(text) }
}

fn without_return(field: &[u8]) -> &[u8] {
    field.strip_suffix(b"\r").unwrap_or(field)
}

/// Notes a malformed line; the reason is asked for only while there is room to keep it.
pub(crate) fn refuse(chunk: &mut Chunk, offset: u32, why: impl FnOnce() -> (u32, String)) {
    if chunk.reasons.len() < REASONS_MAX {
        let (column, why) = why();
        chunk.reasons.push(Malformed { offset, column, why });
    }
    chunk.malformed.push(offset);
}

/// Column, from 1, and reason why `line` is not an example.
#[cold]
fn why_not(schema: &Schema, line: &[u8], fault: Fault) -> (u32, String) {
    let (found, wanted) = (line.split(|byte| *byte == b'\t').count(), schema.columns());
    if found != wanted {
        let (plural, hint) = if found == 1 {
            ("", ", separated by tabs; `stepwell schema` guesses other columns")
        } else {
            ("s", "")
        };
        let why = format!("the line has {found} column{plural} where {wanted} are expected{hint}");
        return (found.min(wanted + 1) as u32, why);
    }
    let field = line.split(|byte| *byte == b'\t').nth(fault.column).unwrap_or_default();
    let last = fault.column + 1 == wanted;
    let field = if last { without_return(field) } else { field };
    let text = quoted(field);
    let why = match fault.column {
        0 => format!("the label is {text}, no number from 0 to 1"),
        n => format!("dense feature {n} is {text}, {}", why_no_number(field)),
    };
    (fault.column as u32 + 1, why)
}

/// The start of a field, readable whatever its bytes are.
pub(crate) fn quoted(field: &[u8]) -> String {
    let start = &field[..field.len().min(QUOTED_BYTES)];
    let more = if start.len() < field.len() { "..." } else { "" };
    format!("'{}{more}'", start.escape_ascii())
}
