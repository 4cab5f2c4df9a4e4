//! Columns in the path of a file: each directory `name=value` is a column, as in tables of Hive and
//! Spark, such as `clicks/dt=2026-11-26/hour=03/part-0.parquet`.
//!
//! - **Why.** Records don't repeat a value that all records of a file have in common.
//! - **How.** If the settings name a column that is in the path, all records of that file have its
//!   value, in any format. Bytes may be escaped as `%3A`. The directory of records without a value
//!   is called `__HIVE_DEFAULT_PARTITION__`.
//! - **Failure.** Of files read together, all or none must have a column in their paths. A column
//!   that is in both a path and its file is an error, as it is ambiguous.

use std::path::Path;

/// Value of records that have none.
const MISSING: &[u8] = b"__HIVE_DEFAULT_PARTITION__";

/// A directory `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathColumn {
    pub(crate) name: String,
    /// Empty if missing.
    pub(crate) value: Vec<u8>,
}

/// Columns in the path of a file, in order.
pub(crate) fn path_columns(path: &Path) -> Vec<PathColumn> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let of_scheme = std::str::from_utf8(bytes).ok().and_then(|text| text.find("://"));
    // Neither the host nor the query of a URL is a directory.
    let bytes = match of_scheme {
        Some(end) => bytes[end + 3..].split(|byte| *byte == b'?').next().unwrap_or_default(),
        None => bytes,
    };
    let skipped = usize::from(of_scheme.is_some());
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'/').collect();
    let (_, folders) = parts.split_last().unwrap_or((&&[][..], &[]));
    let column = |folder: &&[u8]| {
        let equals = memchr::memchr(b'=', folder).filter(|at| *at > 0)?;
        let (name, value) = (decoded(&folder[..equals]), decoded(&folder[equals + 1..]));
        let value = if value == MISSING { Vec::new() } else { value };
        Some(PathColumn { name: String::from_utf8(name).ok()?, value })
    };
    folders.iter().skip(skipped).filter_map(column).collect()
}

/// Decodes escapes such as `%3A`.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        match (text[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}

/// How to fix a column that is in both a file and its path.
pub(crate) const RENAME: &str = "rename one of them";

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(path: &str) -> Vec<(String, String)> {
        let of =
            |column: PathColumn| (column.name, String::from_utf8_lossy(&column.value).into_owned());
        path_columns(Path::new(path)).into_iter().map(of).collect()
    }

    #[test]
    fn folders_with_an_equals_sign_are_columns() {
        for (path, expected) in [
            ("clicks/dt=2026-11-26/hour=03/a.parquet", &[("dt", "2026-11-26"), ("hour", "03")][..]),
            ("/data/dt=1/x/lang=en=US/a.csv", &[("dt", "1"), ("lang", "en=US")]),
            ("./at=05%3A00%3a00/a%20b=%C3%A4/a", &[("at", "05:00:00"), ("a b", "ä")]),
            ("rate=50%/half=%4/a", &[("rate", "50%"), ("half", "%4")]),
            ("dt=__HIVE_DEFAULT_PARTITION__/city=/a", &[("dt", ""), ("city", "")]),
            ("dt=1/dt=2/a", &[("dt", "1"), ("dt", "2")]),
            ("=1/dt/a/dt=5.csv", &[]),
            ("dt=5.csv", &[]),
            ("-", &[]),
            ("s3://bucket/dt=1/a.csv", &[("dt", "1")]),
            ("s3://dt=1/a.csv", &[]),
            ("https://host/dt=1/a.csv?hour=3/b", &[("dt", "1")]),
            ("hdfs://node:9870/hour=05%3A00/a", &[("hour", "05:00")]),
        ] {
            let expected: Vec<(String, String)> = expected
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(columns(path), expected, "{path}");
        }
    }
}
