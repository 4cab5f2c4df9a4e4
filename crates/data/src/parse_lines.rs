//! Parses lines into columns: the parallel part of reading.
//!
//! A line is `label TAB numbers TAB ids`, as in the Criteo click logs:
//! - the label is a number from 0 to 1;
//! - a dense feature is a finite decimal number (`7`, `-1.5`, `+.5`, `2e3`; no space, no `nan`), or
//!   empty if it is missing. It is rounded once, to the nearest `f32` (ties to even). The model
//!   sees its [`crate::log1p_of_number`], and 0 if it is missing. So `5`, `+5` and `5.0` have the
//!   same bits;
//! - an id is any text. [`Namespace::key_of`] the namespace of its id column makes its key. The
//!   empty text is an id like any other, so a missing id has its own row;
//! - the line ends with LF or CR LF.
//!
//! How: one pass. A line is parsed directly into the rows of its example. If it turns out to be
//! malformed, a slower path determines the reason, and the next line reuses these rows.
//!
//! Failure: malformed lines never stop parsing. The chunk lists them, and the consumer, who sees
//! the chunks in order, counts them (see [`crate::Skips`]). Any bytes are safe.
//!
//! Cost: 0.35 to 0.5 us for a line of 13 integers and 26 ids of ten digits. Integers below ten
//! million are read eight bytes at a time; other numbers take 30 to 50 ns each.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};
use stepwell_base::{Key, Namespace};

use crate::block::Block;
use crate::chunk::{Chunk, Malformed};
use crate::log1p::{Log1p, log1p_of_number};
use crate::number::{number, share_of_number, why_no_number};
use crate::schema::{REASONS_MAX, Schema};
use crate::short_fields::{SHORT_DIGITS, bytes_before_separator, field_end, short_number, word_at};

/// Name of the rules that turn a line into an example; different rules need a different name.
pub(crate) const RULES_NAME: &str = "label from 0 to 1, numbers of 32 bits, ids, between tabs";

/// Most bytes of a field that an error message quotes.
const QUOTED_BYTES: usize = 24;

/// Position of the first error in a line. The reason is determined later, from the line.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// Index of the column, from 0.
    column: usize,
}

/// Parses the wanted lines of `block` into `chunk`, replacing its contents; `chunk.schema` gives
/// the columns.
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
        // Only the last line of a block can lack a line end.
        if line < wanted.end && body.len() < block.bytes.len() {
            let columns = block.bytes[body.len()..].split(|byte| *byte == b'\t').count();
            refuse(chunk, line, || (columns as u32, UNENDED.to_owned()));
        }
        line = wanted.end;
    }
    cut_to_length(chunk);
}

/// Start of the line that follows `lines` lines from `at`.
pub(crate) fn line_at(body: &[u8], at: usize, lines: u32) -> usize {
    match lines.checked_sub(1) {
        None => at,
        Some(last) => memchr_iter(b'\n', &body[at..])
            .nth(last as usize)
            .map_or(body.len(), |end| at + end + 1),
    }
}

/// Lines of a block that have line ends, and the parser's inputs.
struct Text<'a> {
    body: &'a [u8],
    namespaces: &'a [Namespace], // one per id column
    log1p: Log1p,
}

impl Text<'_> {
    /// Parses `lines`, the first of which is at `at`, until the text ends. Returns the position and
    /// number of the next line.
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
    "the last line has no line end; the file may be cut short: if not, add a newline";

/// Most examples of a block: a line makes at most one, and contains at least its separators.
fn examples_max(schema: &Schema, block: &Block) -> usize {
    let wanted = |wanted: &Vec<Range<u32>>| wanted.iter().map(|lines| lines.len()).sum();
    let lines = block.wanted.as_ref().map_or(block.lines as usize, wanted);
    // One more, as a malformed last line is also parsed into rows.
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

/// Output rows of one example.
struct Rows<'a> {
    dense: &'a mut [f32],
    keys: &'a mut [Key],
    namespaces: &'a [Namespace], // one per key
}

/// Parses the line at `at`; returns its label and the start of the next line. `body` ends with a
/// line end.
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
        let ending = ending_of(column, columns);
        *value = dense_at(body, &mut at, ending, log1p).ok_or(Fault { column })?;
        at = next_field(body, at, ending).ok_or(Fault { column })?;
    }
    for (key, namespace) in keys.iter_mut().zip(namespaces) {
        column += 1;
        let end = field_end(body, at);
        let ending = ending_of(column, columns);
        let value_end =
            if ending == b'\n' { at + without_return(&body[at..end]).len() } else { end };
        *key = namespace.key_within(body, at, value_end);
        at = next_field(body, end, ending).ok_or(Fault { column })?;
    }
    Ok((label, at))
}

/// Parses a label other than `0` and `1`; returns it and the start of the next field.
#[cold]
fn share_at(body: &[u8], at: usize) -> Option<(f32, usize)> {
    let end = field_end(body, at);
    Some((share_of_number(&body[at..end])?, next_field(body, end, b'\t')?))
}

/// Byte that ends column `column` of a line with `columns` columns.
#[inline]
fn ending_of(column: usize, columns: usize) -> u8 {
    if column == columns { b'\n' } else { b'\t' }
}

/// Start of the next field, if `ending` is at `end`.
#[inline]
fn next_field(body: &[u8], end: usize, ending: u8) -> Option<usize> {
    (body.get(end) == Some(&ending)).then_some(end + 1)
}

/// Parses and transforms the number at `at`, which `ending` follows, and moves `at` to its end.
#[inline]
fn dense_at(body: &[u8], at: &mut usize, ending: u8, log1p: Log1p) -> Option<f32> {
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
    slow_number(if ending == b'\n' { without_return(field) } else { field }).map(log1p_of_number)
}

/// Parses numbers with many digits, signs, points or exponents.
#[inline(never)]
fn slow_number(text: &[u8]) -> Option<f32> {
    if text.is_empty() { Some(0.0) } else { number(text) }
}

fn without_return(field: &[u8]) -> &[u8] {
    field.strip_suffix(b"\r").unwrap_or(field)
}

/// Records a malformed line. Calls `why` only if the reason can be stored.
pub(crate) fn refuse(chunk: &mut Chunk, offset: u32, why: impl FnOnce() -> (u32, String)) {
    if chunk.reasons.len() < REASONS_MAX {
        let (column, why) = why();
        chunk.reasons.push(Malformed { offset, column, why });
    }
    chunk.malformed.push(offset);
}

/// Column, from 1, and reason that `line` isn't an example.
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
        0 => format!("the label is {text}, not a number from 0 to 1"),
        n => format!("dense feature {n} is {text}, {}", why_no_number(field)),
    };
    (fault.column as u32 + 1, why)
}

/// Quotes the start of a field, escaping bytes that aren't printable.
pub(crate) fn quoted(field: &[u8]) -> String {
    let start = &field[..field.len().min(QUOTED_BYTES)];
    let more = if start.len() < field.len() { "..." } else { "" };
    format!("'{}{more}'", start.escape_ascii())
}
