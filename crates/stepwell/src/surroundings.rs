//! The surroundings of a run, and the files that it reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_base::stop::StopRequest;
use stepwell_engine::Placement;
use stepwell_settings::{self as settings, Config};
use stepwell_train::{Machine, RowsAtStart, Surroundings};

use crate::planned;
use crate::progress::Progress;
use crate::say::say;

/// The files that the settings name as data.
pub(crate) fn data_files(config: &Config) -> impl Iterator<Item = PathBuf> {
    let patterns = [&config.data.paths, &config.data.eval_paths].into_iter();
    let of_files = |names: &Vec<String>| {
        // Resolving a stream here might wait for it.
        let is_file = |name: &&String| !stepwell_data::is_stream(Path::new(name));
        let files: Vec<&String> = names.iter().filter(is_file).collect();
        // Patterns without a match are refused later, when they are read.
        stepwell_data::resolve(&files).unwrap_or_default()
    };
    patterns.flat_map(of_files)
}

/// The surroundings of a run started from the command line.
pub(crate) fn surroundings(
    config: &Config,
    placement: Placement,
    progress: Arc<Progress>,
    stop: StopRequest,
) -> Surroundings {
    let (ranks, run) = (config.ranks.count, config.clone());
    let [plan, notes, warnings] = [(); 3].map(|()| Arc::clone(&progress));
    Surroundings {
        observer: progress,
        machine: Machine::default(),
        stop,
        from: None,
        rows: RowsAtStart::default(),
        repaired_rows: false,
        digest: true,
        placement,
        settings: settings::to_json(config),
        on_plan: Arc::new(move |capacity| {
            say!("{}", planned::line(capacity, ranks).text().trim_end());
            let notes = capacity.tight.iter().chain(&capacity.notes).cloned();
            notes.chain(planned::memory_note(&run)).for_each(|note| plan.note(&note));
            plan.planned(&run, capacity);
        }),
        on_note: Arc::new(move |note: &str| notes.note(note)),
        on_warning: Arc::new(move |warning: &str| warnings.warn(warning)),
    }
}
