//! A run whose rows have histories ends at the last step that these can count, and not beyond.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{in_memory, run, surroundings, tiny};
use serde_json::json;
use stepwell_base::stage::FullSpeed;
use stepwell_disk::{Disk, FileDisk};
use stepwell_engine::{Checkpoint, CheckpointWriter, History, Keep, Placement};
use stepwell_settings::ModelKind;
use stepwell_ssd::{StoreOptions, View};
use stepwell_train::{
    Checkpoints, Config, Files, Machine, OnNote, Places, Result, RowPlaces, StoragePlan,
    Surroundings, evaluate, train,
};

const KIND: ModelKind = ModelKind::DeepFm;
const LAST: u64 = u32::MAX as u64;

/// Resumes from a checkpoint, and writes later ones elsewhere.
#[derive(Clone)]
struct Given {
    from: Checkpoint,
    saved: PathBuf,
}

impl Places for Given {
    fn checkpoints(&self, _: &StoragePlan, _: Placement) -> Result<Option<Box<dyn Checkpoints>>> {
        Ok(Some(Box::new(self.clone())))
    }

    fn checkpoints_of_all(&self, _: &StoragePlan) -> Result<Option<Box<dyn Checkpoints>>> {
        Ok(Some(Box::new(self.clone())))
    }

    fn rows(
        &self,
        storage: &StoragePlan,
        _: Placement,
    ) -> Result<(Box<dyn RowPlaces>, Option<String>)> {
        Files.rows(storage, Placement::Fresh)
    }
}

impl Checkpoints for Given {
    fn newest(&mut self, _: Placement, _: &dyn Fn(String)) -> Result<Option<Checkpoint>> {
        Ok(Some(self.from.clone()))
    }

    fn of_step(&mut self, _: u64) -> Result<Checkpoint> {
        Ok(self.from.clone())
    }

    fn writer(self: Box<Self>, _: usize, _: OnNote) -> Result<Option<Box<dyn Keep>>> {
        Ok(Some(Box::new(CheckpointWriter::new(disk(&self.saved), 2))))
    }
}

fn disk(path: &Path) -> Arc<dyn Disk> {
    Arc::new(FileDisk::create(path).unwrap())
}

fn job(history: bool) -> Config {
    let mut config = tiny(KIND, 2);
    config.rows.history = history;
    config.data.batch = 4 * config.data.mini_batch;
    config
}

/// Resumes from `from`, with checkpoints in `saved` at the end.
fn go_on(config: &Config, from: &Checkpoint, saved: &Path) -> Result<u64> {
    let places = Arc::new(Given { from: from.clone(), saved: saved.to_owned() });
    let machine = Machine { places, ..Machine::default() };
    let around = Surroundings { machine, ..surroundings(Arc::new(FullSpeed)) };
    train(config, &around).map(|report| report.steps)
}

/// A checkpoint of some steps of `config`, labelled as of step `step`.
fn checkpoint_at(config: &Config, directory: &Path, step: u64) -> Checkpoint {
    let mut config = config.clone();
    config.checkpoint.dir = Some(directory.to_owned());
    config.checkpoint.every = 8;
    config.checkpoint.keep = 100;
    train(&config, &surroundings(Arc::new(FullSpeed))).unwrap();
    let mut checkpoint = Checkpoint::open(&directory.join("step-000000000008")).unwrap();
    checkpoint.step = step;
    checkpoint.run["position"]["step"] = json!(step);
    checkpoint
}

/// The steps of last use of all rows in a checkpoint.
fn uses(checkpoint: &Checkpoint) -> Vec<u64> {
    let spec = checkpoint.table(0).unwrap();
    let options = StoreOptions::new(0, spec.row_bytes());
    let store = View::open(disk(&checkpoint.rows[0].path), options);
    let mut uses = Vec::new();
    let mut visit = |_, used: u32, row: &[u8]| {
        let lanes = row.chunks_exact(4).map(|lane| lane.try_into().unwrap());
        let lanes: Vec<f32> = lanes.map(f32::from_le_bytes).collect();
        assert_eq!(spec.history(&lanes).used, used);
        uses.push(u64::from(used));
        Ok(())
    };
    store.unwrap().scan_live(&mut visit).unwrap();
    uses
}

#[test]
fn nothing_is_trained_beyond_the_last_step_that_histories_name() {
    assert_eq!(History::STEPS_MAX, LAST);
    let (home, config) = (tempfile::tempdir().unwrap(), job(true));
    let from = checkpoint_at(&config, &home.path().join("first"), LAST - 3);
    let saved = home.path().join("saved");
    let error = go_on(&config, &from, &saved).unwrap_err().to_string();
    assert!(error.contains("cannot continue after step 4294967295"), "{error}");
    assert!(error.contains("train from scratch") && error.lines().count() == 1, "{error}");

    // The model of exactly that step was saved, with the rows' actual uses.
    let last = Checkpoint::open(&saved).unwrap();
    assert_eq!(last.step, LAST);
    let uses = uses(&last);
    let of_late = uses.iter().filter(|used| **used > 1_000);
    assert!(of_late.clone().all(|used| (LAST - 2..=LAST).contains(used)));
    for step in LAST - 2..=LAST {
        assert!(of_late.clone().any(|used| *used == step), "{step}");
    }
    assert!(uses.iter().all(|used| *used > 0));

    // No step is left to train, but the model can be evaluated.
    let again = go_on(&config, &last, &home.path().join("again")).unwrap_err().to_string();
    assert!(again.contains("cannot continue after step 4294967295"), "{again}");
    assert!(Checkpoint::open(&home.path().join("again")).is_err());
    let report = evaluate(&config, &surroundings(Arc::new(FullSpeed)), &last).unwrap();
    assert!(report.eval.examples > 0);
    let beyond = Checkpoint { step: LAST + 1, ..last };
    let around = surroundings(Arc::new(FullSpeed));
    let error = evaluate(&config, &around, &beyond).unwrap_err().to_string();
    assert!(error.contains("cannot continue after step 4294967296"), "{error}");
}

#[test]
fn rows_without_a_history_have_no_last_step() {
    let (home, config) = (tempfile::tempdir().unwrap(), job(false));
    let from = checkpoint_at(&config, &home.path().join("first"), LAST - 3);
    let steps = go_on(&config, &from, &home.path().join("saved")).unwrap();
    assert_eq!(steps, LAST - 3 + run(&in_memory(KIND)).steps - 8);
    assert!(steps > LAST);
}
