//! Tables whose rows begin with embeddings from a file, and tables whose rows are frozen.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{in_memory, resume, run, saved_in, stopping, surroundings, tiny};
use stepwell_base::Key;
use stepwell_base::stage::FullSpeed;
use stepwell_base::stop::StopRequest;
use stepwell_engine::Checkpoint;
use stepwell_optim::Storage;
use stepwell_settings::{
    ColumnConfig, ColumnType, FeatureConfig, ModelKind, RowOptimizerKind, TableConfig,
};
use stepwell_train::{Config, train};

const ITEMS: usize = 300;
/// Items with an embedding in the file; the last ones never occur in the data.
const KNOWN: std::ops::Range<usize> = 250..320;

fn embedding(item: usize) -> [f32; 4] {
    [item as f32, -0.1, 1.0 / (item + 1) as f32, 0.25]
}

/// A file of clicks on items by users.
fn write_clicks(home: &Path) -> String {
    let line = |example: usize| {
        format!("{},i{},u{}\n", example % 3 % 2, example * 7 % ITEMS, example * 13 % 700)
    };
    let path = home.join("clicks.csv");
    let lines: String = (0..1400).map(line).collect();
    fs::write(&path, format!("click,item,user\n{lines}")).unwrap();
    path.display().to_string()
}

/// A file of embeddings, whose column of ids has this name.
fn write_vectors(home: &Path, ids: &str) -> std::path::PathBuf {
    let line = |item| {
        let numbers = embedding(item).map(|number| number.to_string());
        format!("i{item},{}\n", numbers.join("|"))
    };
    let path = home.join(format!("{ids}.csv"));
    let lines: String = KNOWN.map(line).collect();
    fs::write(&path, format!("{ids},embedding\n{lines}")).unwrap();
    path
}

fn job(mut config: Config, home: &Path, optimizer: RowOptimizerKind) -> Config {
    let column = |name: &str, kind| ColumnConfig {
        names: vec![name.to_owned()],
        kind,
        ..ColumnConfig::default()
    };
    config.data.paths = vec![write_clicks(home)];
    config.columns = vec![
        column("click", ColumnType::Label),
        column("item", ColumnType::Id),
        column("user", ColumnType::Id),
    ];
    let feature = |name: &str, table: &str| FeatureConfig {
        columns: vec![name.to_owned()],
        table: table.to_owned(),
        ..FeatureConfig::default()
    };
    config.features = vec![feature("item", "items"), feature("user", "users")];
    let items = TableConfig {
        optimizer: Some(optimizer),
        pretrained: Some(write_vectors(home, "item")),
        ..TableConfig::named("items")
    };
    config.tables = vec![items, TableConfig::named("users")];
    config
}

/// The embeddings of the rows of the first table, by key.
fn rows(config: &Config, step: u64) -> HashMap<Key, Vec<f32>> {
    let path = config.checkpoint.dir.clone().unwrap().join(format!("step-{step:012}"));
    let checkpoint = Checkpoint::open(&path).unwrap();
    let spec = checkpoint.table(0).unwrap();
    assert_eq!(spec.name, "items");
    let mut rows = HashMap::new();
    let stop = StopRequest::new();
    checkpoint
        .each_row::<stepwell_engine::Error>(0, &spec, &stop, &mut |key, row| {
            let mut weights = vec![0.0; spec.weight_count()];
            spec.weights(row).copy_to(&mut weights);
            weights.truncate(spec.dim);
            rows.insert(key.salted(spec.salt()), weights);
            Ok(())
        })
        .unwrap();
    rows
}

fn key_of(config: &Config, item: usize) -> Key {
    config.named_layout().unwrap().key_of(0, format!("i{item}").as_bytes()).unwrap()
}

#[test]
fn rows_begin_with_the_embeddings_of_their_ids() {
    for storage in [Storage::F32, Storage::F16] {
        let home = tempfile::tempdir().unwrap();
        let mut config = job(tiny(ModelKind::DeepFm, 2), home.path(), RowOptimizerKind::Adagrad);
        config.rows.storage = storage;
        config.rows.expire_after = 100;
        config.checkpoint.initial = true;
        config.checkpoint.keep = 1000;
        let config = saved_in(&config, &home.path().join("saved"));
        let steps = run(&config).steps;
        let (before, after) = (rows(&config, 0), rows(&config, steps));
        assert_eq!(before.len(), KNOWN.len());
        for item in KNOWN {
            let (key, given) = (key_of(&config, item), embedding(item));
            let slack = if storage == Storage::F32 { 0.0 } else { 0.002 };
            for (is, given) in before[&key].iter().zip(given) {
                assert!((is - given).abs() <= slack * given.abs(), "{item}: {is} {given}");
            }
            assert_eq!(
                before[&key] == after[&key],
                item >= ITEMS,
                "{item} is trained if it occurs"
            );
        }
    }
}

#[test]
fn frozen_rows_keep_their_bits_in_training() {
    let home = tempfile::tempdir().unwrap();
    let config = job(tiny(ModelKind::DeepFm, 2), home.path(), RowOptimizerKind::Frozen);
    let config = saved_in(&config, &home.path().join("saved"));
    let report = run(&config);
    let after = rows(&config, report.steps);
    assert_eq!(after.len(), ITEMS.max(KNOWN.end));
    let bits = |row: &[f32]| row.iter().map(|of| of.to_bits()).collect::<Vec<_>>();
    for item in KNOWN {
        assert_eq!(bits(&after[&key_of(&config, item)]), bits(&embedding(item)), "{item}");
    }
    // Rows without a given embedding keep their initial values, which are small.
    let others = (0..KNOWN.start).map(|item| &after[&key_of(&config, item)]);
    assert!(others.flatten().all(|weight| weight.abs() <= config.model.init_range as f32));
}

#[test]
fn tiers_ranks_and_resuming_change_no_bit() {
    for optimizer in [RowOptimizerKind::Adagrad, RowOptimizerKind::Frozen] {
        let home = tempfile::tempdir().unwrap();
        let with = |config| job(config, home.path(), optimizer);
        let oracle = run(&with(in_memory(ModelKind::DeepFm)));
        let mut without = with(in_memory(ModelKind::DeepFm));
        without.tables[0].pretrained = None;
        assert_ne!(run(&without).eval, oracle.eval);
        for ranks in [1, 3] {
            let mut config = with(tiny(ModelKind::DeepFm, 2));
            config.ranks.count = ranks;
            let report = run(&config);
            assert_eq!(report.model_digest, oracle.model_digest, "{ranks} ranks");
            assert_eq!(report.eval, oracle.eval, "{ranks} ranks");
            let config = saved_in(&config, &home.path().join(format!("saved-{ranks}")));
            train(&config, &stopping(7, false)).unwrap();
            // The rows are in the checkpoint: a resumed run doesn't read the file.
            let path = config.tables[0].pretrained.clone().unwrap();
            fs::remove_file(&path).unwrap();
            assert_eq!(resume(&config).model_digest, oracle.model_digest, "{ranks} ranks");
        }
    }
}

#[test]
fn what_is_wrong_with_a_file_is_named() {
    let home = tempfile::tempdir().unwrap();
    let mut config = job(in_memory(ModelKind::DeepFm), home.path(), RowOptimizerKind::Adagrad);
    let path = home.path().join("vectors.csv");
    config.tables[0].pretrained = Some(path.clone());
    let fails = |config: &Config, text: &str| {
        fs::write(&path, text).unwrap();
        train(config, &surroundings(Arc::new(FullSpeed))).unwrap_err().to_string()
    };
    let name = format!("tables.items.pretrained = {}: ", path.display());
    for (text, why) in [
        (
            "item,embedding\ni1,1|2|3\n",
            "record 1 (id i1): it has 3 numbers, and the table's dim is 4",
        ),
        ("item,embedding\ni1,1|2|3|4\ni2,1|2|x|4\n", "record 2 (id i2): 'x' is not a number"),
        ("item,embedding\ni1,1|2|3|4\ni1,1|2|3|4\n", "record 2 (id i1): the id occurs twice"),
        ("item,embedding\ni1,1|2|nan|4\n", "record 1 (id i1): NaN is not a finite number of f32"),
        (
            "item,embedding\ni1,1|2|3|4\ni2,inf|2|3|4\n",
            "record 2 (id i2): inf is not a finite number of f32",
        ),
        (
            "item,vector\ni1,1|2|3|4\n",
            "its header has no column embedding: it has item, vector; call the column with the \
             lists of numbers 'embedding'",
        ),
        (
            "thing,embedding\ni1,1|2|3|4\n",
            "its header has no column id: it has thing, embedding; call the column of ids 'id', or \
             like the table's column",
        ),
        ("item,embedding\n", "has a header, but no record below it"),
        ("", "it has no record: give ids and their embeddings, or leave it out"),
        ("item,embedding\ni1\n", "line 2 is not a record with item and embedding"),
    ] {
        assert_eq!(fails(&config, text), format!("{name}{why}"));
    }
    // Without a column of its own, an id must mean the same in all columns of the table.
    let text = "id,embedding\ni1,1|2|3|4\n";
    fs::write(&path, text).unwrap();
    train(&config, &surroundings(Arc::new(FullSpeed))).unwrap();
    config.features[1].table = "items".to_owned();
    config.tables.truncate(1);
    let why = fails(&config, text);
    assert!(why.contains("ids of the columns item, user are different"), "{why}");
}
