//! Models of several tables: with any tiers, groups and stores, the bits are those of a run in
//! memory.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::ByteCount;
use stepwell_base::stage::FullSpeed;
use stepwell_data::{
    Chunk, Input, PackedOptions, PackedWriter, ReadOptions, Reader, Schema, Synth, SynthOptions,
};
use stepwell_engine::{Placement, Pooling};
use stepwell_settings::{
    ExchangeKind, FeatureConfig, ModelKind, OptimizerKind, PlaceKind, RanksConfig,
    RowOptimizerKind, TableConfig,
};
use stepwell_train::{Config, Report, Surroundings, train};

/// Columns whose bags may have several ids.
const MANY: [usize; 4] = [2, 5, 9, 13];
const BAG_MAX: usize = 50;
/// Values of ids.
const VALUES: [f32; 7] = [0.5, 1.0, 2.0, -0.75, 0.0, 1.0, 0.3];

/// The examples of `chunk`, with bags of up to [`BAG_MAX`] ids in some columns, taken from earlier
/// examples. The ids of some examples have values.
fn with_bags(chunk: &Chunk) -> Chunk {
    let mut bags = Chunk { bag_ends: Vec::new(), keys: Vec::new(), ..chunk.clone() };
    for example in 0..chunk.len() {
        for column in 0..chunk.schema.id_columns {
            let own = chunk.bag(example, column);
            match MANY.contains(&column) {
                false => bags.keys.extend_from_slice(own),
                true => {
                    let count = own[0].0 as usize % (BAG_MAX + 1);
                    let before = (example + 1).saturating_sub(count)..example + 1;
                    bags.keys.extend(before.map(|example| chunk.bag(example, column)[0]));
                }
            }
            bags.bag_ends.push(bags.keys.len() as u32);
            let valued = (example / 200).is_multiple_of(3);
            for at in bags.values.len()..bags.keys.len() {
                bags.values.push(if valued { VALUES[at % VALUES.len()] } else { 1.0 });
            }
        }
    }
    bags
}

fn pack(chunk: &Chunk, home: &Path) -> PathBuf {
    let path = home.join("bags.packed");
    let mut writer = PackedWriter::new(&path, &PackedOptions::new(Schema::CRITEO)).unwrap();
    writer.add(chunk).unwrap();
    writer.finish().unwrap();
    path
}

/// Examples of the built-in stream with bags, packed.
fn drawn(home: &Path) -> PathBuf {
    let options = SynthOptions { examples: 1300, vocab_scale: 0.2, ..SynthOptions::default() };
    let mut chunk = Chunk::new(Schema::CRITEO);
    Synth::new(&options).unwrap().fill(0, 1300, &mut chunk);
    pack(&with_bags(&chunk), home)
}

fn feature(table: &str, columns: &[&str], change: impl Fn(&mut FeatureConfig)) -> FeatureConfig {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    let table = table.to_owned();
    let mut feature = FeatureConfig { columns, table, ids: 1, ..FeatureConfig::default() };
    change(&mut feature);
    feature
}

fn table(name: &str, dim: usize, optimizer: impl Into<RowOptimizerKind>) -> TableConfig {
    TableConfig {
        name: name.to_owned(),
        dim: Some(dim),
        optimizer: Some(optimizer.into()),
        lr: Some(0.05),
        ..TableConfig::default()
    }
}

/// Six tables in five groups: 'clicks' of first-order weights only, 'users' with admission, 'items'
/// of three features with long bags, in one store with 'pages', 'words' that expire, 'places' in
/// memory.
fn tables(config: &mut Config) {
    config.model.dim = 16;
    let mut users = table("users", 8, OptimizerKind::Adagrad);
    users.admit_after = Some(2);
    users.sketch = Some(ByteCount(4096));
    let mut words = table("words", 64, RowOptimizerKind::RowWiseAdagrad);
    words.expire_after = Some(6);
    let mut places = table("places", 4, OptimizerKind::Sgd);
    (places.place, places.dram) = (PlaceKind::Memory, Some(ByteCount(256 << 10)));
    config.tables = vec![
        table("clicks", 0, OptimizerKind::Sgd),
        users,
        table("items", 16, OptimizerKind::Adam),
        words,
        table("pages", 16, OptimizerKind::Adam),
        places,
    ];
    config.tables[4].lr = Some(0.02);
    let ids = |pooling, ids| {
        move |feature: &mut FeatureConfig| (feature.pooling, feature.ids) = (pooling, ids)
    };
    config.features = vec![
        feature("items", &["C3", "C6"], ids(Pooling::Mean, BAG_MAX)),
        feature("clicks", &["C1", "C20-C22"], |_| {}),
        feature("users", &["C2", "C4", "C5"], |_| {}),
        feature("words", &["C10"], ids(Pooling::SqrtN, BAG_MAX)),
        feature("items", &["C7"], |_| {}),
        feature("pages", &["C8", "C9"], |feature| feature.weight = Some("I3".to_owned())),
        feature("places", &["C14"], ids(Pooling::None, BAG_MAX)),
        // The same column again, in another table.
        feature("pages", &["C7"], |_| {}),
    ];
}

fn job(base: Config, data: &Path) -> Config {
    let mut config = base;
    config.data.paths = vec![data.display().to_string()];
    config.data.mini_batch = 32;
    config.data.eval_fraction = 0.1;
    config.data.epochs = 2;
    config.pipeline.staleness = 1;
    tables(&mut config);
    config
}

fn agrees(report: &Report, oracle: &Report, name: &str) {
    assert_eq!(report.model_digest, oracle.model_digest, "{name}");
    assert_eq!(report.rows, oracle.rows, "{name}");
    assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
    assert_eq!(report.progressive_by_epoch, oracle.progressive_by_epoch, "{name}");
}

fn small(data: &Path, lookahead: usize) -> Config {
    let mut config = job(tiny(ModelKind::DeepFm, lookahead), data);
    config.tiers.dram = Some(ByteCount(3 << 20));
    config.tiers.index = Some(ByteCount(16 << 20));
    config
}

fn exact(data: &Path, lookaheads: &[usize]) {
    let mut config = job(in_memory(ModelKind::DeepFm), data);
    config.tables[5].dram = Some(ByteCount(8 << 20));
    config.tiers.dram = Some(ByteCount(256 << 20));
    let oracle = run(&config);
    assert_eq!(oracle.tiers.host.evictions, 0);
    for ranks in [2, 5] {
        let ranked = RanksConfig { count: ranks, ..Config::default().ranks };
        let config = Config { ranks: ranked, threads: 1, ..small(data, 2) };
        agrees(&run(&config), &oracle, &format!("{ranks} ranks"));
    }
    // Tables whose rows are admitted and expire are not lent, next to others that are.
    let at_once = |mut config: Config| {
        config.pipeline.staleness = 0;
        config
    };
    let oracle_of_lent = run(&at_once(config.clone()));
    for ranks in [2, 3] {
        let mut config = Config { threads: 1, ..at_once(small(data, 2)) };
        (config.ranks.count, config.ranks.exchange) = (ranks, ExchangeKind::WorkingSet);
        config.data.batch = 8 * config.data.mini_batch;
        let report = run(&config);
        agrees(&report, &oracle_of_lent, &format!("{ranks} ranks that lend"));
        assert!(report.by_rank.iter().any(|of| of.ranks.unwrap().rows_borrowed > 0));
    }
    for lookahead in lookaheads {
        let mut config = small(data, *lookahead);
        config.data.batch = 32 * [1, 4][lookahead % 2];
        config.threads = 1 + lookahead % 3;
        let report = run(&config);
        let host = &report.tiers.host;
        assert!(host.evictions > 1000 && host.refilled > 100, "lookahead {lookahead}: {host:?}");
        assert_eq!(report.tiers.disk.stores.len(), 5);
        // Rows that stay in memory were never written.
        assert_eq!(report.tiers.disk.stores[4].rows_live, 0);
        agrees(&report, &oracle, &format!("lookahead {lookahead}"));
    }
}

#[test]
fn several_tables_are_exact_through_tiny_tiers() {
    let home = tempfile::tempdir().unwrap();
    exact(&drawn(home.path()), &[0, 1, 2, 5, 8]);
}

#[test]
fn several_tables_are_exact_on_real_data() {
    let Some(folder) = std::env::var_os("STEPWELL_DATA") else {
        stepwell_skip::skipped("STEPWELL_DATA is not set");
        return;
    };
    let path = Path::new(&folder).join("criteo_tb_80k.tsv.zst");
    let mut reader =
        Reader::open(Input::Files(vec![path].into()), &ReadOptions::new(Schema::CRITEO)).unwrap();
    let mut chunk = Chunk::new(Schema::CRITEO);
    assert!(reader.next_chunk(&mut chunk).unwrap());
    let home = tempfile::tempdir().unwrap();
    exact(&pack(&with_bags(&first(&chunk, 2000)), home.path()), &[0, 3]);
}

/// The first examples of a chunk.
fn first(chunk: &Chunk, count: usize) -> Chunk {
    let (mut first, count) = (chunk.clone(), count.min(chunk.len()));
    first.labels.truncate(count);
    first.dense.truncate(count * chunk.schema.dense);
    first.keys.truncate(chunk.keys_start(count));
    first.bag_ends.truncate(count * chunk.schema.id_columns);
    first.lines.truncate(count);
    first
}

#[test]
fn a_resumed_run_of_several_tables_ends_with_the_same_bits() {
    let home = tempfile::tempdir().unwrap();
    let data = drawn(home.path());
    let oracle = run(&small(&data, 2));
    let mut config = small(&data, 2);
    config.checkpoint.dir = Some(home.path().join("saved"));
    config.data.epochs = 1;
    let half = run(&config);
    assert_ne!(half.model_digest, oracle.model_digest);
    config.data.epochs = 2;
    // Different tiers: the table that stays in memory is loaded whole.
    config.tiers.dram = Some(ByteCount(16 << 20));
    let around = Surroundings { placement: Placement::Resume, ..surroundings(Arc::new(FullSpeed)) };
    let resumed = train(&config, &around).unwrap();
    assert_eq!(resumed.model_digest, oracle.model_digest);
    assert_eq!(resumed.rows, oracle.rows);
    assert_eq!(resumed.eval, oracle.eval);
}

#[test]
fn a_resumed_run_has_its_rows_where_they_can_be() {
    let home = tempfile::tempdir().unwrap();
    let data = drawn(home.path());
    let mut config = small(&data, 2);
    config.checkpoint.dir = Some(home.path().join("saved"));
    config.data.epochs = 1;
    run(&config);
    config.data.epochs = 2;
    let refused = |change: fn(&mut Config)| {
        let mut config = config.clone();
        change(&mut config);
        let around =
            Surroundings { placement: Placement::Resume, ..surroundings(Arc::new(FullSpeed)) };
        let error = train(&config, &around).map(|report| report.steps).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    // Table 'pages' would leave the store that it shares with 'items'.
    let error = refused(|config| {
        config.tables[4].place = PlaceKind::Memory;
        config.tables[4].dram = Some(ByteCount(1 << 20));
    });
    assert!(error.contains("keep tables.NAME.place of all tables as it was"), "{error}");
    let error = refused(|config| config.tables[5].dram = Some(ByteCount(5 << 10)));
    assert!(error.contains("'places' must stay in memory, which has room for"), "{error}");
}

#[test]
fn which_tables_share_a_store_does_not_show() {
    let home = tempfile::tempdir().unwrap();
    let data = drawn(home.path());
    let together = run(&small(&data, 2));
    let mut config = small(&data, 2);
    let pages = &mut config.tables[4];
    (pages.place, pages.dram) = (PlaceKind::Memory, Some(ByteCount(1 << 20)));
    config.tiers.dram = Some(ByteCount(4 << 20));
    let apart = run(&config);
    assert_eq!(apart.tiers.disk.stores.len(), 6);
    agrees(&apart, &together, "pages in memory");
}

#[test]
fn to_name_what_there_is_anyway_changes_nothing() {
    for kind in ModelKind::OF_ANY_DATA {
        let mut config = tiny(kind, 2);
        let unnamed = run(&config);
        config.features = vec![feature("embedding", &["C1-C26"], |_| {})];
        agrees(&run(&config), &unnamed, &format!("{kind:?}, features"));
        config.tables = vec![table("embedding", 4, config.optim.rows.kind)];
        config.tables[0].lr = None;
        agrees(&run(&config), &unnamed, &format!("{kind:?}, tables"));
    }
}

#[test]
fn every_model_takes_tables_of_unequal_dimensions() {
    for kind in ModelKind::OF_ANY_DATA {
        let with = |mut config: Config| {
            let (mut wide, mut narrow) =
                (table("wide", 12, OptimizerKind::Adagrad), table("narrow", 2, OptimizerKind::Sgd));
            (wide.lr, narrow.lr) = (None, None);
            config.tables = vec![wide, narrow];
            config.features = vec![
                feature("embedding", &["C1-C3"], |_| {}),
                feature("wide", &["C4", "C5"], |_| {}),
                feature("narrow", &["C6"], |_| {}),
                feature("embedding", &["C7-C12"], |_| {}),
            ];
            // As many, and at such rates, that an evaluation shows that the model learns.
            config.synth.examples = 2800;
            (config.optim.rows.lr, config.optim.dense.lr) = (Some(0.02), Some(0.001));
            config.tiers.dram = config.tiers.dram.max(Some(ByteCount(220 << 10)));
            run(&config)
        };
        let oracle = with(in_memory(kind));
        let tiny = with(tiny(kind, 2));
        assert!(kind == ModelKind::Lr || tiny.tiers.host.evictions > 0, "{kind:?}");
        agrees(&tiny, &oracle, &format!("{kind:?}"));
        // Experts under towers need more steps.
        let learns = !matches!(kind, ModelKind::Mmoe | ModelKind::Ple);
        assert!(!learns || oracle.eval.auc > Some(0.5), "{kind:?}: {:?}", oracle.eval);
    }
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let home = tempfile::tempdir().unwrap();
    let data = drawn(home.path());
    let refused = |change: fn(&mut Config)| {
        let mut config = small(&data, 2);
        change(&mut config);
        let error = train(&config, &surroundings(Arc::new(FullSpeed)))
            .map(|report| report.steps)
            .unwrap_err()
            .to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let error = refused(|config| config.features[3].ids = 49);
    let wanted = ["bags.packed: example ", "has 50 ids in column C10", "ids = 49: raise"];
    assert!(wanted.iter().all(|part| error.contains(part)), "{error}");
    let error = refused(|config| config.features[0].columns = vec!["C27".to_owned()]);
    assert!(error.contains("features.1.columns name C27: the data has C1 to C26"), "{error}");
    let error = refused(|config| config.features[5].weight = Some("I14".to_owned()));
    assert!(error.contains("weight is I14: the data has I1 to I13"), "{error}");
    let none = |config: &mut Config| {
        config.tables.iter_mut().for_each(|table| table.dim = Some(0));
    };
    let error = refused(none);
    assert!(
        error.contains("deepfm multiplies pairs of embeddings, but its tables have none"),
        "{error}"
    );
    let error = refused(|config| config.model.kind = ModelKind::Dcn);
    assert!(error.contains("tables.clicks.dim is 0, and dcn has no first-order"), "{error}");
    let error = refused(|config| config.tables[1].dram = Some(ByteCount(3 << 10)));
    assert!(error.contains("of table 'users', but tables.users.dram holds"), "{error}");
    assert!(error.contains("raise tables.users.dram to "), "{error}");
    // Too small for all rows, and for a single mini-batch.
    for bytes in [5 << 10, 2 << 10] {
        let mut config = small(&data, 2);
        config.tables[5].dram = Some(ByteCount(bytes));
        let error = train(&config, &surroundings(Arc::new(FullSpeed))).map(|report| report.steps);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("'places' must stay in memory"), "{bytes}: {error}");
        assert!(error.contains("raise tables.places.dram"), "{bytes}: {error}");
    }
    let error = refused(|config| config.features[6].ids = 1100);
    assert!(error.contains("deepfm would need 1104 projections"), "{error}");
    let error = refused(|config| {
        config.features[0].ids = 1100;
        config.data.mini_batch = 1 << 22;
    });
    assert!(error.contains("data.mini_batch is 4194304, and an example may have 2"), "{error}");
    let error = refused(|config| config.tables[5].dram = Some(ByteCount(4 << 20)));
    assert!(error.contains("given 4.0 MiB of memory together, and tiers.dram is 3.0"), "{error}");
    let error = refused(|config| config.tiers.dram = Some(ByteCount(300 << 10)));
    assert!(error.contains("of which it has"), "{error}");
}

/// Examples after those that were read before memory was divided are unknown.
#[test]
fn a_table_whose_columns_are_empty_at_first_has_room_like_others() {
    let home = tempfile::tempdir().unwrap();
    let options = SynthOptions { examples: 1000, ..SynthOptions::default() };
    let mut chunk = Chunk::new(Schema::CRITEO);
    Synth::new(&options).unwrap().fill(0, 1000, &mut chunk);
    let full = with_bags(&chunk);
    let (bag_ends, keys, values) = (Vec::new(), Vec::new(), Vec::new());
    let mut bags = Chunk { bag_ends, keys, values, ..full.clone() };
    for example in 0..full.len() {
        for column in 0..full.schema.id_columns {
            // Table 'words' only has column C10.
            if column != 9 {
                bags.keys.extend_from_slice(full.bag(example, column));
            }
            bags.bag_ends.push(bags.keys.len() as u32);
        }
    }
    let data = pack(&bags, home.path());
    let report = run(&small(&data, 1));
    let oracle = run(&job(in_memory(ModelKind::DeepFm), &data));
    agrees(&report, &oracle, "empty");
}
