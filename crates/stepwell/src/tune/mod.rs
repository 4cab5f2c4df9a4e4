//! `stepwell tune`: trains with drawn settings, and compares evaluations.
//!
//! - **How.** Trials train one after another, each in a directory of its own, and read one cache of
//!   the data. What is known of a trial is written at each evaluation and when it stops. A search
//!   that goes on takes the same decisions again, from what was written, and trains what is left.
//!   At a rung of successive halving, a trial stops with a checkpoint after the evaluation; it goes
//!   on as a resumed run.
//! - **Failure.** Refused settings and a diverged training fail a trial. Any other error ends the
//!   search, which the same command continues.

mod directory;
mod notes;
mod rungs;
mod space;
mod table;
mod trial;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use stepwell_cli::launcher;
use stepwell_data::{is_packed_file, is_stream};
use stepwell_settings::{self as settings, BestKind, Config, ScheduleKind};
use stepwell_train::{ReadyData, ready_data};

use self::directory::{Directory, name};
use self::notes::Notes;
use self::rungs::Rungs;
use self::space::Space;
use self::trial::{Leg, State, Training, Trial};
use crate::cli::{ConfigArgs, TuneArgs, of_machine};
use crate::failure::Failure;
use crate::say::{self, say, tell};
use crate::signals::Signals;
use crate::statistics::with_statistics;
use crate::surroundings::data_files;
use crate::{outputs, resolve, train};

/// The file of all trials.
const REPORT: &str = "tune.json";
/// The file of the best settings.
const BEST: &str = "best.toml";
/// The cache of the data.
const CACHE: &str = "data.cache";

/// Searches, and reports.
pub(crate) fn run(args: &TuneArgs) -> Result<(), Failure> {
    launcher::refuse(|size| {
        format!("an MPI launcher started {size} processes, and tune trains in one: start one")
    })?;
    args.check().map_err(Failure::Usage)?;
    let signals = Signals::heed()?;
    if args.json {
        say::aside();
    }
    let mut search = Search::begin(args, &signals)?;
    search.train()?;
    search.report(args.json)
}

/// A search.
struct Search<'a> {
    args: &'a TuneArgs,
    signals: &'a Signals,
    space: Space,
    /// The settings without drawn ones.
    base: Config,
    /// The same, with statistics of the data.
    with_statistics: Config,
    by: BestKind,
    /// Whether trials read a cache that the search makes.
    caches: bool,
    directory: Arc<Directory>,
    notes: Arc<Notes>,
    trials: BTreeMap<u64, Trial>,
}

impl<'a> Search<'a> {
    fn begin(args: &'a TuneArgs, signals: &'a Signals) -> Result<Self, Failure> {
        let space = Space::of(&args.settings.set).map_err(Failure::Usage)?;
        let fixed = ConfigArgs { set: space.fixed(), ..args.settings.clone() };
        let (base, chosen) = resolve::config(&fixed, None).map_err(Failure::Usage)?;
        space.check(&base).map_err(Failure::Usage)?;
        check_data(&base).map_err(Failure::Usage)?;
        // A trial may be refused for other reasons, alone.
        let first = ConfigArgs { set: space.set(base.seed, 1), ..args.settings.clone() };
        if let Ok((config, _)) = resolve::config(&first, None) {
            space.check_flags(&config, space.drawn(base.seed, 1)).map_err(Failure::Usage)?;
        }
        resolve::check_data(&fixed, &base, &chosen).map_err(Failure::Usage)?;
        resolve::check_files(&base)?;
        resolve::check_repeats(&base).map_err(Failure::Usage)?;
        let with_statistics = with_statistics(&base)?;
        let directory = Directory::open(&args.out, &identity(args, &space, &base))?;
        Ok(Self {
            caches: caches(&base, &space),
            args,
            signals,
            space,
            base,
            with_statistics,
            by: args.by.best(),
            directory: Arc::new(directory),
            notes: Arc::default(),
            trials: BTreeMap::new(),
        })
    }

    /// Trains all trials that are left.
    fn train(&mut self) -> Result<(), Failure> {
        self.draw()?;
        let ready = self.ready()?;
        let open = self.numbers(|trial| !matches!(trial.state, State::Same { .. }));
        if !self.args.halving {
            for trial in open {
                self.advance(trial, None)?;
                self.keep_best()?;
            }
            return Ok(());
        }
        let rungs = Rungs::of(self.args.trials, ready.lines);
        let mut left = open;
        for rung in rungs.all() {
            for trial in &left {
                self.advance(*trial, Some((rungs, rung)))?;
            }
            left = self.pass(&left, rungs, rung)?;
        }
        self.keep_best()
    }

    /// Draws the settings of all trials, or reads what was written of them.
    fn draw(&mut self) -> Result<(), Failure> {
        for number in 1..=self.args.trials {
            let settings = self.space.drawn(self.base.seed, number);
            let known = self.directory.load(number)?;
            let mut trial = known.unwrap_or_else(|| Trial::new(number, settings));
            let earlier = self.trials.values().find(|other| other.settings == trial.settings);
            if let Some(other) = earlier {
                trial.state = State::Same { same_as: other.trial };
            }
            self.trials.insert(number, trial);
        }
        Ok(())
    }

    /// Counts the data and makes its cache, as far as the search needs that.
    fn ready(&self) -> Result<ReadyData, Failure> {
        let nothing = ReadyData { lines: 0, cached: None };
        let fits = |trial| self.config(trial).ok();
        let wanted = self.caches || self.args.halving;
        let Some(config) = self.trials.keys().copied().find_map(fits).filter(|_| wanted) else {
            return Ok(nothing);
        };
        let ready = ready_data(&config, &self.signals.stop());
        let ready = ready.map_err(|error| self.signals.or_interrupted(error.into(), EARLY))?;
        if let Some(examples) = ready.cached {
            say!("data cache of {examples} examples in {}", self.args.out.join(CACHE).display());
        }
        Ok(ready)
    }

    /// The settings of a trial.
    fn config(&self, trial: u64) -> Result<Config, String> {
        let set = self.space.set(self.base.seed, trial);
        let (mut config, chosen) =
            resolve::config(&ConfigArgs { set, ..self.args.settings.clone() }, None)?;
        self.space.check_flags(&config, self.space.drawn(self.base.seed, trial))?;
        if config.columns == self.base.columns {
            config.columns.clone_from(&self.with_statistics.columns);
        }
        let of_schedules = [config.optim.rows.schedule, config.optim.dense.schedule];
        let counts = config.train.patience > 0 || of_schedules.contains(&ScheduleKind::Plateau);
        if self.args.halving && counts && config.train.evaluate_every == 0 {
            return Err("train.patience and schedule = plateau count evaluations, and --halving \
                        adds some: give train.evaluate_every, whose multiples it then uses"
                .to_owned());
        }
        if self.caches {
            config.data.cache = Some(self.directory.file(CACHE));
        }
        config.checkpoint.best = self.by;
        config.checkpoint.dir = Some(self.directory.saved(trial));
        let rows = config.tiers.ssd.map(|rows| rows.join(name(trial)));
        config.tiers.ssd = Some(rows.unwrap_or_else(|| self.directory.rows(trial)));
        train::check(&config, &chosen)?;
        for note in resolve::idle_notes(&chosen, &config) {
            if self.notes.is_new(&note) {
                say::note(note);
            }
        }
        Ok(config)
    }

    /// Trains a trial to its end, or to a rung.
    fn advance(&mut self, number: u64, to: Option<(Rungs, u32)>) -> Result<(), Failure> {
        let Some(trial) = self.trials.get(&number) else { return Ok(()) };
        let is_there = to.is_some_and(|(_, rung)| rung <= trial.rungs);
        if trial.state != State::Open || is_there {
            return Ok(());
        }
        let mut trial = trial.clone();
        if self.signals.stop().is_made() {
            return Err(self.interrupted(number));
        }
        say!("trial {number} of {}: {}", self.args.trials, trial.pairs().join(" "));
        let leg = match self.config(number).and_then(|config| self.filled(&config)) {
            Ok(config) => {
                let stop_at = to.and_then(|(rungs, rung)| Some((rung, rungs.step(rung, &config)?)));
                let (directory, signals) = (&self.directory, self.signals.stop());
                let notes = &self.notes;
                Training { directory, config, stop_at, signals, notes }.run(&mut trial)?
            }
            Err(_) if self.signals.stop().is_made() => Leg::Interrupted,
            Err(reason) => {
                trial.state = State::Failed { reason };
                Leg::Over
            }
        };
        if trial.state == State::Done && trial.best(self.by, None).is_none() {
            let reason = format!("no evaluation has a {}", self.by.name());
            trial.state = State::Failed { reason };
        }
        self.directory.save(number, &trial)?;
        say!("  {}", table::outcome(&trial, self.by));
        self.trials.insert(number, trial);
        outputs::write(Some(&self.directory.file(REPORT)), &self.to_json())?;
        match leg {
            Leg::Over => Ok(()),
            Leg::Interrupted => Err(self.interrupted(number)),
        }
    }

    /// The settings with statistics of the data.
    fn filled(&self, config: &Config) -> Result<Config, String> {
        let filled = stepwell_train::with_statistics(config, &self.signals.stop());
        filled.map(|(filled, _)| filled).map_err(|error| error.to_string())
    }

    fn interrupted(&self, trial: u64) -> Failure {
        self.signals.interrupted(format!(
            "interrupted in trial {trial} of {}: run the same command again to continue",
            self.args.trials
        ))
    }

    /// The trials that go beyond a rung; removes the checkpoints of the others.
    fn pass(&self, trials: &[u64], rungs: Rungs, rung: u32) -> Result<Vec<u64>, Failure> {
        let rank = |number: &u64| {
            let trial = self.trials.get(number)?;
            let until = self.config(*number).ok().and_then(|config| rungs.step(rung, &config));
            Some((trial.rank_at(rung, until, self.by)?, *number))
        };
        let mut ranked: Vec<(f64, u64)> = trials.iter().filter_map(rank).collect();
        ranked.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        ranked.truncate(Rungs::passing(self.args.trials, rung));
        let passing: Vec<u64> = ranked.into_iter().map(|(_, number)| number).collect();
        self.drop_saved(trials.iter().copied().filter(|trial| !passing.contains(trial)))?;
        Ok(passing)
    }

    /// The best trial, if any can be ranked.
    fn best(&self) -> Option<&Trial> {
        let done = self.trials.values().filter(|trial| trial.state == State::Done);
        let ranked = done.filter_map(|trial| Some((trial.rank(self.by)?, trial)));
        ranked.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, trial)| trial)
    }

    /// Removes the checkpoints of all trials that are over, but the best.
    fn keep_best(&self) -> Result<(), Failure> {
        let best = self.best().map(|trial| trial.trial);
        let over = self.numbers(|trial| trial.state != State::Open);
        self.drop_saved(over.into_iter().filter(|trial| Some(*trial) != best))
    }

    fn drop_saved(&self, mut trials: impl Iterator<Item = u64>) -> Result<(), Failure> {
        match self.args.keep_all {
            true => Ok(()),
            false => trials.try_for_each(|trial| self.directory.drop_saved(trial)),
        }
    }

    fn numbers(&self, wanted: impl Fn(&Trial) -> bool) -> Vec<u64> {
        self.trials.values().filter(|trial| wanted(trial)).map(|trial| trial.trial).collect()
    }

    /// Prints the table, and writes the best settings.
    fn report(&self, as_json: bool) -> Result<(), Failure> {
        let all = self.to_json();
        outputs::write(Some(&self.directory.file(REPORT)), &all)?;
        tell!("{}", table::page(self.trials.values(), self.by).text().trim_end());
        let Some(best) = self.best() else {
            let failed = self.trials.values().find_map(|trial| match &trial.state {
                State::Failed { reason } => Some(format!("; trial {}: {reason}", trial.trial)),
                _ => None,
            });
            return Err(format!("every trial failed{}", failed.unwrap_or_default()).into());
        };
        let mut config = self.config(best.trial).and_then(|config| self.filled(&config))?;
        config.checkpoint = self.base.checkpoint.clone();
        (config.tiers.ssd, config.data.cache) =
            (self.base.tiers.ssd.clone(), self.base.data.cache.clone());
        let file = self.args.out.join(BEST);
        outputs::write_text(&file, &settings::to_toml(&config.with_rates()))?;
        let saved = self.directory.saved(best.trial);
        tell!("\nbest: trial {}, {}", best.trial, table::outcome(best, self.by));
        tell!("{}", table::flags(best));
        tell!("in {}; its checkpoints are in {}", file.display(), saved.display());
        if as_json { say::json(&all) } else { Ok(()) }
    }

    /// All trials.
    fn to_json(&self) -> Value {
        let trials = self.trials.values().map(|trial| table::to_json(trial, self.by));
        json!({
            "by": self.by.name(),
            "halving": self.args.halving,
            "seed": self.base.seed,
            "ranges": self.space.texts(),
            "best": self.best().map(|trial| trial.trial),
            "trials": trials.collect::<Vec<_>>(),
        })
    }
}

/// Message of a search that is stopped before its first trial.
const EARLY: &str = "interrupted before the first trial: run the same command again to continue";

/// Refuses data that cannot be read again or has no part for evaluation.
fn check_data(config: &Config) -> Result<(), String> {
    let paths = config.data.paths.iter().chain(&config.data.eval_paths);
    if let Some(stream) = paths.into_iter().find(|path| is_stream(Path::new(path))) {
        return Err(format!(
            "tune reads the data for every trial, and {stream} can be read only once: give a file"
        ));
    }
    match config.evaluates() {
        true => Ok(()),
        false => {
            Err("tune compares trials by their evaluation, and data.eval_fraction is 0: give \
                      a share such as 0.1, or files as data.eval_paths"
                .to_owned())
        }
    }
}

/// Whether trials can share a cache of the data.
fn caches(base: &Config, space: &Space) -> bool {
    let mut config = base.clone();
    config.data.cache = Some(CACHE.into());
    let changes = ["columns.", "features.", "data.preset", "data.format", "data.header"];
    let is_parsed_anew = |key: &&str| changes.iter().any(|start| key.starts_with(start));
    let is_one = !space.keys().iter().any(is_parsed_anew);
    // Files that cannot be opened are refused later.
    let are_text = || !data_files(base).any(|file| is_packed_file(&file).unwrap_or(true));
    is_one && base.data.cache.is_none() && config.check().is_ok() && are_text()
}

/// What a search that goes on must have in common with this one.
fn identity(args: &TuneArgs, space: &Space, base: &Config) -> Value {
    let mut settings = settings::to_json(base);
    if let Some(settings) = settings.as_object_mut() {
        settings.retain(|key, _| !of_machine(key));
    }
    let mut files = Map::new();
    for file in data_files(base) {
        let bytes = std::fs::metadata(&file).map(|about| about.len()).ok();
        files.insert(file.display().to_string(), json!(bytes));
    }
    json!({
        "--by": args.by.best().name(),
        "--halving": args.halving.then_some(args.trials),
        "ranges": space.texts(),
        "settings": settings,
        "data": files,
    })
}
