//! Arguments that several benchmarks take: a directory, models, settings.

use std::path::Path;

use stepwell_cli::{Failure, say};
use stepwell_settings::{Config, ModelKind, find, read_model, removed_value};

/// Settings that `bench train`, `bench cpu` and `bench ranks` refuse, and what to give instead. A
/// key that ends in a point or an underscore means all that begin with it.
pub(super) const OWN: [(&str, &str); 12] = [
    ("data.paths", "its examples follow from --rows and --skew"),
    ("data.eval_", "it evaluates nothing"),
    ("data.skip_max", "it has no malformed lines"),
    ("synth.", "its examples follow from --rows and --skew"),
    ("model.kind", "give --models"),
    ("checkpoint.", "it writes no checkpoints"),
    ("tables.", "it measures one table with all columns"),
    ("features.", "it measures one table with all columns"),
    ("rows.admit_", NO_LIFE),
    ("rows.expire_after", NO_LIFE),
    ("rows.history", NO_LIFE),
    ("rows.sketch", NO_LIFE),
];

const NO_LIFE: &str = "it does not measure rows that come and go";

/// Refuses a directory to measure that is missing.
pub(super) fn check_directory(path: &Path) -> Result<(), Failure> {
    match path.is_dir() {
        true => Ok(()),
        false => {
            let why = "is not a directory: create it first";
            Err(Failure::Usage(format!("--dir {} {why}", path.display())))
        }
    }
}

/// The settings of a benchmark: the built-in ones, changed by KEY=VALUE pairs other than its `own`.
pub(super) fn config(pairs: &[String], own: &[(&str, &str)]) -> Result<Config, String> {
    let mut config = Config::default();
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or(format!("--set {pair}: give KEY=VALUE"))?;
        let key = key.trim();
        let is_of = |name: &str| match name.ends_with(['.', '_']) {
            true => key.starts_with(name),
            false => key == name,
        };
        if let Some((_, instead)) = OWN.iter().chain(own).find(|(name, _)| is_of(name)) {
            return Err(format!("--set {key}: this benchmark does not take it: {instead}"));
        }
        find(key)?.set(&mut config, value)?;
        removed_value(key, value).into_iter().for_each(say::warn);
    }
    config.check()?;
    Ok(config)
}

/// The models of these names; all if there is none.
pub(super) fn models(names: &[String]) -> Result<Vec<ModelKind>, String> {
    let model = |name: &String| read_model(name).map_err(|why| format!("--models {name}: {why}"));
    match names {
        [] => Ok(ModelKind::OF_ANY_DATA.to_vec()),
        names => names.iter().map(model).collect(),
    }
}
