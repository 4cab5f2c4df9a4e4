//! Some rows of a file, column by column.

use parquet::data_type::ByteArray;

use super::texts::Segment;
use crate::texts::LIST_SEPARATOR;

/// Values of the columns that something is made of, of some rows that follow each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Of each source of the layout.
    pub(super) columns: Vec<Column>,
}

impl Rows {
    /// Appends the texts of these columns, row by row, as the file has them: lists as one text.
    pub(crate) fn append_texts(&self, columns: &[usize], texts: &mut Vec<Vec<u8>>) {
        let of_columns = columns.iter().filter_map(|column| self.columns.get(*column));
        let of_columns: Vec<_> = of_columns.map(Column::row_texts).collect();
        let rows = of_columns.iter().map(Vec::len).min().unwrap_or(0);
        let mut of_columns: Vec<_> = of_columns.into_iter().map(Vec::into_iter).collect();
        for _ in 0..rows {
            texts.extend(of_columns.iter_mut().filter_map(Iterator::next));
        }
    }

    /// Of each column how long its longest list is, where it has lists, and its values as text has
    /// them, missing ones empty.
    pub(crate) fn texts(&self) -> Vec<(Option<usize>, Vec<String>)> {
        self.columns.iter().map(Column::texts).collect()
    }
}

impl Column {
    /// Whether it is of so many rows, and has the values that it says: damaged files may have
    /// others.
    pub(super) fn is_whole(&self, rows: usize) -> bool {
        let (of, values) = match &self.of_rows {
            OfRows::Each => (self.values.len(), self.values.len()),
            OfRows::Some(there) => (there.len(), there.iter().filter(|there| **there).count()),
            OfRows::Lists(ends) => (ends.len(), ends.last().map_or(0, |end| *end as usize)),
        };
        (of, values) == (rows, self.values.len())
    }

    /// Of each row the text: lists as one.
    fn row_texts(&self) -> Vec<Vec<u8>> {
        let (_, texts) = self.bytes();
        let OfRows::Lists(ends) = &self.of_rows else { return texts };
        let mut start = 0;
        let row = |end: &u32| {
            let items = start..*end as usize;
            start = items.end;
            texts[items].join(LIST_SEPARATOR)
        };
        ends.iter().map(row).collect()
    }

    fn texts(&self) -> (Option<usize>, Vec<String>) {
        let (longest, texts) = self.bytes();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (longest, texts.into_iter().map(text).collect())
    }

    fn bytes(&self) -> (Option<usize>, Vec<Vec<u8>>) {
        let mut room = Spelled::default();
        let mut next = 0;
        let mut text = || {
            next += 1;
            self.values.get(next - 1).spell(&mut room).to_vec()
        };
        match &self.of_rows {
            OfRows::Each => (None, (0..self.values.len()).map(|_| text()).collect()),
            OfRows::Some(there) => {
                let value = |there: &bool| if *there { text() } else { Vec::new() };
                (None, there.iter().map(value).collect())
            }
            OfRows::Lists(ends) => {
                let lengths = ends
                    .iter()
                    .scan(0, |start, end| Some((end - std::mem::replace(start, *end)) as usize));
                let longest = lengths.max().unwrap_or(0);
                (Some(longest), (0..self.values.len()).map(|_| text()).collect())
            }
        }
    }
}

/// Values of one column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) values: Values,
    pub(super) of_rows: OfRows,
}

/// Which values are whose.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OfRows {
    /// Each row has one.
    Each,
    /// Each row for which it is said has one, the others none.
    Some(Vec<bool>),
    /// The values of a row end where it is said.
    Lists(Vec<u32>),
}

/// Values, those that are missing left out.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Values {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Unsigned(Vec<u64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Text(Vec<ByteArray>),
    /// The same, of a column whose pages were read here.
    Segments(Vec<Segment>),
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f32),
    Double(f64),
    Text(&'a [u8]),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Unsigned(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::Segments(segments) => segments.iter().map(|of| of.numbers.len()).sum(),
        }
    }

    pub(super) fn get(&self, at: usize) -> Value<'_> {
        match self {
            Self::Bool(values) => Value::Bool(values[at]),
            Self::Int(values) => Value::Int(values[at]),
            Self::Unsigned(values) => Value::Unsigned(values[at]),
            Self::Float(values) => Value::Float(values[at]),
            Self::Double(values) => Value::Double(values[at]),
            Self::Text(values) => Value::Text(values[at].data()),
            Self::Segments(segments) => Value::Text(text_of(segments, at)),
        }
    }
}

/// Value number `at` of all segments, of which there are few.
fn text_of(segments: &[Segment], at: usize) -> &[u8] {
    let mut at = at;
    for segment in segments {
        match segment.numbers.get(at) {
            Some(number) => return segment.texts.text(*number),
            None => at -= segment.numbers.len(),
        }
    }
    // Values are asked for by number, of those that there are.
    unreachable!("a value beyond the last one")
}

/// Room for a number as a text.
#[derive(Default)]
pub(super) struct Spelled {
    number: zmij::Buffer,
    text: String,
}

impl Value<'_> {
    /// The value as text has it.
    pub(super) fn spell<'s>(&'s self, room: &'s mut Spelled) -> &'s [u8] {
        use std::fmt::Write as _;
        match *self {
            Self::Text(text) => return text,
            Self::Bool(true) => return b"true",
            Self::Bool(false) => return b"false",
            Self::Float(value) => return room.number.format(value).as_bytes(),
            Self::Double(value) => return room.number.format(value).as_bytes(),
            Self::Int(_) | Self::Unsigned(_) => {}
        }
        room.text.clear();
        // Writing into a text does not fail.
        let _ = match *self {
            Self::Int(value) => write!(room.text, "{value}"),
            Self::Unsigned(value) => write!(room.text, "{value}"),
            _ => Ok(()),
        };
        room.text.as_bytes()
    }

    /// The nearest number of 32 bits, as of the text that says it; none for what is no finite
    /// number.
    pub(super) fn number(&self) -> Option<f32> {
        let number = match *self {
            Self::Bool(_) => return None,
            Self::Int(value) => value as f32,
            Self::Unsigned(value) => value as f32,
            Self::Float(value) => value,
            Self::Double(value) if is_between(value) => {
                return crate::number::number(zmij::Buffer::new().format(value).as_bytes());
            }
            Self::Double(value) => value as f32,
            Self::Text(text) => return crate::number::number(text),
        };
        number.is_finite().then_some(number)
    }
}

/// Whether a number of 64 bits lies just between two of 32, so that the shortest text for it may
/// round the other way.
fn is_between(value: f64) -> bool {
    const BITS: u32 = 52 - 23;
    value.to_bits() & ((1 << BITS) - 1) == 1 << (BITS - 1)
}
