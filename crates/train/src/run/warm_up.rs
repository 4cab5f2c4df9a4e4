//! Notes on runs that end before the warm-up that counts which rows go to devices.

use stepwell_data::Sources;
use stepwell_settings::{Config, PlaceKind};

use crate::report::Report;

/// Whether some table's most used rows go to devices after a warm-up.
pub(super) fn is_wanted(config: &Config) -> bool {
    config.tables.iter().any(|table| table.place == PlaceKind::Device)
}

/// The note for a run with `mini_batches` mini-batches, including evaluation, if the warm-up needs
/// at least as many.
fn note(config: &Config, mini_batches: u64, has: &str) -> Option<String> {
    let table = config.tables.iter().find(|table| table.place == PlaceKind::Device)?;
    let warm_up = config.tiers.warm_up;
    (mini_batches <= warm_up as u64).then(|| {
        format!(
            "tables.{}.place = device has no effect, because the run {has} {mini_batches} \
             mini-batches and tiers.warm_up is {warm_up}: lower it",
            table.name
        )
    })
}

/// The note before the run, from data with a known number of examples.
pub(super) fn ahead(config: &Config, sources: &Sources) -> Option<String> {
    let data = &config.data;
    if !data.eval_paths.is_empty() {
        return None;
    }
    let of_stream = data.paths.is_empty().then_some(config.synth.examples);
    let examples = sources.examples.or(of_stream)?;
    // The last mini-batches of training and evaluation may be short.
    let of_epoch = examples / data.mini_batch as u64 + 2;
    note(config, of_epoch.saturating_mul(data.epochs), "has at most")
}

/// The note after the run.
pub(super) fn after(config: &Config, report: &Report) -> Option<String> {
    let evaluated = report.eval_by_epoch.iter().map(|metrics| metrics.examples);
    let evaluated: u64 =
        evaluated.map(|examples| examples.div_ceil(config.data.mini_batch as u64)).sum();
    note(config, report.steps.saturating_sub(report.steps_before) + evaluated, "had")
}
