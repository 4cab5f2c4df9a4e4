//! What can be wrong with an optimizer's settings.

/// A setting that no training can use.
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
        /// What was given.
        value: f64,
        /// What is accepted.
        range: &'static str,
    },
}

/// Refuses a `value` for which `accepted` is false.
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

/// Refuses a rate that is not above zero.
pub(crate) fn check_positive(
    optimizer: &'static str,
    setting: &'static str,
    value: f64,
) -> Result<(), OptimError> {
    // Steps are taken in f32.
    check(optimizer, setting, value, "above 0 (in f32, from 1e-45 on)", value as f32 > 0.0)
}
