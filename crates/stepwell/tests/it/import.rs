//! `stepwell import`: checkpoints from tensors.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::common::{TINY, Workshop, args};

/// Two tables that share a store and one of another shape.
const TABLES: [&str; 7] = [
    "--tables.users.dim=4",
    "--tables.small.dim=3",
    "--features.1.columns=C1-C5",
    "--features.1.table=users",
    "--features.2.columns=C6-C8",
    "--features.2.table=small",
    "--features.3.columns=C9-C26",
];

/// The digest of the model of a checkpoint.
fn digest(shop: &Workshop, checkpoint: &str, data: &str) -> String {
    let args = ["eval", checkpoint, "--data", data, "--digest", "--report", "evaluated.json"];
    shop.ok(&args);
    shop.report("evaluated.json")["model_digest"].as_str().unwrap().to_owned()
}

fn remove(shop: &Workshop, names: &[&str]) {
    names.iter().for_each(|name| fs::remove_dir_all(shop.path(name)).unwrap());
}

/// An exported and imported checkpoint is the same model, and a run resumed from it gives the same
/// result as from the original.
#[test]
fn what_comes_back_is_the_same_model_and_goes_on_alike() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let ranks = ["--ranks=3", "--threads=1"];
    let cases: [Vec<&str>; 4] = [
        TINY.to_vec(),
        [&TABLES[..], &["--rows.storage=bf16", "--rows.expire_after=20"]].concat(),
        [
            &TABLES[..],
            &ranks,
            &["--optim.rows.kind=adam", "--rows.admit_after=2", "--model.batch_norm=true"],
        ]
        .concat(),
        [&ranks[..], &["--set=model.kind=lr", "--rows.storage=f16", "--optim.dense.kind=adam"]]
            .concat(),
    ];
    for case in cases {
        let every = ["--checkpoint=saved", "--checkpoint.every=10", "--checkpoint.keep=9"];
        shop.ok(&args(&[&data], &[&case[..], &every].concat()));
        let expected = shop.report("report.json")["model_digest"].clone();
        let newest = digest(&shop, "saved", &data);
        assert_eq!(newest, expected.as_str().unwrap(), "{case:?}");
        shop.ok(&["export", "saved", "--to", "tensors", "--state"]);
        let said = shop.ok(&["import", "tensors", "--like", "saved", "--to", "back"]);
        assert!(said.contains("rows in back"), "{said}");
        assert_eq!(digest(&shop, "back", &data), newest, "{case:?}");
        let predicted = |of: &str| shop.ok(&["predict", of, "--data", &data]);
        assert!(predicted("back") == predicted("saved"), "{case:?}");
        shop.ok(&["inspect", "back"]);
        let inside = fs::read_dir(shop.path("back")).unwrap().map(|entry| entry.unwrap().path());
        let mut inside: Vec<_> = inside.filter(|path| path.is_dir()).collect();
        let step = inside.pop().unwrap();
        assert!(inside.is_empty(), "the checkpoint and nothing else");
        shop.ok(&["store", "check", step.to_str().unwrap()]);
        remove(&shop, &["tensors", "back"]);

        let early = "saved/step-000000000010";
        shop.ok(&["export", early, "--to", "tensors", "--state"]);
        shop.ok(&["import", "tensors", "--like", early, "--to", "back"]);
        shop.ok(&args(&[&data], &[&case[..], &["--checkpoint=back", "--resume"]].concat()));
        assert_eq!(shop.report("report.json")["model_digest"], expected, "{case:?}");
        remove(&shop, &["tensors", "back", "saved"]);
    }
}

/// Importing only weights starts with the optimizer's initial state.
#[test]
fn weights_alone_are_taken_where_that_is_asked_for() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let more = ["--rows.history=true", "--optim.rows.kind=adam", "--optim.dense.kind=adam"];
    let more = [&more[..], &["--model.batch_norm=true"]].concat();
    let every = ["--checkpoint=saved", "--checkpoint.every=10", "--checkpoint.keep=9"];
    shop.ok(&args(&[&data], &[&more[..], &every].concat()));
    let early = "saved/step-000000000010";
    shop.ok(&["export", early, "--to", "weights"]);
    let import = ["import", "weights", "--like", early, "--to", "back"];
    let error = shop.fails(&import);
    assert!(error.contains("exp_avg") && error.contains("give --fresh-state"), "{error}");
    shop.ok(&[&import[..], &["--fresh-state"]].concat());
    let predicted = |of: &str| shop.ok(&["predict", of, "--data", &data]);
    assert!(predicted("back") == predicted(early));
    shop.ok(&["export", "back", "--to", "whole", "--state"]);
    let bytes = fs::read(shop.path("whole/table-embedding.safetensors")).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    let all = |name: &str, four: [u8; 4]| {
        let data = read.tensor(name).unwrap().data().to_vec();
        !data.is_empty() && data.chunks_exact(4).all(|value| value == four)
    };
    assert!(all("exp_avg", [0; 4]) && all("step", [0; 4]) && all("examples", [0; 4]));
    assert!(all("used", 10u32.to_le_bytes()));
    shop.ok(&args(&[&data], &[&more[..], &["--checkpoint=back", "--resume"]].concat()));
}

type Tensors = HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// Changes a file of tensors with the format's library, which drops the file's texts.
fn edit(path: &Path, change: impl FnOnce(&mut Tensors)) {
    let bytes = fs::read(path).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    let own = |(name, view): (String, TensorView<'_>)| {
        (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
    };
    let mut tensors: Tensors = read.tensors().into_iter().map(own).collect();
    change(&mut tensors);
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        (name, TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn set(tensors: &mut Tensors, name: &str, at: usize, four: [u8; 4]) {
    tensors.get_mut(name).unwrap().2[4 * at..4 * at + 4].copy_from_slice(&four);
}

#[test]
fn what_was_edited_is_the_model_then() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    shop.ok(&args(&[&data], &["--checkpoint=saved", "--set=model.kind=lr"]));
    shop.ok(&["export", "saved", "--to", "tensors", "--state"]);
    // Without rows and with dense weights of zero, scores depend only on the bias.
    edit(&shop.path("tensors/dense.safetensors"), |tensors| {
        tensors.get_mut("linear.weight").unwrap().2.fill(0);
        set(tensors, "linear.bias", 0, 1.0f32.to_le_bytes());
    });
    edit(&shop.path("tensors/table-embedding.safetensors"), |tensors| {
        tensors.get_mut("first_order").unwrap().2.fill(0);
    });
    shop.ok(&["import", "tensors", "--like", "saved", "--to", "back"]);
    let predicted = shop.ok(&["predict", "back", "--data", &data]);
    let score = 1.0 / (1.0 + (-1.0f64).exp());
    for line in predicted.lines().skip(1) {
        assert!((line.parse::<f64>().unwrap() - score).abs() < 1e-6, "{line}");
    }
}

/// A value that 16 bits cannot represent becomes one of its two neighbours.
#[test]
fn weights_of_16_bits_are_rounded_where_they_must_be() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    shop.ok(&args(&[&data], &["--checkpoint=saved", "--rows.storage=f16"]));
    shop.ok(&["export", "saved", "--to", "tensors", "--state"]);
    let table = shop.path("tensors/table-embedding.safetensors");
    edit(&table, |tensors| {
        let tenth = 0.1f32.to_le_bytes();
        tensors.get_mut("embedding").unwrap().2.chunks_exact_mut(4).for_each(|four| {
            four.copy_from_slice(&tenth);
        });
    });
    shop.ok(&["import", "tensors", "--like", "saved", "--to", "back"]);
    shop.ok(&["export", "back", "--to", "again"]);
    let bytes = fs::read(shop.path("again/table-embedding.safetensors")).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    let embedding = read.tensor("embedding").unwrap();
    let values = embedding.data().as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four));
    let values: Vec<f32> = values.collect();
    let (below, above) = (0.099_975_586, 0.100_036_62);
    assert!(values.iter().all(|value| [below, above].contains(value)));
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64;
    assert!((mean - 0.1).abs() < 2e-6, "{mean}");
}

/// A change of a file of tensors, and a part of the error line.
type Case<'a> = (&'a str, Box<dyn FnOnce(&mut Tensors)>, &'a str);

#[test]
fn tensors_that_cannot_be_a_model_are_one_line_and_leave_nothing() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    shop.ok(&args(&[&data], &["--checkpoint=saved", "--rows.history=true"]));
    shop.ok(&["export", "saved", "--to", "tensors", "--state"]);
    let nan = f32::NAN.to_le_bytes();
    let (table, dense) = ("tensors/table-embedding.safetensors", "tensors/dense.safetensors");
    let cases: Vec<Case<'_>> = vec![
        (table, Box::new(move |t| set(t, "embedding", 9, nan)), "row 2 (key "),
        (table, Box::new(move |t| set(t, "embedding", 9, nan)), "NaN in weights is not a finite"),
        (table, Box::new(move |t| set(t, "sum", 0, (-1f32).to_le_bytes())), "-1 in sum is below 0"),
        (table, Box::new(|t| drop(t.remove("sum"))), "has no tensor 'sum': export with --state"),
        (table, Box::new(|t| drop(t.remove("keys"))), "has no tensor 'keys'"),
        (table, Box::new(|t| drop(t.remove("embedding"))), "has no tensor 'embedding'"),
        (table, Box::new(|t| t.get_mut("keys").unwrap().0 = Dtype::I64), "is I64, not"),
        (
            table,
            Box::new(|t| {
                let (rows, keys) = (t["keys"].1[0], t.get_mut("keys").unwrap());
                keys.2.copy_within(0..8, 8 * (rows - 1));
            }),
            "the key occurs twice",
        ),
        (
            table,
            Box::new(|t| {
                let rows = t["keys"].1[0];
                let (_, shape, data) = t.get_mut("embedding").unwrap();
                (shape[0], *data) = (rows - 1, data[..16 * (rows - 1)].to_vec());
            }),
            "tensor 'embedding' has the shape [",
        ),
        (table, Box::new(|t| set(t, "used", 0, [0; 4])), "it does not exist after step"),
        (table, Box::new(|t| set(t, "used", 0, [255; 4])), "step 4294967295, is after step 8"),
        (
            table,
            Box::new(|t| drop(t.insert("more".to_owned(), (Dtype::F32, vec![0], vec![])))),
            "has an unknown tensor 'more'",
        ),
        (dense, Box::new(move |t| set(t, "mlp1.bias", 1, nan)), "tensor 'mlp1.bias': NaN"),
        (dense, Box::new(|t| drop(t.remove("mlp1.bias"))), "has no tensor 'mlp1.bias'"),
        (
            dense,
            Box::new(|t| drop(t.remove("mlp1.bias.exp_avg"))),
            "mlp1.bias.exp_avg': export with",
        ),
        (
            dense,
            Box::new(|t| t.get_mut("mlp1.weight").unwrap().1.reverse()),
            "tensor 'mlp1.weight' has the shape",
        ),
    ];
    let import = ["import", "tensors", "--like", "saved", "--to", "back"];
    for (file, change, part) in cases {
        let path = shop.path(file);
        let whole = fs::read(&path).unwrap();
        edit(&path, change);
        let error = shop.fails(&import);
        assert!(error.contains(part) && error.contains(file), "{part}: {error}");
        fs::write(&path, whole).unwrap();
    }
    refuses_other_files(&shop, &import);
    let mut names: Vec<String> = fs::read_dir(shop.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["data.tsv", "report.json", "saved", "tensors"]);
    shop.ok(&import);
}

fn refuses_other_files(shop: &Workshop, import: &[&str]) {
    let table = shop.path("tensors/table-embedding.safetensors");
    let whole = fs::read(&table).unwrap();
    for (bytes, part) in [
        (&whole[..whole.len() - 1], "bytes, but"),
        (&whole[..100], "its header claims to have"),
        (&whole[..5], "it has 5 bytes"),
        (&[255; 64], "its header claims to have 18446744073709551615 bytes"),
        (&[&[2, 0, 0, 0, 0, 0, 0, 0][..], b"no"].concat(), "its header is wrong"),
    ] {
        fs::write(&table, bytes).unwrap();
        let error = shop.fails(import);
        assert!(error.contains(part) && error.contains("not a complete"), "{part}: {error}");
    }
    fs::remove_file(&table).unwrap();
    assert!(shop.fails(import).contains("embedding.safetensors is missing: name a directory"));
    let made = std::process::Command::new("mkfifo").arg(&table).status().unwrap();
    assert!(made.success());
    assert!(shop.fails(import).contains("is not a file: tensors are read from files"));
    fs::remove_file(&table).unwrap();
    fs::write(&table, &whole).unwrap();
    let other = shop.path("tensors/table-other.safetensors");
    fs::write(&other, &whole).unwrap();
    assert!(shop.fails(import).contains("has no such table"));
    fs::remove_file(&other).unwrap();
    shop.ok(&["export", "saved", "--to", "part", "--state", "--since", "3"]);
    let part = ["import", "part", "--like", "saved", "--to", "back"];
    assert!(shop.fails(&part).contains("only the rows that were trained after step 3"));
    remove(shop, &["part"]);
    assert!(shop.fails(&["import", "tensors", "--like", "none", "--to", "back"]).contains("none"));
    let into = ["import", "tensors", "--like", "saved", "--to", "saved"];
    assert!(shop.fails(&into).contains("already exists"));
}
