//! When a setting changes nothing in a run, and why.

use stepwell_train::Config;
use stepwell_train::config::ModelKind;

/// Why a setting changes nothing; none where it does.
pub(crate) type Idle = fn(&Config) -> Option<&'static str>;

pub(super) fn never(_: &Config) -> Option<&'static str> {
    None
}

pub(super) fn with_eval_paths(config: &Config) -> Option<&'static str> {
    (!config.data.eval_paths.is_empty()).then_some("data.eval_paths names the data to evaluate on")
}

pub(super) fn on_the_stream(config: &Config) -> Option<&'static str> {
    config.data.paths.is_empty().then_some("the built-in stream has no malformed line")
}

pub(super) fn on_data(config: &Config) -> Option<&'static str> {
    (!config.data.paths.is_empty()).then_some("there is data in the place of the built-in stream")
}

pub(super) fn in_lr(config: &Config) -> Option<&'static str> {
    (config.model.kind == ModelKind::Lr).then_some("lr has neither embeddings nor hidden layers")
}

pub(super) fn outside_dcn(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::Dcn).then_some("dcn alone has cross layers")
}

pub(super) fn outside_dlrm(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::Dlrm).then_some("dlrm alone has a bottom part")
}

pub(super) fn with_a_life(config: &Config) -> Option<&'static str> {
    let life = &config.life;
    let asks = life.admit_after > 1 || life.admit_probability < 1.0 || life.expire_after > 0;
    asks.then_some("admission or expiry asks for it already")
}

pub(super) fn without_counting(config: &Config) -> Option<&'static str> {
    (config.life.admit_after == 1).then_some("rows.admit_after is 1")
}

pub(super) fn without_checkpoints(config: &Config) -> Option<&'static str> {
    config.checkpoint.dir.is_none().then_some("no --checkpoint is given")
}
