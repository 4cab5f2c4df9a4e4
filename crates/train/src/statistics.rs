//! Statistics of the data for standardised columns whose settings have none.

use stepwell_base::stop::StopRequest;
use stepwell_data::{Files, Layout, Part, resolve, statistics};
use stepwell_settings::Config;

use crate::{Error, Result};

/// Returns the settings with the data's mean and deviation filled in for each standardised column
/// that lacks them, and a note on each; ends early on a request to `stop`.
///
/// # Errors
/// Data that cannot be read, or not twice, or that has no numbers in such a column.
pub fn with_statistics(config: &Config, stop: &StopRequest) -> Result<(Config, Vec<String>)> {
    let lacking = config.without_statistics().map_err(Error::Config)?;
    let mut filled = config.drafted().map_err(Error::Config)?;
    if lacking.is_empty() || config.data.paths.is_empty() {
        return Ok((filled, Vec::new()));
    }
    let layout = filled.layout().map_err(Error::Config)?;
    let of_part = |layout: &Layout| match layout.splits() {
        true => layout.of_part(Part::Train),
        false => layout.clone(),
    };
    // With a column that splits the data, or with evaluation files, no tail is evaluated.
    let has_tail =
        config.data.eval_paths.is_empty() && !layout.as_deref().is_some_and(Layout::splits);
    let tail = if has_tail { config.data.eval_fraction } else { 0.0 };
    let layout = layout.map(|layout| of_part(&layout).into());
    let files = Files { paths: resolve(&config.data.paths)?, layout };
    let all: Vec<String> = lacking.iter().flat_map(|(_, names)| names).cloned().collect();
    let mut found = statistics(&files, &all, tail, stop)?.into_iter();
    let mut notes = Vec::new();
    for (number, names) in lacking {
        let column = &mut filled.columns[number - 1];
        let of_names: Vec<_> = found.by_ref().take(names.len()).collect();
        column.mean = of_names.iter().map(|of| of.mean).collect();
        column.deviation = of_names.iter().map(|of| of.deviation).collect();
        notes.push(format!(
            "columns.{number} is standardised with statistics of the data: mean = {:?}, deviation \
             = {:?}",
            column.mean, column.deviation
        ));
    }
    Ok((filled, notes))
}
