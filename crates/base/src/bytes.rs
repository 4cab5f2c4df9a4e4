//! Byte counts as people write them: `64MiB`, `1.5 GiB`, `4096`.

use std::fmt;

/// A number of bytes, parsed from and printed with binary units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

/// Error for a text that is not a number of bytes.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not a number of bytes; write for example 4096, 64MiB or 1.5G")]
pub struct ByteCountError(String);

const UNITS: [(&str, u64); 13] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];

/// Units for printing, with digits after the point.
const WRITTEN: [(&str, u64, usize); 4] =
    [("KiB", 1 << 10, 1), ("MiB", 1 << 20, 1), ("GiB", 1 << 30, 2), ("TiB", 1 << 40, 2)];

impl std::str::FromStr for ByteCount {
    type Err = ByteCountError;

    fn from_str(text: &str) -> Result<Self, ByteCountError> {
        let wrong = || ByteCountError(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, bytes)| lower.strip_suffix(name).map(|n| (n.trim(), *bytes)))
            .unwrap_or((lower.as_str(), 1));
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(unit).map(Self).ok_or_else(wrong);
        }
        let value = number.parse::<f64>().map_err(|_| wrong())? * unit as f64;
        if value.is_finite() && (0.0..9e18).contains(&value) {
            Ok(Self(value as u64))
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let in_unit =
            |bytes: u64, digits: usize| format!("{:.digits$}", self.0 as f64 / bytes as f64);
        // The smallest unit in which the rounded number is below 1024.
        let fits = |text: &str| {
            let whole = text.split('.').next().unwrap_or_default();
            whole.len() < 4 || whole.len() == 4 && whole < "1024"
        };
        let units = WRITTEN.map(|(name, bytes, digits)| (in_unit(bytes, digits), name));
        let unit = units.iter().find(|(text, _)| fits(text)).unwrap_or(&units[WRITTEN.len() - 1]);
        write!(f, "{} {}", unit.0, unit.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let read = |t: &str| t.parse::<ByteCount>().map(|b| b.0).ok();
        assert_eq!(read("64MiB"), Some(64 << 20));
        assert_eq!(read("1.5 GiB"), Some(3 << 29));
        assert_eq!(read("4096"), Some(4096));
        assert_eq!(read("10kb"), Some(10_000));
        assert_eq!(read("1e3"), Some(1000));
        for bad in ["", "MiB", "-1", "64 miles", "nan", "inf", "99999999999999TiB"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_unit_is_what_it_says() {
        let units = [
            ("kib", 1024u64),
            ("MiB", 1024 * 1024),
            ("GiB", 1024 * 1024 * 1024),
            ("TiB", 1024 * 1024 * 1024 * 1024),
            ("kB", 1000),
            ("MB", 1000 * 1000),
            ("GB", 1000 * 1000 * 1000),
            ("TB", 1000 * 1000 * 1000 * 1000),
            ("b", 1),
            ("K", 1024),
            ("m", 1024 * 1024),
            ("G", 1024 * 1024 * 1024),
            ("T", 1024 * 1024 * 1024 * 1024),
            ("", 1),
        ];
        for (unit, bytes) in units {
            assert_eq!(format!(" 3 {unit}").parse::<ByteCount>().unwrap().0, 3 * bytes, "{unit}");
            let half = format!("2.5{unit}").parse::<ByteCount>().unwrap().0;
            assert_eq!(half, 2 * bytes + bytes / 2, "{unit}");
        }
        let error = "64 miles".parse::<ByteCount>().unwrap_err().to_string();
        assert!(error.contains("64 miles") && error.contains("64MiB"), "{error}");
    }

    #[test]
    fn is_written_in_the_unit_that_fits() {
        let written = |bytes: u64| ByteCount(bytes).to_string();
        assert_eq!([0, 1, 1023].map(written), ["0 B", "1 B", "1023 B"]);
        assert_eq!([1024, 1536, (1 << 20) - 1].map(written), ["1.0 KiB", "1.5 KiB", "1.0 MiB"]);
        assert_eq!([1 << 20, 5 << 19].map(written), ["1.0 MiB", "2.5 MiB"]);
        assert_eq!([1 << 30, 5 << 28, 1 << 40].map(written), ["1.00 GiB", "1.25 GiB", "1.00 TiB"]);
        // Numbers that begin with 10, like 1023715 KiB, get no smaller unit.
        let ten = [1_023_715 << 10, 1_000_000 << 10, 100_000 << 20, 1 << 60].map(written);
        assert_eq!(ten, ["999.7 MiB", "976.6 MiB", "97.66 GiB", "1048576.00 TiB"]);
        let below = [(1 << 30) - 1, 1000 << 20, (1 << 40) - 1, 5 << 50].map(written);
        assert_eq!(below, ["1.00 GiB", "1000.0 MiB", "1.00 TiB", "5120.00 TiB"]);
    }
}
