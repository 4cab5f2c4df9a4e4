//! Which settings make a model what it is, in the order in which digests of jobs take them.

use crate::config::Config;
use crate::table::SETTINGS;

/// Keys whose place in the list is its end, not that of the table. Jobs are told apart by digests
/// of the list: it must stay as it was when their checkpoints were written.
const LAST: [&str; 5] =
    ["model.cross_layers", "model.bottom", "rows.sketch", "synth.examples", "synth.vocab_scale"];

/// Settings on which the bits of the model depend, by key.
pub fn model_settings(config: &Config) -> Vec<(String, String)> {
    let mut kept: Vec<(&str, String)> = SETTINGS
        .iter()
        .filter_map(|setting| Some((setting.key, setting.kept_in(config)?)))
        .collect();
    kept.sort_by_key(|(key, _)| LAST.iter().position(|last| last == key).map(|place| place + 1));
    kept.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
