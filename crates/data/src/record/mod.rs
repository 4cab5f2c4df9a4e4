//! Records of text into examples, as a layout says: the part of reading that many threads share.
//!
//! How: a line is taken apart into the values of the columns that something is made of, which stay
//! where they are in the text; then the label, the numbers and the keys are made of them. The first
//! half knows how a format looks and the second what a model wants.
//!
//! ```text
//!   Head: what is where in a file ──┐
//!   line ──► delimited, json, svm ──┴──► Fields ──► emit ──► Chunk
//! ```
//!
//! Failure  A malformed line never ends the parsing: the chunk says where it is, as with plain
//! lines (`parse.rs`). Bytes of any kind are safe.

mod delimited;
mod emit;
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
use crate::ends::Ends;
use crate::layout::Layout;
use crate::parse::{UNENDED, line_at, quoted, refuse};
use crate::{Chunk, Schema};

pub(crate) use self::delimited::{name_of, names as fields_of_line};
pub use self::emit::UNLABELLED;
pub(crate) use self::emit::{CROSSED, Emitter, explain};
pub(crate) use self::fields::{Fields, Found};
pub(crate) use self::head::{Head, Kind, kind_by_looks};
pub(crate) use self::json::why_no_object;
pub(crate) use self::labels::{
    count_of_text, label_of_counts, label_of_text, share_of_number, weight_of_count, why_no_label,
};
pub(crate) use self::lists::WhyValues;
pub(crate) use self::svm::without_comment;

/// Why a line is no example.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is no record of its format.
    Record {
        /// Number of the column, from 1; 0 where nobody knows.
        column: u32,
        why: String,
    },
    /// The value of this source is not what it should be.
    Value { source: usize, why: Why },
    /// The same of an item of a list.
    Item { source: usize, why: Why, item: Vec<u8> },
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    NoLabel,
    MissingLabel,
    NoWeight,
    MissingWeight,
    /// It is not a count.
    NoCount,
    MissingCount,
    /// There are more clicks than impressions.
    TooManyClicks,
    /// A count times its weight overflows.
    TooHeavy,
    NoNumber,
    NoNumberLabel,
    /// It has no part that an id could be made of.
    NoTime,
    /// It is not of the kind that the data is split by.
    NoPlace,
    List,
    Object,
    /// A list within a list.
    Nested,
    /// Its escapes stand for no text.
    NoText,
    Twice,
    /// It is in both the record and the path of the file.
    InPath,
    /// The values of ids are malformed.
    Values(WhyValues),
}

impl Fault {
    pub(crate) fn value(source: usize, why: Why) -> Self {
        Self::Value { source, why }
    }
}

/// Parses the wanted lines of `block`, whose file begins as `head` says, into `chunk`, whose former
/// content goes.
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
        // A line without an end is the last of its block.
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
    // Malformed lines are tried, too.
    chunk.dense.reserve_exact((lines + 1) * dense);
    chunk.keys.reserve((lines + 1) * id_columns);
    chunk.bag_ends.reserve_exact((lines + 1) * id_columns);
}

/// Takes the record at `at` of `body` apart; says where the next one begins, and whether it is one.
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
        Kind::JsonLines => json::split(layout, (body, None), text, (None, fields)),
        Kind::LibSvm => svm::split(layout, body, text, fields),
    };
    let outcome = outcome.and_then(|()| head.put_from_path(layout, fields));
    (end + 1, outcome.is_ok())
}

/// What to say of a line that names the columns once more.
const AGAIN: &str = "the line names the columns again, as where files with such a line were \
                     joined: remove it, or pass over such lines with data.skip_max";

/// The names that a record gives its values, where records of its kind do.
pub(crate) fn keys_of(kind: Kind, line: &[u8]) -> Vec<String> {
    match kind {
        Kind::Delimited { .. } => Vec::new(),
        Kind::JsonLines => json::keys_of(line),
        Kind::LibSvm => svm::keys_of(line),
    }
}

struct Parser<'a> {
    body: &'a [u8],
    /// The same as a text, where it is one and somebody wants to know.
    text: Option<&'a str>,
    /// Of JSON, where they are written as they are.
    names: Option<Names>,
    emitter: Emitter<'a>,
    fields: Fields,
    /// Of fields that are plain.
    ends: Ends<'a>,
    layout: &'a Layout,
    head: &'a Head,
}

impl Parser<'_> {
    /// Parses `lines`, the first of which is at `at`, as far as there are any; says where what
    /// follows is, and its number.
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

    /// Delimited text finds its line end itself.
    fn delimited(&mut self, at: usize, line: u32, chunk: &mut Chunk) -> usize {
        let (head, body, fields) = (self.head, self.body, &mut self.fields);
        let outcome = match fields.is_plain {
            // Of texts alone it would be a record.
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
                let text = text.clone();
                json::split(
                    self.layout,
                    (self.body, self.text),
                    text,
                    (self.names.as_ref(), fields),
                )
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
        if self.emitter.emit(&self.fields, self.body, chunk)? {
            chunk.lines.push(line);
        }
        Ok(())
    }

    /// Whether the line in `text` names the columns once more, as where files that have such a
    /// line were joined.
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
                let value = self.fields.bytes(source, self.body).unwrap_or_default();
                let column = self.head.column_of(source);
                (column, explain(self.layout, source, value, why))
            }
            Fault::Item { source, why, item } => {
                (self.head.column_of(source), explain(self.layout, source, &item, why))
            }
        });
    }
}

/// A value, as a message quotes it.
fn shown(value: &[u8]) -> String {
    quoted(value)
}
