//! Helpers for the tests of sources.

use std::path::{Path, PathBuf};

use stepwell_data::{Chunk, DataError, Input, Position, ReadOptions, Reader, Schema};

/// Two dense features and three id columns: small enough to write by hand.
pub(crate) const TINY: Schema = Schema::new(2, 3);

/// A valid line of [`TINY`], different for each number.
pub(crate) fn line(number: usize) -> String {
    let missing =
        if number.is_multiple_of(3) { String::new() } else { format!("{:x}", number % 7) };
    format!("{}\t{number}\t\t{missing}\tid{number}\tsame\n", number % 2)
}

pub(crate) fn lines(numbers: std::ops::Range<usize>) -> String {
    numbers.map(line).collect()
}

pub(crate) fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

pub(crate) fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    zstd::encode_all(bytes.as_ref(), 1).unwrap()
}

/// An example: the position after it, its label and features as bits, and for each bag its keys,
/// each followed by its value unless that is 1.
pub(crate) type Row = (Position, u32, Vec<u32>, Vec<Vec<u64>>);

pub(crate) fn rows_of(chunk: &Chunk) -> Vec<Row> {
    let row = |example: usize| {
        let dense = chunk.dense_of(example).iter().map(|x| x.to_bits()).collect();
        let value = |at: usize| chunk.values.get(at).filter(|value| **value != 1.0);
        let id = |at: usize| {
            let value = value(at).map(|value| u64::from(value.to_bits()));
            std::iter::once(chunk.keys[at].0).chain(value)
        };
        let bag = |column| chunk.bag_range(example, column).flat_map(id).collect();
        let bags = (0..chunk.schema.id_columns).map(bag).collect();
        (chunk.position_after(chunk.lines[example]), chunk.labels[example].to_bits(), dense, bags)
    };
    (0..chunk.len()).map(row).collect()
}

/// All examples of a source, and the number of skipped lines.
pub(crate) fn read_all(input: Input, options: &ReadOptions) -> Result<(Vec<Row>, u64), DataError> {
    let mut reader = Reader::open(input, options)?;
    let (mut chunk, mut rows) = (reader.chunk(), Vec::new());
    while reader.next_chunk(&mut chunk)? {
        assert!(chunk.bytes() <= options.schema.chunk_bytes_max(options.block_bytes));
        rows.extend(rows_of(&chunk));
    }
    assert!(chunk.is_empty());
    Ok((rows, reader.skipped()))
}

pub(crate) fn read_files(
    files: &[PathBuf],
    options: &ReadOptions,
) -> Result<(Vec<Row>, u64), DataError> {
    read_all(Input::Files(files.to_vec().into()), options)
}

/// Options with blocks of `block_bytes`.
pub(crate) fn blocks_of(block_bytes: usize) -> ReadOptions {
    ReadOptions { block_bytes, ..ReadOptions::new(TINY) }
}

/// Number of cases of a property: `usual`, or fifty times as many if `STEPWELL_LONG` is set.
pub(crate) fn cases(usual: u32) -> u32 {
    if std::env::var_os("STEPWELL_LONG").is_some() { 50 * usual } else { usual }
}
