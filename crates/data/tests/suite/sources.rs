//! Files of every kind give the same examples, wherever blocks are cut and reading starts.

use crate::common::*;
use stepwell_data::{DataError, Input, Position, ReadOptions, count_lines, lines_of_each, resolve};
use stepwell_data::{PackedOptions, PackedWriter, Schema, SynthOptions};

fn message<T: std::fmt::Debug>(result: Result<T, DataError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn compression_does_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(0..100);
    let (head, tail) = text.split_at(1234);
    let kinds = [
        write(folder.path(), "plain.gz", &text),
        write(folder.path(), "one.tsv", gzip(&text)),
        write(folder.path(), "members", [gzip(head), gzip(tail)].concat()),
        write(folder.path(), "zstd.txt", zstd(&text)),
        write(folder.path(), "frames", [zstd(head), zstd(tail)].concat()),
        write(folder.path(), "windows", text.replace('\n', "\r\n")),
    ];
    let (plain, _) = read_files(&kinds[..1], &blocks_of(4096)).unwrap();
    assert_eq!(plain.len(), 100);
    assert_eq!(plain[41].0, Position { file: 0, line: 42 });
    for file in &kinds {
        let files = std::slice::from_ref(file);
        assert!(read_files(files, &blocks_of(4096)).unwrap().0 == plain, "{file:?}");
        assert_eq!(count_lines(files).unwrap(), 100);
    }
    assert_eq!(lines_of_each(&kinds).unwrap(), [100; 6]);
    let bytes_max =
        |files: &[_]| Input::Files(files.to_vec().into()).source_bytes_max(4096).unwrap();
    assert_eq!(bytes_max(&kinds[..1]), 4096);
    assert!((1 << 27..1 << 28).contains(&bytes_max(&kinds)));
}

#[test]
fn cuts_and_starts_do_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        write(folder.path(), "a", lines(0..40)),
        write(folder.path(), "b", zstd(lines(40..41))),
        write(folder.path(), "c", gzip(lines(41..70))),
    ];
    let (whole, _) = read_files(&files, &ReadOptions::new(TINY)).unwrap();
    assert_eq!(whole.len(), 70);
    let longest = (0..70).map(|n| line(n).len()).max().unwrap();
    for block_bytes in (longest + 1..longest + 40).chain([500, 10_000]) {
        let options = blocks_of(block_bytes);
        assert!(read_files(&files, &options).unwrap().0 == whole, "{block_bytes}");
        for done in 0..whole.len() {
            let start = whole[done].0;
            let rest = read_files(&files, &ReadOptions { start, ..options }).unwrap().0;
            assert!(rest == whole[done + 1..], "{block_bytes} {done}");
        }
    }
}

#[test]
fn the_stream_goes_on_anywhere() {
    let synth = SynthOptions { examples: 9000, ..SynthOptions::default() };
    let input = Input::synth(&synth).unwrap();
    let options = ReadOptions::new(Schema::CRITEO);
    let (whole, _) = read_all(input.clone(), &options).unwrap();
    assert_eq!(whole.len(), 9000);
    for done in [0, 1, 4094, 4095, 4096, 8998, 8999] {
        let start = whole[done].0;
        let rest = read_all(input.clone(), &ReadOptions { start, ..options }).unwrap().0;
        assert!(rest == whole[done + 1..], "{done}");
    }
    let start = Position { file: 0, line: 9001 };
    let error = message(read_all(input.clone(), &ReadOptions { start, ..options }));
    assert_eq!(error, "built-in stream: cannot continue after line 9001: it has 9000 examples");
    let error = message(read_all(input.clone(), &ReadOptions::new(TINY)));
    assert!(error.starts_with("2 dense features and 3 id columns are asked for"), "{error}");
    assert_eq!(input.lines_of_each().unwrap(), [9000]);
}

#[test]
fn the_written_stream_is_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let synth = SynthOptions { examples: 5000, ..SynthOptions::default() };
    let mut text = Vec::new();
    stepwell_data::synth::write_tsv(&synth, &mut text).unwrap();
    let file = write(folder.path(), "synth.tsv", zstd(text));
    let options = ReadOptions::new(Schema::CRITEO);
    let direct = read_all(Input::synth(&synth).unwrap(), &options).unwrap();
    assert!(read_files(&[file], &options).unwrap() == direct);
}

#[test]
fn patterns_are_resolved_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["day_10", "day_1", "day_2", "other", "odd[1]", ".day_1.crc", ".d"] {
        write(folder.path(), name, "x\n");
    }
    let path = |name: &str| folder.path().join(name);
    let found = resolve(&[path("other"), path("day_*"), path("odd[1]")]).unwrap();
    let wanted = ["other", "day_1", "day_2", "day_10", "odd[1]"].map(path);
    assert_eq!(found, wanted);
    // Hidden files are only matched explicitly.
    assert_eq!(resolve(&[path("*[1-2]")]).unwrap(), ["day_1", "day_2"].map(path));
    assert_eq!(resolve(&[path(".d*")]).unwrap(), [".d", ".day_1.crc"].map(path));
    assert!(message(resolve(&[path("*.crc")])).ends_with("*.crc: matches no file"));
    let none: [&str; 0] = [];
    assert_eq!(message(resolve(&none)), "no data file is given");
    assert!(message(resolve(&[path("week_*")])).ends_with("week_*: matches no file"));
    assert!(message(resolve(&[path("a[")])).contains("a[: is not a pattern"));
}

#[test]
fn bad_files_are_named_before_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(folder.path(), "empty", "");
    std::fs::create_dir(path("folder")).unwrap();
    assert!(message(resolve(&[path("missing")])).ends_with("missing: does not exist"));
    assert!(message(resolve(&[path("empty")])).ends_with("empty: is empty"));
    write(folder.path(), "nothing", gzip(""));
    let error = message(resolve(&[path("nothing"), path("empty")]));
    assert!(error.ends_with("nothing: is empty, and so is the other file"), "{error}");
    write(folder.path(), "cut", &gzip("abc")[..11]);
    write(folder.path(), "full", "x\n");
    let error = message(resolve(&[path("full"), path("cut")]));
    assert!(error.contains("cut: after line 0: the compressed data ends too early"), "{error}");
    assert!(message(resolve(&[path("folder")])).contains("folder: is a directory"));
    assert!(message(resolve(&[path("f*")])).contains("folder: is a directory"));
}

#[cfg(unix)]
#[test]
fn a_forbidden_file_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "secret", "x\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        stepwell_skip::skipped("this user may read every file");
        return;
    }
    assert!(message(resolve(&[path])).ends_with("secret: cannot be read: permission denied"));
}

#[test]
fn damaged_files_are_named_with_the_line_reached() {
    let folder = tempfile::tempdir().unwrap();
    // Lines that compress poorly, so that a truncated file still contains some of them.
    let text: String = (0..4000).map(|n: usize| line(n.wrapping_mul(0x9E37_79B9) >> 8)).collect();
    for (name, packed) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
        let cut = write(folder.path(), name, &packed[..packed.len() - 9]);
        let error = message(read_files(std::slice::from_ref(&cut), &blocks_of(4096)));
        assert!(error.contains(&format!("{name}: after line ")), "{error}");
        assert!(error.ends_with("ends too early; the file may be cut short"), "{error}");
        assert!(!error.contains("after line 0:"), "{error}");
        assert!(message(count_lines(&[cut])).contains("cut short"));
        let mut flipped = packed.clone();
        for byte in &mut flipped[packed.len() / 2..packed.len() / 2 + 40] {
            *byte ^= 0x5A;
        }
        let flipped = write(folder.path(), name, flipped);
        let error = message(read_files(&[flipped], &blocks_of(4096)));
        assert!(error.contains(name), "{error}");
    }
    let xz = write(folder.path(), "data", b"\xFD7zXZ\0rest");
    let error = message(read_files(&[xz], &blocks_of(64)));
    assert!(
        error.ends_with("is compressed with xz; only plain text, gzip and zstd can be read"),
        "{error}"
    );
}

#[test]
fn empty_files_keep_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.packed");
    PackedWriter::new(&none, &PackedOptions::new(TINY)).unwrap().finish().unwrap();
    let files = [
        write(folder.path(), "_SUCCESS", ""),
        write(folder.path(), "a", lines(0..5)),
        write(folder.path(), "b", gzip("")),
        write(folder.path(), "c", zstd("")),
        none.clone(),
        write(folder.path(), "d", gzip(lines(5..9))),
        write(folder.path(), "e", ""),
    ];
    let files = resolve(&files).unwrap();
    assert_eq!(lines_of_each(&files).unwrap(), [0, 5, 0, 0, 0, 4, 0]);
    let (whole, _) = read_files(&files, &blocks_of(64)).unwrap();
    let full = [files[1].clone(), files[5].clone()];
    let (expected, _) = read_files(&full, &blocks_of(64)).unwrap();
    for (row, other) in whole.iter().zip(&expected) {
        assert_eq!((row.1, &row.2, &row.3), (other.1, &other.2, &other.3));
        assert_eq!(row.0, Position { file: 1 + 4 * other.0.file, ..other.0 });
    }
    assert_eq!(whole.len(), 9);
    let from = |start| read_files(&files, &ReadOptions { start, ..blocks_of(64) });
    for done in 0..9 {
        assert!(from(whole[done].0).unwrap().0 == whole[done + 1..]);
    }
    for (file, left) in [(0, 9), (1, 9), (2, 4), (3, 4), (4, 4), (5, 4), (6, 0)] {
        assert_eq!(from(Position { file, line: 0 }).unwrap().0.len(), left, "file {file}");
        let beyond = Position { file, line: 6 };
        assert!(matches!(from(beyond), Err(DataError::Position { .. })), "file {file}");
    }
    assert!(message(resolve(&[none])).ends_with("none.packed: is empty"));
}

#[test]
fn positions_beyond_the_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = [write(folder.path(), "a", lines(0..5))];
    let at = |file, line| ReadOptions { start: Position { file, line }, ..blocks_of(64) };
    assert!(read_files(&files, &at(0, 5)).unwrap().0.is_empty());
    let error = message(read_files(&files, &at(0, 6)));
    assert!(error.contains("cannot continue after line 6: the file has 5 lines"), "{error}");
    let error = message(read_files(&files, &at(1, 0)));
    assert!(error.contains("file number 1: cannot continue after line 0"), "{error}");
}

#[test]
fn a_line_longer_than_a_block_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{}{}\n", line(0), "x".repeat(100));
    let files = [write(folder.path(), "long", text)];
    let error = message(read_files(&files, &ReadOptions { skip_max: 9, ..blocks_of(64) }));
    assert!(error.contains("line 2, column 1: the line is longer than"), "{error}");
    // Counting stops in a line that exceeds a block, wherever it starts.
    for before in [0, 1, 40_000] {
        let text = lines(0..before) + &"x".repeat((1 << 20) - 1);
        let files = |more: &str| [write(folder.path(), "longer", text.clone() + more)];
        assert_eq!(count_lines(&files("\n1\n")).unwrap(), before as u64 + 2);
        assert_eq!(count_lines(&files("")).unwrap(), before as u64 + 1);
        let error = message(count_lines(&files(&"x".repeat(1 << 20))));
        assert!(error.contains(&format!("longer: line {}, column 1", before + 1)), "{error}");
    }
}
