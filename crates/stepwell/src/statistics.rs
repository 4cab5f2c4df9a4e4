//! Completes settings with statistics of the data.

use stepwell_base::stop::StopRequest;
use stepwell_settings::Config;

use crate::failure::Failure;
use crate::say;

/// The same settings, with missing statistics of standardised columns computed from the data and
/// printed.
pub(crate) fn with_statistics(config: &Config) -> Result<Config, Failure> {
    let stop = StopRequest::of_process();
    let (filled, notes) = stepwell_train::with_statistics(config, &stop)?;
    notes.iter().for_each(say::note);
    Ok(filled)
}
