//! Curves as lines of JSON: `--metrics FILE`.
//!
//! Each line is one write, so that a program that follows the file never sees a part of one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use stepwell_train::Metrics;

use super::sample::{Recent, Sample};
use super::sink::{Event, Moment, Sink};
use crate::outputs::open_special;
use crate::say;

/// A file of lines.
pub(super) struct Lines {
    path: PathBuf,
    goes_on: bool,
    /// Opened for the first line, so that a run that fails before it leaves an older file
    /// unchanged.
    file: Option<File>,
}

impl Lines {
    /// Lines that go to `path`; a run that `goes_on` appends them.
    pub(super) fn new(path: &Path, goes_on: bool) -> Self {
        Self { path: path.to_owned(), goes_on, file: None }
    }

    fn open(&self) -> io::Result<File> {
        match self.goes_on {
            _ if fs::metadata(&self.path).is_ok_and(|about| !about.is_file()) => {
                open_special(&self.path)
            }
            true => File::options().create(true).append(true).open(&self.path),
            false => File::create(&self.path),
        }
    }
}

impl Sink for Lines {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn take(&mut self, at: Moment, event: &Event<'_>) -> io::Result<()> {
        let (name, figures) = match event {
            Event::Training { now, recent } => ("training", training(now, recent.as_ref())),
            Event::Epoch(metrics) => ("epoch", figures_of(metrics)),
            Event::Evaluation { metrics, .. } => ("evaluation", figures_of(metrics)),
            Event::Saved(path) => ("checkpoint", json!({ "path": say::path(path) })),
            Event::Planned(_) | Event::Ended(_) => return Ok(()),
        };
        let mut line = json!({
            "event": name,
            "seconds": (at.seconds * 1e3).round() / 1e3,
            "step": at.step,
            "examples": at.examples,
        });
        if let (Value::Object(line), Value::Object(figures)) = (&mut line, figures) {
            // An evaluation's examples are not those trained on.
            line.extend(figures.into_iter().filter(|(name, _)| name != "examples"));
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        file.write_all(format!("{line}\n").as_bytes())?;
        self.file = Some(file);
        Ok(())
    }
}

fn training(now: &Sample, recent: Option<&Recent>) -> Value {
    let planned = (now.hits + now.misses).max(1) as f64;
    let share = |at: usize| recent.and_then(|recent| recent.shares).map(|shares| shares[at]);
    let name = if now.is_log_loss { "logloss" } else { "loss" };
    let busy = recent.map_or(&[][..], |recent| &recent.busy);
    let busy: Map<String, Value> =
        busy.iter().map(|(name, share)| ((*name).to_owned(), json!(share))).collect();
    json!({
        "examples_per_second": recent.and_then(|of| of.examples_per_second).map(f64::round),
        name: now.loss,
        format!("{name}_recent"): recent.and_then(|of| of.loss),
        "auc_recent": now.auc,
        "hit_rate": now.hits as f64 / planned,
        "hit_rate_recent": share(0),
        "hit_rate_devices": now.on_devices,
        "rows_from_disk": now.refilled,
        "reads": now.reads,
        "pages_read": now.pages_read,
        "memory_rows": now.memory_rows(),
        "memory_slots": now.held.slots,
        "disk_rows": now.held.disk_rows,
        "disk_bytes": now.held.disk_bytes,
        "busy": busy,
        "peak_rss_bytes": now.peak_bytes,
    })
}

fn figures_of(metrics: &Metrics) -> Value {
    let mut figures = serde_json::to_value(metrics).unwrap_or_default();
    figures["scored"] = metrics.examples.into();
    figures
}
