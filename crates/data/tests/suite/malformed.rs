//! Malformed lines are named, counted, and skipped if that is allowed.

use crate::common::*;
use stepwell_data::{Block, Chunk, ReadOptions, Schema, parse_block};

fn complaint(text: &str) -> (u32, String) {
    let mut chunk = Chunk::new(TINY);
    parse_block(&Block::of_text(text.into()), &mut chunk);
    assert_eq!((chunk.len(), chunk.malformed.len()), (0, 1), "{text:?}");
    let reason = chunk.reasons.remove(0);
    (reason.column, reason.why)
}

#[test]
fn reasons_say_what_was_found_and_what_is_expected() {
    let says = |text: &str, column: u32, part: &str| {
        let (at, why) = complaint(text);
        assert_eq!(at, column, "{text:?}: {why}");
        assert!(why.contains(part), "{text:?}: {why}");
    };
    says("1\t2\t3\ta\tb\n", 5, "has 5 columns where 6 are expected");
    says("1\t2\t3\ta\tb\tc\td\n", 7, "has 7 columns where 6 are expected");
    says("1,2,3,a,b,c\n", 1, "has 1 column where 6 are expected, separated by tabs");
    says("\n", 1, "has 1 column");
    says("\r\n", 1, "has 1 column");
    says("2\t2\t3\ta\tb\tc\n", 1, "the label is '2', not a number from 0 to 1");
    says("\t2\t3\ta\tb\tc\n", 1, "the label is ''");
    says("1.1\t2\t3\ta\tb\tc\n", 1, "the label is '1.1'");
    says("label\t2\t3\ta\tb\tc\n", 1, "the label is 'label'");
    let no_number = "not a number such as 7, -1.5 or 2e3, nor empty";
    says("1\t2,5\t3\ta\tb\tc\n", 2, &format!("dense feature 1 is '2,5', {no_number}"));
    says("1\t2\t \ta\tb\tc\n", 3, &format!("dense feature 2 is ' ', {no_number}"));
    says("1\t-\t3\ta\tb\tc\n", 2, &format!("dense feature 1 is '-', {no_number}"));
    says("1\t2\t3\r\ta\tb\tc\n", 3, r"is '3\r', not a number alone: no space may be by it");
    says("1\t 4\t3\ta\tb\tc\n", 2, "is ' 4', not a number alone: no space may be by it");
    says("1\tNaN\t3\ta\tb\tc\n", 2, "is 'NaN', not a finite number; leave the field empty");
    says("1\t-inf\t3\ta\tb\tc\n", 2, "is '-inf', not a finite number");
    says("1\t0x1f\t3\ta\tb\tc\n", 2, "is '0x1f', not a decimal number, but a hexadecimal one");
    says("1\t1e39\t3\ta\tb\tc\n", 2, "is '1e39', beyond 32-bit numbers");
    says("1\t\u{1F600}\u{0}\t3\ta\tb\tc\n", 2, r"is '\xf0\x9f\x98\x80\x00'");
    says(&format!("1\t{}\t3\ta\tb\tc\n", "z".repeat(99)), 2, "zzz...'");
    says("1\t2\t3\ta\tb\tc", 6, "no line end; the file may be cut short");
    says("1", 1, "no line end");
}

#[test]
fn unusual_but_valid_lines_are_read() {
    let text = "1\t-5\t12345678901\t\t\t\r\n0\t\t-0\t\u{1F600}\tlonger than eight bytes\tc\n";
    let mut chunk = Chunk::new(TINY);
    parse_block(&Block::of_text(text.into()), &mut chunk);
    assert_eq!(chunk.labels, [1.0, 0.0]);
    assert!(chunk.malformed.is_empty());
    assert_eq!(chunk.dense[0], 0.0);
    assert!((chunk.dense[1] - 23.236_55).abs() < 1e-4);
    assert_eq!((chunk.dense[2].to_bits(), chunk.dense[3].to_bits()), (0, 0));
    let key = |column: u32, text: &str| {
        stepwell_base::key_of(&format!("C{}", column + 1), text.as_bytes())
    };
    assert_eq!(chunk.bag(0, 2), [key(2, "")]);
    assert_eq!(chunk.bag(1, 0), [key(0, "\u{1F600}")]);
    assert_eq!(chunk.bag(1, 1), [key(1, "longer than eight bytes")]);
}

#[test]
fn schemas_may_lack_one_kind_of_feature() {
    let parse = |schema, text: &str| {
        let mut chunk = Chunk::new(schema);
        parse_block(&Block::of_text(text.into()), &mut chunk);
        (chunk.len(), chunk.dense.len(), chunk.keys.len(), chunk.malformed.len())
    };
    assert_eq!(parse(Schema::new(2, 0), "1\t2\t3\r\n0\t\t\n0\t1\n"), (2, 4, 0, 1));
    assert_eq!(parse(Schema::new(0, 1), "1\t2\n0\t\r\n0\n"), (2, 0, 2, 1));
    assert!(Schema::new(0, 0).check().is_err());
    assert!(Schema::new(usize::MAX, 2).check().is_err());
    assert!(Schema::CRITEO.check().is_ok());
}

#[test]
fn malformed_lines_are_skipped_and_counted_as_far_as_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let mut text: Vec<String> = (0..60).map(line).collect();
    for bad in [0, 7, 8, 30, 59] {
        text[bad] = format!("bad line {bad}\n");
    }
    let files = [write(folder.path(), "a", text.concat()), write(folder.path(), "b", line(3))];
    let read = |block_bytes, skip_max| {
        read_files(&files, &ReadOptions { skip_max, ..blocks_of(block_bytes) })
    };
    for block_bytes in [40, 64, 200, 5000] {
        let (rows, skipped) = read(block_bytes, 5).unwrap();
        assert_eq!((rows.len(), skipped), (56, 5));
        // Skipped lines don't affect the positions of other lines.
        assert_eq!(rows[0].0.line, 2);
        assert_eq!(rows[6].0.line, 10);
        let error = read(block_bytes, 3).unwrap_err().to_string();
        assert!(error.contains("a: line 31, column 1: "), "{error}");
        assert!(error.ends_with("(the 3 malformed lines that may be skipped are used up)"));
        let error = read(block_bytes, 0).unwrap_err().to_string();
        assert!(error.contains("a: line 1, column 1: the line has 1 column where 6"), "{error}");
        assert!(error.contains("expected, separated by tabs; `stepwell schema`"), "{error}");
    }
}

#[test]
fn many_malformed_lines_take_little_memory() {
    let text = format!("{}{}", "\n".repeat(10_000), line(1));
    let mut chunk = Chunk::new(TINY);
    parse_block(&Block::of_text(text.into_bytes()), &mut chunk);
    assert_eq!((chunk.len(), chunk.malformed.len()), (1, 10_000));
    assert_eq!(chunk.reasons.len(), stepwell_data::REASONS_MAX);
    assert_eq!(chunk.malformed_before(chunk.lines[0]), 10_000);
    assert!(chunk.bytes() <= TINY.chunk_bytes_max(10_100), "{}", chunk.bytes());
    // Lines past the recorded reasons have only a position.
    let folder = tempfile::tempdir().unwrap();
    let files = [write(folder.path(), "a", "\n".repeat(100))];
    let error = read_files(&files, &ReadOptions { skip_max: 50, ..blocks_of(4096) }).unwrap_err();
    assert!(error.to_string().contains("a: line 51: "), "{error}");
}
