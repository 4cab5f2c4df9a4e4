//! Files without records that are filled later.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::daily::days::{DAY, Days};

const HEADER: &str = "click,price,user,item,device\n";
const DAILY: [&str; 6] = ["--data", "day_*.csv", "--from", "saved", "--checkpoint", "saved"];

#[test]
fn a_file_that_has_a_header_alone_is_trained_when_it_has_records() {
    let days = Days::new(3);
    let expected = days.whole(&[]);
    let third = fs::read(days.shop.path("day_3.csv")).unwrap();
    fs::write(days.shop.path("day_3.csv"), HEADER).unwrap();
    let first = ["train", "run.toml", "--data", "day_*.csv", "--checkpoint", "saved"];
    let said = days.said(&first);
    assert!(said.contains("day_3.csv has no records yet"), "{said}");
    let said = days.said(&[&["train", "run.toml"], &DAILY[..]].concat());
    assert!(said.contains("trained before (step 16)"), "{said}");
    assert!(said.contains("day_3.csv has no records yet"), "{said}");
    fs::write(days.shop.path("day_3.csv"), third).unwrap();
    let report = days.train(&DAILY);
    assert_eq!((&report["model_digest"], &report["examples"]), (&expected, &DAY.into()));
    assert_eq!(days.train(&DAILY)["trained_before"], true);
}

#[test]
fn a_file_that_is_filled_behind_a_stopped_run_is_trained_after_it() {
    let days = Days::new(3);
    let second = fs::read(days.shop.path("day_2.csv")).unwrap();
    let in_order = ["--data", "day_1.csv", "--data", "day_3.csv", "--data", "day_2.csv"];
    let expected = days.train(&in_order)["model_digest"].clone();
    for empty in [HEADER, ""] {
        fs::write(days.shop.path("day_2.csv"), empty).unwrap();
        let often = ["--checkpoint.every", "3", "--checkpoint.keep", "100"];
        let first = ["--data", "day_*.csv", "--checkpoint", "saved"];
        days.train(&[&first[..], &often].concat());
        for step in ["step-000000000015", "step-000000000016"] {
            fs::remove_dir_all(days.shop.path(&format!("saved/{step}"))).unwrap();
        }
        fs::write(days.shop.path("day_2.csv"), &second).unwrap();
        let said = days.said(&[&["train", "run.toml"], &DAILY[..]].concat());
        assert!(said.contains("is finished first; run the command again for day_2.csv"), "{said}");
        let report = days.train(&DAILY);
        assert_eq!((&report["model_digest"], &report["steps"]), (&expected, &24.into()));
        fs::remove_dir_all(days.shop.path("saved")).unwrap();
    }
}

/// Writes a Parquet file with so many rows.
fn write_columns(path: &Path, rows: usize) {
    let schema = "message rows { required int64 click; required int64 price;
        required binary user (STRING); required binary item (STRING); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::default());
    let file = fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    if rows > 0 {
        let mut group = writer.next_row_group().unwrap();
        let mut number = 0;
        while let Some(mut column) = group.next_column().unwrap() {
            let numbers = || (0..rows).map(|row| (row % 2) as i64).collect::<Vec<_>>();
            let texts = || (0..rows).map(|row| ByteArray::from(format!("u{}", row % 7).as_str()));
            let texts = || texts().collect::<Vec<_>>();
            match number {
                0 | 1 => column.typed::<Int64Type>().write_batch(&numbers(), None, None).unwrap(),
                _ => column.typed::<ByteArrayType>().write_batch(&texts(), None, None).unwrap(),
            };
            column.close().unwrap();
            number += 1;
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn a_parquet_file_without_rows_is_trained_when_it_has_some() {
    let days = Days::new(1);
    let path = days.shop.path("day_2.parquet");
    write_columns(&path, 0);
    let data = ["--data", "day_*", "--checkpoint", "saved"];
    days.train(&data);
    let daily = [&data[..], &["--from", "saved"]].concat();
    let said = days.said(&[&["train", "run.toml"], &daily[..]].concat());
    assert!(said.contains("day_2.parquet has no records yet"), "{said}");
    write_columns(&path, 100);
    let report = days.train(&daily);
    assert_eq!((&report["examples"], &report["steps"]), (&100.into(), &10.into()));
}
