//! Towers of users and items: they learn from positives alone which items a user takes, exactly
//! through tiers, ranks and interruptions.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::ByteCount;
use stepwell_base::random::Stream;
use stepwell_base::stage::FullSpeed;
use stepwell_device::Choice;
use stepwell_settings::{ColumnConfig, ColumnType, DensePlace, ModelKind};
use stepwell_train::{Config, train};

/// Records of a user, an item, its shop and its price. Users click on items of their own kind.
fn records(path: &Path, count: usize, vocabulary: u64) -> PathBuf {
    let mut dice = Stream::named(8, b"towers");
    let mut lines = String::from("click,user,item,shop,price\n");
    for _ in 0..count {
        let [user, item] = [(); 2].map(|()| dice.next_u64() % vocabulary);
        let click = u8::from(user % 5 == item % 5);
        lines += &format!("{click},{user},{item},{},{}\n", item % 7, item % 11);
    }
    std::fs::write(path, lines).unwrap();
    path.to_owned()
}

fn job(mut config: Config, data: &Path) -> Config {
    let column = |name: &str, kind| ColumnConfig {
        names: vec![name.to_owned()],
        kind,
        ..ColumnConfig::default()
    };
    config.columns = vec![
        column("click", ColumnType::Label),
        column("user", ColumnType::Id),
        column("item", ColumnType::Id),
        column("shop", ColumnType::Id),
        column("price", ColumnType::Dense),
    ];
    config.model.kind = ModelKind::TwoTower;
    config.model.item = ["item", "shop", "price"].map(str::to_owned).to_vec();
    config.model.vector = 8;
    config.data.paths = vec![data.display().to_string()];
    (config.data.mini_batch, config.data.epochs) = (64, 2);
    config.optim.rows.lr = Some(0.1);
    config
}

#[test]
fn towers_are_exact() {
    let home = tempfile::tempdir().unwrap();
    let data = records(&home.path().join("data.csv"), 3000, 300);
    let oracle = run(&job(in_memory(ModelKind::TwoTower), &data));
    // 1 of 5 examples is a positive.
    let trained = oracle.examples;
    assert!((2 * 400..2 * 700).contains(&trained), "{trained}");
    for (lookahead, ranks, batch) in [(0, 1, 1), (3, 1, 4), (2, 3, 1), (1, 2, 4)] {
        let mut config = job(tiny(ModelKind::TwoTower, lookahead), &data);
        config.ranks.count = ranks;
        config.data.batch = batch * config.data.mini_batch;
        let report = run(&config);
        let name = format!("{ranks} ranks, lookahead {lookahead}");
        assert_eq!(report.model_digest, oracle.model_digest, "{name}");
        assert_eq!(report.eval, oracle.eval, "{name}");
    }
    for (devices, ranks) in [(1, 1), (3, 1), (2, 2)] {
        let mut config = job(tiny(ModelKind::TwoTower, 2), &data);
        (config.device, config.train.dense) = (Choice::Emulated(devices), DensePlace::Device);
        config.tiers.hbm = Some(ByteCount(16 << 20));
        config.ranks.count = ranks;
        let report = run(&config);
        assert_eq!(report.model_digest, oracle.model_digest, "{devices} devices, {ranks} ranks");
        assert_eq!(report.eval, oracle.eval, "{devices} devices, {ranks} ranks");
    }
}

#[test]
fn positives_alone_teach_which_items_a_user_takes() {
    let home = tempfile::tempdir().unwrap();
    let data = records(&home.path().join("data.csv"), 20_000, 60);
    let mut config = job(in_memory(ModelKind::TwoTower), &data);
    (config.data.epochs, config.train.blocks) = (8, 1);
    let auc = run(&config).eval.auc.unwrap();
    assert!(auc > 0.95, "{auc}");
    // Data without negatives gives the same model.
    let positives = home.path().join("positives.csv");
    let text = std::fs::read_to_string(&data).unwrap();
    let kept = text.lines().filter(|line| !line.starts_with("0,")).collect::<Vec<_>>().join("\n");
    std::fs::write(&positives, kept + "\n").unwrap();
    config.data.eval_fraction = 0.0;
    config.data.eval_paths = vec![data.display().to_string()];
    let all = run(&config);
    config.data.paths = vec![positives.display().to_string()];
    assert_eq!(run(&config).model_digest, all.model_digest);
}

#[test]
fn items_that_are_not_given_are_named() {
    let home = tempfile::tempdir().unwrap();
    let data = records(&home.path().join("data.csv"), 40, 30);
    let says = |change: &dyn Fn(&mut Config), said: &[&str]| {
        let mut config = job(in_memory(ModelKind::TwoTower), &data);
        change(&mut config);
        let error = train(&config, &surroundings(Arc::new(FullSpeed))).unwrap_err().to_string();
        assert!(said.iter().all(|said| error.contains(said)), "{error}");
    };
    says(&|of| of.model.item.clear(), &["model.item is empty", "the user has the others"]);
    says(&|of| of.model.item[0] = "itme".into(), &["model.item has itme, which the model doesn't"]);
    says(&|of| of.model.item.push("user".into()), &["all columns", "leave some to the user"]);
    says(&|of| of.data.negative_rate = 0.5, &["negative_rate = 0.5, but two_tower", "leave it"]);
    says(&|of| of.model.temperature = 0.0, &["model.temperature is 0", "0.001 to 1000"]);
    says(&|of| of.train.blocks = 64, &["train.blocks = 64: each block has one example"]);
    let number = |of: &mut Config| of.columns[0].loss = stepwell_nn::Loss::SquaredError;
    says(&number, &["model.kind = two_tower, which trains on positives alone", "is a number"]);
    std::fs::write(&data, "click,user,item,shop,price\n1,1,2,3,4\n0.5,1,2,3,4\n").unwrap();
    says(&|_| {}, &["data.csv: line 3: the model trains on positives alone", "0.5 is neither"]);
}
