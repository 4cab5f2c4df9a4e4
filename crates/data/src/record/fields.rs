//! Values of one record, as ranges of its text.

use crate::short_fields::{SHORT_DIGITS, short_number, word_at};

/// Values of a layout's sources in one record.
#[derive(Debug)]
pub(crate) struct Fields {
    spans: Vec<Span>, // (sources)
    /// Unescaped values, which aren't in the text.
    scratch: Vec<u8>,
    /// Items of all lists, possibly interleaved.
    items: Vec<Item>,
    /// Whether fields of delimited text can be used unchanged.
    pub(super) is_plain: bool,
}

/// Values of a record, with its text.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    fields: &'a Fields,
    text: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// No value.
    Missing,
    /// Bytes of the text.
    Text,
    /// Bytes of `scratch`.
    Scratch,
    /// A list: all items of this source.
    List,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    source: u32,
    span: Span,
    /// Value, in formats that store one for each id.
    value: Option<f32>,
}

/// A value. It includes the text after it, as reading past the end of a value is faster than
/// checking for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'a> Value<'a> {
    pub(crate) fn bytes(&self) -> &'a [u8] {
        &self.text[self.start..self.end]
    }

    /// The value, if it is a whole number with few digits.
    #[inline]
    pub(super) fn short(&self) -> Option<u32> {
        let len = self.end - self.start;
        if len > SHORT_DIGITS {
            return None;
        }
        short_number(word_at(self.text, self.start), len)
    }
}

/// An item of a list, and its value if the format stores one.
pub(super) struct Listed<'a> {
    pub(super) item: Value<'a>,
    pub(super) value: Option<f32>,
}

/// Contents of a source in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    Missing,
    One(Value<'a>),
    List,
}

const NOTHING: Span = Span { start: 0, end: 0, place: Place::Missing };

impl Fields {
    /// Empty values for `sources` sources.
    pub(crate) fn new(sources: usize) -> Self {
        Self {
            spans: vec![NOTHING; sources],
            scratch: Vec::new(),
            items: Vec::new(),
            is_plain: false,
        }
    }

    /// Removes all values.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.spans.fill(NOTHING);
        self.scratch.clear();
        self.items.clear();
    }

    /// Whether the source has a value, even if it is empty.
    pub(crate) fn has(&self, source: usize) -> bool {
        self.spans[source].place != Place::Missing
    }

    /// Sets `source` to the range of the text.
    #[inline]
    pub(crate) fn put(&mut self, source: usize, start: usize, end: usize) {
        // Offsets within a block fit 32 bits.
        self.spans[source] = Span { start: start as u32, end: end as u32, place: Place::Text };
    }

    /// Sets `source` to `bytes`, which aren't in the text.
    pub(crate) fn put_bytes(&mut self, source: usize, bytes: &[u8]) {
        self.spans[source] = self.scratched(bytes);
    }

    /// Sets `source` to an empty list.
    pub(crate) fn begin_list(&mut self, source: usize) {
        self.spans[source] = Span { place: Place::List, ..NOTHING };
    }

    pub(crate) fn is_list(&self, source: usize) -> bool {
        self.spans[source].place == Place::List
    }

    /// Appends a range of the text to the list of `source`.
    pub(crate) fn push(&mut self, source: usize, start: usize, end: usize) {
        let span = Span { start: start as u32, end: end as u32, place: Place::Text };
        self.items.push(Item { source: source as u32, span, value: None });
    }

    /// Sets the value of the last item.
    pub(crate) fn value_last_item(&mut self, value: f32) {
        if let Some(item) = self.items.last_mut() {
            item.value = Some(value);
        }
    }

    /// Appends `bytes`, which aren't in the text, to the list of `source`.
    pub(crate) fn push_bytes(&mut self, source: usize, bytes: &[u8]) {
        let span = self.scratched(bytes);
        self.items.push(Item { source: source as u32, span, value: None });
    }

    fn scratched(&mut self, bytes: &[u8]) -> Span {
        let start = self.scratch.len() as u32;
        self.scratch.extend_from_slice(bytes);
        Span { start, end: self.scratch.len() as u32, place: Place::Scratch }
    }

    /// The values together with `text`, which has their record.
    #[inline]
    pub(crate) fn record<'a>(&'a self, text: &'a [u8]) -> Record<'a> {
        Record { fields: self, text }
    }
}

impl<'a> Record<'a> {
    /// Contents of `source`.
    #[inline]
    pub(crate) fn found(self, source: usize) -> Found<'a> {
        let span = self.fields.spans[source];
        match span.place {
            Place::Text if span.start < span.end => Found::One(self.value(span)),
            Place::Scratch if span.start < span.end => Found::One(self.value(span)),
            Place::List => Found::List,
            _ => Found::Missing,
        }
    }

    /// Items of the list in `source`.
    pub(crate) fn list(self, source: usize) -> impl Iterator<Item = Value<'a>> {
        self.listed(source).map(|listed| listed.item)
    }

    /// Items of the list in `source`, with their values.
    pub(super) fn listed(self, source: usize) -> impl Iterator<Item = Listed<'a>> {
        let own = self.fields.items.iter().filter(move |item| item.source as usize == source);
        own.map(move |item| Listed { item: self.value(item.span), value: item.value })
    }

    /// Bytes of a single value.
    pub(crate) fn bytes(self, source: usize) -> Option<&'a [u8]> {
        match self.found(source) {
            Found::One(value) => Some(value.bytes()),
            Found::Missing | Found::List => None,
        }
    }

    #[inline]
    fn value(self, span: Span) -> Value<'a> {
        let is_scratch = span.place == Place::Scratch;
        let text = if is_scratch { &self.fields.scratch[..] } else { self.text };
        Value { text, start: span.start as usize, end: span.end as usize }
    }
}
