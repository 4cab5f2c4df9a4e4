//! Splits lines that are JSON objects.
//!
//! A library finds the ends of values. Numbers are used as written, so that no digit of an id is
//! lost.

mod quick;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

pub(super) use self::quick::Names;
use super::fault::{Fault, Why};
use super::fields::Fields;
use crate::layout::Layout;

/// Splits the object at `line` of `body` into `fields`. `text` is all of `body` if it is UTF-8, so
/// that its parts need no checks. With `names`, typical lines take a faster path.
pub(super) fn split(
    layout: &Layout,
    body: &[u8],
    text: Option<&str>,
    line: Range<usize>,
    names: Option<&Names>,
    fields: &mut Fields,
) -> Result<(), Fault> {
    fields.clear();
    if let (Some(names), Some(_)) = (names, text) {
        if quick::split(layout, names, body, line.clone(), fields) {
            return Ok(());
        }
        fields.clear();
    }
    let mut fault = None;
    let object = Object { layout, body, fields, next: 0, fault: &mut fault };
    let outcome = match text.and_then(|text| text.get(line.clone())) {
        Some(text) => read(object, serde_json::Deserializer::from_str(text)),
        None => read(object, serde_json::Deserializer::from_slice(&body[line.clone()])),
    };
    let text = &body[line];
    match (fault, outcome) {
        (Some(fault), _) => Err(fault),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) => {
            let column = error.column() as u32;
            Err(Fault::Record { column, why: why_no_object(text, &error) })
        }
    }
}

/// Keys of an object.
pub(super) fn keys_of(line: &[u8]) -> Vec<String> {
    let object: Result<BTreeMap<String, IgnoredAny>, _> = serde_json::from_slice(line);
    object.map_or_else(|_| Vec::new(), |object| object.into_keys().collect())
}

/// Reads one object, and checks that nothing follows it.
fn read<'de, R: serde_json::de::Read<'de>>(
    object: Object<'_, '_>,
    mut reader: serde_json::Deserializer<R>,
) -> Result<(), serde_json::Error> {
    object.deserialize(&mut reader).and_then(|()| reader.end())
}

/// Error for a line that is not a JSON object.
pub(crate) fn why_no_object(line: &[u8], error: &serde_json::Error) -> String {
    match line.trim_ascii_start().starts_with(b"[") {
        true => "a JSON array begins here, but Stepwell reads one object per line: `jq -c '.[]' \
                 FILE > FILE.jsonl` converts an array"
            .to_owned(),
        false => format!("the line is not a JSON object: {}", said(error)),
    }
}

/// The library's message without its line number, which refers to this line alone.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// Reads one object.
struct Object<'a, 'f> {
    layout: &'a Layout,
    body: &'a [u8],
    fields: &'f mut Fields,
    /// The likely source of the next key: objects of a file are similar.
    next: usize,
    /// First invalid value.
    fault: &'f mut Option<Fault>,
}

impl<'de> DeserializeSeed<'de> for Object<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object with a value for each column")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        while let Some(source) = map.next_key_seed(Key { layout: self.layout, next: self.next })? {
            let Some(source) = source else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            self.next = source + 1;
            let value: &RawValue = map.next_value()?;
            if let Err(why) = self.put(source, value.get()) {
                *self.fault = Some(Fault::value(source, why));
                return Err(M::Error::custom("a value"));
            }
        }
        Ok(())
    }
}

impl Object<'_, '_> {
    /// Sets `source` to the JSON value `raw`.
    fn put(&mut self, source: usize, raw: &str) -> Result<(), Why> {
        if self.fields.has(source) {
            return Err(Why::Twice);
        }
        match raw.as_bytes() {
            [b'n', ..] => self.put_missing(source),
            [b'{', ..] => return Err(Why::Object),
            [b'[', ..] => {
                let values: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
                self.fields.begin_list(source);
                for value in values {
                    self.push(source, value.get())?;
                }
            }
            [b'"', ..] => {
                let text = text_of(raw)?;
                match (self.layout.trimmed(text.as_bytes()), &text) {
                    (value, _) if self.layout.is_missing(value) => self.put_missing(source),
                    (value, Cow::Borrowed(_)) => {
                        let start = self.place(value);
                        self.fields.put(source, start, start + value.len());
                    }
                    (value, Cow::Owned(_)) => self.fields.put_bytes(source, value),
                }
            }
            number if self.layout.is_missing(number) => self.put_missing(source),
            _ => {
                let start = self.place(raw.as_bytes());
                self.fields.put(source, start, start + raw.len());
            }
        }
        Ok(())
    }

    /// Appends the JSON value `raw` to a list.
    fn push(&mut self, source: usize, raw: &str) -> Result<(), Why> {
        match raw.as_bytes() {
            // A null item keeps its position, which pairs ids with values.
            [b'n', ..] if self.layout.is_beside(source) => self.fields.push(source, 0, 0),
            [b'n', ..] => {}
            [b'{', ..] => return Err(Why::Object),
            [b'[', ..] => return Err(Why::Nested),
            [b'"', ..] => self.fields.push_bytes(source, text_of(raw)?.as_bytes()),
            _ => {
                let start = self.place(raw.as_bytes());
                self.fields.push(source, start, start + raw.len());
            }
        }
        Ok(())
    }

    /// Records that `source` was present without a value, so that a second occurrence is an error.
    fn put_missing(&mut self, source: usize) {
        self.fields.put(source, 0, 0);
    }

    /// Offset of a part of the body.
    fn place(&self, part: &[u8]) -> usize {
        part.as_ptr() as usize - self.body.as_ptr() as usize
    }
}

/// Unquotes and unescapes a text.
fn text_of(raw: &str) -> Result<Cow<'_, str>, Why> {
    let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(raw);
    match inner.contains('\\') {
        false => Ok(Cow::Borrowed(inner)),
        // Escapes are well-formed here, but may still denote no character.
        true => serde_json::from_str(raw).map(Cow::Owned).map_err(|_| Why::NoText),
    }
}

/// Reads a key and returns its source.
struct Key<'a> {
    layout: &'a Layout,
    next: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name of a column")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let sources = &self.layout.sources;
        // Skips absent sources.
        let next = self.next.min(sources.len());
        let found = sources[next..].iter().position(|source| source == name);
        let before = || sources[..next].iter().position(|source| source == name);
        Ok(found.map(|ahead| next + ahead).or_else(before))
    }
}

#[cfg(test)]
mod tests;
