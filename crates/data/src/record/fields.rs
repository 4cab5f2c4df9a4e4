//! The values of one record, where they lie.

/// The values of the sources of a layout, in one record.
#[derive(Debug)]
pub(crate) struct Fields {
    spans: Vec<Span>, // (sources)
    /// Values that do not stand in the text as they are.
    scratch: Vec<u8>,
    /// Values that are in lists, one list behind the other or mixed.
    items: Vec<Item>,
    /// Whether fields of delimited text are what stands between two separators.
    pub(super) is_plain: bool,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// There is none.
    Missing,
    /// Bytes of the text.
    Text,
    /// Bytes of the scratch.
    Scratch,
    /// The items of its source.
    List,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    source: u32,
    span: Span,
    /// Its value, in formats that have one for each id.
    value: Option<f32>,
}

/// A value: some bytes of a longer text, since reading beyond its end is faster than not to.
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
}

/// An item of a list, and its value where the format has one.
pub(super) struct Listed<'a> {
    pub(super) item: Value<'a>,
    pub(super) value: Option<f32>,
}

/// What a source has in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    Missing,
    One(Value<'a>),
    List,
}

const NOTHING: Span = Span { start: 0, end: 0, place: Place::Missing };

impl Fields {
    /// Of so many sources.
    pub(crate) fn new(sources: usize) -> Self {
        Self {
            spans: vec![NOTHING; sources],
            scratch: Vec::new(),
            items: Vec::new(),
            is_plain: false,
        }
    }

    /// Forgets all values.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.spans.fill(NOTHING);
        self.scratch.clear();
        self.items.clear();
    }

    /// Whether the source has a value, or one that is missing but was named.
    pub(crate) fn has(&self, source: usize) -> bool {
        self.spans[source].place != Place::Missing
    }

    /// The value of `source` is what lies in the text from `start` to `end`.
    #[inline]
    pub(crate) fn put(&mut self, source: usize, start: usize, end: usize) {
        // Places within a block count in 32 bits.
        self.spans[source] = Span { start: start as u32, end: end as u32, place: Place::Text };
    }

    /// The value of `source` is `bytes`, which stand nowhere in the text.
    pub(crate) fn put_bytes(&mut self, source: usize, bytes: &[u8]) {
        self.spans[source] = self.scratched(bytes);
    }

    /// The value of `source` is a list, to which values are added.
    pub(crate) fn begin_list(&mut self, source: usize) {
        self.spans[source] = Span { place: Place::List, ..NOTHING };
    }

    pub(crate) fn is_list(&self, source: usize) -> bool {
        self.spans[source].place == Place::List
    }

    /// One more value of the list that `source` is.
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

    /// The same, of a value that stands nowhere in the text.
    pub(crate) fn push_bytes(&mut self, source: usize, bytes: &[u8]) {
        let span = self.scratched(bytes);
        self.items.push(Item { source: source as u32, span, value: None });
    }

    fn scratched(&mut self, bytes: &[u8]) -> Span {
        let start = self.scratch.len() as u32;
        self.scratch.extend_from_slice(bytes);
        Span { start, end: self.scratch.len() as u32, place: Place::Scratch }
    }

    /// What `source` has, in a record of `text`.
    #[inline]
    pub(crate) fn found<'a>(&'a self, source: usize, text: &'a [u8]) -> Found<'a> {
        let span = self.spans[source];
        match span.place {
            Place::Text if span.start < span.end => Found::One(self.value(span, text)),
            Place::Scratch if span.start < span.end => Found::One(self.value(span, text)),
            Place::List => Found::List,
            _ => Found::Missing,
        }
    }

    /// The values of the list that `source` is.
    pub(crate) fn list<'a>(
        &'a self,
        source: usize,
        text: &'a [u8],
    ) -> impl Iterator<Item = Value<'a>> {
        self.listed(source, text).map(|listed| listed.item)
    }

    /// The same as ids, with the values that the format gives them.
    pub(super) fn listed<'a>(
        &'a self,
        source: usize,
        text: &'a [u8],
    ) -> impl Iterator<Item = Listed<'a>> {
        let own = self.items.iter().filter(move |item| item.source as usize == source);
        own.map(move |item| Listed { item: self.value(item.span, text), value: item.value })
    }

    /// The bytes of a value, for messages.
    pub(crate) fn bytes<'a>(&'a self, source: usize, text: &'a [u8]) -> Option<&'a [u8]> {
        match self.found(source, text) {
            Found::One(value) => Some(value.bytes()),
            Found::Missing | Found::List => None,
        }
    }

    #[inline]
    fn value<'a>(&'a self, span: Span, text: &'a [u8]) -> Value<'a> {
        let text = if span.place == Place::Scratch { &self.scratch[..] } else { text };
        Value { text, start: span.start as usize, end: span.end as usize }
    }
}
