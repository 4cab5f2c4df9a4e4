//! Which column is the label, and which of its texts count as 1.

use super::look::Seen;

/// Names that labels often have, the likeliest first.
const LABELS: [&str; 12] = [
    "label",
    "click",
    "clicked",
    "is_click",
    "target",
    "y",
    "conversion",
    "converted",
    "purchase",
    "income",
    "like",
    "finish",
];
/// Labels that count as 1, and such as count as 0.
const YES: [&str; 13] = [
    "yes",
    "y",
    "true",
    "t",
    "click",
    "clicked",
    "win",
    "won",
    "pos",
    "positive",
    "good",
    "success",
    "converted",
];
const NO: [&str; 12] =
    ["no", "n", "not", "none", "false", "f", "loss", "lost", "neg", "negative", "bad", "fail"];

/// The column that is the label: by its name, or the first of zeros and ones.
pub(super) fn label_of(names: &[String], seen: &[Seen]) -> Option<usize> {
    let two = |at: &usize| !seen[*at].more && seen[*at].distinct.len() == 2;
    let named = |label: &str| {
        (0..names.len()).filter(two).find(|at| names[*at].eq_ignore_ascii_case(label))
    };
    let binary = |at: &usize| seen[*at].distinct.keys().all(|value| value == "0" || value == "1");
    let by_name = LABELS.iter().find_map(|label| named(label));
    // The last column is where many put it, and the first where click logs do.
    let first = || (0..names.len()).find(|at| two(at) && binary(at));
    let last = || names.len().checked_sub(1).filter(two);
    by_name.or_else(first).or_else(last)
}

/// The texts of a label that count as 1: of two the one that says yes, the larger number, or the
/// rarer.
pub(super) fn positive_of(seen: &Seen) -> Vec<String> {
    let plain = ["0", "1", "0.0", "1.0", "true", "false", "True", "False", "TRUE", "FALSE"];
    if seen.distinct.keys().all(|value| plain.contains(&value.as_str())) {
        return Vec::new();
    }
    let says = |value: &str, words: &[&str]| {
        let lower = value.to_ascii_lowercase();
        words.iter().any(|word| lower == *word || lower.starts_with(&format!("{word} ")))
    };
    let texts = || seen.distinct.keys();
    let yes = || texts().find(|value| says(value, &YES));
    let not_no = || {
        let no = texts().any(|value| says(value, &NO));
        texts().find(|value| no && !says(value, &NO))
    };
    let number = |value: &String| value.parse::<f64>().unwrap_or(f64::NEG_INFINITY);
    let larger = || texts().max_by(|one, other| number(one).total_cmp(&number(other)));
    let rarer = || seen.distinct.iter().min_by_key(|(_, times)| **times).map(|(value, _)| value);
    let positive = match seen.is_number() {
        true => larger(),
        false => yes().or_else(not_no).or_else(rarer),
    };
    positive.cloned().into_iter().collect()
}
