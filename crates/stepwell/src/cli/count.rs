//! Counts in the usual notations: `2000000000`, `2e9`, `2G`, `1.5M`.

/// Decimal units. Sizes in bytes have other ones.
const UNITS: [(char, u64); 4] =
    [('k', 1_000), ('m', 1_000_000), ('g', 1_000_000_000), ('t', 1_000_000_000_000)];

/// Parses a count.
///
/// # Errors
/// If it is not one; the message shows the notations.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let wrong = || "write a count, for example 2000000000, 2e9 or 2G".to_owned();
    let lower = text.trim().to_ascii_lowercase().replace('_', "");
    let unit = UNITS.iter().find_map(|(name, times)| Some((lower.strip_suffix(*name)?, *times)));
    let (number, times) = unit.unwrap_or((&lower, 1));
    if let Ok(whole) = number.trim().parse::<u64>() {
        return whole.checked_mul(times).ok_or_else(wrong);
    }
    let value = number.trim().parse::<f64>().map_err(|_| wrong())? * times as f64;
    let is_count = (0.0..9e18).contains(&value) && value.fract() == 0.0;
    if is_count { Ok(value as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for text in ["2000000000", "2_000_000_000", "2e9", "2G", "2 g", "2000M", "0.002T"] {
            assert_eq!(count(text), Ok(2_000_000_000), "{text}");
        }
        assert_eq!((count("1.5k"), count("0")), (Ok(1500), Ok(0)));
        for bad in ["", "G", "-1", "1.5", "0.0001k", "nan", "inf", "1e30", "99999999T", "2GiB"] {
            assert!(count(bad).is_err_and(|why| why.contains("2e9")), "{bad}");
        }
    }
}
