//! Damage of a packed file is an error, and never gives other examples or a panic.

use std::path::Path;

use stepwell_base::random::Stream;
use stepwell_data::{DataError, PackedOptions, PackedWriter, ReadOptions, count_lines, resolve};

use crate::common::*;

/// A file of three or four blocks: its bytes and rows. `values` are the values of the first ids; if
/// there are any, one label is between 0 and 1.
fn small(path: &Path, values: &[f32]) -> (Vec<u8>, Vec<Row>) {
    let mut chunk = stepwell_data::Chunk::new(TINY);
    stepwell_data::parse_block(&stepwell_data::Block::of_text(lines(0..7).into()), &mut chunk);
    // The last block has a bag with two keys.
    *chunk.bag_ends.last_mut().unwrap() += 1;
    chunk.keys.push(stepwell_base::Key(7));
    if !values.is_empty() {
        chunk.values = values.to_vec();
        chunk.values.resize(chunk.keys.len(), 1.0);
        chunk.labels[1] = 0.25;
    }
    let options = PackedOptions { block_bytes: 120, ..PackedOptions::new(TINY) };
    let mut writer = PackedWriter::new(path, &options).unwrap();
    writer.add(&chunk).unwrap();
    assert_eq!(writer.finish().unwrap(), 7);
    (std::fs::read(path).unwrap(), rows_of(&chunk))
}

/// Values of the ids of the first blocks.
const VALUES: [f32; 4] = [0.5, 1.0, -2.25, 0.0];

#[test]
fn a_file_that_an_earlier_build_wrote_opens_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    for (name, values) in [("version-1.packed", &[][..]), ("version-6.packed", &VALUES)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let (bytes, rows) = small(&folder.path().join("small"), values);
        assert!(read_files(std::slice::from_ref(&path), &options()).unwrap().0 == rows, "{name}");
        // While this version is current, the same examples give the same bytes.
        assert!(std::fs::read(path).unwrap() == bytes, "{name}");
    }
}

#[test]
fn a_file_of_the_keys_that_columns_shared_is_refused() {
    for name in ["version-1-old-keys.packed", "version-2-old-keys.packed"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let error = read_files(&[path], &options()).unwrap_err().to_string();
        assert!(error.contains("keys were made by 'xxh3-64(value bytes, seed = slot)'"), "{error}");
        assert!(error.contains("make it again with this build's `stepwell convert`"), "{error}");
    }
}

fn options() -> ReadOptions {
    // Skipping lines must not make damage look like an empty file.
    ReadOptions { example_keys_max: 9, skip_max: u64::MAX, ..blocks_of(4096) }
}

/// Result of reading a file with these bytes, after trying every way to examine it.
fn outcome(folder: &Path, bytes: &[u8]) -> Result<Vec<Row>, DataError> {
    // A new file each time: some file systems sync a file that is truncated and rewritten.
    let _ = std::fs::remove_file(folder.join("damaged"));
    let files = [write(folder, "damaged", bytes)];
    let resolved = resolve(&files).map(|_| ());
    let counted = count_lines(&files);
    let (rows, skipped) = read_files(&files, &options())?;
    if skipped == 0 {
        resolved.unwrap();
        assert_eq!(counted.unwrap(), rows.len() as u64);
    }
    Ok(rows)
}

#[test]
fn every_flipped_bit_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, rows) = small(&folder.path().join("small"), &VALUES);
    assert!(outcome(folder.path(), &bytes).unwrap() == rows);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = outcome(folder.path(), &flipped).unwrap_err().to_string();
        let named = error.contains("the file is damaged or cut short: copy it again")
            || error.contains("is packed in format version");
        assert!(error.contains("damaged: ") && named, "bit {bit}: {error}");
    }
}

#[test]
fn every_cut_and_every_longer_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, _) = small(&folder.path().join("small"), &VALUES);
    for length in 1..bytes.len() {
        let error = outcome(folder.path(), &bytes[..length]).unwrap_err().to_string();
        assert!(error.contains("the file is damaged or cut short"), "{length}: {error}");
    }
    // An empty file has no format: it is an error alone, and skipped among others.
    let nothing = [write(folder.path(), "nothing", b"")];
    assert!(resolve(&nothing).unwrap_err().to_string().ends_with("nothing: is empty"));
    assert!(read_files(&nothing, &options()).unwrap().0.is_empty());
    for more in [&bytes[..1], &bytes] {
        let longer = [&bytes, more].concat();
        assert!(outcome(folder.path(), &longer).is_err());
    }
    // A missing part; a file without its first bytes is read as text, like any other.
    for at in (8..bytes.len() - 32).step_by(7) {
        let holed = [&bytes[..at], &bytes[at + 32..]].concat();
        assert!(outcome(folder.path(), &holed).is_err(), "{at}");
    }
}

#[test]
fn a_damaged_block_is_named_with_its_place_and_ends_the_reading() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bytes, rows) = small(&folder.path().join("small"), &[]);
    bytes[160 + 120 + 11] ^= 1;
    let path = write(folder.path(), "damaged", bytes);
    let input = stepwell_data::Input::Files(vec![path].into());
    let mut reader = stepwell_data::Reader::open(input, &options()).unwrap();
    let mut chunk = reader.chunk();
    assert!(reader.next_chunk(&mut chunk).unwrap());
    assert!(rows_of(&chunk) == rows[..chunk.len()]);
    let error = reader.next_chunk(&mut chunk).unwrap_err().to_string();
    assert!(error.contains("damaged: block 2 (examples 4 to 6, at byte "), "{error}");
    assert!(error.contains("the checksum is "), "{error}");
    assert!(error.ends_with("make it again with `stepwell convert`"), "{error}");
    assert!(chunk.is_empty());
}

#[test]
fn blocks_of_another_file_are_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let make = |from: usize| {
        let path = folder.path().join(format!("file{from}"));
        let mut chunk = stepwell_data::Chunk::new(TINY);
        let text = lines(from..from + 6).into();
        stepwell_data::parse_block(&stepwell_data::Block::of_text(text), &mut chunk);
        let options = PackedOptions { block_bytes: 120, ..PackedOptions::new(TINY) };
        let mut writer = PackedWriter::new(&path, &options).unwrap();
        writer.add(&chunk).unwrap();
        writer.finish().unwrap();
        std::fs::read(path).unwrap()
    };
    let (a, b) = (make(0), make(6));
    assert_eq!(a.len(), b.len());
    // Whole blocks, table or tail of one file in the other, as interrupted copies leave them.
    for cut in 161..a.len() {
        let mixed = [&a[..cut], &b[cut..]].concat();
        let whole = mixed == a || mixed == b;
        assert_eq!(outcome(folder.path(), &mixed).is_ok(), whole, "{cut}");
    }
}

#[test]
fn any_bytes_behind_the_first_ones_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, _) = small(&folder.path().join("small"), &VALUES);
    let mut dice = Stream::named(5, b"packed noise");
    for _ in 0..2000 {
        let mut noise = bytes.clone();
        let from = (dice.next_u64() % noise.len() as u64) as usize;
        noise.truncate(noise.len() - (dice.next_u64() % 100) as usize);
        for byte in noise.iter_mut().skip(from.max(8)).take((dice.next_u64() % 64) as usize) {
            *byte = dice.next_u64() as u8;
        }
        if noise != bytes {
            assert!(outcome(folder.path(), &noise).is_err());
        }
    }
    for length in 8..300 {
        let mut noise = b"STEPWPAK".to_vec();
        noise.extend((8..length).map(|_| dice.next_u64() as u8));
        assert!(outcome(folder.path(), &noise).is_err());
    }
}
