//! Decimal numbers, such as `7`, `-1.50`, `+.5`, `6.02e+23`.
//!
//! A number is an optional sign, digits with at most one decimal point, and an optional exponent:
//! the syntax of `str::parse` for floats, without `inf` and `nan`. Surrounding characters,
//! including spaces, aren't allowed.
//!
//! The value is the nearest `f32`, ties to even (IEEE 754). So `5`, `+5`, `5.0` and `50e-1` are the
//! same number, and every integer equals its `as f32`. Numbers that round to infinity are errors.
//!
//! Where an amount is expected, a date or time is accepted as its seconds (`moment.rs`).

use crate::moment::Moment;

/// Parses a number.
pub(crate) fn number(text: &[u8]) -> Option<f32> {
    // Allowing no letters but `e` rules out the words that `parse` accepts.
    if !text.iter().all(is_of_numbers) {
        return None;
    }
    let value: f32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Parses an amount: a number, or the seconds of a date or time.
pub(crate) fn amount(text: &[u8]) -> Option<f32> {
    number(text).or_else(|| Moment::of_text(text).map(Moment::number))
}

/// Parses a number from 0 to 1.
pub(crate) fn share_of_number(text: &[u8]) -> Option<f32> {
    // Turns -0 into 0.
    number(text).filter(|number| (0.0..=1.0).contains(number)).map(|number| number + 0.0)
}

fn is_of_numbers(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')
}

/// Describes why a text isn't a number.
#[cold]
pub(crate) fn why_no_number(text: &[u8]) -> &'static str {
    let text = std::str::from_utf8(text).unwrap_or("?");
    match text.parse::<f64>() {
        // The text parses as `f64`, so its digits are well-formed.
        Ok(value) if value.is_nan() || text.contains(['n', 'N']) => {
            "not a finite number; leave the field empty where it is missing"
        }
        Ok(_) => "beyond 32-bit numbers, which range from -3.4e38 to 3.4e38",
        Err(_) if text.trim().parse::<f64>().is_ok() => "not a number alone: no space may be by it",
        Err(_) if is_hexadecimal(text) => "not a decimal number, but a hexadecimal one",
        Err(_) => "not a number such as 7, -1.5 or 2e3, nor empty",
    }
}

fn is_hexadecimal(text: &str) -> bool {
    let text = text.trim_start_matches(['+', '-']);
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    digits.is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_number_is_that_number() {
        for (value, forms) in [
            (5.0_f32, &["5", "+5", "5.0", "5.", "05", "0.5e1", "50E-1", "500e-2", "+5.000e+0"][..]),
            (0.5, &[".5", "+.5", "0.5", "0.500000000000000000000000000", "5e-1"]),
            (-1.5, &["-1.5", "-15e-1", "-01.50"]),
            (1000.0, &["1e3", "1E3", "1e+3", "1000", "0.001e6"]),
            // 2^24 + 1 is between two `f32` values, and 2^24 is the even one.
            (16_777_216.0, &["16777216", "16777217", "16777217.0", "1.6777217e7"]),
            (16_777_218.0, &["16777217.000000000000000000000000000000000000000000000000001"]),
            (3.402_823_5e38, &["3.4028235e38", "340282346638528859811704183484516925440"]),
            (0.0, &["0", "0.0", "0e999", "1e-400"]),
        ] {
            for form in forms {
                assert_eq!(number(form.as_bytes()).map(f32::to_bits), Some(value.to_bits()));
            }
        }
        assert_eq!(number(b"-0.0").map(f32::to_bits), Some((-0.0f32).to_bits()));
    }

    #[test]
    fn what_is_no_number_is_told_why() {
        for (why, forms) in [
            ("finite number; leave", &["nan", "NaN", "-nan", "inf", "-Infinity", "INF"][..]),
            ("beyond 32-bit numbers", &["1e39", "-3.5e38", "1e400", "9999999999e30"]),
            ("no space", &[" 5", "5 ", " 1.5\t", "\u{a0}5", " nan"]),
            ("hexadecimal", &["0x10", "-0X1F", "0x1p3"]),
            (
                "such as 7",
                &[".", "-", "+", "e5", "1e", "1e+", "--1", "+-1", "1.2.3", "1,5", "1_000", "5f"],
            ),
            ("such as 7", &["", "x", "0x", "\u{0665}", "\u{FF15}", "1e5.0", "infinite", "1 000"]),
        ] {
            for form in forms {
                assert_eq!(number(form.as_bytes()), None, "{form}");
                let found = why_no_number(form.as_bytes());
                assert!(found.contains(why), "{form:?}: {found}");
            }
        }
        assert!(why_no_number(b"\xFF5").contains("such as 7"));
    }

    #[test]
    fn numbers_without_end_take_time_in_proportion() {
        let long = |digits: &str, times: usize| digits.repeat(times);
        assert_eq!(number(long("0", 1 << 20).as_bytes()), Some(0.0));
        assert_eq!(number(format!("0.{}", long("3", 1 << 20)).as_bytes()), Some(1.0 / 3.0));
        assert_eq!(number(long("9", 1 << 20).as_bytes()), None);
        assert_eq!(number(format!("1e-{}", long("9", 1 << 20)).as_bytes()), Some(0.0));
    }
}
