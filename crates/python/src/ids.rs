//! Ids of mini-batches, and their keys.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use stepwell_base::{Key, Namespace};

use crate::arrays::Array;
use crate::errors::wrong;

/// Ids of a feature: values, offsets of bags (absent for one id an example), and weights.
pub(crate) type Ids<'py> =
    (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// Values of ids.
pub(crate) enum Values {
    Numbers(Array<i64>),
    /// Bytes of all values, and where each ends.
    Texts(Array<u8>, Array<i64>),
}

impl Values {
    /// The values of `object`: numbers, or a tuple of bytes and ends.
    pub(crate) fn of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let Ok(texts) = object.cast::<PyTuple>() else {
            return Ok(Self::Numbers(Array::of(object, name)?));
        };
        let bytes = Array::<u8>::of(&texts.get_item(0)?, name)?;
        let ends = Array::<i64>::of(&texts.get_item(1)?, name)?;
        let (count, of_ends) = (bytes.elements().len(), ends.elements());
        let first = of_ends.first().copied().unwrap_or(0);
        let last = of_ends.last().copied().unwrap_or(0);
        if first < 0 || last as usize != count || !of_ends.is_sorted() {
            return Err(wrong(format!("feature '{name}': texts must end at {count}, not {last}")));
        }
        Ok(Self::Texts(bytes, ends))
    }

    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Numbers(values) => values.elements().len(),
            Self::Texts(_, ends) => ends.elements().len(),
        }
    }

    /// Appends the keys of the values in `range`.
    pub(crate) fn keys(&self, range: Range<usize>, namespace: &Namespace, keys: &mut Vec<Key>) {
        match self {
            Self::Numbers(values) => {
                let values = &values.elements()[range];
                keys.extend(values.iter().map(|id| key_of(namespace, *id)));
            }
            Self::Texts(bytes, ends) => {
                let (bytes, ends) = (bytes.elements(), ends.elements());
                let mut begin = if range.start == 0 { 0 } else { ends[range.start - 1] as usize };
                keys.extend(ends[range].iter().map(|end| {
                    let end = *end as usize;
                    namespace.key_within(bytes, std::mem::replace(&mut begin, end), end)
                }));
            }
        }
    }

    /// The keys of all values.
    pub(crate) fn all_keys(&self, namespace: &Namespace) -> Vec<Key> {
        let mut keys = Vec::with_capacity(self.count());
        self.keys(0..self.count(), namespace, &mut keys);
        keys
    }
}

/// Ids of a feature as arrays.
pub(crate) struct IdArrays {
    pub(crate) values: Values,
    pub(crate) offsets: Option<Array<i64>>,
    pub(crate) weights: Option<Array<f32>>,
}

impl IdArrays {
    pub(crate) fn of(
        (values, offsets, weights): &Ids<'_>,
        name: &str,
        examples: usize,
    ) -> PyResult<Self> {
        let offsets = offsets.as_ref().map(|offsets| Array::of(offsets, name)).transpose()?;
        let weights = weights.as_ref().map(|weights| Array::of(weights, name)).transpose()?;
        let ids = Self { values: Values::of(values, name)?, offsets, weights };
        ids.check(name, examples)?;
        Ok(ids)
    }

    fn check(&self, name: &str, examples: usize) -> PyResult<()> {
        let count = self.values.count();
        let fail = |why: String| Err(wrong(format!("feature '{name}': {why}")));
        if u32::try_from(count).is_err() {
            return fail(format!("{count} ids: give at most {}", u32::MAX));
        }
        match self.offsets.as_ref().map(Array::elements) {
            None if count != examples => {
                return fail(format!("{count} ids for {examples} examples: give offsets of bags"));
            }
            Some(offsets) if offsets.len() != examples + 1 => {
                let given = offsets.len();
                return fail(format!("{given} offsets for {examples} examples: give one more"));
            }
            Some(offsets)
                if offsets.first() != Some(&0)
                    || !offsets.is_sorted()
                    || offsets.last().is_none_or(|last| *last as usize != count) =>
            {
                return fail(format!("offsets must ascend from 0 to {count}, the number of ids"));
            }
            _ => {}
        }
        match self.weights.as_ref().map(|weights| weights.elements().len()) {
            Some(given) if given != count => fail(format!("{given} weights for {count} ids")),
            _ => Ok(()),
        }
    }

    /// The occurrences of an example.
    pub(crate) fn bag(&self, example: usize) -> Range<usize> {
        match &self.offsets {
            Some(offsets) => {
                let offsets = offsets.elements();
                offsets[example] as usize..offsets[example + 1] as usize
            }
            None => example..example + 1,
        }
    }
}

/// The digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// The key of an id, which is hashed as the text of the number, as in data files.
fn key_of(namespace: &Namespace, id: i64) -> Key {
    const END: usize = 20;
    // Hashing is faster if bytes follow the digits.
    let mut text = [0; 2 * END + 12];
    let (mut at, mut rest) = (END, id.unsigned_abs());
    while rest >= 100 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest >= 10 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[rest as usize]);
    } else {
        at -= 1;
        text[at] = b'0' + rest as u8;
    }
    if id < 0 {
        at -= 1;
        text[at] = b'-';
    }
    namespace.key_within(&text, at, END)
}
