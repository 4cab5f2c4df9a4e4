//! Curves as an HTML page: `--html FILE`.
//!
//! One self-contained file: tables, and charts as inline SVG that are readable without a script; a
//! small script shows values under the mouse. It is rewritten from time to time during the run and
//! at its end, each time next to its place and then moved there.
//!
//! - **Cost.** [`POINTS_MAX`](shown::POINTS_MAX) samples and as many evaluations, which
//!   [`History`](history::History) thins out, so that the page has at most 1 MiB plus settings and
//!   report, however long a run is.

mod bars;
mod chart;
mod escape;
mod figures;
mod history;
mod html;
mod shown;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stepwell_settings::Config;

use self::shown::Shown;
use super::sink::{Event, Moment, Sink};
use crate::outputs;

/// Seconds between two versions of a page, unless writing it takes long.
const EVERY: Duration = Duration::from_secs(10);

/// A page and its path.
pub(super) struct PageFile {
    path: PathBuf,
    written: Option<Instant>,
    shown: Shown,
}

impl PageFile {
    pub(super) fn new(path: &Path, config: &Config) -> Self {
        Self { path: path.to_owned(), written: None, shown: Shown::new(config) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.written = Some(Instant::now());
        outputs::put_text(&self.path, &html::page(&self.shown))
    }

    /// Whether to rewrite the page. A pipe or a device, which cannot be replaced, is only written
    /// at the end.
    fn is_due(&self, event: &Event<'_>) -> bool {
        let long_ago = self.written.is_none_or(|at| at.elapsed() >= EVERY);
        let can_be_replaced = !self.path.exists() || self.path.is_file();
        match event {
            Event::Planned(_) => false,
            Event::Ended(Ok(_)) => true,
            // A run that fails before its first step leaves an older page unchanged.
            Event::Ended(Err(_)) => self.shown.step > 0,
            _ => long_ago && can_be_replaced,
        }
    }
}

impl Sink for PageFile {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn take(&mut self, at: Moment, event: &Event<'_>) -> io::Result<()> {
        self.shown.take(at, event);
        if self.is_due(event) { self.write() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use stepwell_train::{Held, Metrics};

    use super::shown::Evaluated;
    use super::*;
    use crate::curves::sample::Sample;

    #[test]
    fn a_page_of_a_run_of_years_has_a_megabyte_at_most() {
        let path = Path::new("none.html");
        let mut page = PageFile::new(path, &Config::default());
        page.written = Some(Instant::now());
        let stages = ["read", "parse", "batch", "ask", "plan", "pull", "train", "write"];
        for second in 0..200_000u64 {
            let noise = (second.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / 1e7;
            let now = Sample {
                seconds: second as f64 * 1e3,
                training_seconds: second as f64 * 1e3,
                examples: second * 1_234_567,
                step: second * 300,
                loss_sum: second as f64 * 1_234_567.0 * (0.4 + noise / 100.0),
                auc: Some(0.7 + noise / 20.0),
                hits: second * 1000,
                misses: second * 300 + (noise * 100.0) as u64,
                held: Held { slots: 1 << 30, disk_rows: second * 77, disk_bytes: second << 20 },
                busy: stages.map(|name| (name, second as f64 * (300.0 + noise))).to_vec(),
                ..Sample::default()
            };
            page.shown.samples.add(now);
            if second % 100 == 0 {
                let metrics = Metrics { logloss: Some(0.5), auc: Some(0.8), ..Metrics::default() };
                let best = Some(metrics.clone());
                page.shown.evaluations.add(Evaluated { examples: second, metrics, best });
            }
        }
        page.shown.settings = Value::Null;
        let text = html::page(&page.shown);
        assert!(text.len() < 1 << 20, "{}", text.len());
        assert!(text.matches("<polyline").count() >= 9 && text.matches("<polygon").count() == 8);
    }
}
