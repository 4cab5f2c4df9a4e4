//! `stepwell export` in all formats, read by their libraries; and rows changed since a step.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::process::Command;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use safetensors::SafeTensors;

use crate::common::{Workshop, args};

/// The bytes of a tensor.
type Bytes = Vec<u8>;

/// Shape and bytes of all tensors in a safetensors file.
fn tensors(shop: &Workshop, file: &str) -> BTreeMap<String, (Vec<usize>, Bytes)> {
    let bytes = fs::read(shop.path(file)).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    let own = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        (name, (view.shape().to_vec(), view.data().to_vec()))
    };
    read.tensors().into_iter().map(own).collect()
}

/// Trains and exports in all formats: tables of two shapes, state and history.
fn exported(shop: &Workshop) {
    let data = shop.examples("data.tsv", 2000);
    let more = [
        "--checkpoint=saved",
        "--rows.history=true",
        "--rows.storage=bf16",
        "--tables.users.dim=3",
        "--features.1.columns=C1-C5",
        "--features.1.table=users",
        "--features.2.columns=C6-C26",
    ];
    shop.ok(&args(&[&data], &more));
    for format in ["safetensors", "npy", "parquet"] {
        shop.ok(&["export", "saved", "--to", format, "--format", format, "--state"]);
    }
}

/// Header and values of a NumPy array.
fn array(shop: &Workshop, file: &str) -> (String, Bytes) {
    let bytes = fs::read(shop.path(file)).unwrap();
    assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8(bytes[10..10 + length].to_vec()).unwrap();
    (header, bytes[10 + length..].to_vec())
}

/// A value of a record as its bytes in safetensors.
fn bytes(field: &Field) -> Bytes {
    match field {
        Field::Float(value) => value.to_le_bytes().to_vec(),
        Field::UInt(value) => value.to_le_bytes().to_vec(),
        Field::ULong(value) => value.to_le_bytes().to_vec(),
        Field::Long(value) => value.to_le_bytes().to_vec(),
        Field::ListInternal(list) => list.elements().iter().flat_map(bytes).collect(),
        other => panic!("{other}"),
    }
}

fn records(shop: &Workshop, file: &str) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(shop.path(file)).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

#[test]
fn all_formats_have_the_same_values() {
    let shop = Workshop::new();
    exported(&shop);
    for name in ["dense", "table-embedding", "table-users"] {
        let expected = tensors(&shop, &format!("safetensors/{name}.safetensors"));
        for (tensor, (shape, values)) in &expected {
            let (header, found) = array(&shop, &format!("npy/{name}/{tensor}.npy"));
            let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
            let shape = match &extents[..] {
                [rows] => format!("'shape': ({rows},)"),
                more => format!("'shape': ({})", more.join(", ")),
            };
            assert!(header.contains(&shape), "{tensor}: {header}");
            assert!(found == *values, "{name}, {tensor}");
        }
        let about = fs::read_dir(shop.path(&format!("npy/{name}"))).unwrap().count();
        assert_eq!(about, expected.len() + 1, "and about.json");
    }
    for name in ["embedding", "users"] {
        let expected = tensors(&shop, &format!("safetensors/table-{name}.safetensors"));
        let mut found: BTreeMap<String, Bytes> = BTreeMap::new();
        for row in records(&shop, &format!("parquet/table-{name}.parquet")) {
            for (column, field) in row.get_column_iter() {
                found.entry(column.clone()).or_default().extend(bytes(field));
            }
        }
        assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
        for (tensor, (_, values)) in expected {
            assert!(found[&tensor] == values, "{name}, {tensor}");
        }
    }
    let expected = tensors(&shop, "safetensors/dense.safetensors");
    let records = records(&shop, "parquet/dense.parquet");
    assert_eq!(records.len(), expected.len());
    for row in records {
        let fields: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
        let [Field::Str(name), shape, values] = fields[..] else { panic!("{row}") };
        let (extents, expected) = &expected[name];
        let extents: Bytes = extents.iter().flat_map(|e| (*e as i64).to_le_bytes()).collect();
        assert_eq!((bytes(shape), &bytes(values)), (extents, expected), "{name}");
    }
}

/// The Python that tests may use; `None` unless it has these modules.
fn python(modules: &str) -> Option<String> {
    let python = std::env::var("STEPWELL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    has.is_ok_and(|output| output.status.success()).then_some(python)
}

const NUMPY: &str = "
import json, numpy, sys
for part in ['dense', 'table-embedding', 'table-users']:
    with open(f'safetensors/{part}.safetensors', 'rb') as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
        body = file.read()
    header.pop('__metadata__')
    for name, entry in header.items():
        kind = {'F32': '<f4', 'U32': '<u4', 'U64': '<u8'}[entry['dtype']]
        start, end = entry['data_offsets']
        expected = numpy.frombuffer(body[start:end], kind).reshape(entry['shape'])
        found = numpy.load(f'npy/{part}/{name}.npy')
        assert found.dtype == expected.dtype and found.shape == expected.shape, name
        assert (found == expected).all(), name
print('same')
";

const PYARROW: &str = "
import numpy, pyarrow.parquet
for part in ['table-embedding', 'table-users']:
    table = pyarrow.parquet.read_table(f'parquet/{part}.parquet')
    for name in table.column_names:
        expected = numpy.load(f'npy/{part}/{name}.npy')
        column = table[name].combine_chunks()
        found = numpy.array(column.flatten() if name in ('embedding', 'sum') else column)
        assert found.dtype == expected.dtype and (found == expected.reshape(-1)).all(), name
for row in pyarrow.parquet.read_table('parquet/dense.parquet').to_pylist():
    expected = numpy.load('npy/dense/' + row['name'] + '.npy')
    found = numpy.array(row['values'], expected.dtype).reshape(row['shape'])
    assert (found == expected).all(), row['name']
print('same')
";

#[test]
fn python_reads_what_is_exported() {
    let shop = Workshop::new();
    for (modules, script) in [("numpy", NUMPY), ("numpy, pyarrow.parquet", PYARROW)] {
        let Some(python) = python(modules) else {
            stepwell_skip::skipped(format_args!("no Python with {modules}"));
            continue;
        };
        if !shop.path("parquet").exists() {
            exported(&shop);
        }
        let mut command = Command::new(python);
        let read = command.args(["-c", script]).current_dir(shop.path("")).output().unwrap();
        let error = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success() && read.stdout.starts_with(b"same"), "{modules}: {error}");
    }
}

#[test]
fn rows_that_were_trained_since_a_step_are_those_that_say_so() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    shop.ok(&args(&[&data], &["--checkpoint=saved", "--rows.history=true"]));
    shop.ok(&["export", "saved", "--to", "all", "--state"]);
    let file = "table-embedding.safetensors";
    let u64s = |bytes: &[u8]| -> Vec<u64> {
        bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect()
    };
    let all = tensors(&shop, &format!("all/{file}"));
    let used = all["used"].1.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four));
    let all: Vec<(u64, u32)> = u64s(&all["keys"].1).into_iter().zip(used).collect();
    let last = all.iter().map(|(_, used)| *used).max().unwrap();
    for since in [0, 10, last - 1, last] {
        let since_text = since.to_string();
        shop.ok(&["export", "saved", "--to", "part", "--since", &since_text]);
        let keys = u64s(&tensors(&shop, &format!("part/{file}"))["keys"].1);
        let keys: BTreeSet<u64> = keys.into_iter().collect();
        let expected = all.iter().filter(|(_, used)| *used > since).map(|(key, _)| *key);
        let expected: BTreeSet<u64> = expected.collect();
        assert!(keys == expected, "{since}: {} of {}", keys.len(), expected.len());
        fs::remove_dir_all(shop.path("part")).unwrap();
    }
    let error = shop.fails(&["export", "saved", "--to", "part", "--since", "4000"]);
    assert!(error.contains("--since 4000: the checkpoint is of step"), "{error}");
    shop.ok(&args(&[&data], &["--checkpoint=bare"]));
    let error = shop.fails(&["export", "bare", "--to", "part", "--since", "3"]);
    assert!(error.contains("rows.history = true") && error.contains("'embedding'"), "{error}");
    assert!(!shop.path("part").exists());
}
