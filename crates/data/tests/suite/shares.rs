//! Readers that share passes read all of the data together, each its part of every mini-batch.

use std::ops::Range;
use std::path::{Path, PathBuf};

use stepwell_base::stop::StopRequest;
use stepwell_data::{
    PackedOptions, PartOf, Pass, Position, Purposes, ReadFrom, ReadOptions, Schema, Sharing,
    SourceOptions, Sources, SynthOptions,
};

use crate::common::*;
use crate::packed::pack_text;
use crate::stages::run_with;

const PURPOSES: Purposes<char> = Purposes { train: 't', evaluate: 'e' };

pub(crate) fn options(paths: &[PathBuf]) -> SourceOptions {
    SourceOptions {
        layout: None,
        schema: if paths.is_empty() { Schema::CRITEO } else { TINY },
        paths: paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        stream: SynthOptions { examples: 300, ..SynthOptions::default() },
        eval_paths: Vec::new(),
        eval_fraction: 0.1,
        in_sequence: false,
        epochs: 2,
        skip_max: 0,
        cache: None,
        taken: Vec::new(),
        threads: 2,
    }
}

fn part(examples: usize, (rank, ranks): (usize, usize)) -> Range<usize> {
    examples * rank / ranks..examples * (rank + 1) / ranks
}

pub(crate) fn find(options: SourceOptions) -> Sources {
    Sources::find(options, &StopRequest::new()).unwrap()
}

fn shared(options: SourceOptions, mini_batch: usize, place: (usize, usize)) -> Sources {
    in_streams(options, (mini_batch, 1), place)
}

pub(crate) fn in_streams(
    options: SourceOptions,
    (mini_batch, streams): (usize, usize),
    place: (usize, usize),
) -> Sources {
    let part = PartOf::new(move |examples| part(examples, place));
    let sharing = Sharing { mini_batch, part, streams };
    find(options).shared(sharing, &StopRequest::new()).unwrap()
}

/// The rows of each pass of `sources` from `from`, without those past its end.
pub(crate) fn read(sources: &Sources, from: ReadFrom, block_bytes: usize) -> Vec<Vec<Row>> {
    let passes: Vec<Pass<char>> = sources.passes(from, PURPOSES).collect();
    let ends: Vec<_> = passes.iter().map(|pass| pass.end).collect();
    let options = ReadOptions { block_bytes, ..ReadOptions::new(sources.schema()) };
    let (found, _, errors) = run_with(passes, None, options);
    assert_eq!(errors, [""; 0]);
    let within = |((_, mut rows), end): ((char, Vec<Row>), Option<Position>)| {
        rows.retain(|row| end.is_none_or(|end| row.0 <= end));
        rows
    };
    found.into_iter().zip(ends).map(within).collect()
}

/// Part of `rows` for the reader at `place`, computed naively.
fn plain_part(rows: &[Row], mini_batch: usize, place: (usize, usize)) -> Vec<Row> {
    let of_mini = |mini: &[Row]| mini[part(mini.len(), place)].to_vec();
    rows.chunks(mini_batch).flat_map(of_mini).collect()
}

/// Checks that readers of `options` get their parts, for any number of readers and any start.
pub(crate) fn assert_shared(options: &dyn Fn() -> SourceOptions, starts: &[Position]) {
    for start in starts {
        let from = ReadFrom { epoch: 0, place: *start };
        let whole = read(&find(options()), from, 4096);
        assert_eq!(whole.len(), 4);
        for (mini_batch, ranks, block_bytes) in
            [(1, 2, 4096), (2, 3, 700), (7, 2, 700), (64, 4, 4096), (64, 3, 700), (1000, 2, 4096)]
        {
            for rank in 0..ranks {
                let place = (rank, ranks);
                let sources = shared(options(), mini_batch, place);
                let found = read(&sources, from, block_bytes);
                for (found, rows) in found.iter().zip(&whole) {
                    let wanted = plain_part(rows, mini_batch, place);
                    assert!(*found == wanted, "{place:?}, {mini_batch}, from {start:?}");
                }
            }
        }
    }
}

fn texts(folder: &Path) -> [PathBuf; 3] {
    [
        write(folder, "a", lines(0..140)),
        write(folder, "b", zstd(lines(140..141))),
        write(folder, "c", gzip(lines(141..300))),
    ]
}

const STARTS: [Position; 3] = [
    Position { file: 0, line: 0 },
    Position { file: 0, line: 139 },
    Position { file: 2, line: 57 },
];

#[test]
fn text_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let files = texts(folder.path());
    assert_shared(&|| options(&files), &STARTS);
}

#[test]
fn packed_files_are_shared_whatever_may_be_skipped_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let text = texts(folder.path());
    let names = ["p", "q", "r"].map(|name| folder.path().join(name));
    for (name, text) in names.iter().zip(&text) {
        // Many blocks, so that a reader needs nothing from some of them.
        let packed = PackedOptions { block_bytes: 600, ..PackedOptions::new(TINY) };
        pack_text(name, std::slice::from_ref(text), (&blocks_of(150), &packed));
    }
    assert_shared(&|| SourceOptions { skip_max: 9, ..options(&names) }, &STARTS);
}

#[test]
fn the_stream_is_shared() {
    let starts = [0, 1, 200].map(|line| Position { file: 0, line });
    assert_shared(&|| options(&[]), &starts);
}

#[test]
fn other_files_to_evaluate_on_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let files = texts(folder.path());
    let eval_paths = options(&files[2..]).paths;
    let options = || SourceOptions {
        eval_fraction: 0.0,
        eval_paths: eval_paths.clone(),
        ..options(&files[..2])
    };
    assert_shared(&options, &STARTS[..2]);
}

#[test]
fn where_lines_may_be_malformed_everybody_reads_all() {
    let folder = tempfile::tempdir().unwrap();
    let files = [write(folder.path(), "a", [lines(0..40), "bad\n".into(), lines(40..60)].concat())];
    let options = || SourceOptions { skip_max: 1, ..options(&files) };
    let shared = shared(options(), 8, (0, 2));
    let from = ReadFrom::default();
    assert!(shared.passes(from, PURPOSES).all(|pass| pass.share.is_none()));
    assert!(read(&shared, from, 4096) == read(&find(options()), from, 4096));
}

#[test]
fn who_makes_a_cache_reads_all_of_that_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let files = texts(folder.path());
    let cache = Some(folder.path().join("cache"));
    let options = || SourceOptions { cache: cache.clone(), ..options(&files) };
    let is_shared = |sources: Sources| -> Vec<bool> {
        sources.passes(ReadFrom::default(), PURPOSES).map(|pass| pass.share.is_some()).collect()
    };
    assert_eq!(is_shared(shared(options(), 8, (0, 2))), [false, false, true, true]);
    assert_eq!(is_shared(shared(options(), 8, (1, 2)).without_making()), [true; 4]);
}

#[test]
fn streams_are_parts_of_the_pass_and_readers_have_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let files = texts(folder.path());
    let from = ReadFrom::default();
    let whole = read(&find(options(&files)), from, 4096);
    for (mini_batch, streams, ranks) in [(4, 2, 2), (6, 3, 2), (8, 4, 1), (64, 2, 4), (512, 4, 4)] {
        for (pass, whole) in whole.iter().enumerate() {
            let lines = whole.len();
            let mut all = Vec::new();
            for rank in 0..ranks {
                let of_rank = in_streams(options(&files), (mini_batch, streams), (rank, ranks));
                let rows = read(&of_rank, from, 700).swap_remove(pass);
                // A reader of one half reads only lines of that half.
                if rank < ranks / 2 && streams % 2 == 0 {
                    assert!(rows.iter().all(|row| whole[..lines / 2].contains(row)));
                }
                all.extend(rows);
            }
            all.sort_unstable_by_key(|row| row.0);
            assert!(all == *whole, "{mini_batch}, {streams} streams, {ranks} ranks");
        }
    }
}

#[test]
fn streams_of_what_may_be_malformed_or_makes_a_cache_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = texts(folder.path());
    let refused = |options: SourceOptions| {
        let sharing = Sharing { mini_batch: 8, part: PartOf::new(|n| 0..n), streams: 2 };
        find(options).shared(sharing, &StopRequest::new()).unwrap_err().to_string()
    };
    let error = refused(SourceOptions { skip_max: 1, ..options(&files) });
    assert!(error.contains("give data.skip_max = 0"), "{error}");
    let cache = Some(folder.path().join("cache"));
    let error = refused(SourceOptions { cache, ..options(&files) });
    assert!(error.contains("data.cache cannot be made with data.streams = 2"), "{error}");
}
