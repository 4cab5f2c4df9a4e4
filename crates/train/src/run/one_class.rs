//! Notes on data whose labels are all equal.

use crate::metrics::Metrics;
use crate::report::Report;

/// Notes labels that are all equal: nothing is learned from them, and they have no AUC. A single
/// example says nothing about its column.
pub(super) fn one_class_notes(report: &Report) -> Vec<String> {
    let parts = [("trained", &report.progressive), ("evaluated", &report.eval)];
    let mut notes = Vec::new();
    for (what, figures) in parts {
        notes.extend(one_class(figures, what, "the label"));
        let others = figures.labels.iter().skip(1);
        notes.extend(others.filter_map(|of| one_class(&of.metrics, what, &of.label)));
    }
    notes
}

fn one_class(figures: &Metrics, what: &str, name: &str) -> Option<String> {
    let label = match figures.positive_rate {
        // Numbers have no log loss.
        _ if figures.logloss.is_none() || figures.examples <= 1 => return None,
        rate if rate <= 0.0 => 0,
        rate if rate >= 1.0 => 1,
        _ => return None,
    };
    Some(format!(
        "{name} is {label} in every example {what}: check its column, and `positive` if its values \
         are text"
    ))
}
