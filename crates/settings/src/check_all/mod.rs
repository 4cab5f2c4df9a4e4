//! Checks of all settings of a run: each alone, by the check of its entry, and several together.

mod layers;
mod named;
mod sync;

use crate::all_settings::SETTINGS;
use crate::check::{MINI_BATCHES_KNOWN_MAX, Outcome};
use crate::config::{Config, ExchangeKind, RowsConfig};
use crate::schedule::{check_plateau, check_whole};
use crate::setting::Setting;

/// Most malformed lines of a pass whose data is cached: half of the lines that a cache remembers,
/// because training and evaluation may be two parts.
const CACHED_SKIP_MAX: u64 = stepwell_data::CACHE_MALFORMED_MAX / 2;
/// Fewest bytes of a sketch.
const SKETCH_MIN: u64 = 64;

impl Config {
    /// Refuses settings that are wrong, alone or together.
    ///
    /// # Errors
    /// One line that names the key and the fix.
    pub fn check(&self) -> Outcome {
        SETTINGS.iter().try_for_each(|setting: &Setting| setting.check_alone(self))?;
        self.check_split()?;
        self.check_cache()?;
        self.check_batch()?;
        self.check_streams()?;
        self.check_known()?;
        check_initial("model", self.model.init_std, self.model.init_value)?;
        check_whole("rows", &self.optim.rows)?;
        check_whole("dense", &self.optim.dense)?;
        check_plateau(self)?;
        check_admission(&self.rows, &|key| format!("rows.{key}"), "give one of them")?;
        self.check_layers()?;
        self.check_blocks()?;
        self.check_named()?;
        self.check_objective()
    }

    /// Refuses more ranks than there are blocks, and wrong combinations of settings of ranks. `key`
    /// is the setting that gave the number of ranks.
    ///
    /// # Errors
    /// One line with the keys and the fix.
    pub fn check_ranks(&self, key: &str) -> Outcome {
        let (ranks, blocks) = (self.ranks.count, self.train.blocks);
        if ranks > 1 && ranks - self.servers() > blocks {
            let most = match blocks + self.servers() {
                1 => "1 rank".to_owned(),
                most => format!("at most {most} ranks"),
            };
            return Err(format!(
                "{key} = {ranks} and train.blocks = {blocks}: each rank needs at least one block; \
                 give {most}"
            ));
        }
        self.check_sync()?;
        // The owner of a lent row does not have its values after previous steps.
        if ranks > 1
            && self.ranks.exchange == ExchangeKind::WorkingSet
            && self.pipeline.staleness > 0
        {
            return Err(format!(
                "ranks.exchange = working_set and pipeline.staleness = {}: lent rows are read as \
                 they are; give pipeline.staleness = 0, or ranks.exchange = owner",
                self.pipeline.staleness
            ));
        }
        Ok(())
    }

    fn check_split(&self) -> Outcome {
        let data = &self.data;
        match &data.eval_from {
            Some(from) if !data.eval_values.is_empty() => Err(format!(
                "data.eval_from = {from} and data.eval_values = {}: both select the evaluation \
                 part; give one of them",
                data.eval_values.join(", ")
            )),
            _ => Ok(()),
        }
    }

    fn check_cache(&self) -> Outcome {
        let data = &self.data;
        let Some(cache) = data.cache.as_ref().map(|path| path.display()) else { return Ok(()) };
        if data.eval_column.is_some() && data.eval_paths.is_empty() {
            return Err(format!(
                "data.cache = {cache} keeps no column to split by: leave out data.cache or \
                 data.eval_column"
            ));
        }
        if data.paths.is_empty() {
            return Err(format!(
                "data.cache = {cache} is for text, which the built-in stream is not: name data, or \
                 leave out data.cache"
            ));
        }
        if data.skip_max > CACHED_SKIP_MAX {
            return Err(format!(
                "data.skip_max is {}, and a data.cache remembers {CACHED_SKIP_MAX} malformed \
                 lines: give at most that, or leave out data.cache",
                data.skip_max
            ));
        }
        Ok(())
    }

    fn check_batch(&self) -> Outcome {
        let (batch, mini_batch) = (self.batch(), self.data.mini_batch);
        if batch.is_multiple_of(mini_batch) {
            return Ok(());
        }
        let example = batch.checked_next_multiple_of(mini_batch).unwrap_or(mini_batch);
        Err(format!(
            "data.batch is {batch}, which is not a multiple of data.mini_batch = {mini_batch}; \
             give, for example, {example}"
        ))
    }

    fn check_streams(&self) -> Outcome {
        let streams = self.data.streams;
        if streams > 1 && self.data.shuffle > 0 {
            return Err(format!(
                "data.streams is {streams}, and data.shuffle cuts the data into windows: give one \
                 of them"
            ));
        }
        for (key, value) in
            [("train.blocks", self.train.blocks), ("data.mini_batch", self.data.mini_batch)]
        {
            if !value.is_multiple_of(streams) {
                return Err(format!(
                    "data.streams is {streams}, which does not divide {key} = {value}: each stream \
                     has whole blocks of every mini-batch; give a divisor of both"
                ));
            }
        }
        Ok(())
    }

    fn check_known(&self) -> Outcome {
        let (horizon, lookahead) = (self.pipeline.horizon, self.pipeline.lookahead);
        if horizon < lookahead {
            return Err(format!(
                "pipeline.horizon is {horizon}, less than pipeline.lookahead = {lookahead}; give \
                 at least {lookahead}"
            ));
        }
        let mini_batches = self.mini_batches_per_batch();
        let known = horizon.saturating_add(1).saturating_mul(mini_batches);
        if known > MINI_BATCHES_KNOWN_MAX {
            return Err(format!(
                "pipeline.horizon = {horizon} batches of {mini_batches} mini-batches make {known} \
                 known ahead; lower pipeline.horizon, pipeline.lookahead or data.batch to \
                 {MINI_BATCHES_KNOWN_MAX} in all"
            ));
        }
        Ok(())
    }
}

/// Refuses rules of admission that exclude each other. `key_of` returns the key of a rule, and
/// `mend` is the fix if there are two.
fn check_admission(life: &RowsConfig, key_of: &dyn Fn(&str) -> String, mend: &str) -> Outcome {
    let RowsConfig { admit_after, admit_probability, sketch, .. } = life;
    if *admit_after > 1 && *admit_probability < 1.0 {
        return Err(format!(
            "{} = {admit_after} and {} = {admit_probability} are two rules of admission: {mend}",
            key_of("admit_after"),
            key_of("admit_probability")
        ));
    }
    if *admit_after > 1 && sketch.0 < SKETCH_MIN {
        let key = key_of("sketch");
        return Err(format!("{key} is {sketch}: give at least {SKETCH_MIN} bytes"));
    }
    Ok(())
}

/// Refuses two distributions of initial weights.
fn check_initial(part: &str, std: Option<f64>, value: Option<f64>) -> Outcome {
    match (std, value) {
        (Some(std), Some(value)) => Err(format!(
            "{part}.init_std = {std} and {part}.init_value = {value}: give one of them"
        )),
        _ => Ok(()),
    }
}
