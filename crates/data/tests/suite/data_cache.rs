//! A cache gives the same chunks as its text: examples, positions and malformed lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_base::random::Stream;
use stepwell_data::{
    Block, CacheAt, CacheWriter, DataCache, DataError, Decoder, Input, Position, ReadOptions,
    Source, SourceFile,
};

use crate::common::*;

/// An example or malformed line, with the position after it.
#[derive(Debug, PartialEq)]
enum Line {
    Example(Row),
    Malformed(Position),
}

/// Every line of `input` from `start`.
fn lines_of(input: &Input, start: Position, block_bytes: usize) -> Vec<Line> {
    let options = ReadOptions { start, ..blocks_of(block_bytes) };
    let mut source = Source::open(input, &options).unwrap();
    let decoder = Decoder::new(input, options.schema);
    let (mut block, mut chunk, mut lines) = (Block::default(), decoder.chunk(), Vec::new());
    while source.next_block(&mut block).unwrap() {
        decoder.decode(&block, &mut chunk).unwrap();
        assert!(chunk.bytes() <= options.schema.chunk_bytes_max(block_bytes));
        let first = chunk.first_line;
        let bad = chunk
            .malformed
            .iter()
            .map(|offset| Position { file: chunk.file, line: first + u64::from(*offset) + 1 });
        let from = lines.len();
        lines.extend(rows_of(&chunk).into_iter().map(Line::Example));
        lines.extend(bad.map(Line::Malformed));
        lines[from..].sort_by_key(|line| match line {
            Line::Example(row) => row.0,
            Line::Malformed(place) => *place,
        });
        assert_eq!(lines.len() - from, block.lines as usize);
    }
    lines
}

fn sources(files: &[PathBuf]) -> Vec<SourceFile> {
    files.iter().map(|file| SourceFile::of(file, None).unwrap()).collect()
}

fn begin(path: &Path, files: &[PathBuf]) -> CacheWriter {
    let blocks = CacheWriter::blocks_max(&files.to_vec().into(), None, TINY);
    CacheWriter::new(path, &files.to_vec().into(), &sources(files), TINY, blocks).unwrap()
}

/// Parses `files` into a cache at `path`.
fn make(path: &Path, files: &[PathBuf]) -> Result<DataCache, DataError> {
    let mut writer = begin(path, files);
    let input = Input::Files(files.to_vec().into());
    let (mut source, decoder) =
        (Source::open(&input, &blocks_of(300)).unwrap(), Decoder::new(&input, TINY));
    let (mut block, mut chunk) = (Block::default(), decoder.chunk());
    while source.next_block(&mut block).unwrap() {
        decoder.decode(&block, &mut chunk).unwrap();
        writer.add(&chunk, chunk.len()).unwrap();
    }
    writer.finish()
}

fn cache_of(made: DataCache) -> Input {
    Input::Cache(Arc::new(made))
}

#[test]
fn a_cache_reads_as_its_text_from_any_line_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let mut dice = Stream::named(1, b"caches of text");
    for round in 0..60 {
        let files: Vec<PathBuf> = (0..1 + dice.next_u64() % 4)
            .map(|file| {
                let good = dice.next_u64() % 5;
                // Some files are empty, also compressed.
                let count = (dice.next_u64() % 40).saturating_sub(9);
                let line = |dice: &mut Stream, number: u64| match dice.next_u64() % 5 < good {
                    true => line(number as usize),
                    false => ["bad\n", "\n", "2\t1\t1\ta\tb\tc\n"][number as usize % 3].to_owned(),
                };
                let mut text: String = (0..count).map(|number| line(&mut dice, number)).collect();
                if dice.next_u64().is_multiple_of(4) {
                    text.push_str("unended");
                }
                let text = if file == 1 { gzip(text) } else { text.into_bytes() };
                write(folder.path(), &format!("{file}.tsv"), text)
            })
            .collect();
        let text = Input::Files(files.clone().into());
        let expected = lines_of(&text, Position::default(), 300);
        let cache = cache_of(make(&path, &files).unwrap());
        assert_eq!(cache.files(), files);
        let lines = cache.lines_of_each().unwrap();
        assert_eq!(lines, text.lines_of_each().unwrap());
        for (file, lines) in lines.iter().enumerate() {
            for line in 0..=*lines {
                let start = Position { file: file as u32, line };
                let found = lines_of(&cache, start, 1 << 18);
                assert_eq!(found, lines_of(&text, start, 300), "round {round}, from {start:?}");
                let Input::Cache(cache) = &cache else { unreachable!() };
                let bad = |line: &&Line| matches!(line, Line::Malformed(_));
                let behind = found.iter().filter(bad).count();
                let all = expected.iter().filter(bad).count();
                let around = ((all - behind) as u64, behind as u64);
                assert_eq!(cache.malformed_around(start), around);
            }
        }
        for start in [Position { file: 0, line: lines[0] + 1 }, Position { file: 9, line: 0 }] {
            let options = ReadOptions { start, ..ReadOptions::new(TINY) };
            assert!(matches!(Source::open(&cache, &options), Err(DataError::Position { .. })));
        }
    }
}

#[test]
fn a_cache_is_found_again_until_its_text_is_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let long = lines(0..20_000);
    let files = [write(folder.path(), "a.tsv", &long), write(folder.path(), "b.tsv", lines(0..3))];
    let find = |files: &[PathBuf]| {
        DataCache::find(&path, &files.to_vec().into(), &sources(files), TINY)
            .map_err(|error| error.to_string())
    };
    assert!(matches!(find(&files), Ok(CacheAt::Absent)));
    assert_eq!(make(&path, &files).unwrap().examples(), 20_003);
    assert!(matches!(find(&files), Ok(CacheAt::Whole(_))));
    let other = |files: &[PathBuf], why: &str| match find(files) {
        Ok(CacheAt::Other(found)) => assert_eq!(found, why),
        found => panic!("{found:?}"),
    };
    other(&files[..1], "there were 2 files, there are 1");
    other(&[files[1].clone(), files[0].clone()], "'b.tsv' was 'a.tsv'");
    let schema = stepwell_data::Schema::new(1, 4);
    let found = DataCache::find(&path, &files.to_vec().into(), &sources(&files), schema).unwrap();
    assert!(matches!(found, CacheAt::Other(_)), "{found:?}");
    // A moved text with its times is the same; one with a change in its middle isn't.
    let times = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    let before = times(&files[0]);
    let mut changed = long.clone().into_bytes();
    changed[long.len() / 2] ^= 1;
    write(folder.path(), "a.tsv", &changed);
    let file = std::fs::File::options().write(true).open(&files[0]).unwrap();
    file.set_modified(before + std::time::Duration::from_nanos(1)).unwrap();
    other(&files, "'a.tsv' has changed since");
    write(folder.path(), "a.tsv", &long);
    file.set_modified(before).unwrap();
    assert!(matches!(find(&files), Ok(CacheAt::Whole(_))));
    write(folder.path(), "b.tsv", lines(0..4));
    let bytes = [3, 4].map(|count| lines(0..count).len());
    other(&files, &format!("'b.tsv' had {} bytes, now has {}", bytes[0], bytes[1]));
}

/// The text of the fixtures, with its fixed modification time.
fn well_known(folder: &Path) -> [PathBuf; 2] {
    let one = lines(0..40) + "bad\n" + &lines(40..41) + "bad\nbad\n";
    let files = [write(folder, "a.tsv", one), write(folder, "b.tsv", lines(41..50))];
    for path in &files {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        let then =
            std::time::UNIX_EPOCH + std::time::Duration::from_nanos(1_700_000_000_000_000_001);
        file.set_modified(then).unwrap();
    }
    files
}

#[test]
fn a_cache_that_an_earlier_build_made_is_read_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let files = well_known(folder.path());
    let kept = fixture("version-2-shares.packed");
    let CacheAt::Whole(cache) =
        DataCache::find(&kept, &files.to_vec().into(), &sources(&files), TINY).unwrap()
    else {
        panic!("it is a cache of this text");
    };
    let text = Input::Files(files.to_vec().into());
    let all = |input: &Input| lines_of(input, Position::default(), 1 << 18);
    assert_eq!(all(&cache_of(*cache)), all(&text));
    // A cache is also a packed file of the examples.
    assert_eq!(read_files(std::slice::from_ref(&kept), &blocks_of(1 << 18)).unwrap().0.len(), 50);
    // While this version is current, the same text gives the same bytes.
    let path = folder.path().join("cache");
    make(&path, &files).unwrap();
    assert!(std::fs::read(path).unwrap() == std::fs::read(kept).unwrap());
}

#[test]
fn a_cache_of_other_rules_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let files = well_known(folder.path());
    // Made when only integers were dense features, and when labels between 0 and 1 were malformed.
    for name in ["version-2.packed", "version-2-numbers.packed"] {
        let kept = fixture(name);
        let found = DataCache::find(&kept, &files.to_vec().into(), &sources(&files), TINY).unwrap();
        let CacheAt::Other(why) = found else { panic!("{found:?}") };
        assert_eq!(why, "lines were parsed differently");
        assert_eq!(read_files(&[kept], &blocks_of(1 << 18)).unwrap().0.len(), 50);
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn no_damage_of_a_cache_passes() {
    let folder = tempfile::tempdir().unwrap();
    let files = well_known(folder.path());
    let path = folder.path().join("cache");
    make(&path, &files).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let sources = sources(&files);
    let outcome = |bytes: &[u8]| -> Result<usize, DataError> {
        // A new file each time: some file systems sync a file that is truncated and rewritten.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let found = DataCache::find(&path, &files.to_vec().into(), &sources, TINY)?;
        let CacheAt::Whole(cache) = found else { panic!("{found:?}") };
        Ok(read_all(cache_of(*cache), &ReadOptions { skip_max: 3, ..blocks_of(1 << 18) })?.0.len())
    };
    assert_eq!(outcome(&whole).unwrap(), 50);
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        let error = outcome(&damaged).unwrap_err();
        // The first bytes give the format, and the version determines what a build knows; changing
        // byte 8 gives another known version.
        let damage = matches!(error, DataError::Damaged { .. });
        assert_eq!(damage, !(9..12).contains(&at), "byte {at}: {error}");
        let mend = if damage { "remove it: the next run" } else { "another build of stepwell" };
        assert!(error.to_string().contains(mend), "byte {at}: {error}");
    }
    for length in 8..whole.len() {
        let error = outcome(&whole[..length]).unwrap_err();
        assert!(matches!(error, DataError::Damaged { .. }), "{length} bytes: {error}");
    }
}

#[test]
fn a_cache_that_is_not_finished_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let files = [write(folder.path(), "a.tsv", lines(0..9))];
    drop(begin(&path, &files));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // The text changes while the cache is made.
    let writer = begin(&path, &files);
    write(folder.path(), "a.tsv", lines(0..10));
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("a.tsv: changed while it was read: "), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
#[should_panic(expected = "a cache has no holes")]
fn a_cache_takes_no_chunk_out_of_turn() {
    let folder = tempfile::tempdir().unwrap();
    let files = [write(folder.path(), "a.tsv", lines(0..9))];
    let mut writer = begin(&folder.path().join("cache"), &files);
    let mut chunk = stepwell_data::Chunk::new(TINY);
    chunk.first_line = 1;
    let _ = writer.add(&chunk, 0);
}

#[test]
fn more_blocks_than_were_planned_for_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = [write(folder.path(), "a.tsv", lines(0..20_000))];
    let input = Input::Files(files.to_vec().into());
    let path = folder.path().join("cache");
    let mut writer =
        CacheWriter::new(&path, &files.to_vec().into(), &sources(&files), TINY, 1).unwrap();
    let (mut source, decoder) =
        (Source::open(&input, &ReadOptions::new(TINY)).unwrap(), Decoder::new(&input, TINY));
    let (mut block, mut chunk) = (Block::default(), decoder.chunk());
    assert!(source.next_block(&mut block).unwrap());
    decoder.decode(&block, &mut chunk).unwrap();
    let error = writer.add(&chunk, chunk.len()).unwrap_err().to_string();
    assert!(error.ends_with("more than 1 blocks"), "{error}");
    // The planned blocks suffice, whether lines are counted or not.
    for lines in [None, Some(20_000)] {
        let most = CacheWriter::blocks_max(&files.to_vec().into(), lines, TINY);
        assert!((3..12).contains(&most), "{most}");
    }
}
