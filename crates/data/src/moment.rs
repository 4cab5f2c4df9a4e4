//! Dates, times of day and timestamps, as text and as seconds.
//!
//! - **Why.** Parquet stores them as whole numbers in a unit that its writer chose; text spells
//!   them out. The same moment must give the same id and the same number in both.
//! - **How.** A date is spelled `2024-01-02`, a time of day `05:00:00`, a timestamp `2024-01-02
//!   05:00:00`, followed by `+00:00` if it is in UTC. A fraction of a second has 3, 6 or 9 digits,
//!   as few as it needs. The number is seconds since 1970, or since midnight. Text may also have a
//!   `T` between date and time, a fraction of 1 to 9 digits, and any offset from UTC (`Z`,
//!   `+01:00`, `+0100`, `+01`).

use std::fmt::Write;

const DAY_SECONDS: i64 = 86_400;
const SECOND_NANOS: i64 = 1_000_000_000;

/// A point in time, to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Seconds since 1970, or since midnight.
    seconds: i64,
    /// Nanoseconds within the second.
    nanos: u32,
}

/// Parts of a moment to spell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Date.
    Date,
    /// Time of day.
    Time,
    /// Date and time, in an unknown time zone.
    Local,
    /// Date and time in UTC.
    Utc,
}

/// Part of a date or time that becomes an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimePart {
    /// All of it, as for any other value.
    #[default]
    Whole,
    /// The year: `2024`.
    Year,
    /// The month, 1 to 12.
    Month,
    /// The day of the month, 1 to 31.
    Day,
    /// The day of the week, 1 (Monday) to 7.
    Weekday,
    /// The hour, 0 to 23.
    Hour,
}

impl TimePart {
    /// All parts.
    pub const ALL: [Self; 6] =
        [Self::Whole, Self::Year, Self::Month, Self::Day, Self::Weekday, Self::Hour];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
            Self::Weekday => "weekday",
            Self::Hour => "hour",
        }
    }

    /// Text of this part of the moment in `text`. `None` if `text` isn't a moment, or is a time of
    /// day, which lacks that part.
    pub(crate) fn of(self, text: &[u8]) -> Option<String> {
        let moment = Moment::of_text(text)?;
        let is_of_day = text.get(2) == Some(&b':');
        let day = moment.seconds.div_euclid(DAY_SECONDS);
        let date = Date::of(day);
        let part = match self {
            Self::Whole => return Some(String::from_utf8_lossy(text).into_owned()),
            Self::Hour => moment.seconds.rem_euclid(DAY_SECONDS) / 3600,
            _ if is_of_day => return None,
            Self::Year => date.year,
            Self::Month => date.month,
            Self::Day => date.day,
            // 1970 began on a Thursday.
            Self::Weekday => (day + 3).rem_euclid(7) + 1,
        };
        Some(part.to_string())
    }
}

impl Moment {
    /// Start of a day, counted from 1970.
    pub(crate) fn of_day(day: i64) -> Self {
        Self { seconds: day.saturating_mul(DAY_SECONDS), nanos: 0 }
    }

    /// `units` units after the start of 1970; a second has `per_second` units, at most 10^9.
    pub(crate) fn of_units(units: i64, per_second: i64) -> Self {
        // Below 10^9 for any unit.
        let nanos = (units.rem_euclid(per_second) * (SECOND_NANOS / per_second)) as u32;
        Self { seconds: units.div_euclid(per_second), nanos }
    }

    /// A day, counted from 1970, and nanoseconds within it.
    pub(crate) fn of_day_nanos(day: i64, nanos: i64) -> Self {
        let Self { seconds, nanos } = Self::of_units(nanos, SECOND_NANOS);
        Self { seconds: Self::of_day(day).seconds.saturating_add(seconds), nanos }
    }

    /// Seconds, rounded to the nearest `f32`.
    pub(crate) fn number(self) -> f32 {
        (self.seconds as f64 + f64::from(self.nanos) / SECOND_NANOS as f64) as f32
    }

    /// Appends the text of this moment to `text`.
    pub(crate) fn spell(self, form: Form, text: &mut String) -> std::fmt::Result {
        let (day, mut second) = (self.seconds.div_euclid(DAY_SECONDS), self.seconds);
        if form != Form::Time {
            let Date { year, month, day } = Date::of(day);
            write!(text, "{year:04}-{month:02}-{day:02}")?;
            second = self.seconds.rem_euclid(DAY_SECONDS);
        }
        match form {
            Form::Date => return Ok(()),
            Form::Time => {}
            Form::Local | Form::Utc => text.push(' '),
        }
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(text, "{hour:02}:{minute:02}:{second:02}")?;
        match self.nanos {
            0 => {}
            nanos if nanos % 1_000_000 == 0 => write!(text, ".{:03}", nanos / 1_000_000)?,
            nanos if nanos % 1_000 == 0 => write!(text, ".{:06}", nanos / 1_000)?,
            nanos => write!(text, ".{nanos:09}")?,
        }
        if form == Form::Utc {
            text.push_str("+00:00");
        }
        Ok(())
    }

    /// Parses a moment.
    pub(crate) fn of_text(text: &[u8]) -> Option<Self> {
        let mut rest = text;
        if text.get(2) == Some(&b':') {
            let time = time_of_day(&mut rest)?;
            return rest.is_empty().then_some(time);
        }
        let day = Self::of_day(day_at(&mut rest)?);
        if rest.is_empty() {
            return Some(day);
        }
        take(&mut rest, b' ').or_else(|| take(&mut rest, b'T'))?;
        let time = time_of_day(&mut rest)?;
        let seconds = day.seconds + time.seconds - offset_at(&mut rest)?;
        rest.is_empty().then_some(Self { seconds, nanos: time.nanos })
    }
}

/// A date in the Gregorian calendar.
///
/// Computed with years that begin in March, so that a leap day comes last; 400 years have 146,097
/// days (Hinnant, "chrono-compatible low-level date algorithms").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl Date {
    /// Date of a day, counted from 1970.
    fn of(day: i64) -> Self {
        let day = day + 719_468;
        let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
        Self { year: year + era * 400 + i64::from(month <= 2), month, day }
    }

    /// Number of the day, counted from 1970.
    fn number(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }
}

fn take(text: &mut &[u8], wanted: u8) -> Option<()> {
    *text = text.strip_prefix(&[wanted])?;
    Some(())
}

/// Parses a number of exactly `count` digits that is below `end`.
fn digits(text: &mut &[u8], count: usize, end: i64) -> Option<i64> {
    let (digits, rest) = text.split_at_checked(count)?;
    *text = rest;
    let all = digits.iter().all(u8::is_ascii_digit);
    let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit & 0x0F));
    (all && number < end).then_some(number)
}

fn day_at(text: &mut &[u8]) -> Option<i64> {
    let year = digits(text, 4, 10_000)?;
    take(text, b'-')?;
    let month = digits(text, 2, 13)?;
    take(text, b'-')?;
    let (day, month) = (digits(text, 2, 32)?, Some(month).filter(|month| *month > 0)?);
    let date = Date { year, month, day };
    let number = date.number();
    (Date::of(number) == date).then_some(number)
}

fn time_of_day(text: &mut &[u8]) -> Option<Moment> {
    let hour = digits(text, 2, 24)?;
    take(text, b':')?;
    let minute = digits(text, 2, 60)?;
    take(text, b':')?;
    let seconds = hour * 3600 + minute * 60 + digits(text, 2, 60)?;
    if take(text, b'.').is_none() {
        return Some(Moment { seconds, nanos: 0 });
    }
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let missing = 9u32.checked_sub(count as u32).filter(|missing| *missing < 9)?;
    let nanos = digits(text, count, SECOND_NANOS)? as u32 * 10u32.pow(missing);
    Some(Moment { seconds, nanos })
}

/// Parses the rest of a text as an offset from UTC, in seconds.
fn offset_at(text: &mut &[u8]) -> Option<i64> {
    let sign = match text.first() {
        None => return Some(0),
        Some(b'Z') => return take(text, b'Z').map(|()| 0),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => return None,
    };
    *text = &text[1..];
    let hours = digits(text, 2, 24)?;
    let _colon = take(text, b':');
    let minutes = if text.is_empty() { 0 } else { digits(text, 2, 60)? };
    Some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(moment: Moment, form: Form) -> String {
        let mut text = String::new();
        moment.spell(form, &mut text).unwrap();
        text
    }

    #[test]
    fn a_moment_has_one_text_whatever_its_unit() {
        let at = |second: i64| {
            [1, 1_000, 1_000_000, SECOND_NANOS].map(|unit| Moment::of_units(second * unit, unit))
        };
        for (second, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (1_704_171_600, "2024-01-02 05:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (4_107_542_399, "2100-02-28 23:59:59"),
        ] {
            for moment in at(second) {
                assert_eq!(spelled(moment, Form::Local), text);
                assert_eq!(spelled(moment, Form::Utc), format!("{text}+00:00"));
                assert_eq!(spelled(moment, Form::Date), text[..10]);
                assert_eq!(moment.number(), second as f32);
            }
        }
        for (units, unit, text) in [
            (-1, 1_000, "1969-12-31 23:59:59.999"),
            (1_500_000, 1_000_000, "1970-01-01 00:00:01.500"),
            (1_000_010, 1_000_000, "1970-01-01 00:00:01.000010"),
            (1, SECOND_NANOS, "1970-01-01 00:00:00.000000001"),
        ] {
            assert_eq!(spelled(Moment::of_units(units, unit), Form::Local), text);
        }
        assert_eq!(spelled(Moment::of_units(18_000_500, 1_000), Form::Time), "05:00:00.500");
        assert_eq!(spelled(Moment::of_day(19_724), Form::Date), "2024-01-02");
        assert_eq!(spelled(Moment::of_day(-719_528), Form::Date), "0000-01-01");
        let of_day = Moment::of_day_nanos(19_724, 18_000 * SECOND_NANOS + 7_000);
        assert_eq!(spelled(of_day, Form::Local), "2024-01-02 05:00:00.000007");
    }

    #[test]
    fn every_day_is_its_own_date() {
        let days = (-800_000..800_000).step_by(13).chain(-1000..1000);
        for day in days {
            let date = Date::of(day);
            assert_eq!(date.number(), day);
            let moment = Moment::of_day(day);
            if (0..10_000).contains(&date.year) {
                let text = spelled(moment, Form::Date);
                assert_eq!(Moment::of_text(text.as_bytes()), Some(moment), "{text}");
            }
        }
    }

    #[test]
    fn parts_are_those_of_the_calendar() {
        let parts = |text: &str| {
            TimePart::ALL[1..]
                .iter()
                .map(|part| part.of(text.as_bytes()))
                .collect::<Option<Vec<_>>>()
        };
        for (text, expected) in [
            ("2024-01-02 05:00:00", ["2024", "1", "2", "2", "5"]),
            ("2024-02-29", ["2024", "2", "29", "4", "0"]),
            ("1969-12-31 23:59:59.500", ["1969", "12", "31", "3", "23"]),
            // Sunday in UTC.
            ("2024-01-08T00:30:00+01:00", ["2024", "1", "7", "7", "23"]),
        ] {
            assert_eq!(parts(text), Some(expected.map(str::to_owned).to_vec()), "{text}");
        }
        assert_eq!((parts("05:00:00"), parts("1704171600")), (None, None));
        assert_eq!(TimePart::Hour.of(b"05:00:00"), Some("5".to_owned()));
    }

    #[test]
    fn texts_of_moments_are_read_and_others_are_not() {
        let five = Some(Moment { seconds: 1_704_171_600, nanos: 0 });
        for text in [
            "2024-01-02 05:00:00",
            "2024-01-02T05:00:00",
            "2024-01-02T05:00:00.000",
            "2024-01-02 05:00:00Z",
            "2024-01-02 05:00:00+00:00",
            "2024-01-02T06:00:00.000000+0100",
            "2024-01-01 23:30:00-05:30",
            "2024-01-02 06:00:00+01",
        ] {
            assert_eq!(Moment::of_text(text.as_bytes()), five, "{text}");
        }
        let half = Moment::of_text(b"05:00:00.5");
        assert_eq!(half, Some(Moment { seconds: 18_000, nanos: 500_000_000 }));
        for text in [
            "",
            "2024",
            "2024-01",
            "2024-1-2",
            "2024-02-30",
            "2023-02-29",
            "2024-00-01",
            "2024-13-01",
            "2024-01-02 ",
            "2024-01-02 05",
            "2024-01-02 05:00",
            "2024-01-02 24:00:00",
            "2024-01-02 05:60:00",
            "2024-01-02 05:00:00.",
            "2024-01-02 05:00:00.1234567890",
            "2024-01-02 05:00:00 UTC",
            "2024-01-02 05:00:00+1",
            "2024-01-02 05:00:00+01:00:00",
            "05:00",
            "05:00:00Z",
            "٢024-01-02",
            "02/01/2024",
        ] {
            assert_eq!(Moment::of_text(text.as_bytes()), None, "{text}");
        }
    }
}
