//! Notes on data whose labels are all equal.

use crate::metrics::Metrics;
use crate::report::Report;

/// Notes labels that are all equal: nothing is learned from them, and they have no AUC. A single
/// example says nothing about its column.
pub(super) fn one_class_notes(report: &Report, negative_rate: f64) -> Vec<String> {
    let parts = [("trained", &report.progressive, negative_rate), ("evaluated", &report.eval, 1.0)];
    let mut notes = Vec::new();
    for (what, figures, rate) in parts {
        notes.extend(one_class(figures, (what, rate), "the label"));
        let others = figures.labels.iter().skip(1);
        notes.extend(others.filter_map(|of| one_class(&of.metrics, (what, rate), &of.label)));
    }
    notes
}

fn one_class(figures: &Metrics, (what, negative_rate): (&str, f64), name: &str) -> Option<String> {
    let label = match figures.positive_rate {
        // Numbers have no log loss.
        _ if figures.logloss.is_none() || figures.examples <= 1 => return None,
        rate if rate <= 0.0 => 0,
        rate if rate >= 1.0 => 1,
        _ => return None,
    };
    let left_out = match label {
        1 if negative_rate < 1.0 => {
            format!("data.negative_rate = {negative_rate} leaves out negatives; raise it, or ")
        }
        _ => String::new(),
    };
    Some(format!(
        "{name} is {label} in every example {what}: {left_out}check its column, and `positive` if \
         its values are text"
    ))
}
