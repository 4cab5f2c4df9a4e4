//! `train --tensorboard`: event files, read back byte by byte, and by TensorBoard if installed.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{TINY, Workshop, args};

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 }
        })
    })
}

fn masked(bytes: &[u8]) -> u32 {
    let sum = crc32c(bytes);
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// The records of a file; checks their sums.
fn records(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = number(&bytes[..8]) as usize;
        assert_eq!(number(&bytes[8..12]), u64::from(masked(&bytes[..8])));
        let event = &bytes[12..12 + length];
        assert_eq!(number(&bytes[12 + length..16 + length]), u64::from(masked(event)));
        records.push(event);
        bytes = &bytes[16 + length..];
    }
    records
}

/// The value of a field of a message.
#[derive(Clone, Debug, PartialEq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a protocol buffers message, by number.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let value =
            bytes[..end].iter().rev().fold(0, |all, byte| all << 7 | u64::from(byte & 0x7f));
        *bytes = &bytes[end..];
        value
    }
    fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
        let (front, rest) = bytes.split_at(count);
        *bytes = rest;
        front
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(number(take(&mut bytes, 8))),
            2 => {
                let count = varint(&mut bytes) as usize;
                Field::Bytes(take(&mut bytes, count))
            }
            5 => Field::Number(number(take(&mut bytes, 4))),
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, field));
    }
    found
}

/// A decoded event.
#[derive(Debug, Default)]
struct Event {
    wall_time: f64,
    step: u64,
    version: String,
    session: Option<(u64, String)>,
    scalars: BTreeMap<String, f32>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn scalar(value: &[u8]) -> (String, f32) {
    let (mut tag, mut number) = (String::new(), None);
    for field in fields(value) {
        match field {
            (1, Field::Bytes(bytes)) => tag = text(bytes),
            (2, Field::Number(bits)) => number = Some(f32::from_bits(bits as u32)),
            other => panic!("{other:?}"),
        }
    }
    (tag, number.unwrap())
}

fn event(record: &[u8]) -> Event {
    let mut event = Event::default();
    for field in fields(record) {
        match field {
            (1, Field::Number(bits)) => event.wall_time = f64::from_bits(bits),
            (2, Field::Number(step)) => event.step = step,
            (3, Field::Bytes(version)) => event.version = text(version),
            (5, Field::Bytes(summary)) => {
                event.scalars.extend(fields(summary).iter().map(|value| match value {
                    (1, Field::Bytes(value)) => scalar(value),
                    other => panic!("{other:?}"),
                }));
            }
            (7, Field::Bytes(session)) => {
                let (mut status, mut path) = (0, String::new());
                for field in fields(session) {
                    match field {
                        (1, Field::Number(number)) => status = number,
                        (2, Field::Bytes(bytes)) => path = text(bytes),
                        other => panic!("{other:?}"),
                    }
                }
                event.session = Some((status, path));
            }
            other => panic!("{other:?}"),
        }
    }
    event
}

fn files(shop: &Workshop) -> Vec<PathBuf> {
    let entries = fs::read_dir(shop.path("events")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn events(path: &PathBuf) -> Vec<Event> {
    let bytes = fs::read(path).unwrap();
    records(&bytes).into_iter().map(event).collect()
}

fn last(events: &[Event], tag: &str) -> f32 {
    let found = events.iter().rev().find_map(|event| event.scalars.get(tag));
    *found.unwrap_or_else(|| panic!("no {tag} in {events:?}"))
}

#[test]
fn events_say_what_the_report_says_and_a_resumed_run_begins_a_file() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let common = ["--tensorboard", "events", "--checkpoint", "saved"];
    let tiny = [&common[..], &TINY].concat();
    shop.ok(&args(&[&data], &[]));
    let plain = shop.report("report.json");
    shop.ok(&args(&[&data], &[&tiny[..], &["--html", "run.html", "--metrics", "m"]].concat()));
    let report = shop.report("report.json");
    assert_eq!(report["model_digest"], plain["model_digest"], "curves change nothing");
    let [file] = &files(&shop)[..] else { panic!("{:?}", files(&shop)) };
    assert!(file.file_name().unwrap().to_str().unwrap().starts_with("events.out.tfevents."));
    let found = events(file);
    assert_eq!(found[0].version, "brain.Event:2");
    assert_eq!(found[1].session, Some((1, String::new())), "a start");
    assert!(found[0].wall_time > 1.7e9 && found.is_sorted_by_key(|event| event.wall_time));
    assert!(found[1..].is_sorted_by_key(|event| event.step), "{found:?}");
    for (tag, figure) in [
        ("evaluation/log_loss", &report["eval"]["logloss"]),
        ("evaluation/auc", &report["eval"]["auc"]),
        ("evaluation/calibration", &report["eval"]["calibration"]),
        ("epoch/log_loss", &report["progressive"]["logloss"]),
        ("epoch/auc", &report["progressive"]["auc"]),
        ("training/log_loss_of_epoch", &report["progressive"]["logloss"]),
        ("tiers/slots_in_memory", &report["tiers"]["host"]["slots"]),
        ("training/examples", &report["examples"]),
    ] {
        let expected = figure.as_f64().unwrap() as f32;
        assert!((last(&found, tag) - expected).abs() <= expected.abs() * 1e-6, "{tag}");
    }
    for tag in ["training/auc", "training/log_loss", "tiers/hit_rate_of_memory", "busy/train"] {
        assert!((0.0..2.0).contains(&last(&found, tag)), "{tag}");
    }
    assert!(last(&found, "training/examples_per_second") > 0.0);
    let step = report["steps"].as_u64().unwrap();
    assert_eq!(found.last().unwrap().step, step);
    let saved = found.iter().find(|event| event.session.as_ref().is_some_and(|of| of.0 == 3));
    assert!(saved.unwrap().session.as_ref().unwrap().1.contains("step-"));

    // A run that fails at the start leaves no file.
    shop.fails(&args(&[&data], &common));
    assert_eq!(files(&shop).len(), 1);
    let before = fs::read(file).unwrap();
    shop.ok(&args(&[&data], &[&tiny[..], &["--resume", "--data.epochs", "2"]].concat()));
    let both = files(&shop);
    assert_eq!((both.len(), fs::read(file).unwrap()), (2, before));
    let new = both.iter().find(|path| *path != file).unwrap();
    let found = events(new);
    assert_eq!((found[1].session.clone(), found[1].step), (Some((1, String::new())), step));
    assert!(found[2..].iter().all(|event| event.step >= step));
    assert!(last(&found, "tiers/rows_on_disk") > 0.0, "those of the checkpoint are there");
    assert!(last(&found, "tiers/bytes_on_disk") > 0.0);
    assert_eq!(found.last().unwrap().step, shop.report("report.json")["steps"].as_u64().unwrap());
    as_tensorboard_reads_it(&shop);
}

/// Checks the events of both files with TensorBoard's own reader.
fn as_tensorboard_reads_it(shop: &Workshop) {
    const SCRIPT: &str = "
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
of = EventAccumulator(sys.argv[1])
of.Reload()
print(len(of.Scalars('training/examples')), of.Scalars('evaluation/auc')[-1].value)
";
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import tensorboard"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        stepwell_skip::skipped(format_args!("{python} has no tensorboard"));
        return;
    }
    let run = Command::new(&python).args(["-c", SCRIPT]).arg(shop.path("events")).output().unwrap();
    let said = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let (count, auc) = said.trim().split_once(' ').unwrap();
    assert!(count.parse::<usize>().unwrap() > 0);
    let expected = shop.report("report.json")["eval"]["auc"].as_f64().unwrap();
    assert!((auc.parse::<f64>().unwrap() - expected).abs() < 1e-6, "{said}");
}

#[test]
fn several_ranks_write_one_file_and_the_same_model() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    shop.ok(&args(&[&data], &[]));
    let alone = shop.report("report.json");
    shop.ok(&args(&[&data], &["--tensorboard", "events", "--html", "run.html", "--ranks", "2"]));
    let [file] = &files(&shop)[..] else { panic!("{:?}", files(&shop)) };
    let (found, report) = (events(file), shop.report("report.json"));
    assert_eq!(report["model_digest"], alone["model_digest"]);
    assert!((0.0..=1.0).contains(&last(&found, "training/auc")));
    assert!(last(&found, "busy/ask") >= 0.0);
}

#[test]
fn a_directory_of_events_that_cannot_be_is_refused_before_the_run() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let error = shop.fails(&args(&[&data], &["--tensorboard", "no/where"]));
    assert!(error.contains("--tensorboard no/where: there is no directory no"), "{error}");
    let error = shop.fails(&args(&[&data], &["--tensorboard", &data]));
    assert!(error.contains("is not a directory"), "{error}");
    for (flag, key) in [("--checkpoint", "checkpoint.dir"), ("--tiers.ssd", "tiers.ssd")] {
        let error = shop.fails(&args(&[&data], &["--tensorboard", "one", flag, "one"]));
        assert!(error.contains(&format!("--tensorboard one is also {key}")), "{error}");
    }
    assert_eq!(fs::read_dir(shop.path("")).unwrap().count(), 1, "nothing is left");
}
