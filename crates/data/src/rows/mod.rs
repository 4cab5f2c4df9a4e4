//! Rows of a Parquet file, column by column.

mod texts;

use parquet::data_type::ByteArray;

pub(crate) use self::texts::{Segment, Texts, broken};
use crate::moment::{Form, Moment};

/// Separates the items of a list written as one text.
pub(crate) const LIST_SEPARATOR: &[u8] = b"|";

/// Integers up to this are exact as `f64`.
const WHOLE_MAX: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// Values of consecutive rows, for the columns in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// One per source of the layout.
    pub(crate) columns: Vec<Column>,
}

impl Rows {
    /// Appends the texts of these columns, row by row; a list becomes one text.
    pub(crate) fn append_texts(&self, columns: &[usize], texts: &mut Vec<Vec<u8>>) {
        let of_columns = columns.iter().filter_map(|column| self.columns.get(*column));
        let of_columns: Vec<_> = of_columns.map(Column::row_texts).collect();
        let rows = of_columns.iter().map(Vec::len).min().unwrap_or(0);
        let mut of_columns: Vec<_> = of_columns.into_iter().map(Vec::into_iter).collect();
        for _ in 0..rows {
            texts.extend(of_columns.iter_mut().filter_map(Iterator::next));
        }
    }

    /// For each column, the length of its longest list, if it has lists, and its values as text;
    /// missing values are empty.
    pub(crate) fn texts(&self) -> Vec<(Option<usize>, Vec<String>)> {
        self.columns.iter().map(Column::texts).collect()
    }
}

impl Column {
    /// A column with `text` in all `rows` rows.
    pub(crate) fn same(text: &[u8], rows: usize) -> Self {
        let values = Values::Same(text.to_vec(), rows);
        Self { values, of_rows: OfRows::Each, lacking: Vec::new() }
    }

    /// Whether the column has `rows` rows and the values that they refer to: damaged files may not.
    pub(crate) fn is_whole(&self, rows: usize) -> bool {
        let (of, values) = match &self.of_rows {
            OfRows::Each => (self.values.len(), self.values.len()),
            OfRows::Some(there) => (there.len(), there.iter().filter(|there| **there).count()),
            OfRows::Lists(ends) => (ends.len(), ends.last().map_or(0, |end| *end as usize)),
        };
        (of, values) == (rows, self.values.len())
    }

    /// Whether the list of a row has a null item, which isn't among the values.
    pub(crate) fn lacks_item(&self, row: usize) -> bool {
        // Rows of a block fit 32 bits.
        self.lacking.binary_search(&(row as u32)).is_ok()
    }

    /// Text of each row; a list becomes one text.
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

/// Values of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) values: Values,
    pub(crate) of_rows: OfRows,
    /// Rows with a null item, if rows are lists. // ascending
    pub(crate) lacking: Vec<u32>,
}

/// How values are assigned to rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OfRows {
    /// One value per row.
    Each,
    /// One value per row that is true, none for the others.
    Some(Vec<bool>),
    /// Each row's values end at this index.
    Lists(Vec<u32>),
}

/// Values, without nulls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Unsigned(Vec<u64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    /// Integers with this number of decimal places.
    Decimals(u32, Vec<i128>),
    Moments(Form, Vec<Moment>),
    Uuid(Vec<[u8; 16]>),
    Text(Vec<ByteArray>),
    /// Texts of a column that was read page by page.
    Segments(Vec<Segment>),
    /// The same text in every row, and the number of rows.
    Same(Vec<u8>, usize),
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f32),
    Double(f64),
    Decimal(u32, &'a i128),
    Moment(Form, Moment),
    Uuid(&'a [u8; 16]),
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
            Self::Decimals(_, values) => values.len(),
            Self::Moments(_, values) => values.len(),
            Self::Uuid(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::Segments(segments) => segments.iter().map(|of| of.numbers.len()).sum(),
            Self::Same(_, rows) => *rows,
        }
    }

    pub(crate) fn get(&self, at: usize) -> Value<'_> {
        match self {
            Self::Bool(values) => Value::Bool(values[at]),
            Self::Int(values) => Value::Int(values[at]),
            Self::Unsigned(values) => Value::Unsigned(values[at]),
            Self::Float(values) => Value::Float(values[at]),
            Self::Double(values) => Value::Double(values[at]),
            Self::Decimals(scale, values) => Value::Decimal(*scale, &values[at]),
            Self::Moments(form, values) => Value::Moment(*form, values[at]),
            Self::Uuid(values) => Value::Uuid(&values[at]),
            Self::Text(values) => Value::Text(values[at].data()),
            Self::Segments(segments) => Value::Text(text_of(segments, at)),
            Self::Same(text, _) => Value::Text(text),
        }
    }
}

/// Value number `at` of all segments; a linear search, as there are few.
fn text_of(segments: &[Segment], at: usize) -> &[u8] {
    let mut at = at;
    for segment in segments {
        match segment.numbers.get(at) {
            Some(number) => return segment.texts.text(*number),
            None => at -= segment.numbers.len(),
        }
    }
    // Callers only ask for existing values.
    unreachable!("a value beyond the last one")
}

/// Buffers for formatting a number.
#[derive(Default)]
pub(crate) struct Spelled {
    number: zmij::Buffer,
    text: String,
}

impl Value<'_> {
    /// Text of the value. A whole number has only its digits, even if it is stored as a float, as
    /// some writers do with integer columns that have nulls.
    pub(crate) fn spell<'s>(&'s self, room: &'s mut Spelled) -> &'s [u8] {
        use std::fmt::Write as _;
        let whole = match *self {
            Self::Text(text) => return text,
            Self::Bool(true) => return b"true",
            Self::Bool(false) => return b"false",
            Self::Float(value) => whole_of(value.into()),
            Self::Double(value) => whole_of(value),
            Self::Int(value) => Some(value),
            _ => None,
        };
        room.text.clear();
        // Writing to a `String` can't fail.
        let _ = match *self {
            Self::Float(value) if whole.is_none() => return room.number.format(value).as_bytes(),
            Self::Double(value) if whole.is_none() => return room.number.format(value).as_bytes(),
            Self::Unsigned(value) => write!(room.text, "{value}"),
            Self::Decimal(scale, value) => spell_decimal(scale as usize, *value, &mut room.text),
            Self::Moment(form, moment) => moment.spell(form, &mut room.text),
            Self::Uuid(bytes) => spell_uuid(u128::from_be_bytes(*bytes), &mut room.text),
            _ => write!(room.text, "{}", whole.unwrap_or(0)),
        };
        room.text.as_bytes()
    }

    /// Whether the value equals one of `texts`. A whole number that is stored as a float also
    /// matches with `.0`, as a CSV file may spell it.
    pub(crate) fn is_any_of<T: AsRef<[u8]>>(&self, texts: &[T], room: &mut Spelled) -> bool {
        let is_one = |text: &[u8]| texts.iter().any(|known| known.as_ref() == text);
        if texts.is_empty() || is_one(self.spell(room)) {
            return !texts.is_empty();
        }
        match *self {
            Self::Float(value) => is_one(room.number.format(value).as_bytes()),
            Self::Double(value) => is_one(room.number.format(value).as_bytes()),
            _ => false,
        }
    }

    /// The nearest `f32`, as parsed from the value's text; `None` if it isn't a finite number.
    pub(crate) fn number(&self) -> Option<f32> {
        let number = match *self {
            Self::Bool(_) | Self::Moment(..) | Self::Uuid(_) => return None,
            Self::Int(value) => value as f32,
            Self::Unsigned(value) => value as f32,
            Self::Float(value) => value,
            Self::Double(value) if is_between(value) => {
                return crate::number::number(zmij::Buffer::new().format(value).as_bytes());
            }
            Self::Double(value) => value as f32,
            Self::Decimal(..) => return crate::number::number(self.spell(&mut Spelled::default())),
            Self::Text(text) => return crate::number::number(text),
        };
        number.is_finite().then_some(number)
    }

    /// Like [`Self::number`], but a date or time counts as its seconds.
    pub(crate) fn amount(&self) -> Option<f32> {
        match *self {
            Self::Moment(_, moment) => Some(moment.number()),
            Self::Text(text) => crate::number::amount(text),
            _ => self.number(),
        }
    }
}

/// A float as an integer, if it is a whole number and exact.
fn whole_of(value: f64) -> Option<i64> {
    (value.abs() <= WHOLE_MAX && value.trunc() == value).then_some(value as i64)
}

fn spell_decimal(scale: usize, value: i128, text: &mut String) -> std::fmt::Result {
    use std::fmt::Write as _;
    let sign = if value < 0 { "-" } else { "" };
    let digits = scale + 1;
    write!(text, "{sign}{:0digits$}", value.unsigned_abs())?;
    if scale > 0 {
        text.insert(text.len() - scale, '.');
    }
    Ok(())
}

fn spell_uuid(number: u128, text: &mut String) -> std::fmt::Result {
    use std::fmt::Write as _;
    write!(text, "{number:032x}")?;
    [20, 16, 12, 8].into_iter().for_each(|at| text.insert(at, '-'));
    Ok(())
}

/// Whether an `f64` is halfway between two `f32`, so that parsing its shortest text may round
/// differently.
fn is_between(value: f64) -> bool {
    const BITS: u32 = 52 - 23;
    value.to_bits() & ((1 << BITS) - 1) == 1 << (BITS - 1)
}
