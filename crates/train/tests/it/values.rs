//! Ids with values: rows are trained as a computation in 64 bits trains them, and neither format,
//! tiers, ranks nor where a run was stopped change the bits.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::random::Stream;
use stepwell_base::stage::FullSpeed;
use stepwell_base::{ByteCount, Key, TableId, key_of};
use stepwell_data::{Files, Input, PackedOptions, PackedWriter, ReadOptions, Reader};
use stepwell_device::Choice;
use stepwell_engine::{Moment, Placement, Pooling, Witness};
use stepwell_nn::{
    Activation, Add, FactorizationMachine, Graph, GraphBuilder, InputShape, Linear, Source,
};
use stepwell_settings::{
    ColumnConfig, ColumnType, DensePlace, FeatureConfig, ModelKind, OptimizerKind,
};
use stepwell_train::{Config, Machine, Report, Surroundings, train};

/// A record: a label, a user, and tags with their values.
struct Record {
    label: u8,
    user: u64,
    tags: Vec<(u64, f32)>,
}

/// Records whose middle third has no values but 1, with some repeated tags.
fn records(count: usize, vocabulary: u64) -> Vec<Record> {
    let mut dice = Stream::named(3, b"ids with values");
    let values = [0.5, 2.0, -1.25, 0.0, 0.1, 3.0, 1.0];
    let record = |number: usize| {
        let valued = !(count / 3..2 * count / 3).contains(&number);
        let tag = |dice: &mut Stream| {
            let value = values[(dice.next_u64() % 7) as usize];
            (dice.next_u64() % vocabulary, if valued { value } else { 1.0 })
        };
        let mut tags: Vec<(u64, f32)> = (0..dice.next_u64() % 5).map(|_| tag(&mut dice)).collect();
        if number.is_multiple_of(4) {
            tags.extend(tags.first().copied().map(|(tag, value)| (tag, value * 0.5)));
        }
        let user = dice.next_u64() % vocabulary;
        let sum: f32 = tags.iter().map(|(tag, value)| value * (*tag % 3) as f32).sum();
        Record { label: u8::from(sum + (user % 3) as f32 > 2.0), user, tags }
    };
    (0..count).map(record).collect()
}

fn write(path: &Path, lines: impl Iterator<Item = String>) -> PathBuf {
    std::fs::write(path, lines.map(|line| line + "\n").collect::<String>()).unwrap();
    path.to_owned()
}

fn ffm(records: &[Record], path: &Path) -> PathBuf {
    let line = |of: &Record| {
        let tags = of.tags.iter().map(|(tag, value)| format!(" tags:{tag}:{value}"));
        format!("{} user:{}:1{}", of.label, of.user, tags.collect::<String>())
    };
    write(path, records.iter().map(line))
}

/// Columns of the records, with values placed as `values` says.
fn columns(values: Option<&str>) -> Vec<ColumnConfig> {
    let of = |name: &str, kind| ColumnConfig {
        names: vec![name.to_owned()],
        kind,
        ids: 8,
        ..ColumnConfig::default()
    };
    let tags = of("tags", ColumnType::Ids);
    vec![
        of("label", ColumnType::Label),
        of("user", ColumnType::Ids),
        ColumnConfig { values: values.map(str::to_owned), ..tags },
        of("worth", ColumnType::Ignored),
    ]
}

fn job(mut config: Config, data: &Path, values: Option<&str>) -> Config {
    config.columns = columns(values);
    config.data.paths = vec![data.display().to_string()];
    config.data.mini_batch = 32;
    config.data.eval_fraction = 0.1;
    config.data.epochs = 2;
    config
}

/// The weights of each row as first read, and as last read by an evaluation.
#[derive(Default)]
struct Seen {
    first: Mutex<BTreeMap<Key, Vec<f64>>>,
    last: Mutex<BTreeMap<Key, Vec<f64>>>,
}

impl Witness for Seen {
    fn read(&self, at: Moment, _: TableId, key: Key, weights: &[f32], _: &[f32]) {
        let weights: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
        self.first.lock().unwrap().entry(key).or_insert_with(|| weights.clone());
        if at.evaluates {
            self.last.lock().unwrap().insert(key, weights);
        }
    }
}

const DIM: usize = 3;
const MINI_BATCH: usize = 8;
const LEARNING_RATE: f64 = 0.5;

/// The weights of `mlp_out` over embeddings and the one dense feature, and the contribution of the
/// linear parts to each logit.
fn linear_parts(seed: u64) -> (Vec<f64>, f64) {
    let input = InputShape { embedding: 2 * DIM, dense: 1 };
    let mut builder = GraphBuilder::<f32>::new(input);
    let linear =
        |inputs| Linear { inputs, outputs: 1, bias: true, activation: Activation::Identity };
    let dense = builder.add("linear", linear(1), &[Source::Columns(6..7)]).unwrap();
    let top = builder.add("mlp_out", linear(7), &[Source::Columns(0..7)]).unwrap();
    let machine = FactorizationMachine { slots: 2, dim: DIM };
    let fm = builder.add("fm", machine, &[Source::Columns(0..6)]).unwrap();
    let parts = [Source::FirstOrder, Source::Node(dense), Source::Node(top), Source::Node(fm)];
    builder.add("logit", Add, &parts).unwrap();
    let graph: Graph<f32> = builder.build().unwrap();
    let all: Vec<f64> = graph.initial_parameters(seed).into_iter().map(f64::from).collect();
    let of = |name: &str| {
        let found = graph.parameters().iter().find(|of| of.name == name).unwrap();
        all[found.range.clone()].to_vec()
    };
    let top = of("mlp_out/weight");
    let rest = of("linear/weight")[0] + of("linear/bias")[0] + top[6] + of("mlp_out/bias")[0];
    (top, rest)
}

/// A bag: keys, each with the factor of its row.
type Bag = Vec<(Key, f64)>;

/// Trains `rows` on `records`, computing in 64 bits; `dim` lanes of each are an embedding.
fn by_hand(
    rows: &mut BTreeMap<Key, Vec<f64>>,
    records: &[Record],
    dim: usize,
    (factor, (top, rest)): (impl Fn(usize) -> f64, (&[f64], f64)),
) {
    let key = |name: &str, id: u64| key_of(name, id.to_string().as_bytes());
    let bags = |of: &Record| -> [Bag; 2] {
        let by = factor(of.tags.len());
        let tags = of.tags.iter().map(|(tag, value)| (key("tags", *tag), f64::from(*value) * by));
        [vec![(key("user", of.user), 1.0)], tags.collect()]
    };
    for mini_batch in records.chunks(MINI_BATCH) {
        let mut gradients: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
        for record in mini_batch {
            let bags = bags(record);
            let pooled = |bag: &Bag, lane: usize| -> f64 {
                bag.iter().map(|(key, factor)| factor * rows[key][lane]).sum()
            };
            let of_lanes =
                |bag: &Bag| -> Vec<f64> { (0..dim).map(|lane| pooled(bag, lane)).collect() };
            let [user, tags] = [of_lanes(&bags[0]), of_lanes(&bags[1])];
            let dots = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let x = [user.clone(), tags.clone()].concat();
            let first_order: f64 = bags.iter().map(|bag| pooled(bag, dim)).sum();
            let logit = first_order + rest + dots(&top[..2 * dim], &x) + dots(&user, &tags);
            let score = 1.0 / (1.0 + (-logit).exp());
            let d_logit = (score - f64::from(record.label)) / mini_batch.len() as f64;
            for (field, (bag, other)) in bags.iter().zip([&tags, &user]).enumerate() {
                for (key, factor) in bag {
                    let sum = gradients.entry(*key).or_insert_with(|| vec![0.0; dim + 1]);
                    for lane in 0..dim {
                        sum[lane] += factor * d_logit * (top[field * dim + lane] + other[lane]);
                    }
                    sum[dim] += factor * d_logit;
                }
            }
        }
        for (key, gradient) in gradients {
            let row = rows.get_mut(&key).unwrap();
            row.iter_mut().zip(gradient).for_each(|(weight, d)| *weight -= LEARNING_RATE * d);
        }
    }
}

/// Rows after some steps equal those of a plain computation in 64 bits.
fn check_by_hand(kind: ModelKind, pooling: Pooling) {
    let home = tempfile::tempdir().unwrap();
    let records = records(12 * MINI_BATCH, 10);
    let data = ffm(&records, &home.path().join("a.ffm"));
    let mut config = job(tiny(kind, 2), &data, None);
    config.data.eval_paths = config.data.paths.clone();
    (config.data.mini_batch, config.data.epochs) = (MINI_BATCH, 1);
    (config.model.dim, config.model.hidden) = (DIM, Vec::new());
    (config.optim.rows.kind, config.optim.rows.lr) =
        (OptimizerKind::Sgd.into(), Some(LEARNING_RATE));
    // Updates by the smallest possible number are lost in any sum.
    (config.optim.dense.kind, config.optim.dense.lr) = (OptimizerKind::Sgd, Some(1e-45));
    let feature = |name: &str, pooling| FeatureConfig {
        columns: vec![name.to_owned()],
        ids: 8,
        pooling,
        ..FeatureConfig::default()
    };
    config.features = vec![feature("user", Pooling::Sum), feature("tags", pooling)];
    let seen = Arc::new(Seen::default());
    let machine = Machine { witness: Some(Arc::clone(&seen) as _), ..Machine::default() };
    let around = Surroundings { machine, ..surroundings(Arc::new(FullSpeed)) };
    assert_eq!(train(&config, &around).unwrap().steps, 12);
    let (dim, parts) = match kind {
        ModelKind::Lr => (0, (Vec::new(), 0.0)),
        _ => (DIM, linear_parts(config.seed)),
    };
    let mut rows = seen.first.lock().unwrap().clone();
    let before = rows.clone();
    let factor = |ids: usize| if pooling == Pooling::Mean { 1.0 / ids as f64 } else { 1.0 };
    by_hand(&mut rows, &records, dim, (factor, (&parts.0, parts.1)));
    let found = seen.last.lock().unwrap();
    assert!(rows.len() == 20 && found.len() == 20, "{} rows", found.len());
    for (key, expected) in &rows {
        let pairs = || found[key].iter().zip(expected);
        assert!(pairs().all(|(is, wanted)| (is - wanted).abs() < 1e-6), "{kind:?} {pooling:?}");
        assert_ne!(before[key], *expected);
    }
}

#[test]
fn values_multiply_rows_and_their_gradients() {
    check_by_hand(ModelKind::Lr, Pooling::Sum);
    for pooling in [Pooling::Sum, Pooling::Mean] {
        check_by_hand(ModelKind::DeepFm, pooling);
    }
}

fn agrees(report: &Report, oracle: &Report, name: &str) {
    assert_eq!(report.model_digest, oracle.model_digest, "{name}");
    assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
    assert_eq!(report.rows, oracle.rows, "{name}");
}

/// The records with values within items, and with values in a separate column.
fn texts(records: &[Record], home: &Path) -> Vec<(PathBuf, &'static str)> {
    let joined = |of: &Record, item: &dyn Fn(&(u64, f32)) -> String| {
        of.tags.iter().map(item).collect::<Vec<_>>().join("|")
    };
    let within = |of: &Record| {
        let tags = joined(of, &|(tag, value)| format!("{tag}:{value}"));
        format!("{},{},{tags},", of.label, of.user)
    };
    let beside = |of: &Record| {
        let tags = joined(of, &|(tag, _)| tag.to_string());
        let worth = joined(of, &|(_, value)| value.to_string());
        format!("{},{},{tags},{worth}", of.label, of.user)
    };
    let json = |of: &Record| {
        let tags: Vec<u64> = of.tags.iter().map(|(tag, _)| *tag).collect();
        let worth: Vec<f32> = of.tags.iter().map(|(_, value)| *value).collect();
        let (label, user) = (of.label, of.user);
        format!("{{\"label\":{label},\"user\":{user},\"tags\":{tags:?},\"worth\":{worth:?}}}")
    };
    let header = || std::iter::once("label,user,tags,worth".to_owned());
    vec![
        (write(&home.join("within.csv"), header().chain(records.iter().map(within))), ":"),
        (write(&home.join("beside.csv"), header().chain(records.iter().map(beside))), "worth"),
        (write(&home.join("beside.jsonl"), records.iter().map(json)), "worth"),
    ]
}

fn packed(config: &Config, path: &Path) -> PathBuf {
    let layout = config.layout().unwrap().unwrap();
    let paths = config.data.paths.iter().map(PathBuf::from).collect();
    let files = Files { paths, layout: Some(Arc::clone(&layout)) };
    let example_keys_max = usize::MAX;
    let options = ReadOptions { example_keys_max, ..ReadOptions::new(layout.schema()) };
    let mut reader = Reader::open(Input::Files(files), &options).unwrap();
    let laid_out = PackedOptions::laid_out(layout.schema(), Some(&layout));
    let mut writer =
        PackedWriter::new(path, &PackedOptions { block_bytes: 4096, ..laid_out }).unwrap();
    let mut chunk = reader.chunk();
    while reader.next_chunk(&mut chunk).unwrap() {
        writer.add(&chunk).unwrap();
    }
    writer.finish().unwrap();
    path.to_owned()
}

#[test]
fn neither_format_tiers_nor_ranks_show() {
    let home = tempfile::tempdir().unwrap();
    let records = records(1500, 4000);
    let data = ffm(&records, &home.path().join("a.ffm"));
    for kind in [ModelKind::Lr, ModelKind::DeepFm] {
        let oracle = run(&job(in_memory(kind), &data, None));
        let small = |data: &Path, values| job(tiny(kind, 2), data, values);
        let report = run(&small(&data, None));
        assert!(kind == ModelKind::Lr || report.tiers.host.evictions > 0);
        agrees(&report, &oracle, "LibFFM, tiny tiers");
        for ranks in [2, 3] {
            let mut config = small(&data, None);
            (config.ranks.count, config.threads) = (ranks, 1);
            agrees(&run(&config), &oracle, &format!("{ranks} ranks"));
        }
        for devices in [1, 2] {
            let mut config = job(in_memory(kind), &data, None);
            (config.device, config.train.dense) = (Choice::Emulated(devices), DensePlace::Device);
            config.tiers.hbm = Some(ByteCount(16 << 20));
            let report = run(&config);
            agrees(&report, &oracle, &format!("{devices} devices"));
            assert!(report.tiers.device.unwrap().count.pooled > 40);
        }
        for (path, values) in texts(&records, home.path()) {
            let config = small(&path, Some(values));
            agrees(&run(&config), &oracle, &path.display().to_string());
            let path = packed(&config, &home.path().join("packed"));
            agrees(&run(&small(&path, Some(values))), &oracle, "packed");
            let mut config = config;
            config.data.cache = Some(home.path().join("cache"));
            for made in ["a cache that is made", "a cache that was made"] {
                agrees(&run(&config), &oracle, made);
            }
            std::fs::remove_file(home.path().join("cache")).unwrap();
        }
        let mut shuffled = small(&data, None);
        shuffled.data.shuffle = 500;
        let mut at_once = job(in_memory(kind), &data, None);
        at_once.data.shuffle = 500;
        agrees(&run(&shuffled), &run(&at_once), "shuffled");
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    let home = tempfile::tempdir().unwrap();
    let data = ffm(&records(1500, 400), &home.path().join("a.ffm"));
    let mut config = job(tiny(ModelKind::DeepFm, 2), &data, None);
    config.pipeline.staleness = 1;
    let oracle = run(&config);
    config.checkpoint.dir = Some(home.path().join("saved"));
    config.data.epochs = 1;
    assert_ne!(run(&config).model_digest, oracle.model_digest);
    config.data.epochs = 2;
    let around = Surroundings { placement: Placement::Resume, ..surroundings(Arc::new(FullSpeed)) };
    assert_eq!(train(&config, &around).unwrap().model_digest, oracle.model_digest);
}

#[test]
fn values_of_1_are_no_values() {
    let home = tempfile::tempdir().unwrap();
    let mut records = records(800, 100);
    records.iter_mut().flat_map(|of| &mut of.tags).for_each(|(_, value)| *value = 1.0);
    let valued = texts(&records, home.path());
    let line = |of: &Record| {
        let tags: Vec<String> = of.tags.iter().map(|(tag, _)| tag.to_string()).collect();
        format!("{},{},{},", of.label, of.user, tags.join("|"))
    };
    let header = std::iter::once("label,user,tags,worth".to_owned());
    let plain = write(&home.path().join("plain.csv"), header.chain(records.iter().map(line)));
    let oracle = run(&job(tiny(ModelKind::DeepFm, 1), &plain, None));
    for (path, values) in valued {
        let config = job(tiny(ModelKind::DeepFm, 1), &path, Some(values));
        agrees(&run(&config), &oracle, &path.display().to_string());
        // The file equals the packed file of data without values, except for the name of its
        // columns.
        let bytes = std::fs::read(packed(&config, &home.path().join("packed"))).unwrap();
        assert_eq!(bytes[8], 3);
    }
}
