//! A setting by its key.

use crate::setting::Setting;
use crate::table::SETTINGS;

/// Likeness in millionths from which on a key may have been meant.
const LIKENESS_MIN: u64 = 750_000;

/// The setting with this key.
///
/// # Errors
/// Names the key that was probably meant.
pub fn find(key: &str) -> Result<&'static Setting, String> {
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
        return Ok(setting);
    }
    let likeness = |setting: &&Setting| {
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let whole = strsim::jaro_winkler(setting.key, key);
        let tail = strsim::jaro_winkler(&last(setting.key), &last(key)) * 0.95;
        (whole.max(tail) * 1e6) as u64
    };
    let nearest = SETTINGS.iter().max_by_key(likeness).filter(|of| likeness(of) >= LIKENESS_MIN);
    let hint = nearest.map_or_else(String::new, |of| format!("; did you mean '{}'?", of.key));
    Err(format!("unknown key '{key}'{hint} (`stepwell config` lists all keys)"))
}
