use clap::Parser;

use super::*;
use crate::engine::Engine;
use crate::phases::{Looked, Written};

fn written(rows_per_second: f64, write_amplification: f64) -> Written {
    Written {
        rows: 1,
        seconds: 1.0,
        rows_per_second,
        cpu_us_per_row: 1.0,
        bytes_written: 1,
        write_amplification,
        space_amplification: 1.5,
    }
}

fn looked(threads: u32, rows_per_second: f64, cpu_us_per_row: f64) -> Looked {
    let (rows, seconds, bytes_read_per_row) = (1, 1.0, 4096.0);
    Looked { threads, rows, seconds, rows_per_second, cpu_us_per_row, bytes_read_per_row }
}

fn figures(engine: Engine, speed: f64) -> Figures {
    Figures {
        engine,
        setting: "as it comes",
        load: written(100.0 * speed, 1.0),
        cold: vec![looked(1, 10.0 * speed, 4.0), looked(2, 15.0 * speed, 5.0)],
        update: Some(written(50.0 * speed, 8.0 / speed)),
        notes: vec!["a note".to_owned()],
    }
}

fn ours() -> Stepwell {
    Stepwell {
        cold_rows_per_second: Some(90.0),
        load_rows_per_second: Some(400.0),
        write_amplification: Some(1.0),
        cpu_us_per_row: Some(2.0),
        ..Stepwell::default()
    }
}

#[test]
fn ours_is_set_against_the_better_rocksdb_alone() {
    let engines = [
        figures(Engine::RocksdbFbgemm, 1.0),
        figures(Engine::RocksdbLevel, 2.0),
        figures(Engine::Fjall, 100.0),
    ];
    let factors = factors(Some(&ours()), &engines).unwrap();
    let expected = Row {
        load_rows_per_second: Some(2.0),
        cold_rows_per_second: Some(3.0),
        cpu_us_per_row: Some(2.0),
        update_rows_per_second: None,
        write_amplification: Some(4.0),
        space_amplification: None,
    };
    assert_eq!(factors, expected);
}

#[test]
fn without_both_sides_there_are_no_factors() {
    assert_eq!(factors(None, &[figures(Engine::RocksdbLevel, 1.0)]), None);
    assert_eq!(factors(Some(&ours()), &[figures(Engine::Fjall, 1.0)]), None);
    assert_eq!(factors(Some(&ours()), &[]), None);
}

#[test]
fn the_table_has_a_line_for_each_and_its_columns_line_up() {
    let engines = vec![figures(Engine::RocksdbLevel, 2.0), figures(Engine::Fjall, 1.0)];
    let report = Report {
        command: vec!["stores".to_owned()],
        machine: Machine::here(),
        options: Options::parse_from(["stores", "--dir", "d"]),
        factors: factors(Some(&ours()), &engines),
        stepwell: Some(ours()),
        stepwell_report: None,
        engines,
        fio: Some(Fio { read_iops: 123_456.0, write_bytes_per_second: 1e9 }),
    };
    let text = table(&report);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(lines.len(), 6, "{text}");
    let widths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    assert!(text.contains("a note"), "{text}");
    assert!(text.contains("machine: "), "{text}");
    assert!(text.contains("disk by fio: 123456 random reads"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["engines"][0]["engine"], "rocksdb-level");
    assert_eq!(json["factors"]["load_rows_per_second"], 2.0);
}
