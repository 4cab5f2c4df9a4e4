//! A small job, in memory and through tiny tiers.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use stepwell_base::ByteCount;
use stepwell_base::stage::{FullSpeed, Pace};
use stepwell_base::stop::StopRequest;
use stepwell_engine::Placement;
use stepwell_settings::ModelKind;
use stepwell_train::{
    Config, Evaluation, Machine, Metrics, Observer, Report, RowsAtStart, Silence, Snapshot,
    Surroundings, train,
};

/// Surroundings without an observer.
pub(crate) fn surroundings(pace: Arc<dyn Pace>) -> Surroundings {
    Surroundings {
        observer: Arc::new(Silence),
        machine: Machine { pace, ..Machine::default() },
        stop: StopRequest::new(),
        from: None,
        rows: RowsAtStart::default(),
        repaired_rows: false,
        digest: true,
        placement: Placement::Fresh,
        settings: Value::Null,
        on_plan: Arc::new(|_| {}),
        on_note: Arc::new(|_| {}),
        on_warning: Arc::new(|_| {}),
    }
}

/// Trains `config`.
pub(crate) fn run(config: &Config) -> Report {
    train(config, &surroundings(Arc::new(FullSpeed))).unwrap()
}

/// A small job: 20 steps of 64 examples, some 4,000 rows.
fn job(kind: ModelKind) -> Config {
    let mut config = Config { threads: 2, ..Config::default() };
    config.synth.examples = 1400;
    config.synth.vocab_scale = 0.2;
    config.data.mini_batch = 64;
    config.model.kind = kind;
    config.model.dim = 4;
    config.model.hidden = vec![16, 8];
    config.model.bottom = vec![8];
    config.tiers.dram = Some(ByteCount(16 << 20));
    config.tiers.index = Some(ByteCount(8 << 20));
    config
}

/// Everything in memory, no pipeline.
pub(crate) fn in_memory(kind: ModelKind) -> Config {
    let mut config = job(kind);
    config.pipeline.lookahead = 0;
    config.pipeline.horizon = 0;
    config
}

/// Room for a few hundred rows, segments of a few pages.
pub(crate) fn tiny(kind: ModelKind, lookahead: usize) -> Config {
    let mut config = job(kind);
    config.tiers.dram = Some(ByteCount(160 << 10));
    config.tiers.segment = Some(ByteCount(32 << 10));
    config.pipeline.lookahead = lookahead;
    config.pipeline.horizon = 2 * lookahead;
    config
}

/// Asks for a stop after a number of mini-batches, evaluated ones included, or after an evaluation.
struct Stopper {
    stop: StopRequest,
    after: u64,
    seen: AtomicU64,
    after_evaluation: bool,
}

impl Observer for Stopper {
    fn progress(&self, _snapshot: &Snapshot) {
        if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.after {
            self.stop.make();
        }
    }

    fn evaluated(&self, _evaluation: &Evaluation, _best: Option<&Metrics>) {
        if self.after_evaluation {
            self.stop.make();
        }
    }
}

/// Surroundings of a run that is asked to stop after `after` mini-batches, or after an evaluation.
pub(crate) fn stopping(after: u64, after_evaluation: bool) -> Surroundings {
    let stop = StopRequest::new();
    let observer = Stopper { stop: stop.clone(), after, seen: AtomicU64::new(0), after_evaluation };
    Surroundings { observer: Arc::new(observer), stop, ..surroundings(Arc::new(FullSpeed)) }
}

/// `config` with checkpoints in `directory`.
pub(crate) fn saved_in(config: &Config, directory: &Path) -> Config {
    let mut config = config.clone();
    config.checkpoint.dir = Some(directory.to_owned());
    // Settings as text come from a program, so there are none here: this test resumes with the same
    // settings.
    config
}

/// Continues from the newest checkpoint.
pub(crate) fn resume(config: &Config) -> Report {
    let around = Surroundings { placement: Placement::Resume, ..surroundings(Arc::new(FullSpeed)) };
    train(config, &around).unwrap()
}
