//! Attention to sequences: exact through tiers, ranks and interruptions, with padding that counts
//! for nothing, and settings that name the sequences.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::ByteCount;
use stepwell_base::random::Stream;
use stepwell_base::stage::FullSpeed;
use stepwell_device::Choice;
use stepwell_engine::Pooling;
use stepwell_nn::Function;
use stepwell_settings::{
    ColumnConfig, ColumnType, DensePlace, FeatureConfig, LayerConfig, LayerKind, MissingKind,
    ModelKind, TableConfig,
};
use stepwell_train::{Config, train};

/// Records of a label, a user, an item, its shop, and the items and shops before.
fn records(path: &Path, count: usize, vocabulary: u64) -> PathBuf {
    let mut dice = Stream::named(5, b"sequences");
    let mut lines = String::from("click,user,item,shop,items,shops\n");
    for _ in 0..count {
        let [user, item] = [(); 2].map(|()| dice.next_u64() % vocabulary);
        let before: Vec<u64> =
            (0..dice.next_u64() % 6).map(|_| dice.next_u64() % vocabulary).collect();
        let click = before.iter().any(|of| of % 7 == item % 7);
        let list = |modulo: u64| {
            let ids: Vec<String> = before.iter().map(|of| (of % modulo).to_string()).collect();
            ids.join(" ")
        };
        let (items, shops, shop) = (list(u64::MAX), list(7), item % 7);
        lines += &format!("{},{user},{item},{shop},{items},{shops}\n", u8::from(click));
    }
    std::fs::write(path, lines).unwrap();
    path.to_owned()
}

fn job(mut config: Config, data: &Path) -> Config {
    let of = |name: &str, kind| ColumnConfig {
        names: vec![name.to_owned()],
        kind,
        ids: 5,
        separator: " ".to_owned(),
        missing: MissingKind::None,
        namespace: ["item", "shop"].iter().find(|one| name.contains(*one)).map(|of| (*of).into()),
        ..ColumnConfig::default()
    };
    let id = |name: &str| ColumnConfig {
        separator: ColumnConfig::default().separator,
        missing: MissingKind::default(),
        ids: 1,
        ..of(name, ColumnType::Id)
    };
    let label = ColumnConfig { namespace: None, ..id("click") };
    config.columns = vec![
        ColumnConfig { kind: ColumnType::Label, ..label },
        id("user"),
        id("item"),
        id("shop"),
        of("items", ColumnType::Ids),
        of("shops", ColumnType::Ids),
    ];
    let feature = |names: &[&str], table: &str, pooling, ids| FeatureConfig {
        columns: names.iter().map(|name| (*name).to_owned()).collect(),
        table: table.to_owned(),
        pooling,
        ids,
        ..FeatureConfig::default()
    };
    config.tables = vec![TableConfig { dim: Some(3), ..TableConfig::named("shops") }];
    config.features = vec![
        feature(&["items"], "embedding", Pooling::None, 5),
        feature(&["user", "item"], "embedding", Pooling::Sum, 1),
        feature(&["shop"], "shops", Pooling::Sum, 1),
        feature(&["shops"], "shops", Pooling::None, 5),
        // The same sequence as a bag.
        feature(&["items"], "embedding", Pooling::Mean, 5),
    ];
    config.model.kind = ModelKind::Din;
    config.model.attention = 8;
    config.model.target = ["item", "shop"].map(str::to_owned).to_vec();
    config.model.sequences = ["items", "shops"].map(str::to_owned).to_vec();
    config.data.paths = vec![data.display().to_string()];
    (config.data.mini_batch, config.data.epochs) = (32, 2);
    config.optim.rows.lr = Some(0.1);
    config
}

#[test]
fn attention_is_exact() {
    let home = tempfile::tempdir().unwrap();
    let data = records(&home.path().join("data.csv"), 700, 900);
    let oracle = run(&job(in_memory(ModelKind::Din), &data));
    assert!(oracle.eval.auc.unwrap() > 0.5, "{:?}", oracle.eval.auc);
    for (lookahead, ranks, streams, batch) in
        [(0, 1, 1, 1), (3, 1, 1, 4), (2, 3, 1, 1), (1, 2, 1, 4)]
    {
        let mut config = job(tiny(ModelKind::Din, lookahead), &data);
        (config.ranks.count, config.data.streams) = (ranks, streams);
        config.data.batch = batch * config.data.mini_batch;
        let report = run(&config);
        let name = format!("{ranks} ranks, lookahead {lookahead}");
        assert_eq!(report.model_digest, oracle.model_digest, "{name}");
        assert_eq!(report.eval, oracle.eval, "{name}");
    }
    for (devices, ranks) in [(1, 1), (3, 1), (2, 2)] {
        let mut config = job(tiny(ModelKind::Din, 2), &data);
        (config.device, config.train.dense) = (Choice::Emulated(devices), DensePlace::Device);
        (config.tiers.hbm, config.ranks.count) = (Some(ByteCount(16 << 20)), ranks);
        let report = run(&config);
        assert_eq!(report.model_digest, oracle.model_digest, "{devices} devices, {ranks} ranks");
        assert_eq!(report.eval, oracle.eval, "{devices} devices, {ranks} ranks");
    }
    let shuffled = |config: Config| {
        let mut config = job(config, &data);
        config.data.shuffle = 100;
        run(&config)
    };
    let [oracle, report] = [in_memory(ModelKind::Din), tiny(ModelKind::Din, 2)].map(shuffled);
    assert_eq!(report.model_digest, oracle.model_digest);
}

/// The job with two heads of attention to the items before, by queries from the item.
fn heads(config: Config, data: &Path) -> Config {
    let mut config = job(config, data);
    config.features.remove(4);
    (config.model.kind, config.model.target) = (ModelKind::Graph, Vec::new());
    config.model.sequences = Vec::new();
    let dim = config.model.dim;
    let layer = LayerConfig::new;
    let linear = |name: &str, inputs: &[&str], width| LayerConfig {
        width: Some(width),
        ..layer(name, LayerKind::Linear, inputs)
    };
    let others = ["heads", "column:user", "column:item", "column:shop"];
    config.model.layers = vec![
        linear("queries", &["column:item"], 2 * dim),
        layer("heads", LayerKind::MultiHeadAttention, &["queries", "column:items"]),
        layer("all", LayerKind::Concat, &others),
        LayerConfig { function: Some(Function::Relu), ..linear("hidden", &["all"], 8) },
        linear("logit", &["hidden"], 1),
    ];
    config.features.retain(|of| of.columns != ["shops"]);
    config.columns.retain(|of| of.names != ["shops"]);
    config
}

#[test]
fn heads_are_exact() {
    let home = tempfile::tempdir().unwrap();
    let data = records(&home.path().join("data.csv"), 700, 900);
    let oracle = run(&heads(in_memory(ModelKind::Din), &data));
    for (lookahead, ranks, batch) in [(3, 1, 4), (2, 3, 1)] {
        let mut config = heads(tiny(ModelKind::Din, lookahead), &data);
        config.ranks.count = ranks;
        config.data.batch = batch * config.data.mini_batch;
        let report = run(&config);
        assert_eq!(report.model_digest, oracle.model_digest, "{ranks} ranks");
        assert_eq!(report.eval, oracle.eval, "{ranks} ranks");
    }
}

#[test]
fn queries_and_targets_fit_the_embeddings_of_the_sequence() {
    let home = tempfile::tempdir().unwrap();
    let data = records(&home.path().join("data.csv"), 40, 30);
    let says = |change: &dyn Fn(&mut Config), said: &str| {
        let mut config = heads(in_memory(ModelKind::Din), &data);
        change(&mut config);
        let error = train(&config, &surroundings(Arc::new(FullSpeed))).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    };
    let queries = |of: &mut Config| of.model.layers[0].width = Some(7);
    says(&queries, "queries have 7 columns, but the embeddings of the sequence have 4");
    let target = |of: &mut Config| {
        let layer = &mut of.model.layers[1];
        (layer.kind, layer.width) = (LayerKind::TargetAttention, Some(3));
    };
    says(&target, "target has 8 columns, but the embeddings of the sequence have 4: give both");
}

/// A larger limit on a sequence adds only padding.
#[test]
fn padding_counts_for_nothing() {
    let home = tempfile::tempdir().unwrap();
    let data = records(&home.path().join("data.csv"), 400, 300);
    let config = job(in_memory(ModelKind::Din), &data);
    let mut longer = config.clone();
    for feature in longer.features.iter_mut().filter(|of| of.pooling == Pooling::None) {
        feature.ids = 9;
    }
    let (report, longer) = (run(&config), run(&longer));
    assert_eq!(longer.eval.logloss, report.eval.logloss);
    assert_eq!(longer.progressive, report.progressive);
}

#[test]
fn sequences_that_are_not_given_are_named() {
    let home = tempfile::tempdir().unwrap();
    let data = records(&home.path().join("data.csv"), 40, 30);
    let says = |change: &dyn Fn(&mut Config), said: &[&str]| {
        let mut config = job(in_memory(ModelKind::Din), &data);
        change(&mut config);
        let error = train(&config, &surroundings(Arc::new(FullSpeed))).unwrap_err().to_string();
        assert!(said.iter().all(|said| error.contains(said)), "{error}");
    };
    says(&|of| of.model.sequences.clear(), &["model.target", "2 columns", "0 in model.sequences"]);
    says(&|of| of.model.target.clear(), &["0 columns in model.target", "give the column"]);
    says(
        &|of| of.model.target[0] = "itme".into(),
        &["model.target has itme: the data has no such id column"],
    );
    says(
        &|of| of.model.sequences[0] = "user".into(),
        &["model.sequences has user", "no feature with pooling = none"],
    );
    says(
        &|of| of.model.sequences.swap(0, 1),
        &["layer 'attention/shops'", "dimension 4", "have 3", "tables of one dim"],
    );
    says(&|of| of.model.target[0] = "shops".into(), &["model.target has shops: it is a sequence"]);
    says(&|of| of.model.sequences[1] = "items".into(), &["model.sequences has items twice"]);
    let plain = |of: &mut Config| {
        of.features.clear();
        of.tables.clear();
    };
    says(&plain, &["model.sequences has items", "[[features]]"]);
}
