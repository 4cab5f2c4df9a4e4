//! Combines the settings of a run from a file and flags.

use std::path::Path;

use stepwell_data::{DataError, is_stream, is_url};
use stepwell_device::Choice;
use stepwell_settings::{self as settings, Config};

use crate::cli::ConfigArgs;
use crate::{say, settings_file};

/// The settings of `stepwell train` without arguments.
const EMBEDDED: &str = include_str!("../default.toml");

/// Combines the settings of a run, on top of `base` if there is one. Also returns the keys that the
/// user chose.
pub(crate) fn config(
    args: &ConfigArgs,
    base: Option<Config>,
) -> Result<(Config, Vec<String>), String> {
    let example = (base.is_none() && !names_data(args)).then_some(EMBEDDED);
    resolve(args, example, base.unwrap_or_default())
}

/// Combines settings, on top of `example` if no file is named. Also returns the keys that the user
/// chose.
pub(crate) fn resolve(
    args: &ConfigArgs,
    example: Option<&str>,
    mut config: Config,
) -> Result<(Config, Vec<String>), String> {
    let mut chosen = Vec::new();
    match (&args.config, example) {
        (Some(path), _) => chosen = settings_file::read(path, &mut config)?,
        (None, Some(example)) => {
            settings_file::apply("default.toml", example, &mut config)?;
        }
        (None, None) => {}
    }
    set_all(&mut config, &args.set)?;
    if let Some(preset) = &args.preset {
        settings::find("data.preset")?.set(&mut config, preset)?;
        if args.config.is_none() {
            // The base's columns would replace the preset.
            config.columns.clear();
        }
        chosen.push("data.preset".to_owned());
    }
    if !args.data.is_empty() || args.synth {
        config.data.paths.clone_from(&args.data);
    }
    if let Some(model) = &args.model {
        settings::find("model.kind")?.set(&mut config, model)?;
    }
    if let Some(directory) = &args.checkpoint {
        if directory.to_str().is_none() {
            let directory = directory.display();
            return Err(format!("--checkpoint {directory}: the path is not UTF-8: rename it"));
        }
        config.checkpoint.dir = Some(directory.clone());
    }
    for (key, value) in &args.by_key {
        give(&mut config, key, value)?;
    }
    let keys = args.set.iter().filter_map(|pair| Some(pair.split_once('=')?.0.trim()));
    chosen.extend(keys.map(str::to_owned));
    chosen.extend(args.by_key.iter().map(|(key, _)| key.clone()));
    if let Some(preset) = args.preset.as_ref().filter(|_| config.data.paths.is_empty()) {
        return Err(format!(
            "--preset {preset} describes data, and none is given: name it with --data, or leave \
             out --preset"
        ));
    }
    adapt_horizon(&mut config, &chosen);
    if args.config.is_none() && example.is_some() && config.memory.is_some() {
        leave_to_memory(&mut config, &chosen);
    }
    Ok((config, chosen))
}

/// Unsets the sizes of tiers in the built-in example unless the user chose them, so that they are
/// derived from `memory`.
fn leave_to_memory(config: &mut Config, chosen: &[String]) {
    let tiers = &mut config.tiers;
    let figures = [
        ("tiers.dram", &mut tiers.dram),
        ("tiers.index", &mut tiers.index),
        ("tiers.segment", &mut tiers.segment),
    ];
    for (key, figure) in figures {
        if !chosen.iter().any(|of| of == key) {
            *figure = None;
        }
    }
}

/// Refuses to train with a settings file that names no data, because the built-in stream would not
/// be intended. It must be chosen with `--synth` or its own settings.
pub(crate) fn check_data(
    args: &ConfigArgs,
    config: &Config,
    chosen: &[String],
) -> Result<(), String> {
    let is_stream = args.synth || chosen.iter().any(|key| key.starts_with("synth."));
    match args.config.as_ref().filter(|_| config.data.paths.is_empty() && !is_stream) {
        None => Ok(()),
        Some(file) => Err(format!(
            "{}: no data is named: give data.paths there, or --data FILE; --synth trains on the \
             built-in stream of clicks",
            file.display()
        )),
    }
}

/// Refuses data files that are missing or cannot be read. Lists with a stream or a URL are left to
/// the run, so that nothing waits here.
pub(crate) fn check_files(config: &Config) -> Result<(), DataError> {
    let is_here = |path: &String| !is_stream(Path::new(path)) && !is_url(Path::new(path));
    for paths in [&config.data.paths, &config.data.eval_paths] {
        if !paths.is_empty() && paths.iter().all(is_here) {
            stepwell_data::resolve(paths)?;
        }
    }
    Ok(())
}

/// Refuses data that names a file twice, because each epoch would train on it twice.
pub(crate) fn check_repeats(config: &Config) -> Result<(), String> {
    let is_file = |path: &&String| !is_stream(Path::new(path));
    let paths: Vec<&String> = config.data.paths.iter().filter(is_file).collect();
    // Opening a missing file fails later.
    let files = stepwell_data::resolve(&paths).unwrap_or_default();
    match stepwell_data::repeated(&files).first() {
        None => Ok(()),
        Some(again) => Err(format!(
            "{} is named twice in the data: name each file once; --epochs 2 trains on all of the \
             data twice",
            again.display()
        )),
    }
}

/// Whether the user chose the data, by flag or by key.
fn names_data(args: &ConfigArgs) -> bool {
    let is_key =
        |pair: &String| pair.split('=').next().is_some_and(|key| key.trim() == "data.paths");
    !args.data.is_empty()
        || args.set.iter().any(is_key)
        || args.by_key.iter().any(|(key, _)| key == "data.paths")
}

/// Unless the user chose a horizon: converts the default, which counts mini-batches, to whole
/// batches, and raises it to at least twice the lookahead. A checkpoint's already counts batches.
fn adapt_horizon(config: &mut Config, chosen: &[String]) {
    if !chosen.iter().any(|key| key == "pipeline.horizon") {
        let (default, own) = (Config::default().pipeline.horizon, config.pipeline.horizon);
        let batches = match own == default {
            true => own.div_ceil(config.mini_batches_per_batch().max(1)),
            false => own,
        };
        config.pipeline.horizon = batches.max(config.pipeline.lookahead.saturating_mul(2));
    }
}

/// Applies `KEY=VALUE` pairs.
pub(crate) fn set_all(config: &mut Config, pairs: &[String]) -> Result<(), String> {
    for pair in pairs {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("--set {pair}: write KEY=VALUE, such as data.epochs=2"))?;
        // Spaces are part of a value, unless there are spaces before the equals sign.
        let value = if key.ends_with(' ') { value.trim() } else { value };
        give(config, key.trim(), value)?;
    }
    Ok(())
}

/// Sets one setting by the given name, and refuses a value that is wrong by itself.
pub(crate) fn give(config: &mut Config, key: &str, value: &str) -> Result<(), String> {
    let setting = settings::look_up(key)?;
    setting.set(config, value)?;
    settings::removed_value(key, value).into_iter().for_each(say::warn);
    setting.check_alone(config)
}

/// A note for each chosen setting that has no effect, unless it has its default value.
pub(crate) fn idle_notes(chosen: &[String], config: &Config) -> Vec<String> {
    let default = Config::default();
    let is_default = |key: &str| {
        settings::find(key).is_ok_and(|setting| setting.get(config) == setting.get(&default))
    };
    let chosen: Vec<String> = chosen.iter().filter(|key| !is_default(key)).cloned().collect();
    let known = settings::idle_notes(&chosen, config);
    if config.device != Choice::Auto {
        return known;
    }
    // Looking for devices is only worth it if a setting depends on them.
    let on_the_host = Config { device: Choice::Host, ..config.clone() };
    let on_the_host = settings::idle_notes(&chosen, &on_the_host);
    // The run itself reports why existing devices are not used.
    let is_none = || Choice::Auto.offer(&|_| {}).is_ok_and(|offer| offer.is_none());
    if known != on_the_host && is_none() { on_the_host } else { known }
}
