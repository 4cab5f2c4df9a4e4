//! The dense part of a model: owned as read, or borrowed in place.
//!
//! - **Cost.** Written in pieces of 64 KiB, without copying a section.

use std::borrow::Cow;

/// Number of values of a piece.
const PIECE_VALUES: usize = 16 << 10;

/// The dense part as named sections of f32.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dense {
    /// Name and values of each section.
    pub sections: Vec<(String, Vec<f32>)>,
}

impl Dense {
    /// Borrows all sections.
    pub fn view(&self) -> DenseView<'_> {
        let sections = self.sections.iter();
        let sections = sections.map(|(name, values)| (name.clone(), Cow::Borrowed(&**values)));
        DenseView { sections: sections.collect() }
    }

    /// Appends the sections of another rank, each behind this one's section of the same name.
    pub fn join(&mut self, other: Self) {
        for (name, values) in other.sections {
            match self.sections.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.extend(values),
                None => self.sections.push((name, values)),
            }
        }
    }

    /// Bytes of all values.
    pub fn bytes(&self) -> u64 {
        self.sections.iter().map(|(_, values)| size_of_val(values.as_slice()) as u64).sum()
    }
}

/// A dense part that may borrow its sections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DenseView<'a> {
    /// Name and values of each section.
    pub sections: Vec<(String, Cow<'a, [f32]>)>,
}

impl DenseView<'_> {
    /// Copies all sections.
    pub fn to_dense(&self) -> Dense {
        let copy = |(name, values): &(String, Cow<'_, [f32]>)| (name.clone(), values.to_vec());
        Dense { sections: self.sections.iter().map(copy).collect() }
    }
}

impl From<Dense> for DenseView<'_> {
    fn from(dense: Dense) -> Self {
        let own = |(name, values)| (name, Cow::Owned(values));
        Self { sections: dense.sections.into_iter().map(own).collect() }
    }
}

/// Some values, little-endian.
pub(crate) struct Piece {
    bytes: Vec<u8>,
}

impl Piece {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// `values` in pieces, in order.
pub(crate) fn pieces(values: &[f32]) -> impl Iterator<Item = Piece> {
    values
        .chunks(PIECE_VALUES)
        .map(|part| Piece { bytes: part.iter().flat_map(|value| value.to_le_bytes()).collect() })
}
