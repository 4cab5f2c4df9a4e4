//! Guesses which column is the label, and which of its texts mean 1.

use super::value_statistics::Seen;

/// Common names of labels, likeliest first.
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
/// Common names of labels between 0 and 1.
const SHARES: [&str; 4] = ["ctr", "click_rate", "click_through_rate", "soft_label"];
/// Common names of click and impression counts.
const CLICKS: [&str; 4] = ["clicks", "click_count", "n_clicks", "num_clicks"];
const IMPRESSIONS: [&str; 8] = [
    "impressions",
    "imps",
    "views",
    "shows",
    "impression_count",
    "view_count",
    "n_impressions",
    "num_impressions",
];
/// Texts that mean label 1 (`YES`) and 0 (`NO`).
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

/// The label's column, found by name, or as the first column of zeros and ones, and its texts that
/// mean 1 (none for numbers from 0 to 1).
pub(super) fn label_of(names: &[String], seen: &[Seen]) -> Option<(usize, Vec<String>)> {
    let two = |at: &usize| !seen[*at].more && seen[*at].distinct.len() == 2;
    // Many features are between 0 and 1, so such a column is a label only if its name is.
    let is_share = |at: &usize| {
        let Seen { least, most, whole, .. } = &seen[*at];
        seen[*at].is_number() && !whole && *least >= 0.0 && *most <= 1.0
    };
    let named = |label: &&str| {
        let fits = |at: &usize| two(at) || is_share(at);
        (0..names.len()).filter(fits).find(|at| names[*at].eq_ignore_ascii_case(label))
    };
    let binary = |at: &usize| seen[*at].distinct.keys().all(|value| value == "0" || value == "1");
    let by_name = LABELS.iter().find_map(named);
    // Many files have the label last, and click logs have it first.
    let first = || (0..names.len()).find(|at| two(at) && binary(at));
    let share = || SHARES.iter().find_map(named);
    let last = || names.len().checked_sub(1).filter(two);
    let by_name = by_name.or_else(first).or_else(share);
    let positive = |at: usize| match by_name.is_some() && is_share(&at) {
        true => Vec::new(),
        false => positive_of(&seen[at]),
    };
    by_name.or_else(last).map(|at| (at, positive(at)))
}

/// Hint for column `at` if it counts clicks or impressions: how to combine both into a label.
pub(super) fn counts_hint(names: &[String], seen: &[Seen], at: usize) -> Option<String> {
    let is_count = |at: &usize| seen[*at].is_number() && seen[*at].least >= 0.0;
    let find = |known: &[&str]| {
        let is = |at: &usize| known.contains(&names[*at].to_lowercase().as_str());
        (0..names.len()).filter(is_count).find(is)
    };
    let (clicks, impressions) = (find(&CLICKS)?, find(&IMPRESSIONS)?);
    [clicks, impressions].contains(&at).then(|| {
        let (clicks, impressions) = (&names[clicks], &names[impressions]);
        format!(
            "; to learn {clicks} over {impressions}, give both the type ignored, and add a label: \
             names = [\"rate\"], type = \"label\", of = [\"{clicks}\", \"{impressions}\"]"
        )
    })
}

/// Texts of a label that mean 1: of two, the affirmative one, the larger number, or the rarer one.
fn positive_of(seen: &Seen) -> Vec<String> {
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
