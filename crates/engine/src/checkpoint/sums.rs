//! `CHECKSUMS`: the list of a checkpoint's files, which ties them to each other and to the job.
//!
//! ```text
//!   stepwell checkpoint 2, step 128, job 5f0c…         (32 digits)
//!   9ae1…  1187  checkpoint.json                       XXH3-64, bytes, name
//!   07c3…  53764  dense.bin
//!   41d2…  633  rows-0/manifest.json
//!   c0ff…  CHECKSUMS                                   of all lines above
//! ```
//!
//! A store's manifest has length and checksum of each of its segments, so its line covers every
//! byte of the rows. With several ranks, their lines follow each other in order of ranks. Version 1
//! had two lines of checksum and name, and didn't cover rows.

use std::fmt::Write;

use stepwell_base::hash;

use super::SUMS_FILE;

/// Checksum and length of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) checksum: u64,
    pub(super) bytes: u64,
}

impl Sum {
    /// Checksum and length of a file in memory.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { checksum: hash::checksum(bytes), bytes: bytes.len() as u64 }
    }
}

/// Text of the list of a checkpoint of format version `version`.
pub(super) fn encode(version: u64, step: u64, job: &str, files: &[(String, Sum)]) -> String {
    let mut text = format!("stepwell checkpoint {version}, step {step}, job {job}\n");
    for (name, Sum { checksum, bytes }) in files {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{checksum:016x}  {bytes}  {name}");
    }
    let own = hash::checksum(text.as_bytes());
    let _ = writeln!(text, "{own:016x}  {SUMS_FILE}");
    text
}

/// A list that was read.
#[derive(Debug)]
pub(super) struct Checksums {
    lines: Vec<(String, u64, Option<u64>)>,
    binds_rows: bool,
}

impl Checksums {
    /// Reads the list of a checkpoint of format version `version`.
    pub(super) fn decode(text: &[u8], version: u64) -> Result<Self, String> {
        let damaged = |why: &str| format!("{SUMS_FILE} {why}");
        let text = std::str::from_utf8(text).map_err(|_| damaged("is not text"))?;
        let mut body = text;
        if version > 1 {
            let (above, last) = text
                .strip_suffix('\n')
                .and_then(|text| text.rsplit_once('\n'))
                .ok_or_else(|| damaged("is cut short"))?;
            body = &text[..above.len() + 1];
            if last != format!("{:016x}  {SUMS_FILE}", hash::checksum(body.as_bytes())) {
                return Err(damaged("does not match its own checksum"));
            }
            body = body.split_once('\n').map_or("", |(_, files)| files);
        }
        let line = |line: &str| {
            let (checksum, rest) = line.split_once("  ")?;
            let checksum = u64::from_str_radix(checksum, 16).ok()?;
            Some(match rest.split_once("  ") {
                Some((bytes, name)) => (name.to_owned(), checksum, Some(bytes.parse().ok()?)),
                None => (rest.to_owned(), checksum, None),
            })
        };
        let lines = body.lines().map(|text| line(text).ok_or_else(|| damaged("has a bad line")));
        Ok(Self { lines: lines.collect::<Result<_, _>>()?, binds_rows: version > 1 })
    }

    /// Whether rows are listed; true since version 2.
    pub(super) fn binds_rows(&self) -> bool {
        self.binds_rows
    }

    /// Whether `name` is listed as `found`.
    pub(super) fn check(&self, name: &str, found: Sum) -> Result<(), String> {
        let Some((_, checksum, bytes)) = self.lines.iter().find(|(listed, ..)| listed == name)
        else {
            return Err(format!("{SUMS_FILE} does not name {name}"));
        };
        if bytes.is_some_and(|bytes| bytes != found.bytes) {
            let listed = bytes.unwrap_or(0);
            return Err(format!("{name} has {} bytes, but {listed} were saved", found.bytes));
        }
        if *checksum != found.checksum {
            return Err(format!(
                "{name} ({} bytes) does not match its checksum in {SUMS_FILE}",
                found.bytes
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_of_a_list_is_found() {
        let files = [("dense.bin".to_owned(), Sum::of(b"12")), ("a".to_owned(), Sum::of(b"3"))];
        let text = encode(2, 7, "0123", &files).into_bytes();
        let sums = Checksums::decode(&text, 2).unwrap();
        assert!(sums.binds_rows());
        assert_eq!(sums.check("dense.bin", Sum::of(b"12")), Ok(()));
        assert_eq!(sums.check("a", Sum::of(b"3")), Ok(()));
        let error = sums.check("dense.bin", Sum::of(b"123")).unwrap_err();
        assert!(error.contains("dense.bin has 3 bytes, but 2 were saved"), "{error}");
        assert!(sums.check("a", Sum::of(b"4")).unwrap_err().contains("match its checksum"));
        assert!(sums.check("b", Sum::of(b"4")).unwrap_err().contains("does not name b"));
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut changed = text.clone();
                changed[at] ^= 1 << bit;
                assert!(Checksums::decode(&changed, 2).is_err(), "byte {at}, bit {bit}");
            }
            assert!(Checksums::decode(&text[..at], 2).is_err(), "{at} bytes");
        }
    }
}
