//! Embeddings that rows begin with, from a Parquet file; tables that are frozen and thawed; and the
//! mean of dense parameters in files.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use safetensors::SafeTensors;

use crate::common::{Workshop, args};

const DIM: usize = 5;
/// One table of the first id column, and one of the others.
const TABLES: [&str; 6] = [
    "--tiers.index=16MiB",
    "--tables.users.dim=5",
    "--tables.users.pretrained=vectors.parquet",
    "--features.1.columns=C1",
    "--features.1.table=users",
    "--features.2.columns=C2-C26",
];

/// Writes ids and their embeddings, whose numbers have no short text.
fn write_vectors(path: &Path, ids: &[String]) -> Vec<[f32; DIM]> {
    let schema = "message rows { required binary id (STRING);
        required group embedding (LIST) { repeated group list { required float element; } } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = fs::File::create(path).unwrap();
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let texts: Vec<ByteArray> = ids.iter().map(|id| id.as_str().into()).collect();
    column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
    column.close().unwrap();
    let vector = |id: usize| std::array::from_fn(|lane| ((id * DIM + lane) as f32).sin() / 3.0);
    let vectors: Vec<[f32; DIM]> = (0..ids.len()).map(vector).collect();
    let mut column = group.next_column().unwrap().unwrap();
    let repeated: Vec<i16> =
        (0..ids.len() * DIM).map(|lane| i16::from(!lane.is_multiple_of(DIM))).collect();
    let defined = vec![1; repeated.len()];
    let numbers = vectors.concat();
    column.typed::<FloatType>().write_batch(&numbers, Some(&defined), Some(&repeated)).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    vectors
}

/// The embeddings of `ids` in a checkpoint.
fn embeddings(shop: &Workshop, checkpoint: &str, ids: &[String]) -> Vec<[f32; DIM]> {
    fs::write(shop.path("ids.csv"), format!("C1\n{}\n", ids.join("\n"))).unwrap();
    shop.ok(&["export", checkpoint, "--ids", "ids.csv", "--to", "rows.csv"]);
    let lines = fs::read_to_string(shop.path("rows.csv")).unwrap();
    let record = |line: &str| {
        let mut fields = line.split(',').skip(1);
        let without_row = fields.next().unwrap().parse::<f32>();
        assert_eq!(without_row, Ok(0.0), "{line}");
        std::array::from_fn(|_| fields.next().unwrap().parse().unwrap())
    };
    lines.lines().skip(1).map(record).collect()
}

#[test]
fn embeddings_from_parquet_stay_until_they_thaw() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let text = fs::read_to_string(&data).unwrap();
    let ids: BTreeSet<String> =
        text.lines().filter_map(|line| Some(line.split('\t').nth(14)?.to_owned())).collect();
    let ids: Vec<String> = ids.into_iter().filter(|id| !id.is_empty()).take(50).collect();
    assert!(ids.len() > 20, "{ids:?}");
    let vectors = write_vectors(&shop.path("vectors.parquet"), &ids);
    let frozen = ["--tables.users.optimizer=frozen", "--checkpoint=saved"];
    let notes = shop.notes(&args(&[&data], &[&TABLES[..], &frozen].concat()));
    let count = ids.len();
    let note = format!("users begins with the embeddings of {count} ids in vectors.parquet");
    assert!(notes.contains(&note), "{notes}");
    assert_eq!(embeddings(&shop, "saved", &ids), vectors);
    // The second day trains them; the file is no longer needed.
    fs::remove_file(shop.path("vectors.parquet")).unwrap();
    let more = ["--from=saved", "--again", "--tables.users.optimizer=adagrad", "--tiers.dram=4MiB"];
    shop.ok(&[&["train", "--data", &data, "--checkpoint=thawed"], &more[..]].concat());
    let thawed = embeddings(&shop, "thawed", &ids);
    assert!(thawed.iter().zip(&vectors).any(|(thawed, was)| thawed != was));
    // An unknown optimizer lists it.
    let error = shop.fails(&args(&[&data], &["--tables.users.optimizer=ice"]));
    assert!(error.contains("ftrl") && error.contains("frozen"), "{error}");
}

/// Bits of a tensor of the dense part.
fn tensor(shop: &Workshop, folder: &str, name: &str) -> Vec<u8> {
    let bytes = fs::read(shop.path(folder).join("dense.safetensors")).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    read.tensor(name).unwrap().data().to_vec()
}

#[test]
fn exports_have_the_mean_and_imports_keep_it() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    shop.ok(&args(&[&data], &["--optim.dense.ema=0.9", "--checkpoint=saved"]));
    shop.ok(&["export", "saved", "--to", "mean"]);
    shop.ok(&["export", "saved", "--to", "whole", "--state"]);
    let mean = tensor(&shop, "mean", "mlp1.weight");
    assert_eq!(mean, tensor(&shop, "whole", "mlp1.weight.ema"));
    assert_ne!(mean, tensor(&shop, "whole", "mlp1.weight"));
    let predicted = |of: &str| shop.ok(&["predict", of, "--data", &data]);
    shop.ok(&["import", "whole", "--like", "saved", "--to", "back"]);
    assert!(predicted("back") == predicted("saved"));
    shop.ok(&["diff", "saved", "back"]);
    shop.ok(&["import", "mean", "--like", "saved", "--to", "fresh", "--fresh-state"]);
    assert!(predicted("fresh") == predicted("saved"));
    shop.ok(&["export", "fresh", "--to", "again", "--state"]);
    assert_eq!(tensor(&shop, "again", "mlp1.weight"), mean);
}

/// FTRL-Proximal with a strong penalty makes all weights zero, and with none, none.
#[test]
fn weights_of_zero_are_counted() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    for (l1, all) in [("--optim.rows.l1=1000", true), ("--optim.rows.l1=0", false)] {
        let begin = "--model.init_value=0";
        let more = ["--checkpoint=saved", "--force", "--optim.rows.kind=ftrl", begin, l1];
        shop.ok(&args(&[&data], &more));
        let inspected = shop.ok(&["inspect", "saved", "--json"]);
        let inspected: serde_json::Value = serde_json::from_str(&inspected).unwrap();
        let table = &inspected["tables"][0];
        let count = |field: &str| table[field].as_u64().unwrap();
        let weights = count("rows") * (count("dim") + count("wide"));
        assert_eq!(count("rows_zero") == count("rows"), all, "{table}");
        assert_eq!(count("weights_zero") == weights, all, "{table}");
        assert_eq!(shop.ok(&["inspect", "saved"]).contains("zero: "), count("weights_zero") > 0);
    }
}
