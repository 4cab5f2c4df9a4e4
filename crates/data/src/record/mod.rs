//! Turns records of text into examples according to a layout: the parallel part of reading.
//!
//! How: a line is split into the values of the columns in use, as ranges of the text. Then the
//! label, numbers and keys are computed from them. The first half depends on the format, the second
//! on the layout.
//!
//! ```text
//!   Head: format and columns ───────┐
//!   line ──► delimited, json, svm ──┴──► Fields ──► emit ──► Chunk
//! ```
//!
//! Failure: malformed lines never stop parsing. The chunk lists them, as for plain lines
//! (`parse_lines.rs`). Any bytes are safe.

mod delimited;
mod emit;
mod fault;
mod fields;
mod head;
mod header;
mod json;
mod labels;
mod lists;
mod svm;

use std::ops::Range;

use memchr::{memchr, memrchr};

use self::json::Names;
use crate::block::Block;
use crate::chunk::Chunk;
use crate::field_ends::Ends;
use crate::head::{Head, Kind};
use crate::layout::Layout;
use crate::parse_lines::{UNENDED, line_at, refuse};
use crate::schema::Schema;

pub(crate) use self::delimited::{name_of, names as fields_of_line};
pub(crate) use self::emit::CROSSED;
use self::emit::Emitter;
use self::fault::Fault;
pub use self::fault::UNLABELLED;
pub(crate) use self::fault::{Why, WhyValues, explain};
pub(crate) use self::fields::{Fields, Found};
pub(crate) use self::head::kind_by_looks;
pub(crate) use self::json::why_no_object;
pub(crate) use self::labels::{
    count_of_text, label_of_counts, label_of_text, weight_of_count, why_no_label,
};
pub(crate) use self::svm::without_comment;

/// Parses the wanted lines of `block` into `chunk`, replacing its contents; `head` describes the
/// file.
pub(crate) fn parse_records(layout: &Layout, head: &Head, block: &Block, chunk: &mut Chunk) {
    chunk.clear();
    chunk.begin(block);
    assert_eq!(chunk.schema, layout.schema(), "a chunk has the columns of its layout");
    make_room(chunk, block);
    let bytes = &block.bytes;
    let body = &bytes[..memrchr(b'\n', bytes).map_or(0, |end| end + 1)];
    let mut fields = Fields::new(layout.sources.len());
    let is_json = head.kind == Kind::JsonLines;
    fields.is_plain = !is_json && delimited::is_plain(layout, body);
    let names = if is_json { Names::of(layout) } else { None };
    let text = if is_json { std::str::from_utf8(body).ok() } else { None };
    let separator =
        if let Kind::Delimited { separator, .. } = head.kind { separator } else { b'\n' };
    let ends = Ends::new(body, separator);
    let emitter = Emitter::new(layout);
    let mut parser = Parser { body, text, names, emitter, fields, ends, layout, head };
    let all = 0..block.lines;
    let (mut at, mut line) = (0, 0);
    for wanted in block.wanted.as_deref().unwrap_or(std::slice::from_ref(&all)) {
        at = line_at(body, at, wanted.start - line);
        (at, line) = parser.parse(at, wanted, chunk);
        // Only the last line of a block can lack a line end.
        if line < wanted.end && body.len() < bytes.len() {
            refuse(chunk, line, || (0, UNENDED.to_owned()));
        }
        line = wanted.end;
    }
    chunk.complete_values();
}

fn make_room(chunk: &mut Chunk, block: &Block) {
    let wanted = |wanted: &Vec<Range<u32>>| wanted.iter().map(|lines| lines.len()).sum();
    let lines: usize = block.wanted.as_ref().map_or(block.lines as usize, wanted);
    let Schema { dense, id_columns, labels } = chunk.schema;
    chunk.labels.reserve_exact((lines + 1) * labels.count);
    chunk.weights.reserve_exact(if labels.weighted { lines + 1 } else { 0 });
    chunk.lines.reserve_exact(lines);
    // Malformed lines need room, too.
    chunk.dense.reserve_exact((lines + 1) * dense);
    chunk.keys.reserve((lines + 1) * id_columns);
    chunk.bag_ends.reserve_exact((lines + 1) * id_columns);
}

/// Splits the record at `at` of `body` into `fields`. Returns the start of the next record, and
/// whether this one is valid.
pub(crate) fn fields_of(
    layout: &Layout,
    head: &Head,
    body: &[u8],
    at: usize,
    fields: &mut Fields,
) -> (usize, bool) {
    let end = at + memchr(b'\n', &body[at..]).unwrap_or(body.len() - at);
    let text = at..end - usize::from(body[at..end].ends_with(b"\r"));
    let outcome = match head.kind {
        Kind::Delimited { .. } => delimited::split(layout, head, body, at, fields).map(|_| ()),
        Kind::JsonLines => json::split(layout, body, None, text, None, fields),
        Kind::LibSvm => svm::split(layout, body, text, fields),
    };
    let outcome = outcome.and_then(|()| head.put_from_path(layout, fields));
    (end + 1, outcome.is_ok())
}

/// Error for a line that repeats the header.
const AGAIN: &str = "the line repeats the header, as in joined files: remove it, or skip such \
                     lines with data.skip_max";

/// Names in a record, if the format has names in records.
pub(crate) fn keys_of(kind: Kind, line: &[u8]) -> Vec<String> {
    match kind {
        Kind::Delimited { .. } => Vec::new(),
        Kind::JsonLines => json::keys_of(line),
        Kind::LibSvm => svm::keys_of(line),
    }
}

struct Parser<'a> {
    body: &'a [u8],
    /// `body` as text, if it is UTF-8 and the format needs it.
    text: Option<&'a str>,
    /// Names of JSON records, if they are written without escapes.
    names: Option<Names>,
    emitter: Emitter<'a>,
    fields: Fields,
    /// Field ends, for plain fields.
    ends: Ends<'a>,
    layout: &'a Layout,
    head: &'a Head,
}

impl Parser<'_> {
    /// Parses `lines`, the first of which is at `at`, until the text ends. Returns the position and
    /// number of the next line.
    fn parse(&mut self, at: usize, lines: &Range<u32>, chunk: &mut Chunk) -> (usize, u32) {
        let (mut at, mut line) = (at, lines.start);
        while at < self.body.len() && line < lines.end {
            let next = match self.head.kind {
                Kind::Delimited { .. } => self.delimited(at, line, chunk),
                Kind::JsonLines | Kind::LibSvm => self.line(at, line, chunk),
            };
            at = next;
            line += 1;
        }
        (at, line)
    }

    /// Parses a line of delimited text, and finds its end.
    fn delimited(&mut self, at: usize, line: u32, chunk: &mut Chunk) -> usize {
        let (head, body, fields) = (self.head, self.body, &mut self.fields);
        let outcome = match fields.is_plain {
            // If all columns are texts, a repeated header would look like a record.
            _ if head.is_again(body, at) => Err(Fault::Record { column: 0, why: AGAIN.to_owned() }),
            true => delimited::split_plain(head, body, at, &mut self.ends, fields),
            false => delimited::split(self.layout, head, body, at, fields),
        };
        let outcome = outcome.and_then(|next| self.emit(line, chunk).map(|()| next));
        outcome.unwrap_or_else(|fault| {
            let end = at + memchr(b'\n', &self.body[at..]).unwrap_or(self.body.len() - at);
            self.refuse(at..end, line, fault, chunk);
            end + 1
        })
    }

    fn line(&mut self, at: usize, line: u32, chunk: &mut Chunk) -> usize {
        let end = at + memchr(b'\n', &self.body[at..]).unwrap_or(self.body.len() - at);
        let text = at..end - usize::from(self.body[at..end].ends_with(b"\r"));
        let fields = &mut self.fields;
        let outcome = match self.head.kind {
            Kind::JsonLines => {
                let (line, names) = (text.clone(), self.names.as_ref());
                json::split(self.layout, self.body, self.text, line, names, fields)
            }
            _ => svm::split(self.layout, self.body, text.clone(), fields),
        };
        if let Err(fault) = outcome.and_then(|()| self.emit(line, chunk)) {
            self.refuse(text, line, fault, chunk);
        }
        end + 1
    }

    #[inline]
    fn emit(&mut self, line: u32, chunk: &mut Chunk) -> Result<(), Fault> {
        self.head.put_from_path(self.layout, &mut self.fields)?;
        if self.emitter.emit(self.fields.record(self.body), chunk)? {
            chunk.lines.push(line);
        }
        Ok(())
    }

    /// Whether the line in `text` repeats the header, as in concatenated files.
    #[cold]
    fn repeats_header(&self, text: &Range<usize>) -> bool {
        let Kind::Delimited { separator, .. } = self.head.kind else { return false };
        if self.head.header_lines == 0 || text.is_empty() {
            return false;
        }
        let names = delimited::names(self.body[text.clone()].trim_ascii_end(), separator);
        let mut places = self.head.places.iter().zip(&names);
        names.len() == self.head.places.len()
            && places.all(|(place, name)| {
                let is = |source: u16| self.layout.sources[usize::from(source)].to_lowercase();
                place.is_none_or(|source| is(source) == name.to_lowercase())
            })
    }

    #[cold]
    fn refuse(&self, text: Range<usize>, line: u32, fault: Fault, chunk: &mut Chunk) {
        refuse(chunk, line, || match fault {
            _ if self.repeats_header(&text) => (0, AGAIN.to_owned()),
            Fault::Record { .. } if text.is_empty() => (0, "the line is empty".to_owned()),
            Fault::Record { column, why } => (column, why),
            Fault::Value { source, why } => {
                let value = self.fields.record(self.body).bytes(source).unwrap_or_default();
                let column = self.head.column_of(source);
                (column, explain(self.layout, source, value, why))
            }
            Fault::Item { source, why, item } => {
                (self.head.column_of(source), explain(self.layout, source, &item, why))
            }
        });
    }
}
