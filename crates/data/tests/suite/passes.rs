//! The data of a run, divided into passes and checked before its first step.

use std::path::{Path, PathBuf};

use stepwell_base::stop::StopRequest;
use stepwell_data::{
    Chunk, DataError, Pass, Position, Purposes, ReadFrom, ReadOptions, SourceOptions, Sources,
    SynthOptions,
};

use crate::common::*;

/// Three epochs of `paths`, with the last tenth for evaluation.
fn options(paths: &[PathBuf]) -> SourceOptions {
    SourceOptions {
        layout: None,
        schema: TINY,
        paths: paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        stream: SynthOptions { examples: 1000, ..SynthOptions::default() },
        eval_paths: Vec::new(),
        eval_fraction: 0.1,
        in_sequence: false,
        epochs: 3,
        skip_max: 0,
        cache: None,
        taken: Vec::new(),
        threads: 2,
    }
}

fn find(options: SourceOptions) -> Result<Sources, DataError> {
    Sources::find(options, &StopRequest::new())
}

fn files(folder: &Path) -> [PathBuf; 2] {
    [write(folder, "a", lines(0..40)), write(folder, "b", lines(40..100))]
}

/// Summary of each pass: purpose, epoch, start, end, and `c` if it reads a cache.
fn passes(sources: &Sources, from: ReadFrom) -> Vec<String> {
    let place = |place: Position| format!("{}:{}", place.file, place.line);
    let short = |pass: Pass<char>| {
        let end = pass.end.map_or_else(|| "end".to_owned(), place);
        let cached = if pass.cached { " c" } else { "" };
        format!("{}{} {} {end}{cached}", pass.purpose, pass.epoch, place(pass.start))
    };
    sources.passes(from, Purposes { train: 't', evaluate: 'e' }).map(short).collect()
}

#[test]
fn epochs_are_trained_on_and_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let sources = find(options(&files)).unwrap();
    let (start, resumed) = (ReadFrom::default(), Position { file: 1, line: 7 });
    let all =
        ["t0 0:0 1:50", "e0 1:50 end", "t1 0:0 1:50", "e1 1:50 end", "t2 0:0 1:50", "e2 1:50 end"];
    assert_eq!(passes(&sources, start), all);
    let from = ReadFrom { epoch: 1, place: resumed };
    assert_eq!(
        passes(&sources, from),
        ["t1 1:7 1:50", "e1 1:50 end", "t2 0:0 1:50", "e2 1:50 end"]
    );
    let none = find(SourceOptions { eval_fraction: 0.0, ..options(&files) }).unwrap();
    assert_eq!(passes(&none, start), ["t0 0:0 end", "t1 0:0 end", "t2 0:0 end"]);
    assert!(none.to_check().is_none() && none.examples.is_none());
    let eval_paths = options(&files[..1]).paths;
    let other = find(SourceOptions { eval_paths, epochs: 1, ..options(&files) }).unwrap();
    assert_eq!(passes(&other, start), ["t0 0:0 end", "e0 0:0 end"]);
}

#[test]
fn epochs_behind_the_one_that_makes_the_cache_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let path = folder.path().join("cache");
    let sources = find(SourceOptions { cache: Some(path.clone()), ..options(&files) }).unwrap();
    let cached = ["t1 0:0 1:50 c", "e1 1:50 end c", "t2 0:0 1:50 c", "e2 1:50 end c"];
    assert_eq!(passes(&sources, ReadFrom::default())[2..], cached);
    let place = Position { file: 0, line: 1 };
    assert_eq!(passes(&sources, ReadFrom { epoch: 1, place })[2..], ["t2 0:0 1:50", "e2 1:50 end"]);
    assert_eq!(
        sources.cache_note(ReadFrom { epoch: 0, place }).unwrap(),
        format!(
            "{} is not made in an epoch that is resumed in the middle: epoch 2 makes it",
            path.display()
        )
    );
    let begun = sources.begin_cache().unwrap();
    assert_eq!(sources.cache_making(begun, ReadFrom { epoch: 0, place }).unwrap().epoch, 1);
    let begun = sources.begin_cache().unwrap();
    assert!(sources.cache_making(begun, ReadFrom { epoch: 2, place }).is_none());
    let taken = vec![("tiers.ssd", path.clone())];
    let refused = find(SourceOptions { cache: Some(path.clone()), taken, ..options(&files) });
    assert_eq!(
        refused.unwrap_err().to_string(),
        format!("data.cache = {} is also tiers.ssd: choose another path for it", path.display())
    );
}

/// Checks the evaluation data, rejecting chunks with more than `keys_max` keys.
fn check(options: SourceOptions, keys_max: usize, stop: &StopRequest) -> Result<u64, DataError> {
    let sources = find(options)?;
    let pass = sources.to_check().unwrap();
    let accept = |chunk: &Chunk, _: &[PathBuf]| match chunk.keys.len() > keys_max {
        true => Err(DataError::Options("too many".to_owned())),
        false => Ok(()),
    };
    sources.check(&pass, ReadOptions::new(TINY), stop, accept)
}

#[test]
fn what_is_evaluated_on_is_read_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a", lines(0..95) + "no example\n" + &lines(95..99));
    let of = |skip_max| SourceOptions { skip_max, ..options(std::slice::from_ref(&path)) };
    let go = StopRequest::new();
    assert_eq!(check(of(1), usize::MAX, &go).unwrap(), 9);
    let error = check(of(0), usize::MAX, &go).unwrap_err().to_string();
    assert!(error.contains("line 96"), "{error}");
    assert_eq!(check(of(1), 2, &go).unwrap_err().to_string(), "too many");
    let stop = StopRequest::new();
    stop.make();
    assert!(matches!(check(of(1), usize::MAX, &stop), Err(DataError::Stopped)));
    let stream = SourceOptions { schema: stepwell_data::Schema::CRITEO, ..options(&[]) };
    assert!(find(stream).unwrap().to_check().is_none());
}
