//! Runs a benchmark, and prints or keeps its figures.

use std::path::PathBuf;

use serde::Serialize;
use stepwell_cli::say::{self, Page};
use stepwell_cli::{Failure, outputs};

use crate::cli::{Json, file_of, is_said};
use crate::end::OrEnd;

/// Figures that are written while a benchmark runs.
#[derive(Serialize)]
struct Unfinished<'a, F> {
    unfinished: bool,
    #[serde(flatten)]
    figures: &'a F,
}

/// Runs a benchmark that reads `inputs`, and prints its figures as JSON or as a page. If `json`
/// names a file, it has the figures so far after each part, so an interrupted run leaves them.
pub(super) fn measured<F: Serialize>(
    json: &Json,
    inputs: &[PathBuf],
    run: impl FnOnce(&mut dyn FnMut(&str), &mut dyn FnMut(&F)) -> stepwell_bench::Result<F>,
    page: impl FnOnce(&F) -> Page,
) -> Result<(), Failure> {
    let file = file_of(json);
    outputs::check(&[("--json", file)], inputs)?;
    let mut keep = |figures: &F| {
        let kept = outputs::write(file, &Unfinished { unfinished: true, figures });
        kept.unwrap_or_else(say::warn);
    };
    let figures = run(&mut |what| say::remark(what), &mut keep).or_end()?;
    if is_said(json) {
        return say::json(&figures);
    }
    outputs::write(file, &figures)?;
    page(&figures).say()
}
