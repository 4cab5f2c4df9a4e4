//! A checkpoint alone determines the weights of any key: its row's, or the initial ones if it has
//! no row.

#![expect(clippy::unwrap_used, reason = "a test panics on unexpected results")]

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use stepwell_base::{Key, hash};
use stepwell_disk::{Disk, FileDisk};
use stepwell_engine::{
    Admission, Checkpoint, CheckpointWriter, Dense, Group, History, Keep, Life, RowsView, Staging,
    TableSpec,
};
use stepwell_optim::{RowOptimizer, Rule, Storage};
use stepwell_ssd::{Store, StoreOptions};

const STEP: u64 = 12;
/// Keys whose rows were last used at their own number; later keys have no row.
const KEYS: u64 = 12;

fn disk(path: &Path) -> Arc<dyn Disk> {
    Arc::new(FileDisk::create(path).unwrap())
}

fn specs() -> Vec<TableSpec> {
    let lives = [
        None,
        Some(Life { admission: Admission::AtOnce, expire_after: 0 }),
        Some(Life { admission: Admission::After(3), expire_after: 5 }),
        Some(Life { admission: Admission::Chance(0.3), expire_after: 1 }),
    ];
    let rules = [Rule::sgd(0.1), Rule::adagrad(0.05), Rule::adam(1e-3)];
    let mut specs = Vec::new();
    for rule in rules {
        for storage in Storage::ALL {
            for life in lives {
                let spec = TableSpec::new(7, "items", 4, RowOptimizer::new(rule).unwrap());
                specs.push(TableSpec { wide: 1, storage, seed: u64::MAX - 3, life, ..spec });
            }
        }
    }
    specs
}

/// A trained row, whose first weight is its key.
fn row(spec: &TableSpec, key: Key) -> Vec<f32> {
    let mut row = vec![0.0; spec.row_lanes()];
    let weights = [key.0 as f32, -1.0, 0.5, 2.0, 0.25];
    spec.storage.encode(&weights, &mut row[..spec.weight_lanes()], spec.rounding(key, key.0));
    if spec.life.is_some() {
        let history = History { used: key.0 as u32, examples: 1, importance: 0.5 };
        history.write(&mut row[spec.model_lanes()..]);
    }
    row
}

fn options(spec: &TableSpec) -> StoreOptions {
    StoreOptions::new(spec.id.0, spec.row_bytes())
}

/// Writes a checkpoint with a row for each key from 1 to `KEYS`.
fn write(home: &Path, spec: &TableSpec, step: u64) -> Checkpoint {
    let store = Store::create(disk(&home.join(format!("store-{step}"))), options(spec)).unwrap();
    for key in (1..=KEYS).map(Key) {
        let row = row(spec, key);
        let salted = key.salted(spec.salt());
        store.put_many(&[salted], &[key.0 as u32], bytemuck::cast_slice(&row)).unwrap();
    }
    let staging = Staging::new(spec.row_lanes(), 1, 1);
    let group = Group::new(spec.clone(), 1, Arc::new(store), staging).unwrap();
    let mut writer = CheckpointWriter::new(disk(&home.join("saved")), 2);
    let dense = Dense::default();
    let path = writer.write(step, &json!({}), &dense.view(), &[Arc::new(group)]).unwrap();
    Checkpoint::open(&path).unwrap()
}

#[test]
fn every_table_comes_back_and_gives_the_weights_of_every_key() {
    for spec in specs() {
        let home = tempfile::tempdir().unwrap();
        let checkpoint = write(home.path(), &spec, STEP);
        assert_eq!(checkpoint.table(0).unwrap(), spec);
        assert!(checkpoint.table(1).unwrap_err().to_string().contains("no table 1"));

        // From here on, `spec` is only used to compare.
        let read = checkpoint.table(0).unwrap();
        let view = RowsView::open(&checkpoint, 0, options(&read)).unwrap();
        assert_eq!((view.spec().unwrap(), view.step()), (&spec, STEP));
        let keys: Vec<Key> = (1..=KEYS + 3).map(Key).collect();
        let mut weights = vec![f32::NAN; keys.len() * read.weight_count()];
        let mut exists = vec![false; keys.len()];
        view.weights(&keys, &mut weights, &mut exists).unwrap();
        for ((key, exists), weights) in keys.iter().zip(&exists).zip(weights.chunks_exact(5)) {
            let kept = spec.life.is_none_or(|life| {
                life.expire_after == 0 || STEP - key.0.min(STEP) < life.expire_after
            });
            assert_eq!(*exists, key.0 <= KEYS && kept, "{key:?} of {spec:?}");
            let mut right = [0.0; 5];
            match *exists {
                true => right = [key.0 as f32, -1.0, 0.5, 2.0, 0.25],
                false => spec.initial_weights(key.salted(spec.salt()), &mut right),
            }
            assert_eq!(weights, right, "{key:?} of {spec:?}");
        }
    }
}

#[test]
fn a_later_checkpoint_is_judged_by_its_own_step_and_must_mean_the_same() {
    let life = Some(Life { admission: Admission::AtOnce, expire_after: 5 });
    let spec = TableSpec { life, ..specs().remove(0) };
    let home = tempfile::tempdir().unwrap();
    let view = RowsView::open(&write(home.path(), &spec, STEP), 0, options(&spec)).unwrap();
    let existing = || {
        let keys: Vec<Key> = (1..=KEYS).map(Key).collect();
        let (mut weights, mut exists) = (vec![0.0; keys.len() * 5], vec![false; keys.len()]);
        view.weights(&keys, &mut weights, &mut exists).unwrap();
        exists.iter().filter(|exists| **exists).count()
    };
    assert_eq!(existing(), 5);
    view.refresh(&write(home.path(), &spec, STEP + 2)).unwrap();
    assert_eq!((view.step(), existing()), (STEP + 2, 3));
    let other = TableSpec { seed: 1, ..spec.clone() };
    let error = view.refresh(&write(home.path(), &other, STEP + 3)).unwrap_err().to_string();
    assert!(error.contains("have another meaning"), "{error}");
    assert_eq!((view.step(), existing()), (STEP + 2, 3));
}

/// Changes `checkpoint.json` and updates the checksums.
fn change(checkpoint: &Checkpoint, change: impl FnOnce(&mut Value)) -> Checkpoint {
    let read = |name: &str| std::fs::read(checkpoint.path.join(name)).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(checkpoint.path.join(name), bytes).unwrap();
    };
    let old = read("checkpoint.json");
    let mut meta: Value = serde_json::from_slice(&old).unwrap();
    change(&mut meta);
    let new = format!("{meta:#}\n").into_bytes();
    let line = |bytes: &[u8]| format!("{:016x}  {}", hash::checksum(bytes), bytes.len());
    let sums = String::from_utf8(read("CHECKSUMS")).unwrap();
    let body = sums.replace(&line(&old), &line(&new));
    let (body, last) = body.trim_end().rsplit_once('\n').unwrap();
    let body = format!("{body}\n");
    let last = format!("{:016x}{}", hash::checksum(body.as_bytes()), &last[16..]);
    write("checkpoint.json", &new);
    write("CHECKSUMS", format!("{body}{last}\n").as_bytes());
    Checkpoint::open(&checkpoint.path).unwrap()
}

#[test]
fn an_earlier_build_said_less_and_its_checkpoints_still_open() {
    let spec = specs().remove(0);
    let home = tempfile::tempdir().unwrap();
    let earlier = change(&write(home.path(), &spec, STEP), |meta| {
        let table = meta["tables"][0].as_object_mut().unwrap();
        for field in ["seed", "init_range", "optimizer", "life", "lanes"] {
            table.remove(field).unwrap();
        }
    });
    let error = earlier.table(0).unwrap_err().to_string();
    assert!(error.contains("table \"items\": has no optimizer"), "{error}");
    assert!(error.contains("use the settings of its run"), "{error}");
    let view = RowsView::open(&earlier, 0, options(&spec)).unwrap();
    assert_eq!(view.len(), KEYS);
    let told = view.weights(&[Key(1)], &mut [0.0; 5], &mut [false]).unwrap_err().to_string();
    assert!(told.contains("has no optimizer"), "{told}");
}

#[test]
fn initial_values_of_another_function_are_none_of_ours() {
    let spec = specs().remove(0);
    let home = tempfile::tempdir().unwrap();
    let other = change(&write(home.path(), &spec, STEP), |meta| {
        meta["initial_values"] = json!("dice");
    });
    let error = other.table(0).unwrap_err().to_string();
    assert!(error.contains("initial values are made by \"dice\""), "{error}");
}
