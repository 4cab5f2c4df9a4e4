use clap::Parser;

use super::*;
use crate::engine::Way;

fn cost(rows_per_second: f64, cpu_us_per_row: f64) -> Cost {
    Cost {
        rows: 1,
        seconds: 1.0,
        rows_per_second,
        cpu_seconds: 1.0,
        cpu_us_per_row,
        bytes_read_per_row: 4096.0,
        bytes_written_per_row: 0.0,
        memory_peak_bytes: 1 << 20,
    }
}

fn written(rows_per_second: f64, write_amplification: f64) -> Written {
    Written { cost: cost(rows_per_second, 1.0), write_amplification, space_amplification: 1.5 }
}

fn looked(threads: usize, rows_per_second: f64, cpu_us_per_row: f64) -> Looked {
    Looked { way: Way { threads, in_flight: 1 }, cost: cost(rows_per_second, cpu_us_per_row) }
}

fn figures(engine: Engine, speed: f64) -> Figures {
    Figures {
        engine,
        setting: "as it comes".to_owned(),
        load: written(100.0 * speed, 1.0),
        cold: vec![looked(1, 10.0 * speed, 4.0), looked(8, 15.0 * speed, 5.0)],
        update: Some(written(50.0 * speed, 8.0 / speed)),
        notes: vec!["a note".to_owned()],
    }
}

#[test]
fn ours_is_set_against_the_best_of_the_others_in_each_figure() {
    let engines = [
        figures(Engine::Stepwell, 4.0),
        figures(Engine::RocksdbLevel, 1.0),
        Figures { update: None, ..figures(Engine::Fjall, 2.0) },
    ];
    let factors = factors(&engines);
    let factor = |phase, figure| {
        let found = factors.iter().find(|factor| (factor.phase, factor.figure) == (phase, figure));
        found.map(|found| found.factor)
    };
    assert_eq!(factor("load", "rows/s"), Some(2.0));
    assert_eq!(factor("cold reads", "rows/s"), Some(2.0));
    assert_eq!(factor("cold reads", "CPU, us/row"), Some(1.0));
    assert_eq!(factor("update", "rows/s"), Some(4.0));
    assert_eq!(factor("update", "written/put"), Some(4.0));
    assert_eq!(factor("cold reads", "space"), None, "reading takes no space");
    assert_eq!(factor("load", "written, B/row"), None, "nothing over nothing");
}

#[test]
fn without_both_sides_there_are_no_factors() {
    assert_eq!(factors(&[]), []);
    assert_eq!(factors(&[figures(Engine::Stepwell, 1.0)]), []);
    assert_eq!(factors(&[figures(Engine::Fjall, 1.0), figures(Engine::RocksdbBlob, 1.0)]), []);
}

#[test]
fn the_best_way_of_reading_counts() {
    let figures = figures(Engine::Fjall, 1.0);
    assert_eq!(figures.best().map(|looked| looked.way.threads), Some(8));
}

#[test]
fn every_phase_has_a_table_whose_columns_line_up() {
    let engines = vec![figures(Engine::Stepwell, 2.0), figures(Engine::Fjall, 1.0)];
    let report = Report {
        command: vec!["stores".to_owned()],
        machine: Machine::here(),
        options: Options::parse_from(["stores", "--dir", "d"]),
        factors: factors(&engines),
        engines,
        disk: vec![Fio { read_iops: 123_456.0, write_bytes_per_second: 1e9 }],
    };
    let text = text(&report);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(lines.len(), 3 * 5, "{text}");
    for table in lines.chunks(5) {
        let widths: Vec<usize> = table.iter().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }
    assert!(text.contains("fjall: 1 x 1: 10, 8 x 1: 15"), "{text}");
    assert!(text.contains("fjall: as it comes; a note"), "{text}");
    assert!(text.contains("disk by fio, before: 123456 random reads"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["engines"][1]["engine"], "fjall");
    assert_eq!(json["factors"][0]["factor"], 2.0);
}
