//! Notes on runs that end before the warm-up that counts which rows go to devices.

use stepwell_data::Sources;
use stepwell_settings::{PlaceKind, TableConfig};

use crate::report::Report;
use crate::run_plan::RunPlan;

/// The first table whose most used rows go to devices after a warm-up, if there is one.
fn by_use<'a>(plan: &RunPlan<'a>) -> Option<&'a TableConfig> {
    plan.config.tables.iter().find(|table| table.place == PlaceKind::Device)
}

/// Whether some table's most used rows go to devices after a warm-up.
pub(super) fn is_wanted(plan: &RunPlan<'_>) -> bool {
    by_use(plan).is_some()
}

/// The note for a run with `mini_batches` mini-batches, including evaluation, if the warm-up needs
/// at least as many.
fn note(plan: &RunPlan<'_>, mini_batches: u64, has: &str) -> Option<String> {
    let (table, warm_up) = (by_use(plan)?, plan.tiers.warm_up);
    (mini_batches <= warm_up as u64).then(|| {
        format!(
            "tables.{}.place = device has no effect, because the run {has} {mini_batches} \
             mini-batches and tiers.warm_up is {warm_up}: lower it",
            table.name
        )
    })
}

/// The note before the run, from data with a known number of examples.
pub(super) fn ahead(plan: &RunPlan<'_>, sources: &Sources) -> Option<String> {
    let data = plan.data;
    if !data.eval_paths.is_empty() {
        return None;
    }
    let of_stream = data.paths.is_empty().then_some(plan.config.synth.examples);
    let examples = sources.examples.or(of_stream)?;
    // The last mini-batches of training and evaluation may be short.
    let of_epoch = examples / plan.batching.mini_batch as u64 + 2;
    note(plan, of_epoch.saturating_mul(data.epochs), "has at most")
}

/// The note after the run.
pub(super) fn after(plan: &RunPlan<'_>, report: &Report) -> Option<String> {
    let evaluated = report.eval_by_epoch.iter().map(|metrics| metrics.examples);
    let evaluated: u64 =
        evaluated.map(|examples| examples.div_ceil(plan.batching.mini_batch as u64)).sum();
    note(plan, report.steps.saturating_sub(report.steps_before) + evaluated, "had")
}
