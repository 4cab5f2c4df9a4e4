//! Files that no writer wrote: from other builds, and forged ones with valid checksums.

use std::path::PathBuf;

use stepwell_base::hash;
use stepwell_base::random::Stream;

use super::encode::{Shape, encode};
use super::layout::{
    BLOCK_HEAD_BYTES, ENTRY_BYTES, HEADER_BYTES, Holds, ONE_KEY_A_BAG, SHARES, TAIL_BYTES, Tail,
    header, is_packed,
};
use super::*;
use crate::block::{Block, Seal};
use crate::chunk::Chunk;
use crate::error::DataError;
use crate::input::Input;
use crate::parse_lines::parse_block;
use crate::read_options::ReadOptions;
use crate::reader::Reader;
use crate::schema::Schema;

const TINY: Schema = Schema::new(1, 2);

fn chunk() -> Chunk {
    let mut chunk = Chunk::new(TINY);
    parse_block(&Block::of_text(b"1\t2\ta\tb\n0\t\t\tc\n1\t7\ta\t\n".to_vec()), &mut chunk);
    chunk
}

/// Encodes a block of `chunk`, always with bag ends.
fn block_of(chunk: &Chunk) -> Vec<u8> {
    let keys = chunk.keys.len() as u64;
    let examples = chunk.len() as u64;
    let mut bytes = Vec::new();
    let shares = (0..chunk.len()).any(|example| chunk.has_share(example));
    let shape = Shape { examples, keys, one_key_a_bag: false, shares, ..Shape::EMPTY };
    encode(chunk, &shape, &mut bytes);
    bytes
}

fn seal_of(bytes: &[u8], examples: u32) -> Seal {
    Seal {
        offset: HEADER_BYTES as u64,
        examples,
        bytes: bytes.len() as u32,
        checksum: hash::checksum(bytes),
        example_keys_max: 4,
        ..Seal::default()
    }
}

fn decoded(bytes: Vec<u8>, examples: u32) -> Result<Chunk, String> {
    let (seal, mut decoded) = (seal_of(&bytes, examples), Chunk::new(TINY));
    let block = Block { bytes, lines: examples, ..Block::default() };
    let outcome = decode(&block, &seal, 0, &mut decoded);
    assert!(outcome.is_ok() || decoded.is_empty());
    outcome.map(|()| decoded)
}

#[test]
fn bag_ends_that_nobody_needs_are_read_as_well() {
    assert_eq!(decoded(block_of(&chunk()), 3), Ok(chunk()));
}

#[test]
fn columns_that_no_chunk_has_are_refused() {
    let ends_at = BLOCK_HEAD_BYTES + 3 + 3 * 4 + 6 * 8;
    let refused = |at: usize, value: u8, why: &str| {
        let mut bytes = block_of(&chunk());
        bytes[at] = value;
        let error = decoded(bytes, 3).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    refused(BLOCK_HEAD_BYTES + 1, 2, "label 2 of its example 2, not 0 or 1");
    refused(ends_at + 4, 0, "a bag of example 1 ends before it begins");
    refused(ends_at + 4, 5, "5 keys of example 1, 4 at most");
    refused(ends_at + 20, 7, "bags of 7 keys among 6");
    refused(0, ONE_KEY_A_BAG as u8, "do not take");
    refused(0, SHARES as u8, "flags 4 do not take");
    refused(0, 8, "flags 8 do not take");
    refused(4, 5, "3 examples with 5 keys and flags 0 do not take 95 bytes");
    assert!(decoded(block_of(&chunk()), 4).is_err());
    assert!(decoded(vec![1; 7], 1).unwrap_err().contains("7 bytes are not a block"));
    // One key per bag, and one too many.
    let mut bytes = [ONE_KEY_A_BAG.to_le_bytes(), 3u32.to_le_bytes()].concat();
    bytes.extend([0; 1 + 4 + 3 * 8]);
    assert!(decoded(bytes, 1).unwrap_err().contains("3 keys, not one per bag"));
}

#[test]
fn labels_between_0_and_1_are_numbers_of_a_block() {
    let mut soft = chunk();
    soft.labels[1] = 0.25;
    assert_eq!(decoded(block_of(&soft), 3), Ok(soft.clone()));
    for label in [-0.5, 1.5, f32::NAN, f32::INFINITY] {
        let mut bytes = block_of(&soft);
        bytes[BLOCK_HEAD_BYTES + 4..][..4].copy_from_slice(&label.to_le_bytes());
        let error = decoded(bytes, 3).unwrap_err();
        assert!(error.contains("of its example 2, not a label"), "{error}");
    }
}

#[test]
fn blocks_of_any_bytes_are_refused_or_make_a_chunk() {
    let mut dice = Stream::named(1, b"packed blocks");
    let (whole, mut read) = (block_of(&chunk()), 0);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=dice.next_u64() % 3 {
            let at = (dice.next_u64() % bytes.len() as u64) as usize;
            bytes[at] = [0, 1, 2, 3, 0xFF][(dice.next_u64() % 5) as usize];
        }
        if dice.next_u64().is_multiple_of(4) {
            bytes.truncate((dice.next_u64() % 95) as usize);
        }
        let examples = [3, 3, 3, 1, 4, u32::MAX][(dice.next_u64() % 6) as usize];
        let Ok(chunk) = decoded(bytes, examples) else { continue };
        read += 1;
        assert_eq!((chunk.len(), chunk.bag_ends.len()), (3, 6));
        let keys: usize = (0..6).map(|bag| chunk.bag(bag / 2, bag % 2).len()).sum();
        assert_eq!(keys, chunk.keys.len());
    }
    assert!(read > 1000, "{read}");
}

/// A file of these parts, with valid checksums.
fn forged(head: [u8; HEADER_BYTES], blocks: &[u8], seals: &[Seal], mut tail: Tail) -> Vec<u8> {
    let table: Vec<u8> = seals.iter().flat_map(|seal| seal.encode()).collect();
    tail.table_sum = hash::checksum(&table);
    [&head[..], blocks, &table, &tail.encode(&head)].concat()
}

fn tail_of(blocks: u64, examples: u64, block_bytes: usize) -> Tail {
    Tail {
        examples,
        blocks,
        table_offset: (HEADER_BYTES + block_bytes) as u64,
        block_bytes_max: 1000,
        example_keys_max: 2,
        ..Tail::default()
    }
}

fn read(bytes: &[u8]) -> Result<usize, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("forged");
    std::fs::write(&path, bytes).unwrap();
    let mut reader = Reader::open(Input::Files(vec![path].into()), &ReadOptions::new(TINY))?;
    let (mut chunk, mut examples) = (reader.chunk(), 0);
    while reader.next_chunk(&mut chunk)? {
        examples += chunk.len();
    }
    Ok(examples)
}

#[test]
fn tables_that_lie_are_refused() {
    let block = block_of(&chunk());
    let two = [block.clone(), block.clone()].concat();
    let first = seal_of(&block, 3);
    let second = Seal { offset: first.offset + u64::from(first.bytes), first: 3, ..first };
    let tail = tail_of(2, 6, two.len());
    let try_it = |second: Seal, tail: Tail| {
        read(&forged(header(&TINY, None, Holds::default()), &two, &[first, second], tail))
            .map_err(|e| e.to_string())
    };
    assert_eq!(try_it(second, tail), Ok(6));
    let says = |second: Seal, tail: Tail, why: &str| {
        let error = try_it(second, tail).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    let behind = "block 2 (examples ";
    says(Seal { offset: 0, ..second }, tail, behind);
    says(Seal { offset: u64::MAX, ..second }, tail, behind);
    says(Seal { first: u64::MAX, ..second }, tail, behind);
    says(Seal { examples: 0, ..second }, tail, behind);
    says(Seal { bytes: u32::MAX, ..second }, tail, behind);
    says(Seal { bytes: second.bytes - 1, ..second }, tail, "its blocks end at byte");
    says(Seal { examples: u32::MAX, ..second }, tail, "its blocks end at byte");
    says(second, Tail { examples: 7, ..tail }, "with 6 examples");
    says(second, Tail { block_bytes_max: 9, ..tail }, "block 1 (examples 1 to 3");
    says(second, Tail { example_keys_max: 1, ..tail }, "2 keys of example 1, 1 at most");
    for blocks in [0, 1, 3, 1 << 59, u64::MAX] {
        says(second, Tail { blocks, ..tail }, "its end: ");
    }
    for table_offset in [0, 5, HEADER_BYTES as u64, tail.table_offset + 1, u64::MAX] {
        says(second, Tail { table_offset, ..tail }, "its end: ");
    }
    let blocks = 1 + (two.len() / ENTRY_BYTES) as u64;
    let table_offset = tail.table_offset - (blocks - 2) * ENTRY_BYTES as u64;
    says(second, Tail { blocks, table_offset, ..tail }, "its table of blocks (at byte ");
}

#[test]
fn files_of_other_builds_are_told_from_damage() {
    let file = |change: &dyn Fn(&mut [u8; HEADER_BYTES])| {
        let mut head = header(&TINY, None, Holds::default());
        change(&mut head);
        let sum = hash::checksum(&head[..HEADER_BYTES - 8]);
        head[HEADER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        read(&forged(head, &[], &[], tail_of(0, 0, 0))).map_err(|error| error.to_string())
    };
    assert_eq!(file(&|_| {}), Ok(0));
    let says = |why: &str, change: &dyn Fn(&mut [u8; HEADER_BYTES])| {
        let error = file(change).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    says("is packed in format version 7, but this build reads 1 to 6", &|head| head[8] = 7);
    says("made of columns that the settings do not name", &|head| head[8] = 4);
    says("made of columns that the settings do not name", &|head| head[8] = 3);
    says("its end: 0 bytes of origin are not of its version", &|head| head[8] = 2);
    says("its keys were made by 'xxh4-64(namespace, NUL", &|head| head[27] = b'4');
    let of_positions = b"xxh3-64(value bytes, seed = slot)";
    says("its keys were made by 'xxh3-64(value bytes, seed = slot)'", &|head| {
        head[24..88].fill(0);
        head[24..24 + of_positions.len()].copy_from_slice(of_positions);
    });
    says("its keys were made by '\\xff", &|head| head[24..88].fill(0xFF));
    says("its keys were made by '', but this build", &|head| head[24..88].fill(0));
    says("its dense features were made by 'Ln(1 + max", &|head| head[88] = b'L');
    says("0 dense features and 0 id columns", &|head| head[12..20].fill(0));
    says("an example has 1 to 65535 features", &|head| head[12..20].fill(0xFF));
    says("its header: the first 8 bytes are not those", &|head| head[0] = b's');
    assert!(
        read(&header(&TINY, None, Holds::default()))
            .unwrap_err()
            .to_string()
            .contains("its end: 160 bytes are fewer")
    );
    let short = [&header(&TINY, None, Holds::default())[..], &[0; TAIL_BYTES]].concat();
    assert!(read(&short).unwrap_err().to_string().contains("does not end as a packed file does"));
}

#[test]
fn first_bytes_tell_packed_files_even_damaged_ones() {
    for packed in [&b"STEPWPAK"[..], b"S", b"STEPWPA", b"XTEPWPAK", b"STEPWxxK"] {
        assert!(is_packed(packed), "{packed:?}");
    }
    for other in [&b""[..], b"0\t1\t2\t3\t4", b"STEPWSEG", b"\x28\xB5\x2F\xFD1234", b"1", b"So"] {
        assert!(!is_packed(other), "{other:?}");
    }
}

#[test]
fn a_writer_holds_no_more_than_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Stream::named(1, b"held by a writer");
    for schema in [TINY, Schema::new(0, 1), Schema::new(9, 0)] {
        for keys_max in [1, 2, 9] {
            let options = PackedOptions { block_bytes: 2000, ..PackedOptions::new(schema) };
            let mut writer = PackedWriter::new(&folder.path().join("packed"), &options).unwrap();
            let (mut chunk, mut held) = (Chunk::new(schema), 0);
            for _ in 0..3000 {
                chunk.clear();
                chunk.labels.push(1.0);
                chunk.dense.resize(schema.dense, 1.0);
                for _ in 0..schema.id_columns {
                    let keys = dice.next_u64() % keys_max + u64::from(keys_max == 1);
                    chunk.keys.extend((0..keys).map(stepwell_base::Key));
                    chunk.bag_ends.push(chunk.keys.len() as u32);
                }
                writer.add(&chunk).unwrap();
                held = held.max(writer.held());
            }
            let most = PackedWriter::bytes_max(&options, writer.blocks() + 1);
            assert!(held <= most, "{schema:?} with {keys_max}: {held} bytes, not {most}");
        }
    }
}
