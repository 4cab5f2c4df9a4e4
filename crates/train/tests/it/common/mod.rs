//! A small job, in memory and through tiny tiers.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::Arc;

use serde_json::Value;
use stepwell_base::ByteCount;
use stepwell_base::stage::{FullSpeed, Pace};
use stepwell_base::stop::StopRequest;
use stepwell_engine::Placement;
use stepwell_settings::ModelKind;
use stepwell_train::{Config, Machine, Report, RowsAtStart, Silence, Surroundings, train};

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
