//! Byte counts as people write them: `64MiB`, `1.5 GiB`, `4096`.

use std::fmt;

/// A number of bytes, parsed from and printed with binary units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

/// A text that is not a number of bytes.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not a number of bytes; write for example 4096, 64MiB or 1.5GiB")]
pub struct ByteCountError(String);

const UNITS: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
];

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
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{:.1} KiB", bytes / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
            _ => write!(f, "{:.2} GiB", bytes / 1_073_741_824.0),
        }
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
        assert_eq!([1024, 1536, (1 << 20) - 1].map(written), ["1.0 KiB", "1.5 KiB", "1024.0 KiB"]);
        assert_eq!([1 << 20, 5 << 19].map(written), ["1.0 MiB", "2.5 MiB"]);
        assert_eq!(
            [1 << 30, 5 << 28, 1 << 40].map(written),
            ["1.00 GiB", "1.25 GiB", "1024.00 GiB"]
        );
    }
}
