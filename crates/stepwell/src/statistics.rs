//! Settings completed by what the data says.

use stepwell_base::stop::StopRequest;
use stepwell_settings::Config;

use crate::failure::Failure;
use crate::say;

/// The same settings with the statistics of the data that columns are standardised by, which are
/// said where they were not given.
pub(crate) fn with_statistics(config: &Config) -> Result<Config, Failure> {
    let stop = StopRequest::of_process();
    let (filled, notes) = stepwell_train::with_statistics(config, &stop)?;
    notes.iter().for_each(say::note);
    Ok(filled)
}
