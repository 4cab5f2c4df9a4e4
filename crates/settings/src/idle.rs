//! When a setting changes nothing in a run, and why.

use crate::config::{Config, ModelKind};
use crate::setting::Setting;
use crate::table::SETTINGS;

/// Why a setting changes nothing; none where it does.
pub(crate) type Idle = fn(&Config) -> Option<&'static str>;

/// What to say of the settings `chosen` by key that change nothing in a run of `config`.
pub fn idle_notes(chosen: &[String], config: &Config) -> Vec<String> {
    let note = |setting: &Setting| {
        let why = setting.idle_in(config)?;
        Some(format!("{} has no effect, because {why}", setting.key))
    };
    let is_chosen = |setting: &&Setting| chosen.iter().any(|key| key == setting.key);
    SETTINGS.iter().filter(is_chosen).filter_map(note).collect()
}

pub(crate) fn never(_: &Config) -> Option<&'static str> {
    None
}

pub(crate) fn with_eval_paths(config: &Config) -> Option<&'static str> {
    (!config.data.eval_paths.is_empty()).then_some("data.eval_paths names the data to evaluate on")
}

pub(crate) fn on_the_stream(config: &Config) -> Option<&'static str> {
    config.data.paths.is_empty().then_some("the built-in stream has no malformed line")
}

pub(crate) fn on_data(config: &Config) -> Option<&'static str> {
    (!config.data.paths.is_empty()).then_some("there is data in the place of the built-in stream")
}

pub(crate) fn in_lr(config: &Config) -> Option<&'static str> {
    (config.model.kind == ModelKind::Lr).then_some("lr has neither embeddings nor hidden layers")
}

pub(crate) fn outside_dcn(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::Dcn).then_some("dcn alone has cross layers")
}

pub(crate) fn outside_dlrm(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::Dlrm).then_some("dlrm alone has a bottom part")
}

pub(crate) fn with_a_life(config: &Config) -> Option<&'static str> {
    let life = &config.life;
    let asks = life.admit_after > 1 || life.admit_probability < 1.0 || life.expire_after > 0;
    asks.then_some("admission or expiry asks for it already")
}

pub(crate) fn without_counting(config: &Config) -> Option<&'static str> {
    (config.life.admit_after <= 1).then_some("rows.admit_after is 1")
}

pub(crate) fn without_checkpoints(config: &Config) -> Option<&'static str> {
    config.checkpoint.dir.is_none().then_some("no --checkpoint is given")
}
