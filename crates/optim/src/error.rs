//! Errors in an optimizer's settings.

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimError {
    /// A number is outside the range in which the rule is defined.
    #[error("{optimizer}: {setting} is {value}: give a number {range}")]
    Setting {
        /// Name of the rule.
        optimizer: &'static str,
        /// Name of the setting.
        setting: &'static str,
        /// The given value.
        value: f64,
        /// The accepted range.
        range: &'static str,
    },
}

/// Rejects a `value` for which `accepted` is false.
pub(crate) fn check(
    optimizer: &'static str,
    setting: &'static str,
    value: f64,
    range: &'static str,
    accepted: bool,
) -> Result<(), OptimError> {
    if accepted && value.is_finite() {
        Ok(())
    } else {
        Err(OptimError::Setting { optimizer, setting, value, range })
    }
}

/// Rejects a rate that is not positive.
pub(crate) fn check_positive(
    optimizer: &'static str,
    setting: &'static str,
    value: f64,
) -> Result<(), OptimError> {
    // The arithmetic is in f32.
    check(optimizer, setting, value, "above 0 (in f32, from 1e-45 on)", value as f32 > 0.0)
}
