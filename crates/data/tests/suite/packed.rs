//! Packed files return the written examples, starting at any of them.

use std::path::{Path, PathBuf};

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_data::{
    Block, Chunk, Input, PackedOptions, PackedWriter, Position, ReadOptions, Reader, Schema,
    SynthOptions, count_lines, parse_block, resolve,
};

use crate::common::*;

/// Options that allow bags of any size.
fn roomy(schema: Schema, block_bytes: usize) -> ReadOptions {
    ReadOptions { block_bytes, example_keys_max: usize::MAX, ..ReadOptions::new(schema) }
}

/// Examples whose bags have a random number of keys, possibly none.
fn bags(dice: &mut Stream, schema: Schema, examples: usize, truth: bool) -> Chunk {
    let mut chunk = Chunk::new(schema);
    let soft = dice.next_u64().is_multiple_of(3);
    for example in 0..examples {
        let label = if soft { [0.0, 1.0, 0.25] } else { [0.0, 1.0, 1.0] };
        chunk.labels.push(label[(dice.next_u64() % 3) as usize]);
        chunk.dense.extend((0..schema.dense).map(|_| f32::from_bits(dice.next_u64() as u32)));
        for _ in 0..schema.id_columns {
            let keys = [1, 1, 1, 0, 2, 9][(dice.next_u64() % 6) as usize];
            chunk.keys.extend((0..keys).map(|_| Key(dice.next_u64())));
            chunk.bag_ends.push(chunk.keys.len() as u32);
        }
        // In some chunks, every other example has values.
        if chunk.keys.first().is_some_and(|key| !key.0.is_multiple_of(3)) {
            let is_one = example.is_multiple_of(2);
            let value = |dice: &mut Stream| if is_one { 1.0 } else { dice.next_symmetric(2.0) };
            let more = chunk.keys.len() - chunk.values.len();
            chunk.values.extend((0..more).map(|_| value(dice)));
        }
        chunk.lines.push(example as u32);
        if truth {
            chunk.truth.push(dice.next_f64() as f32);
        }
    }
    chunk
}

/// Writes `chunks`; returns the rows that a reader of the file must return.
fn pack(path: &Path, options: &PackedOptions, chunks: &[Chunk]) -> Vec<Row> {
    let mut writer = PackedWriter::new(path, options).unwrap();
    let mut rows = Vec::new();
    for chunk in chunks {
        writer.add(chunk).unwrap();
        let before = rows.len() as u64;
        rows.extend(rows_of(chunk).into_iter().map(|(place, label, dense, bags)| {
            (Position { file: 0, line: before + place.line }, label, dense, bags)
        }));
        assert_eq!(writer.examples(), rows.len() as u64);
    }
    assert_eq!(writer.finish().unwrap(), rows.len() as u64);
    rows
}

fn input(path: &Path) -> Input {
    Input::Files(vec![path.to_owned()].into())
}

#[test]
fn what_was_put_in_comes_out_from_any_example_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed");
    let mut dice = Stream::named(1, b"packed round trip");
    for round in 0..150 {
        let features = |dice: &mut Stream| (dice.next_u64() % 4) as usize;
        let schema = Schema::new(features(&mut dice), 1 + features(&mut dice));
        let chunks: Vec<Chunk> = (0..dice.next_u64() % 4)
            .map(|_| {
                let examples = (dice.next_u64() % 20) as usize;
                let truth = dice.next_u64().is_multiple_of(2);
                bags(&mut dice, schema, examples, truth)
            })
            .collect();
        let block_bytes = [500, 1000, 10_000][(dice.next_u64() % 3) as usize];
        let rows =
            pack(&path, &PackedOptions { block_bytes, ..PackedOptions::new(schema) }, &chunks);
        let options = roomy(schema, block_bytes);
        let (found, skipped) = read_all(input(&path), &options).unwrap();
        assert!(found == rows && skipped == 0, "round {round}");
        assert_eq!(count_lines(std::slice::from_ref(&path)).unwrap(), rows.len() as u64);
        for behind in 0..=rows.len() {
            let start = Position { file: 0, line: behind as u64 };
            let (rest, _) = read_all(input(&path), &ReadOptions { start, ..options }).unwrap();
            assert!(rest == rows[behind..], "round {round}, from {behind}");
        }
        let start = Position { file: 0, line: rows.len() as u64 + 1 };
        let error = read_all(input(&path), &ReadOptions { start, ..options }).unwrap_err();
        assert!(error.to_string().ends_with("examples; it may have changed"), "{error}");
    }
}

#[test]
fn a_file_has_the_lowest_version_that_says_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed");
    let bytes = |label: f32, values: &[f32]| {
        let mut chunk = Chunk::new(TINY);
        parse_block(&Block::of_text(lines(0..7).into()), &mut chunk);
        chunk.labels[2] = label;
        chunk.values = values.to_vec();
        if !values.is_empty() {
            chunk.values.resize(chunk.keys.len(), 1.0);
        }
        pack(&path, &PackedOptions::new(TINY), &[chunk]);
        std::fs::read(&path).unwrap()
    };
    for (label, plain) in [(1.0, 1), (0.5, 5)] {
        assert_eq!(bytes(label, &[])[8], plain);
        assert!(bytes(label, &[1.0]) == bytes(label, &[]), "values of 1 are none");
        assert_eq!(bytes(label, &[1.0, 0.5])[8], 6);
    }
}

#[test]
fn truth_comes_out_with_the_examples_that_have_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed");
    let mut dice = Stream::named(2, b"packed truth");
    let [with, without] = [true, false].map(|truth| bags(&mut dice, TINY, 10, truth));
    let options = roomy(TINY, 1 << 16);
    pack(&path, &PackedOptions::new(TINY), std::slice::from_ref(&without));
    assert!(!input(&path).has_truth().unwrap());
    pack(&path, &PackedOptions::new(TINY), &[with.clone(), without, with.clone()]);
    assert!(input(&path).has_truth().unwrap());
    for behind in 0..10 {
        let start = Position { file: 0, line: behind };
        let mut reader = Reader::open(input(&path), &ReadOptions { start, ..options }).unwrap();
        let (mut chunk, mut truth) = (reader.chunk(), Vec::new());
        while reader.next_chunk(&mut chunk).unwrap() {
            assert!(chunk.truth.is_empty() || chunk.truth.len() == chunk.len());
            truth.push(chunk.truth.clone());
        }
        assert_eq!(truth, [&with.truth[behind as usize..], &[], &with.truth]);
    }
}

#[test]
fn a_file_of_no_examples_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none");
    assert!(pack(&path, &PackedOptions::new(TINY), &[Chunk::new(TINY)]).is_empty());
    assert!(read_files(std::slice::from_ref(&path), &blocks_of(64)).unwrap().0.is_empty());
    assert_eq!(count_lines(&[path]).unwrap(), 0);
}

fn packed_text(path: &Path, text: &[PathBuf], options: &ReadOptions) -> u64 {
    pack_text(path, text, (options, &PackedOptions::new(options.schema)))
}

pub(crate) fn pack_text(
    path: &Path,
    text: &[PathBuf],
    (options, packed): (&ReadOptions, &PackedOptions),
) -> u64 {
    let mut reader = Reader::open(Input::Files(text.to_vec().into()), options).unwrap();
    let mut writer = PackedWriter::new(path, packed).unwrap();
    let mut chunk = reader.chunk();
    while reader.next_chunk(&mut chunk).unwrap() {
        writer.add(&chunk).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn lists_may_mix_text_and_packed_files() {
    let folder = tempfile::tempdir().unwrap();
    let text = [
        write(folder.path(), "a", lines(0..40)),
        write(folder.path(), "b", zstd(lines(40..41))),
        write(folder.path(), "c", gzip(lines(41..70))),
    ];
    let (whole, _) = read_files(&text, &ReadOptions::new(TINY)).unwrap();
    let [first, last] = ["first", "last"].map(|name| folder.path().join(name));
    assert_eq!(packed_text(&first, &text[..1], &blocks_of(4096)), 40);
    assert_eq!(packed_text(&last, &text[2..], &blocks_of(4096)), 29);
    for files in [
        [first.clone(), text[1].clone(), last.clone()],
        [first, text[1].clone(), text[2].clone()],
        [text[0].clone(), text[1].clone(), last],
    ] {
        let files = resolve(&files).unwrap();
        let options = blocks_of(8192);
        assert!(read_files(&files, &options).unwrap().0 == whole);
        assert_eq!(Input::Files(files.clone().into()).lines_of_each().unwrap(), [40, 1, 29]);
        for done in 0..whole.len() {
            let rest = read_files(&files, &ReadOptions { start: whole[done].0, ..options });
            assert!(rest.unwrap().0 == whole[done + 1..], "{files:?} {done}");
        }
    }
}

#[test]
fn the_stream_goes_through_a_file_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream");
    let synth = Input::synth(&SynthOptions { examples: 9000, ..SynthOptions::default() }).unwrap();
    let options = ReadOptions::new(Schema::CRITEO);
    let mut reader = Reader::open(synth.clone(), &options).unwrap();
    let mut writer = PackedWriter::new(&path, &PackedOptions::new(Schema::CRITEO)).unwrap();
    let mut chunk = reader.chunk();
    while reader.next_chunk(&mut chunk).unwrap() {
        writer.add(&chunk).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), 9000);
    // Ids of text take one key per bag: 1 + 13 * 4 + 26 * 8 bytes, and 4 for the truth.
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!((9000 * 265..9000 * 266).contains(&bytes), "{bytes}");
    let (whole, _) = read_all(synth, &options).unwrap();
    let options = ReadOptions { block_bytes: stepwell_data::BLOCK_BYTES / 4, ..options };
    assert!(read_all(input(&path), &options).unwrap().0 == whole);
    assert!(input(&path).source_bytes_max(options.block_bytes).unwrap() < 300_000);
    for done in [0, 988, 989, 4095, 8998, 8999] {
        let start = whole[done].0;
        let rest = read_all(input(&path), &ReadOptions { start, ..options }).unwrap().0;
        assert!(rest == whole[done + 1..], "{done}");
    }
}

#[test]
fn files_that_do_not_suit_are_refused_before_the_first_block() {
    let folder = tempfile::tempdir().unwrap();
    let (path, text) = (folder.path().join("packed"), write(folder.path(), "text", line(1)));
    let mut dice = Stream::named(3, b"packed refusals");
    pack(&path, &PackedOptions::new(TINY), &[bags(&mut dice, TINY, 50, true)]);
    let files = [text.clone(), path.clone()];
    let refused = |options: &ReadOptions, why: &str| {
        let error =
            Reader::open(Input::Files(files.to_vec().into()), options).unwrap_err().to_string();
        assert!(error.contains("packed: ") && error.contains(why), "{error}");
    };
    refused(
        &ReadOptions::new(Schema::CRITEO),
        "have 2 dense features and 3 id columns, but 13 and 26",
    );
    refused(&roomy(TINY, 999), "bytes, but at most 999 can be read");
    refused(&ReadOptions::new(TINY), "keys, but at most 3 can be read");
    for hidden in [gzip(std::fs::read(&path).unwrap()), zstd(std::fs::read(&path).unwrap())] {
        let hidden = write(folder.path(), "hidden", hidden);
        let error = read_files(&[hidden], &roomy(TINY, 1 << 20)).unwrap_err().to_string();
        assert!(error.ends_with("inside gzip or zstd; decompress it first"), "{error}");
    }
}

#[test]
fn a_file_has_its_name_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed");
    let there = || std::fs::read_dir(folder.path()).unwrap().count();
    let mut dice = Stream::named(4, b"packed writer");
    let chunk = bags(&mut dice, TINY, 500, false);
    let options = PackedOptions { block_bytes: 1000, ..PackedOptions::new(TINY) };
    let mut writer = PackedWriter::new(&path, &options).unwrap();
    writer.add(&chunk).unwrap();
    assert!(!path.exists());
    let error = PackedWriter::new(&path, &options).unwrap_err().to_string();
    assert!(error.contains("is being written by another process"), "{error}");
    drop(writer);
    assert_eq!(there(), 0, "a writer that was dropped leaves nothing");
    let rows = pack(&path, &options, std::slice::from_ref(&chunk));
    assert_eq!(there(), 1);
    // The leftovers of a stopped writer are overwritten, other files aren't.
    let unfinished = write(folder.path(), "packed.unfinished", "x".repeat(1 << 20));
    let error = PackedWriter::new(&path, &options).unwrap_err().to_string();
    assert!(error.contains("but is something else: rename it"), "{error}");
    let beginning = &std::fs::read(&path).unwrap()[..1000];
    std::fs::write(&unfinished, [beginning, &[b'x'; 1 << 20]].concat()).unwrap();
    let mut writer = PackedWriter::new(&path, &options).unwrap();
    let mut wrong = chunk.clone();
    wrong.labels[7] = 1.5;
    let error = writer.add(&wrong).unwrap_err().to_string();
    assert!(error.contains("packed: a label of example 8 is 1.5"), "{error}");
    assert!(writer.add(&chunk).unwrap_err().to_string().contains("writing it failed before"));
    assert!(writer.finish().unwrap_err().to_string().contains("writing it failed before"));
    let small = PackedOptions { block_bytes: 100, ..options.clone() };
    let mut writer = PackedWriter::new(&path, &small).unwrap();
    let error = writer.add(&chunk).unwrap_err().to_string();
    assert!(error.ends_with("keys is larger than a block of 100 bytes"), "{error}");
    drop(writer);
    // After all this, the existing file is unchanged.
    assert!(read_all(input(&path), &roomy(TINY, 1000)).unwrap().0 == rows);
    assert_eq!(there(), 1);
    let error = PackedWriter::new(folder.path(), &options).unwrap_err().to_string();
    assert!(error.contains("is not a file"), "{error}");
}
