//! Stages that read passes give the same result as a single loop, and make caches.

use std::path::Path;
use std::sync::{Arc, Mutex};

use stepwell_base::clock::SystemClock;
use stepwell_base::queue::Events;
use stepwell_base::stage::{
    BoxedStage, Driver, Ended, FullSpeed, Progress, Rhythm, Stage, Threads, among,
};
use stepwell_data::{
    BLOCK_BYTES, CacheFate, CacheMaking, CacheWriter, DataError, Input, Ordered, Parsed, Pass,
    Position, ReadOptions, Reading, Recorder, SourceFile, stages,
};

use crate::common::*;

/// Lines of the text: more blocks than the stages hold.
const COUNT: usize = 50_000;

/// Purpose of each pass and its rows.
pub(crate) type Found = Vec<(char, Vec<Row>)>;

/// Consumes the output of the stages.
struct Take {
    parsed: Arc<Ordered<Parsed<char>>>,
    recorder: Option<Recorder>,
    pass: Option<Arc<Pass<char>>>,
    found: Arc<Mutex<Found>>,
}

impl Stage for Take {
    type Error = DataError;

    fn name(&self) -> &'static str {
        "take"
    }

    fn poll(&mut self) -> Result<Progress, DataError> {
        if let Some(recorder) = self.recorder.take_if(|recorder| recorder.is_due()) {
            recorder.finish()?;
            return Ok(Progress::Progressed);
        }
        let mut found = self.found.lock().unwrap();
        match self.parsed.try_take() {
            None => return Ok(Progress::Blocked),
            Some(Parsed::Last) => return Ok(Progress::Done),
            Some(Parsed::Failed(error)) => return Err(error),
            Some(Parsed::Begin(pass)) => {
                found.push((pass.purpose, Vec::new()));
                self.pass = Some(pass);
            }
            Some(Parsed::End(pass)) => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.end(&pass);
                }
            }
            Some(Parsed::Chunk(chunk)) => {
                if let (Some(recorder), Some(pass)) = (&mut self.recorder, &self.pass) {
                    recorder.add(pass, &chunk, chunk.len())?;
                }
                found.last_mut().unwrap().1.extend(rows_of(&chunk));
            }
        }
        Ok(Progress::Progressed)
    }
}

/// Rows that the stages return, outcome of the cache, and errors.
fn run(passes: Vec<Pass<char>>, cache: Option<CacheMaking>) -> (Found, Vec<String>, Vec<String>) {
    // Blocks of a cache have the same size.
    run_with(passes, cache, ReadOptions { block_bytes: BLOCK_BYTES / 4, ..ReadOptions::new(TINY) })
}

/// Like [`run`], with the given `options`.
pub(crate) fn run_with(
    passes: Vec<Pass<char>>,
    cache: Option<CacheMaking>,
    options: ReadOptions,
) -> (Found, Vec<String>, Vec<String>) {
    let events = Events::new();
    let (found, fates) = (Arc::new(Mutex::new(Found::new())), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&fates);
    let cache = cache.map(|making| {
        let tell = move |fate: CacheFate<'_>| told.lock().unwrap().push(format!("{fate:?}"));
        (making, Box::new(tell) as Box<_>)
    });
    let Reading { read, parse, parsed, recorder } =
        stages(Box::new(passes.into_iter()), options, 3, cache, &events);
    let take = Take { parsed, recorder, pass: None, found: Arc::clone(&found) };
    let mut all: Vec<BoxedStage<DataError>> = vec![among(read)];
    all.extend(parse.into_iter().map(among));
    all.push(Box::new(take));
    let clock = Arc::new(SystemClock::new());
    let ended = Threads.drive(all, &Rhythm { events, clock, pace: Arc::new(FullSpeed) });
    let error = |ended: Ended<_>| Some(format!("{:?}", ended.outcome.err()?));
    let errors = ended.into_iter().filter_map(error).collect();
    let found = std::mem::take(&mut *found.lock().unwrap());
    (found, std::mem::take(&mut *fates.lock().unwrap()), errors)
}

fn pass(purpose: char, input: &Arc<Input>, lines: (u64, Option<u64>)) -> Pass<char> {
    let place = |line| Position { file: 0, line };
    let (input, (start, end)) = (Arc::clone(input), lines);
    let (start, end) = (place(start), end.map(place));
    Pass { purpose, epoch: 0, input, start, end, cached: false, share: None }
}

fn text(folder: &Path, count: usize) -> (Arc<Input>, Vec<Row>) {
    let input = Input::Files(vec![write(folder, "text", lines(0..count))].into());
    let (rows, _) = read_all(input.clone(), &ReadOptions::new(TINY)).unwrap();
    (Arc::new(input), rows)
}

#[test]
fn passes_are_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (input, rows) = text(folder.path(), COUNT);
    let passes = vec![pass('a', &input, (0, None)), pass('b', &input, (20_123, Some(30_000)))];
    let (found, _, errors) = run(passes, None);
    assert_eq!(errors, [""; 0]);
    assert_eq!(found.len(), 2);
    assert!(found[0] == ('a', rows.clone()));
    let (purpose, part) = &found[1];
    // The last chunk may extend past the end of the pass, but no other starts after it.
    assert_eq!(*purpose, 'b');
    assert!((9877..24_000).contains(&part.len()), "{}", part.len());
    assert!(part[..] == rows[20_123..20_123 + part.len()]);
}

#[test]
fn a_pass_reads_the_cache_that_one_before_it_made() {
    let folder = tempfile::tempdir().unwrap();
    let (input, rows) = text(folder.path(), COUNT);
    let path = folder.path().join("cache");
    let files = input.files().to_vec();
    let now = [SourceFile::of(&files[0], None).unwrap()];
    let writer = CacheWriter::new(&path, &files.clone().into(), &now, TINY, 100).unwrap();
    let making = CacheMaking { writer, path: path.clone(), input: Arc::clone(&input), epoch: 0 };
    let again = Pass { cached: true, epoch: 1, ..pass('b', &input, (0, None)) };
    let (found, fates, errors) = run(vec![pass('a', &input, (0, None)), again], Some(making));
    assert_eq!(errors, [""; 0]);
    assert!(found == [('a', rows.clone()), ('b', rows)]);
    assert_eq!(fates, [format!("Made {{ examples: {COUNT}, path: {path:?} }}")]);
    assert!(path.exists());
}

#[test]
fn what_fails_ends_all_stages() {
    let folder = tempfile::tempdir().unwrap();
    let (input, _) = text(folder.path(), COUNT);
    let (_, _, errors) = run(vec![pass('a', &input, (COUNT as u64 + 1, None))], None);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("Position"), "{errors:?}");
}
