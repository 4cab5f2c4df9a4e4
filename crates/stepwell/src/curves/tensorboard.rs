//! Curves for TensorBoard: `--tensorboard DIR`.
//!
//! ```text
//!   file     record*
//!   record   length u64 | masked CRC-32C of it u32 | Event | masked CRC-32C of that u32
//! ```
//!
//! Little-endian. An `Event` is a protocol buffers message as in TensorFlow's `event.proto` and
//! `summary.proto`; the types here have only the parts that are written. Each process begins its
//! own file, so a resumed run leaves the earlier one unchanged. The file has the step at which it
//! begins, and TensorBoard drops the earlier file's events from there on.
//!
//! - **Cost.** One record at a time, of some KiB.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crc::{CRC_32_ISCSI, Crc};
use prost::{Message, Oneof};
use stepwell_train::Metrics;

use super::sample::{Recent, Sample};
use super::sink::{Event, Moment, Sink};

/// CRC-32C.
const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
/// Added to a rotated sum, so that a sum over sums is not a valid sum.
const MASK_DELTA: u32 = 0xa282_ead8;
/// Prefix of the names of event files.
pub(crate) const PREFIX: &str = "events.out.tfevents.";

/// `Event`.
#[derive(Clone, PartialEq, Message)]
struct Record {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, Oneof)]
enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    Session(SessionLog),
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Scalar>,
}

/// `Summary.Value`.
#[derive(Clone, PartialEq, Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    /// One of several kinds of values in the message; also written if it is zero.
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
    #[prost(string, tag = "2")]
    checkpoint_path: String,
}

/// `SessionLog.SessionStatus`.
const START: i32 = 1;
const CHECKPOINT: i32 = 3;

/// Scalars of one moment.
#[derive(Default)]
struct Scalars(Vec<Scalar>);

impl Scalars {
    fn put(&mut self, tag: impl Into<String>, value: impl Into<Option<f64>>) {
        let value: Option<f64> = value.into();
        if let Some(value) = value {
            self.0.push(Scalar { tag: tag.into(), simple_value: Some(value as f32) });
        }
    }

    fn put_metrics(&mut self, of: &str, metrics: &Metrics) {
        self.put(format!("{of}/log_loss"), metrics.logloss);
        self.put(format!("{of}/auc"), metrics.auc);
        self.put(format!("{of}/calibration"), metrics.calibration);
        self.put(format!("{of}/normalized_entropy"), metrics.normalized_entropy);
        self.put(format!("{of}/rmse"), metrics.rmse);
        self.put(format!("{of}/mae"), metrics.mae);
        self.put(format!("{of}/r2"), metrics.r2);
        for label in &metrics.labels {
            self.put_metrics(&format!("{of}/{}", label.label), &label.metrics);
        }
    }

    fn of_training(now: &Sample, recent: Option<&Recent>) -> Self {
        let mut scalars = Self::default();
        let loss = if now.is_log_loss { "training/log_loss" } else { "training/loss" };
        scalars.put(format!("{loss}_of_epoch"), now.loss);
        scalars.put("training/auc", now.auc);
        scalars.put("training/examples", now.examples as f64);
        scalars.put("tiers/rows_in_memory", now.memory_rows() as f64);
        scalars.put("tiers/slots_in_memory", now.held.slots as f64);
        scalars.put("tiers/hit_rate_of_devices", now.on_devices);
        scalars.put("tiers/rows_on_disk", now.held.disk_rows as f64);
        scalars.put("tiers/bytes_on_disk", now.held.disk_bytes as f64);
        scalars.put("tiers/rows_from_disk", now.refilled as f64);
        scalars.put("tiers/reads", now.reads as f64);
        scalars.put("memory/peak_bytes", now.peak_bytes.map(|bytes| bytes as f64));
        let Some(recent) = recent else { return scalars };
        scalars.put(loss, recent.loss);
        scalars.put("training/examples_per_second", recent.examples_per_second);
        if let Some([memory, disk, new]) = recent.shares {
            scalars.put("tiers/hit_rate_of_memory", memory);
            scalars.put("tiers/hit_rate_of_disk", disk);
            scalars.put("tiers/new_rows", new);
        }
        for (stage, share) in &recent.busy {
            scalars.put(format!("busy/{stage}"), *share);
        }
        scalars
    }
}

/// A file of events in a directory.
pub(super) struct EventFile {
    directory: PathBuf,
    /// Created with the first event, so that a run that fails before it leaves none.
    file: Option<File>,
}

impl EventFile {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), file: None }
    }

    /// Begins the file of a process, with the step of its first event.
    fn begin(&self, step: u64) -> io::Result<File> {
        fs::create_dir_all(&self.directory)?;
        let (seconds, process) = (seconds_since_1970() as u64, std::process::id());
        let mut number = 0u32;
        let mut file = loop {
            let name = format!("{PREFIX}{seconds:010}.stepwell.{process}.{number}");
            match File::create_new(self.directory.join(name)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                made => break made?,
            }
        };
        put(&mut file, 0, What::FileVersion("brain.Event:2".to_owned()))?;
        let start = SessionLog { status: START, checkpoint_path: String::new() };
        put(&mut file, step, What::Session(start))?;
        Ok(file)
    }
}

impl Sink for EventFile {
    fn name(&self) -> String {
        format!("events in {}", self.directory.display())
    }

    fn take(&mut self, at: Moment, event: &Event<'_>) -> io::Result<()> {
        let mut scalars = Scalars::default();
        match event {
            Event::Training { now, recent } => {
                scalars = Scalars::of_training(now, recent.as_ref());
            }
            Event::Epoch(metrics) => scalars.put_metrics("epoch", metrics),
            Event::Evaluation { metrics, best } => {
                scalars.put_metrics("evaluation", metrics);
                best.iter().for_each(|best| scalars.put_metrics("best_reachable", best));
            }
            Event::Saved(_) => {}
            Event::Planned(_) | Event::Ended(_) => return Ok(()),
        }
        if scalars.0.is_empty() && !matches!(event, Event::Saved(_)) {
            // An epoch without remaining examples.
            return Ok(());
        }
        let what = match event {
            Event::Saved(path) => What::Session(SessionLog {
                status: CHECKPOINT,
                checkpoint_path: path.display().to_string(),
            }),
            _ => What::Summary(Summary { value: scalars.0 }),
        };
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.begin(at.step)?,
        };
        put(&mut file, at.step, what)?;
        self.file = Some(file);
        Ok(())
    }
}

/// Adds a record, in one write.
fn put(file: &mut File, step: u64, what: What) -> io::Result<()> {
    let step = i64::try_from(step).unwrap_or(i64::MAX);
    let event = Record { wall_time: seconds_since_1970(), step, what: Some(what) };
    file.write_all(&framed(&event.encode_to_vec()))
}

/// A record with the bytes `event`.
fn framed(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    let sums = [masked(&length), masked(event)].map(u32::to_le_bytes);
    [&length[..], &sums[0], event, &sums[1]].concat()
}

fn masked(bytes: &[u8]) -> u32 {
    CRC.checksum(bytes).rotate_right(15).wrapping_add(MASK_DELTA)
}

fn seconds_since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_of_tensorflow() {
        // The first record of any file that TensorFlow 2.12 writes, except its time.
        let event = Record {
            wall_time: 0.0,
            step: 0,
            what: Some(What::FileVersion("brain.Event:2".to_owned())),
        };
        assert_eq!(event.encode_to_vec(), b"\x1a\x0dbrain.Event:2");
        // Test vectors of RFC 3720, and the length of that record, 24 with its time.
        assert_eq!(CRC.checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(CRC.checksum(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(framed(&[7; 24])[..12], *b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22");
    }
}
