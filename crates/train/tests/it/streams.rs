//! Data that is read in streams: another order of the same examples, with any number of ranks.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::Path;
use std::sync::Arc;

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::ByteCount;
use stepwell_base::stage::FullSpeed;
use stepwell_base::stop::StopRequest;
use stepwell_data::synth;
use stepwell_engine::Placement;
use stepwell_settings::{ModelKind, RanksConfig};
use stepwell_train::{Config, Observer, Report, Snapshot, Surroundings, synth_options, train};

fn with_ranks(config: &Config, count: usize) -> Config {
    Config { ranks: RanksConfig { count, ..config.ranks }, ..config.clone() }
}

fn in_streams(streams: usize) -> Config {
    let mut config = in_memory(ModelKind::DeepFm);
    config.data.streams = streams;
    config
}

#[test]
fn streams_are_the_model_and_ranks_are_not() {
    let mut digests = vec![run(&in_streams(1)).model_digest];
    for streams in [2, 4, 8] {
        let oracle = run(&in_streams(streams));
        for ranks in [2, 3, 4, 7, 8] {
            let report = run(&with_ranks(&in_streams(streams), ranks));
            let name = format!("{streams} streams, {ranks} ranks");
            assert_eq!(report.model_digest, oracle.model_digest, "{name}");
            assert_eq!(report.eval, oracle.eval, "{name}");
            assert_eq!(report.progressive, oracle.progressive, "{name}");
        }
        digests.push(oracle.model_digest);
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 4, "each number of streams is another model");
}

/// The lines of the built-in stream, in the order of mini-batches of `mini_batch` examples that
/// have a part of each of `streams` streams.
fn written_in_order(config: &Config, path: &Path, streams: usize) {
    let mut text = Vec::new();
    synth::write_tsv(&synth_options(config), &mut text).unwrap();
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let count = lines.len();
    let begin = |stream: usize| count * stream / streams;
    let mut next: Vec<usize> = (0..streams).map(begin).collect();
    let mut ordered = Vec::new();
    for start in (0..count).step_by(config.data.mini_batch) {
        let examples = config.data.mini_batch.min(count - start);
        for (stream, next) in next.iter_mut().enumerate() {
            let of_stream = examples * (stream + 1) / streams - examples * stream / streams;
            lines[*next..*next + of_stream].iter().for_each(|line| ordered.extend_from_slice(line));
            *next += of_stream;
        }
    }
    assert!((0..streams).all(|stream| next[stream] == begin(stream + 1)));
    std::fs::write(path, ordered).unwrap();
}

#[test]
fn streams_are_the_order_of_a_file_that_was_written_in_it() {
    let folder = tempfile::tempdir().unwrap();
    for (streams, examples) in [(2, 2800), (4, 1001), (8, 70)] {
        let mut config = in_streams(streams);
        (config.synth.examples, config.data.eval_fraction) = (examples, 0.0);
        let path = folder.path().join("ordered.tsv");
        written_in_order(&config, &path, streams);
        let of_stream = run(&config);
        let mut in_order = config.clone();
        in_order.data.streams = 1;
        in_order.data.paths = vec![path.to_string_lossy().into_owned()];
        let of_file = run(&in_order);
        assert_eq!(of_stream.steps, of_file.steps);
        assert_eq!(of_stream.model_digest, of_file.model_digest, "{streams} of {examples}");
    }
}

/// Asks to stop after a step.
struct StopAfter(u64, StopRequest);

impl Observer for StopAfter {
    fn progress(&self, snapshot: &Snapshot) {
        if snapshot.step >= self.0 {
            self.1.make();
        }
    }
}

/// Trains `config` at least to step `stop`, or to the end, from the last checkpoint if there is
/// one.
fn train_until(config: &Config, stop: Option<u64>) -> Report {
    let around = surroundings(Arc::new(FullSpeed));
    let observer: Arc<dyn Observer> =
        Arc::new(StopAfter(stop.unwrap_or(u64::MAX), around.stop.clone()));
    let placement = Placement::ResumeOrStart;
    train(config, &Surroundings { placement, observer, ..around }).unwrap()
}

#[test]
fn streams_go_on_in_the_middle_with_other_ranks() {
    let oracle = run(&Config { threads: 1, ..in_streams(4) });
    for (first, then) in [(1, 3), (4, 1), (3, 8)] {
        let saved = tempfile::tempdir().unwrap();
        let mut config = tiny(ModelKind::DeepFm, 2);
        config.data.streams = 4;
        config.checkpoint.dir = Some(saved.path().to_owned());
        config.tiers.dram = Some(ByteCount(320 << 10));
        let stopped = train_until(&with_ranks(&config, first), Some(7));
        assert!(stopped.interrupted && stopped.steps < oracle.steps, "{}", stopped.steps);
        let report = train_until(&with_ranks(&config, then), None);
        assert_eq!(report.model_digest, oracle.model_digest, "{first} ranks, then {then}");
        assert_eq!(report.eval, oracle.eval, "{first} ranks, then {then}");
        config.data.streams = 2;
        let placement = Placement::Resume;
        let around = Surroundings { placement, ..surroundings(Arc::new(FullSpeed)) };
        let error = train(&config, &around).unwrap_err().to_string();
        assert!(error.contains("data.streams"), "{error}");
    }
}
