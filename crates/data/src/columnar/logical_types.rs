//! Interpretation of stored values, by their logical type.
//!
//! Writers declare a logical type; older ones only a converted type. The logical type takes
//! precedence.

use half::f16;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::data_type::{ByteArray, FixedLenByteArray, Int96};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

use crate::moment::{Form, Moment};
use crate::open_file::Unreadable;
use crate::rows::Values;

/// Most decimal places of a decimal.
const SCALE_MAX: i32 = 76;
/// Julian day of 1970-01-01, as counted by `INT96`.
const EPOCH_DAY: i64 = 2_440_588;

/// How to interpret a column's stored values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// As stored: a boolean, a number or a text.
    Plain,
    /// Unsigned integers.
    Unsigned,
    /// Integers with this number of decimal places.
    Decimal(u32),
    /// Moments, with the number of units per second.
    Moment(Form, i64),
    /// Days since 1970.
    Days,
    /// 16-bit floats.
    Half,
    /// 16 bytes, spelled as hexadecimal digits.
    Uuid,
}

impl Meaning {
    /// # Errors
    /// The name of an unsupported type.
    pub(super) fn of(column: &ColumnDescriptor) -> Result<Self, String> {
        let meaning = match column.logical_type_ref() {
            Some(LogicalType::Integer(integer)) if !integer.is_signed => Self::Unsigned,
            Some(LogicalType::Decimal(decimal)) => Self::decimal(decimal.scale)?,
            Some(LogicalType::Date) => Self::Days,
            Some(LogicalType::Time(time)) => Self::Moment(Form::Time, per_second(time.unit)),
            Some(LogicalType::Timestamp(time)) => {
                let form = if time.is_adjusted_to_u_t_c { Form::Utc } else { Form::Local };
                Self::Moment(form, per_second(time.unit))
            }
            Some(LogicalType::Float16) => Self::Half,
            Some(LogicalType::Uuid) => Self::Uuid,
            Some(LogicalType::_Unknown { .. }) => return Err(not_read("a newer logical type")),
            Some(_) => Self::Plain,
            None => Self::converted(column)?,
        };
        meaning.check(column.physical_type())
    }

    /// Interpretation of a column without a logical type.
    fn converted(column: &ColumnDescriptor) -> Result<Self, String> {
        Ok(match column.converted_type() {
            ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64 => Self::Unsigned,
            ConvertedType::DECIMAL => Self::decimal(column.type_scale())?,
            ConvertedType::DATE => Self::Days,
            ConvertedType::TIME_MILLIS => Self::Moment(Form::Time, 1_000),
            ConvertedType::TIME_MICROS => Self::Moment(Form::Time, 1_000_000),
            // Older writers don't record whether these are in UTC.
            ConvertedType::TIMESTAMP_MILLIS => Self::Moment(Form::Local, 1_000),
            ConvertedType::TIMESTAMP_MICROS => Self::Moment(Form::Local, 1_000_000),
            ConvertedType::INTERVAL => return Err(not_read("interval")),
            _ if column.physical_type() == PhysicalType::INT96 => {
                Self::Moment(Form::Local, 1_000_000_000)
            }
            _ => Self::Plain,
        })
    }

    fn decimal(scale: i32) -> Result<Self, String> {
        let scale = u32::try_from(scale).ok().filter(|_| scale <= SCALE_MAX);
        scale.map(Self::Decimal).ok_or_else(|| not_read("a decimal of a negative or huge scale"))
    }

    /// Returns an error if the physical type doesn't fit the logical type.
    fn check(self, kind: PhysicalType) -> Result<Self, String> {
        use PhysicalType as Stored;
        let is_right = match self {
            Self::Plain => kind != Stored::INT96,
            Self::Unsigned => matches!(kind, Stored::INT32 | Stored::INT64),
            Self::Decimal(_) => matches!(
                kind,
                Stored::INT32 | Stored::INT64 | Stored::FIXED_LEN_BYTE_ARRAY | Stored::BYTE_ARRAY
            ),
            Self::Moment(..) => matches!(kind, Stored::INT32 | Stored::INT64 | Stored::INT96),
            Self::Days => kind == Stored::INT32,
            Self::Half | Self::Uuid => kind == Stored::FIXED_LEN_BYTE_ARRAY,
        };
        is_right.then_some(self).ok_or_else(|| not_read(&format!("{self:?} in {kind}")))
    }

    /// Whether byte arrays are texts.
    pub(super) fn is_text(self) -> bool {
        self == Self::Plain
    }

    /// Converts 32-bit integers.
    pub(super) fn of_small(self, values: Vec<i32>) -> Values {
        match self {
            Self::Unsigned => Values::Unsigned(
                values.into_iter().map(|value| value.cast_unsigned().into()).collect(),
            ),
            _ => self.of_whole(values.into_iter().map(i64::from).collect()),
        }
    }

    /// Converts 64-bit integers.
    pub(super) fn of_whole(self, values: Vec<i64>) -> Values {
        let values = match self {
            Self::Plain | Self::Half | Self::Uuid => return Values::Int(values),
            _ => values.into_iter(),
        };
        match self {
            Self::Unsigned => Values::Unsigned(values.map(i64::cast_unsigned).collect()),
            Self::Decimal(scale) => Values::Decimals(scale, values.map(i128::from).collect()),
            Self::Moment(form, unit) => {
                Values::Moments(form, values.map(|value| Moment::of_units(value, unit)).collect())
            }
            _ => Values::Moments(Form::Date, values.map(Moment::of_day).collect()),
        }
    }

    /// Converts pairs of a day and nanoseconds.
    pub(super) fn of_days_and_nanos(values: Vec<Int96>) -> Values {
        let moment = |value: Int96| {
            let [low, high, day] = [0, 1, 2].map(|at| value.data().get(at).copied().unwrap_or(0));
            let nanos = (u64::from(high) << 32 | u64::from(low)).cast_signed();
            Moment::of_day_nanos(i64::from(day.cast_signed()) - EPOCH_DAY, nanos)
        };
        Values::Moments(Form::Local, values.into_iter().map(moment).collect())
    }

    /// Converts byte arrays.
    pub(super) fn of_bytes(self, values: Vec<ByteArray>) -> Result<Values, ParquetError> {
        let wrong =
            || ParquetError::General("a value whose length does not fit its type".to_owned());
        Ok(match self {
            Self::Decimal(scale) => {
                let whole = values.iter().map(|value| whole_of(value.data()));
                let long = || {
                    let why =
                        "has a decimal of more than 38 digits: write it as a number or a text";
                    ParquetError::External(Box::new(Unreadable(why.to_owned())))
                };
                Values::Decimals(scale, whole.collect::<Option<_>>().ok_or_else(long)?)
            }
            Self::Half => {
                let half = |value: &ByteArray| {
                    let bytes = value.data().try_into().ok()?;
                    Some(f16::from_le_bytes(bytes).to_f32())
                };
                Values::Float(values.iter().map(half).collect::<Option<_>>().ok_or_else(wrong)?)
            }
            Self::Uuid => {
                let uuid = |value: &ByteArray| value.data().try_into().ok();
                Values::Uuid(values.iter().map(uuid).collect::<Option<_>>().ok_or_else(wrong)?)
            }
            _ => Values::Text(values),
        })
    }

    /// Converts byte arrays of equal length.
    pub(super) fn of_fixed(self, values: Vec<FixedLenByteArray>) -> Result<Values, ParquetError> {
        self.of_bytes(values.into_iter().map(ByteArray::from).collect())
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::MILLIS => 1_000,
        TimeUnit::MICROS => 1_000_000,
        TimeUnit::NANOS => 1_000_000_000,
    }
}

fn not_read(what: &str) -> String {
    format!("has an unsupported type ({what}): write it as a number or a text")
}

/// Parses a signed big-endian number; `None` if it exceeds 128 bits.
fn whole_of(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first().is_some_and(|byte| byte.cast_signed() < 0) { 0xFF } else { 0 };
    let mut whole = [sign; 16];
    let (beyond, kept) = bytes.split_at(bytes.len().saturating_sub(whole.len()));
    whole[16 - kept.len()..].copy_from_slice(kept);
    let number = i128::from_be_bytes(whole);
    let fits = beyond.iter().all(|byte| *byte == sign) && (number < 0) == (sign == 0xFF);
    fits.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_are_what_their_bytes_say() {
        assert_eq!(whole_of(&[]), Some(0));
        assert_eq!(whole_of(&[0x04, 0xD2]), Some(1234));
        assert_eq!(whole_of(&[0xFF]), Some(-1));
        assert_eq!(whole_of(&i128::MIN.to_be_bytes()), Some(i128::MIN));
        assert_eq!(whole_of(&[&[0xFF; 9], &(-7i128).to_be_bytes()[..]].concat()), Some(-7));
        assert_eq!(whole_of(&[&[0; 9], &7i128.to_be_bytes()[..]].concat()), Some(7));
        assert_eq!(whole_of(&[&[1], &[0; 16][..]].concat()), None);
        assert_eq!(whole_of(&[&[0], &[0xFF; 16][..]].concat()), None);
    }
}
