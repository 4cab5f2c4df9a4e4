//! A run that is asked to stop: after exactly which step, with which checkpoint, and how it
//! continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{in_memory, resume, run, saved_in, stopping, surroundings, tiny};
use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::stage::FullSpeed;
use stepwell_engine::{Checkpoint, Placement};
use stepwell_settings::{ModelKind, OptimConfig, ScheduleKind};
use stepwell_train::{Config, Error, Machine, Surroundings, train};

const KIND: ModelKind = ModelKind::DeepFm;

/// `config` with learning rates that fall over its 20 steps, weight decay and clipping.
fn with_schedules(mut config: Config) -> Config {
    let OptimConfig { rows, dense } = &mut config.optim;
    (rows.schedule, rows.decay_steps, rows.warmup_steps) = (ScheduleKind::Linear, Some(15), 3);
    (dense.schedule, dense.decay_steps) = (ScheduleKind::Cosine, Some(20));
    (rows.clip_norm, dense.clip_norm) = (Some(0.01), Some(0.1));
    (rows.weight_decay, dense.weight_decay) = (Some(0.1), Some(0.1));
    config
}

#[test]
fn no_mini_batch_is_trained_after_the_one_at_hand() {
    let oracle = run(&with_schedules(in_memory(KIND)));
    let steps = oracle.steps;
    // Between batches and within one, before the evaluation and during it.
    for (after, mini_batches) in [(1, 1), (7, 8), (13, 4), (steps, 8), (steps + 1, 8)] {
        let mut config = with_schedules(tiny(KIND, 2));
        config.data.batch = 64 * mini_batches;
        let directory = tempfile::tempdir().unwrap();
        let config = saved_in(&config, directory.path());
        let report = train(&config, &stopping(after, false)).unwrap();
        let name = format!("after {after}, batches of {mini_batches}");
        assert!(report.interrupted, "{name}");
        assert_eq!(report.steps, after.min(steps), "{name}");
        assert_eq!(report.examples, report.progressive.examples, "{name}");
        assert_eq!((report.rows, &report.model_digest), (None, &None), "{name}");
        assert_eq!(report.eval_by_epoch.len(), 0, "{name}");
        let checkpoint = Checkpoint::open(directory.path()).unwrap();
        assert_eq!(checkpoint.step, report.steps, "{name}");
        let resumed = resume(&config);
        assert!(!resumed.interrupted);
        assert_eq!(resumed.examples + report.examples, oracle.examples, "{name}");
        assert_eq!(resumed.model_digest, oracle.model_digest, "{name}");
        assert_eq!(resumed.rows, oracle.rows, "{name}");
        assert_eq!(resumed.eval, oracle.eval, "{name}");
    }
}

#[test]
fn nobody_waits_for_a_digest() {
    let oracle = run(&in_memory(KIND));
    for ranks in [1, 2, 5] {
        let directory = tempfile::tempdir().unwrap();
        let mut config = saved_in(&tiny(KIND, 2), directory.path());
        config.ranks.count = ranks;
        let report = train(&config, &stopping(u64::MAX, true)).unwrap();
        assert!(report.interrupted && report.model_digest.is_none(), "{ranks} ranks");
        assert!(report.through || ranks == 1, "{ranks} ranks");
        // Everything was already trained, evaluated and saved.
        assert_eq!((report.steps, report.eval), (oracle.steps, oracle.eval.clone()));
        assert_eq!(Checkpoint::open(directory.path()).unwrap().step, oracle.steps);
    }
}

#[test]
fn ranks_that_compute_no_digest_report_the_stop() {
    let steps = run(&in_memory(KIND)).steps;
    for ranks in [1, 2, 3] {
        let directory = tempfile::tempdir().unwrap();
        let mut config = saved_in(&tiny(KIND, 2), directory.path());
        config.ranks.count = ranks;
        let around = Surroundings { digest: false, ..stopping(7, false) };
        let report = train(&config, &around).unwrap();
        // Ranks agree within the next step.
        assert!(report.interrupted && report.steps < steps, "{ranks} ranks: {}", report.steps);
    }
}

#[test]
fn a_restore_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let config = saved_in(&tiny(KIND, 2), directory.path());
    train(&config, &stopping(9, false)).unwrap();
    let around = Surroundings { placement: Placement::Resume, ..surroundings(Arc::new(FullSpeed)) };
    around.stop.make();
    assert!(matches!(train(&config, &around), Err(Error::Interrupted)));
    // The last checkpoint stays.
    let oracle = run(&in_memory(KIND));
    assert_eq!(resume(&config).model_digest, oracle.model_digest);
}

#[test]
fn a_stop_before_the_first_step_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = saved_in(&tiny(KIND, 2), directory.path());
    config.checkpoint.initial = true;
    let around = surroundings(Arc::new(FullSpeed));
    around.stop.make();
    let report = train(&config, &around).unwrap();
    assert!(report.interrupted);
    assert_eq!((report.steps, report.examples), (0, 0));
    assert!(Checkpoint::open(directory.path()).is_err());
}

/// A clock on which minutes pass with every reading.
#[derive(Debug)]
struct Hasty(SystemClock, AtomicU64);

impl Clock for Hasty {
    fn seconds(&self) -> f64 {
        self.0.seconds() + 20.0 * self.1.fetch_add(1, Ordering::Relaxed) as f64
    }
}

#[test]
fn checkpoints_at_any_time_change_no_bit() {
    let oracle = run(&in_memory(KIND));
    for (lookahead, mini_batches) in [(0, 1), (2, 8), (8, 4)] {
        let directory = tempfile::tempdir().unwrap();
        let mut config = saved_in(&tiny(KIND, lookahead), directory.path());
        config.data.batch = 64 * mini_batches;
        config.checkpoint.minutes = 1.0;
        config.checkpoint.keep = 1000;
        let clock = Arc::new(Hasty(SystemClock::new(), AtomicU64::new(0)));
        let machine = Machine { clock, ..Machine::default() };
        let around = Surroundings { machine, ..surroundings(Arc::new(FullSpeed)) };
        let report = train(&config, &around).unwrap();
        assert_eq!(report.model_digest, oracle.model_digest);
        assert_eq!(report.progressive, oracle.progressive);
        assert_eq!(report.eval, oracle.eval);
        let written = std::fs::read_dir(directory.path()).unwrap().count();
        assert!(written > 4, "{written} checkpoints");
    }
}

/// Training is saved, although the evaluation after it is impossible.
#[test]
fn an_evaluation_that_does_not_fit_leaves_a_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    let lines = |ids: &dyn Fn(usize, usize) -> usize| -> String {
        let line = |number| {
            let ids: String = (0..26).map(|slot| format!("\t{:x}", ids(number, slot))).collect();
            format!("{}{}{ids}\n", number % 2, "\t1".repeat(13))
        };
        (0..640).map(line).collect()
    };
    let [few, many] = ["few.tsv", "many.tsv"].map(|name| home.path().join(name));
    std::fs::write(&few, lines(&|_, slot| slot)).unwrap();
    std::fs::write(&many, lines(&|number, slot| number * 26 + slot)).unwrap();
    let saved = home.path().join("saved");
    let mut config = saved_in(&tiny(KIND, 2), &saved);
    config.data.paths = vec![few.display().to_string()];
    config.data.eval_paths = vec![many.display().to_string()];
    (config.checkpoint.every, config.checkpoint.minutes) = (0, 0.0);
    config.tiers.dram = Some(stepwell_base::ByteCount(40 << 10));
    let error = train(&config, &surroundings(Arc::new(FullSpeed))).map(|report| report.steps);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("distinct rows of table 'embedding'"), "{error}");
    assert!(saved.join("step-000000000010").is_dir());
}
